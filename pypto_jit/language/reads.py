"""What a trace read of the Python world: the globals and closure variables of a kernel and of the helpers it reaches.

Each read is kept as a guard. For a value that cannot change, or whose changes no trace sees (functions, modules,
classes, objects of libraries), it is enough that the variable still holds the same object. Lists, dicts, sets, arrays,
and objects of the user's classes are compared by contents. A variable found in `builtins` is not guarded.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from pypto_jit.errors import TraceError
from pypto_jit.language.location import is_internal, is_third_party
from pypto_jit.language.parameters import definition_span

_MAXIMUM_BYTES = 1 << 16
_MAXIMUM_DEPTH = 8
_MISSING = object()


@dataclass(frozen=True, eq=False)
class Read:
    """A variable that the trace read.

    Attributes:
        kind: ``identity``: it must hold the very object ``value``; ``contents``: `contents` of it must equal ``value``.
        container: the namespace or the closure cell that holds the variable.
        name: of the variable.
        value: what it held.
        is_global: whether the kernel's own code would find it under its name.
    """

    kind: str
    container: Mapping[str, Any] | CellType = field(repr=False)
    name: str
    value: Any
    is_global: bool = False

    def current(self) -> Any:
        """What the variable holds now; a value of its own kind where it holds nothing."""
        if not isinstance(self.container, CellType):
            return self.container.get(self.name, _MISSING)
        try:
            return self.container.cell_contents
        except ValueError:
            return _MISSING

    def holds(self) -> bool:
        """Whether the trace would still read the same."""
        now = self.current()
        return now is self.value if self.kind == "identity" else contents(now) == self.value

    def shown(self) -> str:
        """What the variable held, in words."""
        return show(self.value) if self.kind == "identity" else show_contents(self.value)

    def shown_now(self) -> str:
        """What it holds now, in words."""
        now = self.current()
        return show(now) if self.kind == "identity" else show_contents(contents(now))

    def guard(self) -> Condition:
        """`holds` as an expression; one that fails where the variable holds nothing any more."""
        if self.kind == "contents":
            return Condition("{0}()", (self.holds,))
        if isinstance(self.container, CellType):
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
        """Follow constants of the user's modules and classes: what stands behind ``settings.ROWS``."""
        for attribute in attributes:
            namespace = _namespace(value, attribute)
            if namespace is None:
                return
            value = namespace[attribute]
            self._read(function, namespace, attribute, value)

    def _read(self, function: FunctionType, container: Any, name: str, value: Any) -> None:
        key = (id(container), name)
        if key in self.reads:
            return
        helper = underlying(value)
        if isinstance(value, FunctionType) or _is_fixed(value):
            visible = container is self._globals and name not in self._hidden and name.isidentifier()
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


def underlying(callee: Any) -> FunctionType | None:
    """The user's function behind a callable: a function, a method, or a kernel's original; None for any other."""
    kernel = getattr(callee, "__pypto_kernel__", None)
    if isinstance(kernel, MethodType):
        kernel = kernel.__func__
    if isinstance(kernel, FunctionType):
        return kernel
    if isinstance(callee, MethodType):
        callee = callee.__func__
    if isinstance(callee, FunctionType) and not is_internal(callee.__code__.co_filename):
        return callee
    return None


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


def _is_users(module: ModuleType | None) -> bool:
    filename = getattr(module, "__file__", None)
    if filename is None:
        # A notebook, a REPL, or code without a file; C extensions of the standard library are not the user's.
        return module is not None and module.__name__ == "__main__"
    return not is_internal(filename) and not is_third_party(filename)


def _namespace(value: Any, attribute: str) -> Any:
    """The namespace of a user's module or class in which an attribute is found."""
    if isinstance(value, ModuleType):
        return vars(value) if _is_users(value) and attribute in vars(value) else None
    if isinstance(value, type) and _is_users(sys.modules.get(value.__module__)):
        return next((vars(base) for base in value.__mro__ if attribute in vars(base)), None)
    return None


def _state(value: Any) -> dict[str, Any] | None:
    """The attributes of an object of a user's class; None for any other, whose inside is its library's business."""
    kind = type(value)
    if not _is_users(sys.modules.get(kind.__module__)) or isinstance(value, (Enum, ModuleType, FunctionType, type)):
        return None
    state: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if _is_users(sys.modules.get(base.__module__)):
            state.update((name, item) for name, item in vars(base).items() if _is_data(name, item))
    state.update(getattr(value, "__dict__", {}))
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(value, name):
                state[name] = getattr(value, name)
    return state


def _is_data(name: str, value: Any) -> bool:
    """Whether an entry of a class is a value or a method that is read through its objects."""
    return not name.startswith("__") and (isinstance(value, FunctionType) or not hasattr(type(value), "__get__"))


def _is_fixed(value: Any) -> bool:
    """Whether holding the same object means holding the same value, as far as a trace can see."""
    if isinstance(value, tuple):
        return all(_is_fixed(item) for item in value)
    if isinstance(value, (list, dict, set, bytearray, MethodType)) or _is_array(value):
        return False
    return _state(value) is None


def _is_array(value: Any) -> bool:
    return not isinstance(value, (type, ModuleType)) and (hasattr(value, "__array__") or hasattr(value, "__dlpack__"))


def _unguardable(value: Any) -> str | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return "a tensor whose elements may change"
    if _is_array(value) and getattr(value, "nbytes", _MAXIMUM_BYTES + 1) > _MAXIMUM_BYTES:
        return f"an array of more than {_MAXIMUM_BYTES} bytes"
    return None


def contents(value: Any, around: tuple[int, ...] = ()) -> Any:
    """A snapshot of a value that equals another one while the value has not changed, by type and bits.

    Args:
        value: any value.
        around: ids of the containers that it is in, which may contain themselves.
    """
    if isinstance(value, float):
        return (float, value.hex())
    if isinstance(value, (int, str, bytes)):
        return (type(value), value)
    if id(value) in around or len(around) > _MAXIMUM_DEPTH:
        return _Same(value)
    inside = (*around, id(value))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(contents(item, inside) for item in value))
    if isinstance(value, dict):
        return (type(value), tuple((contents(k, inside), contents(v, inside)) for k, v in value.items()))
    if isinstance(value, (set, frozenset)):
        return (type(value), frozenset(contents(item, inside) for item in value))
    if isinstance(value, MethodType):
        return (MethodType, _Same(value.__func__), contents(value.__self__, inside))
    if isinstance(value, bytearray):
        return (bytearray, bytes(value))
    if _is_array(value) and hasattr(value, "tobytes") and value.nbytes <= _MAXIMUM_BYTES:
        return (type(value), value.shape, str(value.dtype), value.tobytes())
    state = _state(value)
    return _Same(value) if state is None else (type(value), contents(state, inside))


class _Same:
    """Equal to another one of the same object, which it keeps alive."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def show(value: Any) -> str:
    """A value in a few words. Runs no code of the user's."""
    if value is _MISSING:
        return "nothing"
    if isinstance(value, FunctionType):
        return f"the function {value.__qualname__} of line {value.__code__.co_firstlineno}"
    if isinstance(value, (type, ModuleType)):
        return value.__name__
    if isinstance(value, tuple):
        return f"({', '.join(map(show, value))})"
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        return repr(value)
    return f"a {type(value).__name__}"


def show_contents(snapshot: Any) -> str:
    """What `contents` was made of, in a few words."""
    if isinstance(snapshot, _Same):
        return show(snapshot.value)
    kind, *inside = snapshot
    if kind is float:
        return show(float.fromhex(inside[0]))
    if kind in (int, str, bytes, bool, bytearray):
        return repr(inside[0])
    if issubclass(kind, (list, tuple, set, frozenset)):
        return f"{kind.__name__}({', '.join(map(show_contents, inside[0]))})"
    if issubclass(kind, dict):
        return f"{{{', '.join(f'{show_contents(k)}: {show_contents(v)}' for k, v in inside[0])}}}"
    return f"a {kind.__name__}" + (f" with {show_contents(inside[0])}" if len(inside) == 1 else "")
