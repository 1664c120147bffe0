"""Running totals of whole tensors."""

from __future__ import annotations

from math import isqrt, prod
from typing import Any

from pypto_jit.dialects.rules.tensors import cumulate_type
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.dtypes import FP32
from pypto_jit.errors import TraceError
from pypto_jit.language.expressions import (
    at_the_line,
    axes_of,
    check_row,
    convert,
    elementwise,
    expand,
    operand_of,
    rearrange,
    record,
    sides_of,
    type_of,
)
from pypto_jit.language.integers import WIDER, narrowed, widened
from pypto_jit.language.tracing import here
from pypto_jit.language.values import Tensor

# Elements of a single row from which on its parts are added up side by side, and what their number is a multiple of.
_LONG_ROW = 1024
_PART = 64


def cumulated(tensor: Any, axis: Any) -> Tensor:
    """The sums of the elements up to each one along an axis.

    Raises:
        ShapeError: there is no such axis.
        TraceError: the axis is no integer.
    """
    kind = type_of(operand_of("cumsum", tensor))
    axes = axes_of("cumsum", tensor, axis)
    if axis is None or len(axes) != 1:
        raise TraceError("cumsum runs along one axis", span=here(), found=axis, expected="an integer")
    if kind.dtype in WIDER:
        (wide,) = widened([tensor], kind.dtype)
        return narrowed("cumsum", cumulated(wide, axis), kind.dtype)
    with at_the_line():
        result = cumulate_type(kind, axes[0])
        check_row("row_sum", kind.dtype)
    extent = kind.shape[axes[0]]
    if extent == 1 or 0 in kind.shape:
        return rearrange(tensor, range(kind.rank))
    if extent > _LONG_ROW and DYNAMIC not in kind.shape and prod(kind.shape) == extent:
        total = _in_parts(tensor, axes[0])
        return total if kind.rank == 1 else rearrange(total, [0 if k == axes[0] else -1 for k in range(kind.rank)])
    return record("cumulate", [tensor], {"axis": axes[0]}, result, sides_of(tensor))


def _in_parts(tensor: Tensor, axis: int) -> Tensor:
    """A single row: totals within parts of it, to which is added what comes before the part."""
    from pypto_jit.language.tensors import create_tensor, reshape_tensor

    dtype, extent = type_of(tensor).dtype, type_of(tensor).shape[axis]
    row = tensor if type_of(tensor).rank == 1 else rearrange(tensor, [axis])
    if dtype.is_float:
        row = convert(row, FP32, "rint")
    size = -(-(isqrt(extent - 1) + 1) // _PART) * _PART
    count = -(-extent // size)
    if count * size != extent:
        padded = create_tensor([count * size], type_of(row).dtype)
        padded[:extent] = row
        padded[extent:] = 0
        row = padded
    parts = record("cumulate", [rows := reshape_tensor(row, [count, size])], {"axis": 1}, type_of(rows))
    before = create_tensor([count], type_of(row).dtype)
    before[:1] = 0
    before[1:] = cumulated(parts[: count - 1, size - 1], 0)
    total = elementwise("add", parts, expand(rearrange(before, [0, -1]), [count, size]))
    total = reshape_tensor(total, [count * size])
    return convert(total if count * size == extent else total[:extent], dtype, "rint")
