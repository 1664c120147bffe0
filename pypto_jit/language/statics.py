"""What happens while a kernel is traced: typed constants, printing, assertions."""

from __future__ import annotations

from typing import Any

from pypto_jit.dtypes import ALL, BOOL, INDEX, DType
from pypto_jit.errors import DTypeError, TraceError
from pypto_jit.language.scalars import Scalar, is_number
from pypto_jit.language.scalars import cast as cast_scalar
from pypto_jit.language.signatures import checked
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import tile_scalar


@checked
def const(value: Any, dtype: DType) -> Scalar:
    """A number of a dtype, which arithmetic with it then has; a traced scalar is converted.

    Args:
        value: a number that fits the dtype.
        dtype: of tensors, INDEX or BOOL.
    """
    trace = current("pl.const")
    if dtype not in (*ALL, INDEX, BOOL):
        raise DTypeError("const takes a dtype", span=here(), found=dtype, expected="such as pl.INT32")
    if isinstance(value, Scalar):
        return cast_scalar(value, dtype)
    if dtype == BOOL and is_number(value):
        return trace.constant(bool(value), BOOL)
    return tile_scalar("const", value, dtype)


def static_print(*values: Any, sep: str = " ", end: str = "\n") -> None:
    """Print while tracing, once per specialization: plain values as Python prints them, traced ones by their types."""
    current("pl.static_print")
    print(*values, sep=sep, end=end)


@checked
def static_assert(condition: Any, message: Any = "") -> None:
    """An error at this line unless a condition that is known while tracing holds.

    Args:
        condition: a plain value.
        message: what the error says.

    Raises:
        TraceError: it does not hold, or is only known when the kernel runs.
    """
    current("pl.static_assert")
    if hasattr(condition, "handle"):
        raise TraceError(
            "static_assert takes a condition that is known while tracing",
            span=here(),
            found=condition,
            hint="what is only known when the kernel runs has no assertion",
        )
    if not condition:
        raise TraceError(f"static_assert: {message}" if message else "static_assert does not hold", span=here())


__all__ = ["const", "static_assert", "static_print"]
