"""Wraps operator functions so that a wrong call is an error of ours, with the user's line and the nearest keyword."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from numbers import Integral
from typing import Any

from pypto_jit.errors import TraceError
from pypto_jit.language.tracing import here

# How torch spells arguments that PyPTO and NumPy call differently.
_OF_TORCH = {"dim": "axis", "keepdim": "keepdims"}


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, raising a TraceError where its arguments do not fit its signature."""
    signature = inspect.signature(function)
    check = _Check(f"pl.{function.__name__}", signature)

    @functools.wraps(function)
    def operator(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **check.keywords(args, kwargs))

    return operator


def method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function of a value as a method of it, whose errors show it as one.

    Extents are given as one list or one by one where the first argument after the value is a shape.
    """
    receiver, *parameters = inspect.signature(function).parameters.values()
    if receiver.kind is receiver.VAR_POSITIONAL:
        # It may be followed by more of its kind.
        parameters = [receiver, *parameters]
        receiver = inspect.Parameter("x", receiver.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature(parameters)
    check = _Check(f"x.{name}", signature)
    takes_extents = bool(parameters) and parameters[0].name in ("shape", "axes")

    def bound(self: Any, *args: Any, **kwargs: Any) -> Any:
        if takes_extents and args and isinstance(args[0], Integral):
            args = (args,)
        return function(self, *args, **check.keywords(args, kwargs))

    bound.__name__ = bound.__qualname__ = name
    bound.__doc__ = function.__doc__
    bound.__signature__ = inspect.Signature([receiver, *parameters])  # type: ignore[attr-defined]
    return bound


class _Check:
    """Whether arguments fit a signature, which is shown under a name."""

    def __init__(self, name: str, signature: inspect.Signature) -> None:
        self._name = name
        self._signature = signature
        parameters = list(signature.parameters.values())
        variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        self._required = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
        self._allowed = 1 << 30 if variadic else len(parameters)

    def keywords(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The keyword arguments under the names of the signature.

        Raises:
            TraceError: the arguments do not fit it.
        """
        if not kwargs and self._required <= len(args) <= self._allowed:
            return kwargs
        kwargs = {self._known(name): value for name, value in kwargs.items()}
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise self._misfit(kwargs, error) from None
        return kwargs

    def _known(self, name: str) -> str:
        spelled = _OF_TORCH.get(name, name)
        return spelled if spelled in self._signature.parameters else name

    def _misfit(self, kwargs: dict[str, Any], error: TypeError) -> TraceError:
        parameters = self._signature.parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL]
        shown = ", ".join(str(p).split(":")[0] + _default(p) for p in parameters)
        unknown = next((key for key in kwargs if key not in names), None)
        if unknown is None:
            return TraceError(f"{self._name}: {error}", span=here(), expected=f"{self._name}({shown})")
        near = difflib.get_close_matches(unknown, names, 1, 0.5)
        return TraceError(
            f"{self._name} has no argument '{unknown}'",
            span=here(),
            found=f"{unknown}=",
            expected=f"{self._name}({shown})",
            hint=f"did you mean '{near[0]}'?" if near else None,
        )


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    default = parameter.default
    return f"={default.name.capitalize() if hasattr(default, 'name') else repr(default)}"
