"""Wraps operator functions so that a wrong call is an error of ours, with the user's line and the nearest keyword."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from pypto_jit.errors import TraceError
from pypto_jit.language.tracing import here


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, raising a TraceError where its arguments do not fit its signature."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    allowed = 1 << 30 if variadic else len(parameters)

    @functools.wraps(function)
    def operator(*args: Any, **kwargs: Any) -> Any:
        if kwargs or not required <= len(args) <= allowed:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise _misfit(function.__name__, signature, kwargs, error) from None
        return function(*args, **kwargs)

    return operator


def _misfit(name: str, signature: inspect.Signature, kwargs: dict[str, Any], error: TypeError) -> TraceError:
    names = [p.name for p in signature.parameters.values() if p.kind is not p.VAR_POSITIONAL]
    shown = ", ".join(str(p).split(":")[0] + _default(p) for p in signature.parameters.values())
    unknown = next((key for key in kwargs if key not in names), None)
    if unknown is None:
        return TraceError(f"pl.{name}: {error}", span=here(), expected=f"pl.{name}({shown})")
    near = difflib.get_close_matches(unknown, names, 1, 0.5)
    return TraceError(
        f"pl.{name} has no argument '{unknown}'",
        span=here(),
        found=f"{unknown}=",
        expected=f"pl.{name}({shown})",
        hint=f"did you mean '{near[0]}'?" if near else None,
    )


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    default = parameter.default
    return f"={default.name.capitalize() if hasattr(default, 'name') else repr(default)}"
