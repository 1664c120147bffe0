"""The decorators: ``@jit`` and its kinds, and ``@pl.function``, which says the kind in an argument."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType as PlainFunction
from typing import Any, ParamSpec, TypeVar, overload

from pypto_jit._declaration import check_kernel
from pypto_jit._externs import check_core, read_source
from pypto_jit._jit import JitFunction
from pypto_jit._kernel import Kernel
from pypto_jit.errors import DecoratorError, Span
from pypto_jit.language.functions import EXTERN, ROLE, FunctionType
from pypto_jit.options import RunConfig

P = ParamSpec("P")
R = TypeVar("R")


class Jit:
    """Makes a function a kernel: ``@jit``, or ``@jit.incore`` and the other kinds.

    Every kind may be called with tensors; the kinds differ in what a call from another kernel means.
    """

    @overload
    def __call__(self, function: Callable[P, R], /) -> Kernel[P, R]: ...

    @overload
    def __call__(
        self, /, *, config: RunConfig | None = None, auto_scope: bool = True
    ) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...

    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function an entry: ``@jit`` or ``@jit(config=RunConfig(...))``.

        The first call with a new kind of arguments traces and compiles the function; the next ones go to native code.

        Args:
            function: takes tensors and constants; ``pl.Out`` parameters may be left out of a call.
            config: options of every call that brings none of its own.
            auto_scope: accepted, for PyPTO's sake: scopes are the compiler's.

        Returns:
            The kernel. It returns what it writes: the tensor itself, or a tuple of several.

        Raises:
            DecoratorError: the function cannot be a kernel, or there is no such option.
        """
        return _decorator("jit", FunctionType.Orchestration, ("config", "auto_scope"), function, options)

    @overload
    def incore(self, function: Callable[P, R], /) -> Kernel[P, R]: ...

    @overload
    def incore(
        self, /, *, level: object = None, config: RunConfig | None = None
    ) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...

    def incore(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a kernel on the cores: called by an entry, it is a task of its own.

        Raises:
            DecoratorError: the function cannot be a kernel, or there is no such option.
        """
        return _decorator("jit.incore", FunctionType.InCore, ("config", "level"), function, options)

    @overload
    def inline(self, function: Callable[P, R], /) -> Kernel[P, R]: ...

    @overload
    def inline(
        self, /, *, auto_scope: bool = True, config: RunConfig | None = None
    ) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...

    def inline(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a part of each kernel that calls it, as a plain Python function is.

        Raises:
            DecoratorError: the function cannot be a kernel, or there is no such option.
        """
        return _decorator("jit.inline", FunctionType.Inline, ("config", "auto_scope"), function, options)

    @overload
    def opaque(self, function: Callable[P, R], /) -> Kernel[P, R]: ...

    @overload
    def opaque(self, /, *, config: RunConfig | None = None) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...

    def opaque(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a container of scopes and tasks, which are those of the entry that calls it.

        Raises:
            DecoratorError: the function cannot be a kernel, or there is no such option.
        """
        return _decorator("jit.opaque", FunctionType.Opaque, ("config",), function, options)

    @overload
    def host(self, function: Callable[P, R], /) -> Kernel[P, R]: ...

    @overload
    def host(
        self, /, *, auto_scope: bool = True, config: RunConfig | None = None
    ) -> Callable[[Callable[P, R]], Kernel[P, R]]: ...

    def host(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function the entry of the host. It runs on one device; several are not built yet.

        Raises:
            DecoratorError: the function cannot be a kernel, or there is no such option.
        """
        return _decorator("jit.host", FunctionType.Host, ("config", "auto_scope"), function, options)

    def extern(
        self, function: object = None, /, *, source: object = None, core_type: object = None, config: object = None
    ) -> Callable[[Callable[P, R]], Kernel[P, R]]:
        """Make a function stand for PTO assembly that was written by hand: called by an entry, it is a task.

        The function says what the assembly takes: its parameters are annotated, its body is ``...``. They are matched
        with the arguments of the assembly by name, or by position where the names differ.

        Args:
            source: the assembly, or the path of its ``.pto`` file, which is read now; a relative path is looked up
                where the function is defined.
            core_type: ``"aic"`` (cube), ``"aiv"`` (vector), or ``"mixed"`` (functions of both, run in order).
            config: as for any kernel.

        Raises:
            DecoratorError: there is no such file or core, or the function has a body.
        """
        if function is not None or source is None:
            raise DecoratorError(
                "@pypto.jit.extern needs the assembly that it stands for",
                expected='@pypto.jit.extern(source="kernel.pto", core_type="aiv")',
            )
        options = {} if config is None else {"config": config}
        check_core(core_type)

        def decorate(decorated: Callable[..., Any]) -> Any:
            original = check_kernel(decorated)
            stub = _copied(original)
            setattr(stub, EXTERN, read_source(original, source, str(core_type)))
            return _decorator(
                "jit.extern", FunctionType.Orchestration, ("source", "core_type", "config"), stub, options
            )

        return decorate

    def __repr__(self) -> str:
        return "pypto_jit.jit"


jit = Jit()
# PyPTO's name for a function that its parser splices.
inline = jit.inline


def function(
    function: Callable[..., Any] | None = None,
    /,
    *,
    type: FunctionType = FunctionType.Opaque,
    level: object = None,
    role: object = None,
    strict_ssa: bool = False,
    auto_scope: bool = True,
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Make a function part of a program: ``@pl.function(type=pl.FunctionType.InCore)``.

    Args:
        function: a method of a class that `program` decorates; or a function, which is then a kernel.
        type: what it is for.
        level, role, strict_ssa, auto_scope, attrs: accepted, for PyPTO's sake; they change nothing that is computed.

    Raises:
        DecoratorError: the type is no `FunctionType`, or the function cannot be a kernel.
    """
    if not isinstance(type, FunctionType):
        raise DecoratorError(
            "@pl.function(type=...) takes a pl.FunctionType",
            found=repr(type),
            expected=", ".join(f"pl.FunctionType.{each.name}" for each in FunctionType),
        )

    def decorate(decorated: Callable[..., Any]) -> Any:
        original = check_kernel(decorated)
        first = next(iter(inspect.signature(original).parameters), None)
        return Member(original, type) if first == "self" else _kernel(original, type, RunConfig())

    return decorate if function is None else decorate(function)


class Member:
    """A function of a program, before its class is decorated.

    Attributes:
        original: as written.
        type: what it is for.
    """

    def __init__(self, original: PlainFunction, type: FunctionType) -> None:
        self.original = original
        self.type = type

    def __get__(self, instance: object, owner: type | None = None) -> Member:
        if instance is not None:
            raise self._undecorated()
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise self._undecorated()

    def _undecorated(self) -> DecoratorError:
        code = self.original.__code__
        return DecoratorError(
            f"the class of '{self.original.__qualname__}' is no program",
            span=Span(code.co_filename, code.co_firstlineno),
            hint="decorate the class with @pl.program",
        )


def with_role(original: PlainFunction, type: FunctionType) -> PlainFunction:
    """A function that knows what it is for; itself if that is what any function is for."""
    if type is FunctionType.Orchestration:
        return original
    copy = _copied(original)
    setattr(copy, ROLE, type)
    return copy


def _copied(original: PlainFunction) -> PlainFunction:
    """A copy of a function: the same one may be decorated in another way, too."""
    copy = PlainFunction(
        original.__code__, original.__globals__, original.__name__, original.__defaults__, original.__closure__
    )
    copy.__kwdefaults__ = original.__kwdefaults__
    copy.__annotations__ = original.__annotations__
    copy.__qualname__, copy.__module__, copy.__doc__ = original.__qualname__, original.__module__, original.__doc__
    copy.__dict__.update(original.__dict__)
    return copy


def _kernel(original: PlainFunction, type: FunctionType, config: RunConfig) -> Any:
    return JitFunction(with_role(original, type), config).function


def _decorator(
    name: str,
    type: FunctionType,
    known: tuple[str, ...],
    function: Callable[..., Any] | None,
    options: dict[str, Any],
) -> Any:
    shown = ", ".join(f"{option}=..." for option in known)
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, 1, 0.5)
            hint = f"did you mean '{near[0]}'?" if near else None
            raise DecoratorError(
                f"@pypto.{name} has no option '{option}'", expected=f"@pypto.{name}({shown})", hint=hint
            )
    config = options.get("config") or RunConfig()
    if not isinstance(config, RunConfig):
        raise DecoratorError(f"@pypto.{name}(config=...) takes a RunConfig", found=f"a {config.__class__.__qualname__}")
    if not isinstance(options.get("auto_scope", True), bool):
        raise DecoratorError(
            f"@pypto.{name}(auto_scope=...) is on or off", found=repr(options["auto_scope"]), expected="True or False"
        )
    if function is None:
        return lambda decorated: _kernel(check_kernel(decorated), type, config)
    return _kernel(check_kernel(function), type, config)
