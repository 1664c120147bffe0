"""What a kernel's signature says: checked when it is decorated, read when it is first called."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from pypto_jit.errors import DecoratorError, Span
from pypto_jit.runtime.binding import Parameter

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
    return original


def declared_parameters(function: FunctionType) -> list[Parameter]:
    """The parameters as calls are matched with them.

    Raises:
        DecoratorError: an annotation cannot be evaluated.
    """
    from pypto_jit.language.parameters import declarations

    declared = declarations(function)
    return [
        Parameter(
            parameter.name,
            parameter.kind is parameter.KEYWORD_ONLY,
            declared[parameter.name].kind or "any",
            declared[parameter.name].direction == "out",
            declared[parameter.name].direction in ("out", "inout"),
        )
        for parameter in inspect.signature(function, follow_wrapped=False).parameters.values()
    ]
