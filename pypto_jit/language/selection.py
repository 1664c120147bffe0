"""Comparisons of whole tensors, and selection by what they give."""

from __future__ import annotations

from typing import Any

from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rules.tensors import map_type, select_type
from pypto_jit.errors import TraceError
from pypto_jit.language.expressions import (
    at_the_line,
    broadcast_sides,
    check_row,
    convert,
    kinds_of,
    operand_of,
    record,
    scalar_of,
    type_of,
)
from pypto_jit.language.integers import WIDER, narrowed, widened
from pypto_jit.language.tracing import here
from pypto_jit.language.values import Tensor


def compared(mode: str, *operands: Any) -> Tensor:
    """1 where two tensors, or a tensor and a scalar, compare so, 0 elsewhere, in the dtype they are compared in.

    Raises:
        ShapeError, DTypeError, TraceError: the operands do not fit.
    """
    kinds = kinds_of("cmp", operands)
    with at_the_line():
        result = map_type(BY_NAME["cmp"], kinds)
        if result.dtype in WIDER:
            return convert(compared(mode, *widened(operands, result.dtype)), result.dtype, "rint")
        check_row("sel", result.dtype)
    values = [operand if isinstance(operand, Tensor) else scalar_of(operand, result.dtype) for operand in operands]
    return record("map", values, {"row": "cmp", "mode": mode}, result, broadcast_sides("cmp", operands))


def where(mask: Any, held: Any, other: Any) -> Tensor:
    """One tensor's elements where a mask is not zero, another one's elsewhere; shapes broadcast.

    Raises:
        ShapeError, DTypeError, TraceError: the operands do not fit.
    """
    if isinstance(mask, bool):
        raise TraceError(
            "where takes a tensor as its mask",
            span=here(),
            found=mask,
            hint="tensors are compared by pl.cmp(x, y, 'eq') and 'ne', not by == and !=",
        )
    kinds = [type_of(operand_of("where", mask)), *kinds_of("where", (held, other))]
    with at_the_line():
        result = select_type(kinds)
        if result.dtype in WIDER:
            return narrowed("add", where(mask, *widened((held, other), result.dtype)), result.dtype)
        check_row("sel", result.dtype)
    values = [value if isinstance(value, Tensor) else scalar_of(value, result.dtype) for value in (held, other)]
    return record("select", [mask, *values], {}, result, broadcast_sides("where", [mask, held, other]))
