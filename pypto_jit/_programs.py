"""``@pl.program``: a class whose decorated methods are the functions of one program, called with ``self.k(...)``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import CodeType, MappingProxyType, MethodType
from types import FunctionType as PlainFunction
from typing import TYPE_CHECKING, Any, cast

from pypto_jit._functions import Member, with_role
from pypto_jit._jit import JitFunction
from pypto_jit.errors import ArgumentError, DecoratorError, Span
from pypto_jit.language.functions import ENTRIES
from pypto_jit.language.functions import FunctionType as Kind
from pypto_jit.options import RunConfig

if TYPE_CHECKING:
    from pypto_jit._compiler import Stages
    from pypto_jit.runtime.artifact import CompiledProgram


class Program:
    """Functions that call each other, entered through one of them.

    ``P.f`` is the kernel `f`, called with tensors as any other; ``P(...)`` calls the one entry. Constants and plain
    methods of the class are attributes too. A program cannot be changed.

    Attributes:
        name: of the class.
        functions: its kernels, by name, in order.
        orchestration_names: the functions it can be entered through.
    """

    name: str
    functions: Mapping[str, Any]
    orchestration_names: tuple[str, ...]

    def __init__(self, cls: type, config: RunConfig) -> None:
        namespace: dict[str, Any] = {}
        for base in reversed(cls.__mro__[:-1]):
            namespace.update(vars(base))
        members = {name: value for name, value in namespace.items() if isinstance(value, Member)}
        fields = self.__dict__
        fields["name"] = fields["__name__"] = cls.__name__
        fields["__qualname__"], fields["__module__"] = cls.__qualname__, cls.__module__
        fields["__doc__"] = cls.__doc__
        # What a digest of the program is a digest of.
        fields["__pypto_contents__"] = {
            name: (value.type, value.original) if isinstance(value, Member) else value
            for name, value in namespace.items()
            if not _is_noise(name)
        }
        kernels = {name: JitFunction(_bound(member, self), config).function for name, member in members.items()}
        fields["functions"] = MappingProxyType(kernels)
        fields["orchestration_names"] = _entries(members)
        for name in fields["functions"]:
            if name in vars(type(self)):
                raise DecoratorError(
                    f"a function of a program cannot be named '{name}'",
                    span=_span(members[name]),
                    hint=f"programs have a '{name}' already: rename the function",
                )
        if not members:
            raise DecoratorError(
                f"program '{self.name}' has no functions",
                hint="decorate its methods with @pl.function",
            )

    def __getattr__(self, name: str) -> Any:
        functions = self.__dict__.get("functions", {})
        if name in functions:
            return functions[name]
        contents = self.__dict__.get("__pypto_contents__", {})
        if name in contents:
            value = contents[name]
            return value.__get__(self, type(self)) if hasattr(value, "__get__") else value
        near = [] if name.startswith("__") else difflib.get_close_matches(name, [*functions, *contents], 1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise AttributeError(f"program '{self.__dict__.get('name')}' has no '{name}'{hint}", name=name, obj=None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a program cannot be changed: '{name}' of '{self.name}' is what its class says")

    def __getitem__(self, name: str) -> Any:
        """The kernel of this name."""
        if name not in self.functions:
            raise KeyError(f"program '{self.name}' has no function '{name}', but {', '.join(self.functions)}")
        return self.functions[name]

    def get_function(self, name: str) -> Any:
        """The kernel of this name; None where there is none."""
        return self.functions.get(name)

    @property
    def entry(self) -> Any:
        """The kernel that the program is entered through.

        Raises:
            ArgumentError: there are several.
        """
        if len(self.orchestration_names) == 1:
            return self.functions[self.orchestration_names[0]]
        several = ", ".join(self.orchestration_names)
        if not several:
            raise ArgumentError(
                f"program '{self.name}' has no entry",
                found=", ".join(self.functions),
                hint="declare one: @pl.function(type=pl.FunctionType.Orchestration)",
            )
        raise ArgumentError(
            f"program '{self.name}' has several entries",
            found=several,
            hint=f"choose one: {self.name}.{self.orchestration_names[0]}(...)",
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the entry with tensors; a program without such arguments gives itself, as its class would an instance.

        Raises:
            ArgumentError: there are several entries, or the arguments do not fit.
        """
        return self.entry(*args, **kwargs) if args or kwargs else self

    def compile(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> CompiledProgram | CompiledEntries:
        """The compiled entry, for these arguments or for the shapes that its annotations declare.

        A program of several entries compiles to all of them, for their declared shapes.

        Raises:
            ArgumentError: arguments for a program of several entries.
            PyptoError: a function is at fault; the error names the line.
        """
        if len(self.orchestration_names) > 1 and not args and not kwargs:
            names = self.orchestration_names
            return CompiledEntries(self.name, {name: self.functions[name].compile(config=config) for name in names})
        return self.entry.compile(*args, config=config, **kwargs)

    def lower(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Stages:
        """The text of the entry at each stage, for these arguments or its declared shapes."""
        return self.entry.lower(*args, config=config, **kwargs)

    def interpret(self, *args: Any, config: RunConfig | None = None, **kwargs: Any) -> Any:
        """Run the entry in NumPy, operation by operation."""
        return self.entry.interpret(*args, config=config, **kwargs)

    def __repr__(self) -> str:
        return f"Program({self.name}: {', '.join(self.functions)})"


class CompiledEntries(Mapping[str, "CompiledProgram"]):
    """The compiled entries of a program with several: ``compiled["f"]`` or ``compiled.f``."""

    def __init__(self, name: str, entries: Mapping[str, CompiledProgram]) -> None:
        self.name = name
        self._entries = dict(entries)

    @property
    def orchestration_names(self) -> tuple[str, ...]:
        """Names of the entries."""
        return tuple(self._entries)

    def __getitem__(self, name: str) -> CompiledProgram:
        return self._entries[name]

    def __getattr__(self, name: str) -> CompiledProgram:
        entries = self.__dict__.get("_entries", {})
        if name not in entries:
            raise AttributeError(f"program has no entry '{name}', but {', '.join(entries)}", name=name, obj=None)
        return entries[name]

    def __iter__(self) -> Any:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __call__(self, *tensors: Any, config: RunConfig | None = None) -> Any:
        """Not to be called: which entry is meant?"""
        first = next(iter(self._entries))
        raise ArgumentError(
            f"program '{self.name}' has several entries",
            found=", ".join(self._entries),
            hint=f"choose one: compiled.{first}(...)",
        )

    def __repr__(self) -> str:
        return f"CompiledEntries({self.name}: {', '.join(self._entries)})"


def program(cls: type | None = None, /, *, strict_ssa: bool = False, config: RunConfig | None = None) -> Any:
    """Make a class a program: ``@pl.program`` over methods with ``@pl.function``.

    Args:
        cls: the class. Its constants and plain methods are what ``self`` gives in its functions.
        strict_ssa: accepted, for PyPTO's sake.
        config: options of every call that brings none of its own.

    Returns:
        The `Program`.

    Raises:
        DecoratorError: it is no class, or has no functions.
    """
    if config is not None and not isinstance(config, RunConfig):
        raise DecoratorError("@pl.program(config=...) takes a RunConfig", found=f"a {type(config).__qualname__}")

    def decorate(decorated: object) -> Program:
        if not isinstance(decorated, type):
            found = f"a {type(decorated).__qualname__}"
            raise DecoratorError("@pl.program takes a class", found=found, hint="put @pypto.jit on a function")
        return Program(decorated, config or RunConfig())

    return decorate if cls is None else decorate(cls)


def _bound(member: Member, program: Program) -> PlainFunction:
    """A function of a program without its ``self``. A bound method has all of a function that a kernel is asked for."""
    return cast(PlainFunction, MethodType(with_role(member.original, member.type), program))


def _is_noise(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _span(member: Member) -> Span:
    code = member.original.__code__
    return Span(code.co_filename, code.co_firstlineno)


def _entries(members: Mapping[str, Member]) -> tuple[str, ...]:
    """What a program is entered through: what is declared so; else what none of its functions names."""
    declared = tuple(name for name, member in members.items() if member.type in ENTRIES)
    if declared:
        return declared
    named = {name for member in members.values() for name in _names(member.original.__code__)}
    free = [name for name in members if name not in named]
    opaque = tuple(name for name in free if members[name].type is Kind.Opaque)
    return opaque or tuple(free)


def _names(code: CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*(_names(each) for each in inner))


__all__ = ["CompiledEntries", "Program", "program"]
