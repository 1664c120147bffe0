"""Digests of Python values by content: the same in every process, different wherever a trace could tell values apart.

Numbers and strings count by type and bits, containers and objects by what is in them, functions by their code and by
everything that their code names, classes likewise. What belongs to the standard library, to an installed package or to
pypto_jit counts by its name: those do not change under a key that holds their versions.

A leaf: it knows nothing of kernels.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import hashlib
import logging
import re
import types
from collections.abc import Callable, Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any

from pypto_jit.runtime.store.attributes import follow, slot_value
from pypto_jit.runtime.store.bytecode import UNBOUND, cell_content, chains
from pypto_jit.runtime.store.code import encode_code, encode_leaf, sections
from pypto_jit.runtime.store.objects import (
    BUILT_IN,
    BY_TEXT,
    CALLER_FILE,
    CLASS_NOISE,
    is_cached,
    is_generated,
    is_plain,
)
from pypto_jit.runtime.store.scope import (
    Scope,
    UnguardableError,
    check_pure,
    module_of,
    same_by_name,
    top_package,
    version_of,
)

MAXIMUM_PARTS = 20_000  # values visited for one digest: some tens of milliseconds
MAXIMUM_BYTES = 1 << 20  # of one array


def digest(value: Any, scope: Scope, functions: list[FunctionType] | None = None) -> str:
    """The digest of a value, in hexadecimal.

    Args:
        value: any value.
        scope: which code counts by content.
        functions: is given the functions of the user's whose code is part of the digest.

    Raises:
        UnguardableError: it cannot be told whether it changes.
    """
    leaf = encode_leaf(value)
    if leaf is not None:
        return hashlib.sha256(leaf).hexdigest()
    digester = _Digester(scope, functions)
    digester.add(value)
    return digester.result()


class _Digester:
    """One digest: a stream of tagged, length-prefixed parts. An object met again counts by when it was first met."""

    def __init__(self, scope: Scope, functions: list[FunctionType] | None) -> None:
        self._scope = scope
        self._functions = functions
        self._hash = hashlib.sha256()
        self._parts = 0
        self._met: dict[int, tuple[int, Any]] = {}

    def result(self) -> str:
        return self._hash.hexdigest()

    def add(self, value: Any) -> None:
        """Take a value in.

        Raises:
            UnguardableError: it, or something in it, cannot be guarded.
        """
        self._parts += 1
        if self._parts > MAXIMUM_PARTS:
            raise UnguardableError(f"more than {MAXIMUM_PARTS} values")
        leaf = b"unbound" if value is UNBOUND else encode_leaf(value)
        if leaf is not None:
            self._emit(leaf)
            return
        if type(value) not in _UNSHARED:
            if id(value) in self._met:
                self._emit(b"met", str(self._met[id(value)][0]).encode())
                return
            self._met[id(value)] = (len(self._met), value)
        try:
            self._handler(value)(value)
        except RecursionError:
            raise UnguardableError("values nested too deep") from None

    def _handler(self, value: Any) -> Callable[[Any], None]:
        name = _METHODS.get(type(value))
        if name is not None:
            return getattr(self, name)
        if isinstance(value, type):
            return self._class
        return self._member if isinstance(value, enum.Enum) else self._other

    def _emit(self, *parts: bytes) -> None:
        self._hash.update(sections(*parts))

    def _named(self, kind: bytes, value: Any, name: str | None = None) -> None:
        module = module_of(value)
        qualified = name or getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
        check_pure(module, qualified)
        self._emit(kind, module.encode(), qualified.encode(), version_of(module))

    def _sequence(self, kind: bytes, values: Iterable[Any]) -> None:
        items = list(values)
        self._emit(kind, str(len(items)).encode())
        for item in items:
            self.add(item)

    def _tuple(self, value: tuple[Any, ...]) -> None:
        self._sequence(b"tuple", tuple.__iter__(value))

    def _list(self, value: list[Any]) -> None:
        self._sequence(b"list", list.__iter__(value))

    def _default(self, value: collections.defaultdict[Any, Any]) -> None:
        self.add(value.default_factory)
        self._mapping(value)

    def _deque(self, value: collections.deque[Any]) -> None:
        self._sequence(b"deque", (value.maxlen, *value))

    def _bytes(self, value: bytearray) -> None:
        self._emit(b"bytearray", bytes(value))

    def _namespace(self, value: types.SimpleNamespace) -> None:
        self._emit(b"namespace")
        self._mapping(vars(value))

    def _slice(self, value: slice | range) -> None:
        self._sequence(type(value).__name__.encode(), (value.start, value.stop, value.step))

    def _set(self, value: set[Any] | frozenset[Any]) -> None:
        self._parts += len(value)
        if self._parts > MAXIMUM_PARTS:
            raise UnguardableError(f"more than {MAXIMUM_PARTS} values")
        items = sorted(digest(item, self._scope, self._functions) for item in value)
        self._emit(b"set", type(value).__name__.encode(), *(item.encode() for item in items))

    def _mapping(self, value: Any) -> None:
        self._emit(type(value).__name__.encode(), str(len(value)).encode())
        for key, item in list(value.items()):
            self.add(key)
            self.add(item)

    def _function(self, function: FunctionType) -> None:
        owned = self._scope.owns_function(function)
        if not owned and same_by_name(function):
            self._named(b"function", function)
            return
        if function.__code__.co_filename.startswith(CALLER_FILE):
            self._emit(b"kernel")
            self.add(function.__dict__.get("__wrapped__", UNBOUND))
            return
        if owned and self._functions is not None:
            self._functions.append(function)
        self._code(function.__code__)
        self._sequence(b"defaults", function.__defaults__ or ())
        self._mapping(function.__kwdefaults__ or {})
        self._mapping({k: v for k, v in function.__dict__.items() if k != "__wrapped__" or not owned})
        if not owned:
            self._sequence(b"cells", (cell_content(cell) for cell in function.__closure__ or ()))
            return
        for chain in chains(function):
            steps, value = follow(chain, self._scope)
            self._emit(b"read", str(chain).encode(), str(len(steps)).encode())
            self.add(value)

    def _code(self, code: types.CodeType) -> None:
        self._emit(b"code", encode_code(code))

    def _cell(self, cell: types.CellType) -> None:
        self.add(cell_content(cell))

    def _descriptor(self, descriptor: Any) -> None:
        self._emit(b"descriptor", repr(descriptor).encode())

    def _union(self, union: types.UnionType) -> None:
        self._sequence(b"union", union.__args__)

    def _method(self, method: MethodType) -> None:
        self._emit(b"method")
        self.add(method.__func__)
        self.add(method.__self__)

    def _builtin(self, function: Any) -> None:
        owner = function.__self__
        if owner is None or isinstance(owner, (ModuleType, type)):
            name = function.__name__ if not isinstance(owner, type) else f"{owner.__qualname__}.{function.__name__}"
            module = owner.__module__ if isinstance(owner, type) else function.__module__ or ""
            check_pure(module, name)
            self._emit(b"builtin", module.encode(), name.encode(), version_of(module))
            return
        self._emit(b"bound", function.__name__.encode())
        self.add(owner)

    def _module(self, module: ModuleType) -> None:
        if self._scope.owns(module.__name__):
            raise UnguardableError(f"the module '{module.__name__}' as a value: what is read of it cannot be seen")
        check_pure(module.__name__, "*")
        self._emit(b"module", module.__name__.encode(), version_of(module.__name__))

    def _class(self, cls: type) -> None:
        if not self._scope.owns_class(cls) and same_by_name(cls):
            self._named(b"class", cls)
            return
        self._emit(b"own class", cls.__qualname__.encode())
        self._sequence(b"bases", cls.__bases__)
        self.add(type(cls))
        if isinstance(cls, enum.EnumMeta):
            self._sequence(b"members", [(name, item._value_) for name, item in cls._member_map_.items()])
        fields = cls.__dict__.get("__dataclass_fields__")
        if fields is not None:
            self._emit(b"dataclass", repr(cls.__dict__.get("__dataclass_params__")).encode())
            self._sequence(b"fields", fields.values())
        for name, value in cls.__dict__.items():
            if name in CLASS_NOISE or (fields is not None and is_generated(value)):
                continue
            if isinstance(cls, enum.EnumMeta) and not isinstance(value, _DEFINED):
                continue
            self._emit(b"attribute", name.encode())
            self._class_member(value)

    def _class_member(self, value: Any) -> None:
        if isinstance(value, (staticmethod, classmethod)):
            self._emit(type(value).__name__.encode())
            self.add(value.__func__)
        elif isinstance(value, property):
            self._sequence(b"property", (value.fget, value.fset, value.fdel))
        elif isinstance(value, functools.cached_property):
            self._emit(b"cached_property")
            self.add(value.func)
        elif isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            self._emit(b"slot")
        elif type(value).__name__ == "_tuplegetter":
            self._emit(b"field", repr(value).encode())
        else:
            self.add(value)

    def _member(self, member: enum.Enum) -> None:
        self._emit(b"member", str(member.name).encode())
        self.add(type(member))
        self.add(member.value)

    def _field(self, field: dataclasses.Field) -> None:
        self._emit(b"field", str(field.name).encode(), str(field.init).encode())
        self.add(None if field.default is dataclasses.MISSING else (field.default,))
        self.add(None if field.default_factory is dataclasses.MISSING else field.default_factory)

    def _partial(self, partial: functools.partial) -> None:
        self._emit(b"partial")
        self.add(partial.func)
        self._sequence(b"args", partial.args)
        self._mapping(partial.keywords)

    def _array(self, value: Any) -> None:
        """A NumPy array or scalar."""
        if value.dtype.hasobject or value.nbytes > MAXIMUM_BYTES:
            raise UnguardableError(f"an array of {value.nbytes} bytes and dtype {value.dtype}")
        self._emit(
            type(value).__name__.encode(), str(value.dtype).encode(), repr(value.shape).encode(), value.tobytes()
        )

    def _other(self, value: Any) -> None:
        """Any other type: by its name, its text or its state, where one of these is all there is to it."""
        cls = type(value)
        place = (top_package(cls.__module__), cls.__qualname__)
        if self._scope.owns_class(cls):
            self._object(value)
        elif cls is logging.Logger:
            self._emit(b"logger", value.name.encode())
        elif place in BY_TEXT or (place[0] == "numpy" and place[1].endswith("DType")):
            self._emit(b"text", *(part.encode() for part in place), repr(value).encode())
        elif place[0] in ("numpy", "ml_dtypes") and hasattr(value, "tobytes"):
            self._array(value)
        elif cls is re.Pattern:
            self._emit(b"pattern", repr((value.pattern, value.flags)).encode())
        elif cls is _CACHED_FUNCTION:
            self._emit(b"cached")
            self.add(value.__wrapped__)
        elif same_by_name(value):
            self._named(b"named", value)
        elif hasattr(value, "__origin__") and hasattr(value, "__args__"):
            self._emit(b"generic")
            self.add(value.__origin__)
            self._sequence(b"args", value.__args__)
        else:
            self._object(value)

    def _object(self, value: Any) -> None:
        """An object of a class written in Python: its class and its state."""
        cls = type(value)
        if not is_plain(value):
            raise UnguardableError(f"a {cls.__module__}.{cls.__qualname__}")
        self._emit(b"object")
        self.add(cls)
        base = next((kind for kind in BUILT_IN if isinstance(value, kind)), None)
        if base in _METHODS:
            getattr(self, _METHODS[base])(dict(dict.items(value)) if base is dict else value)
        elif base is not None:
            self.add(base.__new__(base, value))
        own = getattr(value, "__dict__", None) or {}
        self._mapping({name: item for name, item in own.items() if not is_cached(cls, name)})
        for base in cls.__mro__:
            for name, descriptor in base.__dict__.items():
                if isinstance(descriptor, types.MemberDescriptorType):
                    self._emit(b"slot", name.encode())
                    self.add(slot_value(descriptor, value))


_DEFINED = (FunctionType, property, staticmethod, classmethod)
_CACHED_FUNCTION = type(functools.lru_cache(len))


_METHODS: dict[Any, str] = {
    tuple: "_tuple",
    list: "_list",
    dict: "_mapping",
    collections.OrderedDict: "_mapping",
    collections.defaultdict: "_default",
    collections.deque: "_deque",
    bytearray: "_bytes",
    types.SimpleNamespace: "_namespace",
    types.MappingProxyType: "_mapping",
    set: "_set",
    frozenset: "_set",
    range: "_slice",
    slice: "_slice",
    types.CodeType: "_code",
    types.CellType: "_cell",
    FunctionType: "_function",
    MethodType: "_method",
    types.BuiltinFunctionType: "_builtin",
    types.MethodDescriptorType: "_descriptor",
    types.WrapperDescriptorType: "_descriptor",
    ModuleType: "_module",
    types.UnionType: "_union",
    dataclasses.Field: "_field",
    functools.partial: "_partial",
}
# Whether two equal values of these types are one object is the interpreter's pleasure.
_UNSHARED = frozenset({tuple, frozenset, range, slice, types.CodeType, MethodType})
