"""What a trace read of the Python world: the globals and closure variables of a kernel and of the helpers it reaches.

Each read is kept as a guard. For a value that cannot change, or whose changes no trace sees (functions, modules,
classes), it is enough that the variable still holds the same object. A list, dict, set, array or plain object is
compared by contents. A variable found in `builtins` is not guarded.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from pypto_jit.errors import TraceError
from pypto_jit.frontend.parameters import definition_span
from pypto_jit.frontend.rewrite import underlying
from pypto_jit.language.location import is_internal, is_third_party

_MAXIMUM_BYTES = 1 << 16
_MAXIMUM_DEPTH = 8
_MISSING = object()
_IMMUTABLE = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type, FunctionType, ModuleType)


@dataclass(frozen=True, eq=False)
class Read:
    """A variable that the trace read.

    Attributes:
        kind: ``identity``: it must hold the very object ``value``; ``contents``: `contents` of it must equal ``value``.
        container: the namespace (a dict) or the closure cell that holds the variable.
        name: of the variable.
        value: what it held.
        is_global: whether the kernel's own code would find it under its name.
    """

    kind: str
    container: dict[str, Any] | CellType = field(repr=False)
    name: str
    value: Any
    is_global: bool = False

    def current(self) -> Any:
        """What the variable holds now; a value of its own kind where it holds nothing."""
        if isinstance(self.container, dict):
            return self.container.get(self.name, _MISSING)
        try:
            return self.container.cell_contents
        except ValueError:
            return _MISSING

    def holds(self) -> bool:
        """Whether the trace would still read the same."""
        now = self.current()
        return now is self.value if self.kind == "identity" else contents(now) == self.value

    def guard(self) -> Condition:
        """`holds` as an expression; one that fails where the variable holds nothing any more."""
        if self.kind == "contents":
            return Condition("{0}()", (self.holds,))
        if not isinstance(self.container, dict):
            return Condition("{0}.cell_contents is {1}", (self.container, self.value))
        if self.is_global:
            return Condition(f"{self.name} is {{0}}", (self.value,))
        return Condition("{0}[{1}] is {2}", (self.container, self.name, self.value))


class Condition(NamedTuple):
    """A Python expression over the kernel's globals, in which ``{0}``, ``{1}``, ... stand for values."""

    template: str
    values: tuple[Any, ...]


def collect_reads(kernel: FunctionType, helpers: Iterable[FunctionType]) -> tuple[Read, ...]:
    """The reads of a kernel, its helpers and the user's functions that these reach, and of user modules' attributes.

    Raises:
        TraceError: a variable holds something whose changes cannot be noticed.
    """
    collector = _Collector(kernel)
    for function in (kernel, *helpers):
        collector.function(function)
    return tuple(collector.reads.values())


class _Collector:
    def __init__(self, kernel: FunctionType) -> None:
        self.reads: dict[tuple[int, str], Read] = {}
        self._seen: set[int] = set()
        self._globals = kernel.__globals__
        # The kernel's parameters hide globals of the same name.
        self._hidden = frozenset(kernel.__code__.co_varnames)

    def function(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for path in _paths(function.__code__):
            name, *attributes = path
            if name in cells:
                try:
                    value = cells[name].cell_contents
                except ValueError:  # not bound yet; reading it would have been an error
                    continue
                self._read(function, cells[name], name, value)
            elif name in function.__globals__:
                value = function.__globals__[name]
                self._read(function, function.__globals__, name, value)
            else:
                continue
            self._attributes(function, value, attributes)

    def _attributes(self, function: FunctionType, value: Any, attributes: list[str]) -> None:
        for attribute in attributes:
            if not isinstance(value, ModuleType) or not _is_users_module(value) or attribute not in vars(value):
                return
            container, value = vars(value), vars(value)[attribute]
            self._read(function, container, attribute, value)

    def _read(self, function: FunctionType, container: Any, name: str, value: Any) -> None:
        key = (id(container), name)
        if key in self.reads:
            return
        helper = underlying(value)
        if helper is not None or _is_fixed(value):
            visible = container is self._globals and name not in self._hidden
            self.reads[key] = Read("identity", container, name, value, visible)
        else:
            problem = _unguardable(value)
            if problem is not None:
                raise TraceError(
                    f"kernel code reads '{name}', {problem}",
                    span=definition_span(function),
                    found=type(value).__name__,
                    hint="pass it to the kernel as an argument, or read what you need of it outside of the kernel",
                )
            self.reads[key] = Read("contents", container, name, contents(value))
        if helper is not None and not is_third_party(helper.__code__.co_filename):
            self.function(helper)


@lru_cache(maxsize=1024)
def _paths(code: CodeType) -> tuple[tuple[str, ...], ...]:
    """The global and closure variables that code reads, each with the attributes it takes of it at once."""
    return tuple(dict.fromkeys(_walk(code)))


def _walk(code: CodeType) -> Iterator[tuple[str, ...]]:
    path: list[str] = []
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in ("LOAD_ATTR", "LOAD_METHOD") and path:
            path.append(instruction.argval)
            continue
        if path and name not in ("CACHE", "NOP", "EXTENDED_ARG"):
            yield tuple(path)
            path = []
        if name in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            path = [instruction.argval]
    if path:
        yield tuple(path)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _walk(constant)


def _is_users_module(module: ModuleType) -> bool:
    filename = getattr(module, "__file__", None)
    return isinstance(filename, str) and not is_internal(filename) and not is_third_party(filename)


def _is_fixed(value: Any) -> bool:
    """Whether holding the same object means holding the same value."""
    if isinstance(value, tuple):
        return all(_is_fixed(item) for item in value)
    if isinstance(value, _IMMUTABLE) or callable(value):
        return True
    if type(value).__module__ == "builtins":
        return not isinstance(value, (list, dict, set, bytearray))
    # An object without attributes of its own keeps its value elsewhere: dtypes, devices, patterns, enumeration members.
    return isinstance(value, frozenset) or (
        not _is_array(value) and (_is_enumerated(value) or not hasattr(value, "__dict__"))
    )


def _is_enumerated(value: Any) -> bool:
    import enum

    return isinstance(value, enum.Enum)


def _is_array(value: Any) -> bool:
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _unguardable(value: Any) -> str | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "a tensor whose elements may change"
    if _is_array(value) and getattr(value, "nbytes", _MAXIMUM_BYTES + 1) > _MAXIMUM_BYTES:
        return f"an array of more than {_MAXIMUM_BYTES} bytes"
    return None


def contents(value: Any, depth: int = 0) -> Any:
    """A snapshot of a value that equals another one while the value has not changed: by type and bits."""
    if depth > _MAXIMUM_DEPTH or (_is_fixed(value) and not isinstance(value, (float, tuple))):
        return (type(value), value) if isinstance(value, (int, str, bytes, type(None))) else _Same(value)
    if isinstance(value, float):
        return (float, value.hex())
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(contents(item, depth + 1) for item in value))
    if isinstance(value, dict):
        return (dict, tuple((contents(k, depth + 1), contents(v, depth + 1)) for k, v in value.items()))
    if isinstance(value, set):
        return (set, frozenset(contents(item, depth + 1) for item in value))
    if _is_array(value):
        array = memoryview(value) if hasattr(value, "__buffer__") else value
        return (type(value), getattr(value, "shape", None), str(getattr(value, "dtype", "")), _bytes(array))
    return (type(value), contents(vars(value), depth + 1)) if hasattr(value, "__dict__") else _Same(value)


def _bytes(value: Any) -> Any:
    return value.tobytes() if hasattr(value, "tobytes") else _Same(value)


class _Same:
    """Equal to another one of the same object, which it keeps alive."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)
