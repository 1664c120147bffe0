"""What a kernel's signature says: checked when it is decorated, read when it is first called."""

from __future__ import annotations

import ast
import builtins
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

from pypto_jit.errors import DecoratorError, Span
from pypto_jit.runtime.arguments import row_major
from pypto_jit.runtime.binding import Parameter
from pypto_jit.signature import TensorSpec, known_extents, named_extents

if TYPE_CHECKING:
    from pypto_jit.language.parameters import Declaration

RESERVED = "config"


def check_kernel(function: Any) -> FunctionType:
    """The function to be jitted.

    Raises:
        DecoratorError: it cannot be a kernel.
    """
    original = getattr(function, "__pypto_kernel__", function)
    if not isinstance(original, FunctionType):
        raise DecoratorError(
            "@pypto.jit takes a function",
            found=f"a {type(function).__qualname__}",
            hint="put it on a plain function; pass what a method would read from self as arguments",
        )
    code = original.__code__
    span = Span(code.co_filename, code.co_firstlineno)
    if inspect.iscoroutinefunction(original) or inspect.isgeneratorfunction(original):
        raise DecoratorError(f"'{original.__name__}' is a coroutine or generator, not a plain function", span=span)
    for parameter in inspect.signature(original, follow_wrapped=False).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise DecoratorError(
                f"'{original.__name__}' takes any number of arguments",
                span=span,
                found=str(parameter),
                hint="name every parameter: each is part of what the kernel is specialized on",
            )
        if parameter.name == RESERVED:
            raise DecoratorError(
                f"'{RESERVED}' cannot be a parameter: calls take config= for their options",
                span=span,
                hint="rename the parameter",
            )
    _resolve_annotations(original)
    return original


def _resolve_annotations(function: FunctionType) -> None:
    """Evaluate the annotations that are text and name variables of the scopes around the definition.

    Such a variable is no part of the function's closure, and gone when the function is called.
    """
    texts = {name: text for name, text in function.__annotations__.items() if isinstance(text, str)}
    if not texts:
        return
    known = {*function.__globals__, *vars(builtins), *function.__code__.co_freevars}
    around: dict[str, Any] | None = None
    for name, text in texts.items():
        try:
            named = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
        except SyntaxError:
            continue
        if named <= known:
            continue
        around = _enclosing_variables() if around is None else around
        try:
            function.__annotations__[name] = eval(text, function.__globals__, around)
        except Exception:  # it is evaluated again, and reported, when it is needed
            continue


def _enclosing_variables() -> dict[str, Any]:
    """The variables of the user's scope that is being executed, and of the function around it if that is a class."""
    from pypto_jit.language.location import user_frame

    frame, scopes = user_frame(), []
    while frame is not None and frame.f_code.co_name != "<module>":
        scopes.append(frame.f_locals)
        if frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            break
        frame = frame.f_back
    return {name: value for scope in reversed(scopes) for name, value in scope.items()}


def declared_parameters(function: FunctionType) -> list[Parameter]:
    """The parameters as calls are matched with them.

    Raises:
        DecoratorError: an annotation cannot be evaluated.
    """
    from pypto_jit.language.parameters import declarations

    declared = declarations(function)
    parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    return [_parameter(each.name, each.kind is each.KEYWORD_ONLY, declared[each.name]) for each in parameters]


def _parameter(name: str, keyword_only: bool, declared: Declaration) -> Parameter:
    spec = None
    if declared.shape is not None and declared.dtype is not None:
        shape = known_extents(declared.shape)
        spec = TensorSpec(shape, declared.dtype, row_major(shape), named_extents(declared.shape))
    return Parameter(
        name,
        keyword_only,
        declared.kind or "any",
        output=declared.direction == "out",
        written=declared.direction in ("out", "inout"),
        dtype=declared.dtype if declared.kind == "scalar" else None,
        runtime=declared.runtime,
        declared=spec,
        dims=spec.dims if spec is not None else (),
    )
