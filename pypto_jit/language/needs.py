"""Scalars whose value Python or the language needs while tracing: those that parameters alone decide can be had."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pypto_jit.language.location import PACKAGE
from pypto_jit.language.tracing import CURRENT

if TYPE_CHECKING:
    from pypto_jit.language.scalars import Scalar


def need(scalar: Any, why: str) -> None:
    """Where scalar parameters alone decide a scalar's value, have the kernel traced with them as constants.

    Args:
        scalar: what the value is needed of; any other value is let pass.
        why: what needs it, for who asks why the kernel was compiled again.
    """
    parameters = getattr(scalar, "parameters", None)
    trace = CURRENT.get()
    if parameters and trace is not None:
        trace.need_value(parameters, why)


def called_by_us() -> bool:
    """Whether the code that called the caller is this package's."""
    return sys._getframe(2).f_code.co_filename.startswith(PACKAGE)


def known_parameters(scalars: Iterable[Scalar]) -> frozenset[str] | None:
    """The parameters that decide what is computed from these scalars alone; None where more does."""
    found: frozenset[str] = frozenset()
    for scalar in scalars:
        if scalar.parameters is None:
            return None
        found |= scalar.parameters
    return found
