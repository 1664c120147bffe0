"""What a trace read of the Python world: the globals and closure variables of a kernel and of the helpers it reaches.

Each read is kept as a guard. For a value that cannot change, or whose changes no trace sees (modules, classes, objects
of libraries), it is enough that the variable still holds the same object. A function of the user's counts by its code
and its defaults as well. Containers, arrays, and objects that are data are compared by contents. What cannot be
compared is an error. A variable found in `builtins` is not guarded.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from pypto_jit.errors import Span, TraceError
from pypto_jit.language.contents import (
    MISSING,
    UnguardableError,
    check_callable,
    check_guardable,
    contents,
    is_fixed,
    is_users,
    show,
    show_contents,
)
from pypto_jit.language.location import is_internal, is_third_party
from pypto_jit.language.variables import Import, variables

_HINT = "pass it to the kernel as an argument, or read what you need of it outside of the kernel"
# What a function does is its code and its defaults.
_OF_A_FUNCTION = ("__code__", "__defaults__", "__kwdefaults__")


@dataclass(frozen=True, eq=False)
class Read:
    """A variable that the trace read.

    Attributes:
        kind: ``identity``: it must hold the very object ``value``; ``contents``: `contents` of it must equal ``value``.
        container: the namespace or the closure cell that holds the variable; or the function that it is a part of.
        name: of the variable.
        value: what it held.
        is_global: whether the kernel's own code would find it under its name.
    """

    kind: str
    container: Mapping[str, Any] | CellType | FunctionType = field(repr=False)
    name: str
    value: Any
    is_global: bool = False

    def current(self) -> Any:
        """What the variable holds now; a value of its own kind where it holds nothing."""
        if isinstance(self.container, CellType):
            try:
                return self.container.cell_contents
            except ValueError:
                return MISSING
        if isinstance(self.container, Mapping):
            return self.container.get(self.name, MISSING)
        return getattr(self.container, self.name)

    def holds(self) -> bool:
        """Whether the trace would still read the same."""
        now = self.current()
        if self.kind == "identity":
            return now is self.value
        try:
            return contents(now) == self.value
        except UnguardableError:
            return False

    def shown(self) -> str:
        """What the variable held, in words."""
        return show(self.value) if self.kind == "identity" else show_contents(self.value)

    def shown_now(self) -> str:
        """What it holds now, in words."""
        now = self.current()
        try:
            return show(now) if self.kind == "identity" else show_contents(contents(now))
        except UnguardableError as error:
            return str(error)

    def guard(self) -> Condition:
        """`holds` as an expression; one that fails where the variable holds nothing any more."""
        if self.kind == "contents":
            return Condition("{0}()", (self.holds,))
        if isinstance(self.container, FunctionType):
            return Condition(f"{{0}}.{self.name} is {{1}}", (self.container, self.value))
        if isinstance(self.container, CellType):
            return Condition("{0}.cell_contents is {1}", (self.container, self.value))
        if self.is_global:
            return Condition(f"{self.name} is {{0}}", (self.value,))
        return Condition("{0}[{1}] is {2}", (self.container, self.name, self.value))


class Condition(NamedTuple):
    """A Python expression over the kernel's globals, in which ``{0}``, ``{1}``, ... stand for values."""

    template: str
    values: tuple[Any, ...]


def collect_reads(
    kernel: FunctionType, helpers: Iterable[FunctionType], unseen: Collection[FunctionType] = ()
) -> tuple[Read, ...]:
    """The reads of a kernel, its helpers and the user's functions that these reach, and of user modules' attributes.

    Args:
        kernel: the kernel.
        helpers: functions that it called.
        unseen: those of them whose calls nobody saw: all that they name counts as called.

    Raises:
        TraceError: a variable holds something whose changes cannot be noticed; it names the line that reads it.
    """
    collector = _Collector(kernel, unseen)
    for function in (kernel, *helpers):
        collector.function(function)
    return tuple(collector.reads.values())


class _Collector:
    def __init__(self, kernel: FunctionType, unseen: Collection[FunctionType]) -> None:
        self.reads: dict[tuple[int, str], Read] = {}
        self._seen: set[int] = set()
        self._kernel = kernel
        self._unseen = unseen
        self._globals = kernel.__globals__
        # The kernel's parameters hide globals of the same name.
        self._hidden = frozenset(kernel.__code__.co_varnames)

    def function(self, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        code = function.__code__
        if function is not self._kernel:
            for part in _OF_A_FUNCTION:
                # Calls that went well without defaults would not use new ones.
                if getattr(function, part) is not None:
                    self._read(function, part, getattr(function, part), Span(code.co_filename, code.co_firstlineno))
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        for root, attributes, line in variables(code):
            span = Span(code.co_filename, line)
            if isinstance(root, Import):
                value = _module(root, function)
            elif root in cells:
                try:
                    value = cells[root].cell_contents
                except ValueError:  # not bound yet; reading it would have been an error
                    continue
                self._read(cells[root], root, value, span, attributes)
            elif root in function.__globals__:
                value = function.__globals__[root]
                self._read(function.__globals__, root, value, span, attributes)
            else:
                continue
            self._attributes(value, attributes, span)
            if function in self._unseen:
                self._check(attributes[-1] if attributes else str(root), _found(value, attributes), span, called=True)

    def _attributes(self, value: Any, attributes: tuple[str, ...], span: Span) -> None:
        """Follow constants of the user's modules, classes and functions: what stands behind ``settings.ROWS``."""
        for k, attribute in enumerate(attributes):
            namespace = _namespace(value, attribute)
            if namespace is None:
                # What an installed module holds does not change, but may be nothing that can be read.
                if isinstance(value, ModuleType) and attribute in vars(value):
                    self._check(attribute, vars(value)[attribute], span, attributes[k + 1 :])
                return
            value = namespace[attribute]
            self._read(namespace, attribute, value, span, attributes[k + 1 :])

    def _read(self, container: Any, name: str, value: Any, span: Span, attributes: tuple[str, ...] = ()) -> None:
        key = (id(container), name)
        if key in self.reads:
            return
        helper = underlying(value)
        self._check(name, value, span, attributes)
        if isinstance(value, FunctionType) or is_fixed(value):
            visible = container is self._globals and name not in self._hidden and name.isidentifier()
            self.reads[key] = Read("identity", container, name, value, visible)
        else:
            try:
                self.reads[key] = Read("contents", container, name, contents(value))
            except UnguardableError as error:
                raise _refused(name, value, error, span) from None
        if helper is not None and not is_third_party(helper.__code__.co_filename):
            self.function(helper)

    def _check(self, name: str, value: Any, span: Span, attributes: tuple[str, ...] = (), called: bool = False) -> None:
        try:
            if called:
                check_callable(value)
            else:
                check_guardable(value, attributes)
        except UnguardableError as error:
            raise _refused(name, value, error, span) from None


def _refused(name: str, value: Any, error: UnguardableError, span: Span) -> TraceError:
    return TraceError(f"kernel code reads '{name}', {error}", span=span, found=type(value).__name__, hint=_HINT)


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


def _module(imported: Import, function: FunctionType) -> ModuleType | None:
    """The module that an import within a function gives."""
    name = imported.name.partition(".")[0] if imported.whole else imported.name
    if imported.level:
        package = function.__globals__.get("__package__") or ""
        try:
            name = importlib.util.resolve_name("." * imported.level + name, package)
        except ImportError:
            return None
    return sys.modules.get(name)


def _found(value: Any, attributes: tuple[str, ...]) -> Any:
    """What attributes of a module or class lead to; None where that would run code."""
    for attribute in attributes:
        if isinstance(value, ModuleType):
            value = vars(value).get(attribute)
        elif isinstance(value, type) and type(value).__getattribute__ is type.__getattribute__:
            value = getattr(value, attribute, None)
        else:
            return None
    return value


def _namespace(value: Any, attribute: str) -> Any:
    """The namespace of a user's module, class or function in which an attribute is found."""
    if isinstance(value, ModuleType):
        return vars(value) if is_users(value) and attribute in vars(value) else None
    if isinstance(value, FunctionType):
        return vars(value) if not is_internal(value.__code__.co_filename) and attribute in vars(value) else None
    if isinstance(value, type) and is_users(sys.modules.get(value.__module__)):
        return next((vars(base) for base in value.__mro__ if attribute in vars(base)), None)
    return None
