"""What operators check of the indices, offsets and extents that they are given."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Iterable
from typing import Any

from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.dtypes import INDEX
from pypto_jit.errors import BoundsError, DTypeError, ShapeError, TraceError
from pypto_jit.language.needs import need
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.scalars import cast as cast_scalar
from pypto_jit.language.tracing import here


def extents(values: Any, what: str) -> tuple[Any, ...]:
    """The entries of a list.

    Raises:
        TraceError: it is none.
    """
    if isinstance(values, str) or hasattr(values, "handle") or not isinstance(values, Iterable):
        raise TraceError(f"{what} is a list", span=here(), found=values, expected="one entry per dimension")
    return tuple(values)


def static(values: Any, what: str) -> tuple[int, ...]:
    """A list of integers that are known while tracing.

    Raises:
        ShapeError: one is only known when the kernel runs.
        TraceError: one is no integer.
    """
    known = []
    for value in extents(values, what):
        need(value, what)
        if isinstance(value, Scalar):
            raise ShapeError(
                f"{what} is static",
                span=here(),
                found="an extent that is only known when the kernel runs",
                hint="give the largest extent, and the run-time one in valid_shape",
            )
        known.append(integer(value, what))
    return tuple(known)


def integer(value: Any, what: str) -> int:
    """A Python integer.

    Raises:
        TraceError: it is none.
    """
    need(value, what)
    try:
        return python_operator.index(value)
    except TypeError:
        raise TraceError(
            f"{what} takes integers", span=here(), found=f"{type(value).__name__} {value!r}", expected="an integer"
        ) from None


def indices(values: Any, what: str) -> tuple[Any, ...]:
    """A list of integers, each known now or an INDEX scalar."""
    return tuple(index(value, what) for value in extents(values, what))


def index(value: Any, what: str) -> Any:
    """An integer, known now or an INDEX scalar.

    Raises:
        DTypeError: a traced scalar that is no integer.
    """
    if not isinstance(value, Scalar):
        return integer(value, what)
    if value.dtype.is_float or value.dtype.kind == "bool":
        raise DTypeError(f"{what} takes integers", span=here(), found=value, hint="use // instead of /")
    return cast_scalar(value, INDEX)


def element(values: Any, shape: tuple[int, ...], what: str) -> tuple[Any, ...]:
    """The index of one element of something of this shape, of which `DYNAMIC` extents are checked when the kernel runs.

    Raises:
        ShapeError: it has another number of dimensions.
        BoundsError: it is known to lie outside.
    """
    found = indices(values, f"the index of {what}")
    if len(found) != len(shape):
        raise ShapeError(
            f"the index of {what} has one entry per dimension",
            span=here(),
            found=f"{len(found)} entries",
            expected=f"{len(shape)}",
        )
    for position, extent in zip(found, shape, strict=True):
        if isinstance(position, int) and (position < 0 or (extent != DYNAMIC and position >= extent)):
            raise BoundsError(
                f"an element outside of {what}",
                span=here(),
                found=f"index {[k if isinstance(k, int) else '?' for k in found]}",
                expected=f"within {list(shape)}",
            )
    return found
