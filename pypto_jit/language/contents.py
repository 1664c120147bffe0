"""What values hold: snapshots of them that compare equal while nothing in them has changed, by type and bits.

Values that nobody can compare, such as files, iterators and random generators, are told apart here.
"""

from __future__ import annotations

import argparse
import collections
import functools
import io
import os
import random
import sys
import types
from collections.abc import Callable, Iterator
from enum import Enum
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pypto_jit.language.location import is_internal, is_third_party
from pypto_jit.purity import is_impure

MAXIMUM_BYTES = 1 << 16  # of one array
MAXIMUM_PARTS = 20_000  # values within one value
_MAXIMUM_DEPTH = 32
# Objects of these packages are what they are: kernels read dtypes, devices and functions of them.
_OPAQUE = frozenset({"torch", "numpy", "ml_dtypes", "tvm_ffi", "mlir", "llvmlite"})
# Classes of the standard library whose objects are what their attributes are.
_NAMESPACES = (
    types.SimpleNamespace,
    argparse.Namespace,
    collections.UserDict,
    collections.UserList,
    collections.UserString,
)
_WRITING = frozenset({"write", "writelines", "flush", "close"})
# What differs between processes, but not between the calls of one.
_HARMLESS = frozenset(("builtins", name) for name in ("hash", "id", "locals", "breakpoint", "compile"))
MISSING = object()


class UnguardableError(Exception):
    """A value whose changes cannot be noticed; the message says why, as the end of a sentence."""


def is_users(module: ModuleType | None) -> bool:
    """Whether a module is the user's."""
    filename = getattr(module, "__file__", None)
    if filename is None:
        # A notebook, a REPL, or code without a file; C extensions of the standard library are not the user's.
        return module is not None and module.__name__ == "__main__"
    return not is_internal(filename) and not is_third_party(filename)


def check_guardable(value: Any, attributes: tuple[str, ...] = ()) -> None:
    """Raise for a value that changes without a trace, or by being read.

    Args:
        value: any value.
        attributes: those that are taken of it.

    Raises:
        UnguardableError: it is such a value.
    """
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy.random")
    if torch is not None and isinstance(value, torch.Tensor):
        raise UnguardableError("a tensor whose elements may change")
    generators: tuple[type, ...] = (random.Random,)
    if numpy is not None:
        generators += (numpy.Generator, numpy.RandomState, numpy.BitGenerator)
    if torch is not None:
        generators += (torch.Generator,)
    if isinstance(value, generators):
        raise UnguardableError("a random generator")
    if isinstance(value, io.IOBase):
        if value not in (sys.stdout, sys.stderr) and not (attributes and attributes[0] in _WRITING):
            raise UnguardableError("an open file")
    elif isinstance(value, Iterator) and not is_users(sys.modules.get(type(value).__module__)):
        raise UnguardableError("an iterator, which every read moves on")
    if value is os.environ:
        raise UnguardableError("the environment")


def check_callable(function: Any) -> None:
    """Raise for a function of a library that gives another result each time.

    Raises:
        UnguardableError: it is one, or a method of a value that cannot be guarded.
    """
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, ModuleType):
        module = owner.__name__
    elif isinstance(owner, type):
        module, name = owner.__module__, f"{owner.__qualname__}.{name}"
    elif owner is not None:
        try:
            check_guardable(owner, (name,))
        except UnguardableError as error:
            raise UnguardableError(f"a method of {error}") from None
        return
    else:
        module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", name)
    if (module, name) not in _HARMLESS and is_impure(module, name):
        raise UnguardableError("whose result does not follow from its arguments")


def is_fixed(value: Any) -> bool:
    """Whether holding the same object means holding the same value, as far as a trace can see."""
    if isinstance(value, tuple):
        return all(is_fixed(item) for item in value)
    if isinstance(value, _CONTAINERS) or is_array(value):
        return False
    return _state(value) is None


def is_array(value: Any) -> bool:
    """Whether a value is an array of any library."""
    return not isinstance(value, (type, ModuleType)) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))


def _state(value: Any) -> dict[str, Any] | None:
    """The attributes of an object; None for one whose inside is its library's business."""
    kind = type(value)
    if isinstance(value, (Enum, ModuleType, FunctionType, type)):
        return None
    if not is_users(sys.modules.get(kind.__module__)):
        plain = isinstance(value, _NAMESPACES) or _is_data_of_a_package(kind)
        return dict(vars(value)) if plain and hasattr(value, "__dict__") else None
    state: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if is_users(sys.modules.get(base.__module__)):
            state.update((name, item) for name, item in vars(base).items() if _is_data(name, item))
    state.update(getattr(value, "__dict__", {}))
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                state[name] = getattr(value, name)
    return state


def _is_data_of_a_package(kind: type) -> bool:
    """Whether objects of an installed package's class are data rather than machinery: nobody calls them."""
    filename = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
    package = kind.__module__.partition(".")[0]
    return is_third_party(filename) and package not in _OPAQUE and not _is_called(kind)


def _is_called(kind: type) -> bool:
    return any("__call__" in vars(base) for base in kind.__mro__)


def _is_data(name: str, value: Any) -> bool:
    """Whether an entry of a class is a value or a method that is read through its objects."""
    return not name.startswith("__") and (isinstance(value, FunctionType) or not hasattr(type(value), "__get__"))


def contents(value: Any) -> Any:
    """A snapshot of a value that equals another one while the value has not changed, by type and bits.

    Raises:
        UnguardableError: something in it cannot be compared, or it is too large.
    """
    return _Snapshot().of(value, ())


class _Snapshot:
    def __init__(self) -> None:
        self._parts = 0

    def of(self, value: Any, around: tuple[int, ...]) -> Any:
        """A part of the snapshot.

        Args:
            value: any value.
            around: ids of the containers that it is in, which may contain themselves.
        """
        self._parts += 1
        if self._parts > MAXIMUM_PARTS:
            raise UnguardableError(f"an object of more than {MAXIMUM_PARTS} values")
        if isinstance(value, float):
            return (float, value.hex())
        if isinstance(value, (int, str, bytes)):
            return (type(value), value)
        if id(value) in around:
            return Same(value)
        if len(around) > _MAXIMUM_DEPTH:
            raise UnguardableError(f"an object nested deeper than {_MAXIMUM_DEPTH}")
        inside = (*around, id(value))
        for kind, make in _SNAPSHOTS:
            if isinstance(value, kind):
                return make(self, value, inside)
        if is_array(value):
            return self._array(value)
        state = _state(value)
        if state is None:
            check_guardable(value)
            return Same(value)
        return (type(value), self.of(state, inside))

    def _sequence(self, value: Any, inside: tuple[int, ...]) -> Any:
        return (type(value), tuple(self.of(item, inside) for item in value))

    def _mapping(self, value: Any, inside: tuple[int, ...]) -> Any:
        return (type(value), tuple((self.of(k, inside), self.of(v, inside)) for k, v in value.items()))

    def _set(self, value: Any, inside: tuple[int, ...]) -> Any:
        return (type(value), frozenset(self.of(item, inside) for item in value))

    def _method(self, value: MethodType, inside: tuple[int, ...]) -> Any:
        return (MethodType, Same(value.__func__), self.of(value.__self__, inside))

    def _partial(self, value: functools.partial[Any], inside: tuple[int, ...]) -> Any:
        return (type(value), self.of((value.func, value.args, value.keywords), inside))

    def _bytes(self, value: bytearray, inside: tuple[int, ...]) -> Any:
        return (bytearray, bytes(value))

    def _array(self, value: Any) -> Any:
        if hasattr(value, "tobytes"):
            if value.nbytes > MAXIMUM_BYTES:
                raise UnguardableError(f"an array of more than {MAXIMUM_BYTES} bytes")
            return (type(value), value.shape, str(value.dtype), value.tobytes())
        # torch counts what is done to a tensor.
        return (type(value), Same(value), getattr(value, "_version", None))


_SNAPSHOTS: tuple[tuple[Any, Callable[[_Snapshot, Any, tuple[int, ...]], Any]], ...] = (
    ((list, tuple, collections.deque), _Snapshot._sequence),
    ((dict, types.MappingProxyType), _Snapshot._mapping),
    ((set, frozenset), _Snapshot._set),
    (MethodType, _Snapshot._method),
    (functools.partial, _Snapshot._partial),
    (bytearray, _Snapshot._bytes),
)
_CONTAINERS = (
    *(list, collections.deque, dict, types.MappingProxyType, set, bytearray),
    *(MethodType, functools.partial),
)


class Same:
    """Equal to another one of the same object, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def show(value: Any) -> str:
    """A value in a few words. Runs no code of the user's."""
    if value is MISSING:
        return "nothing"
    if isinstance(value, FunctionType):
        return f"the function {value.__qualname__} of line {value.__code__.co_firstlineno}"
    if isinstance(value, types.CodeType):
        return f"code of line {value.co_firstlineno}"
    if isinstance(value, (type, ModuleType)):
        return value.__name__
    if isinstance(value, tuple):
        return f"({', '.join(map(show, value))})"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    return f"a {type(value).__name__}"


def show_contents(snapshot: Any) -> str:
    """What `contents` was made of, in a few words."""
    if isinstance(snapshot, Same):
        return show(snapshot.value)
    if not isinstance(snapshot, tuple):
        return show(snapshot)
    kind, *inside = snapshot
    if kind is float:
        return show(float.fromhex(inside[0]))
    if kind in (int, str, bytes, bool, bytearray):
        return repr(inside[0])
    if issubclass(kind, (list, tuple, set, frozenset, collections.deque)):
        return f"{kind.__name__}({', '.join(map(show_contents, inside[0]))})"
    if issubclass(kind, (dict, types.MappingProxyType)):
        return f"{{{', '.join(f'{show_contents(k)}: {show_contents(v)}' for k, v in inside[0])}}}"
    return f"a {kind.__name__}" + (f" with {show_contents(inside[0])}" if len(inside) == 1 else "")
