"""Which types have all there is to their values in plain sight, and what in a class is beside the point."""

from __future__ import annotations

import functools
from types import BuiltinFunctionType, FunctionType, WrapperDescriptorType
from typing import Any

# Types whose values are their text, by top-level package and qualified name.
BY_TEXT = frozenset(
    {
        ("datetime", "date"),
        ("datetime", "datetime"),
        ("datetime", "time"),
        ("datetime", "timedelta"),
        ("decimal", "Decimal"),
        ("numpy", "dtype"),
        ("torch", "dtype"),
        ("torch", "device"),
        ("torch", "layout"),
        ("torch", "memory_format"),
        ("uuid", "UUID"),
    }
)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE, Include/object.h
# Entries of a class's dictionary that say nothing of what it does, or say it again.
CLASS_NOISE = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__doc__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__annotations_cache__",
        "__firstlineno__",
        "__static_attributes__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__match_args__",
        "_abc_impl",
        "__orig_bases__",
        "__parameters__",
        "__slotnames__",
    }
)
CALLER_FILE = "<pypto_jit caller"  # how the file names of generated callers start
_GENERATED = "<string>"  # file name of the methods that dataclasses writes
# Built-in types that classes may derive from; `object` apart.
BUILT_IN: tuple[type, ...] = (dict, list, tuple, set, frozenset, int, float, complex, str, bytes)


def is_generated(value: Any) -> bool:
    """Whether dataclasses wrote a method."""
    function = getattr(value, "__wrapped__", value)
    return isinstance(function, FunctionType) and function.__code__.co_filename == _GENERATED


def is_cached(cls: type, name: str) -> bool:
    """Whether an entry of an object's dictionary only remembers the result of a property."""
    return any(isinstance(base.__dict__.get(name), functools.cached_property) for base in cls.__mro__)


def is_plain(value: Any) -> bool:
    """Whether all of an object's state is in its ``__dict__``, its slots and the built-in value it derives from."""
    cls = type(value)
    if not isinstance(cls.__getattribute__, WrapperDescriptorType) or cls.__qualname__ == "_Environ":
        return False
    for base in cls.__mro__:
        if base is object or base in BUILT_IN:
            continue
        creator = base.__dict__.get("__new__")
        if not base.__flags__ & _HEAP_TYPE or (isinstance(creator, BuiltinFunctionType) and creator.__self__ is base):
            return False
        if "__slots__" not in base.__dict__ and not hasattr(value, "__dict__"):
            return False
    return True
