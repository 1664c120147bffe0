"""Where the largest or smallest element of a tensor is."""

from __future__ import annotations

from math import prod
from typing import Any

from pypto_jit.dialects.rules.tensors import index_type
from pypto_jit.dtypes import INT32
from pypto_jit.errors import ShapeError, TraceError
from pypto_jit.language.cumulative import cumulated
from pypto_jit.language.expressions import (
    at_the_line,
    axes_of,
    check_row,
    elementwise,
    filled,
    operand_of,
    permuted,
    rearrange,
    record,
    reduce,
    sides_of,
    source,
    type_of,
)
from pypto_jit.language.integers import WIDER, widened
from pypto_jit.language.selection import compared, where
from pypto_jit.language.tracing import here
from pypto_jit.language.values import Tensor


def place(name: str, tensor: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """``argmax`` or ``argmin`` along an axis, as INT32; of the flattened tensor where none is given.

    Raises:
        ShapeError: the axis has no elements, or there is no such axis.
        TraceError: several axes are given.
    """
    kind = type_of(operand_of(name, tensor))
    if kind.dtype in WIDER:
        (wide,) = widened([tensor], kind.dtype)
        return place(name, wide, axis, keepdims)
    if axis is None:
        return _flat(name, tensor, bool(keepdims))
    axes = axes_of(name, tensor, axis)
    if len(axes) != 1:
        raise TraceError(f"{name} takes one axis, or none for all", span=here(), found=axis, expected="an integer")
    with at_the_line():
        result = index_type(name, kind, axes, bool(keepdims))
        check_row(f"row_{name}", kind.dtype)
    own = sides_of(tensor)
    sides = [1 if k == axes[0] else side for k, side in enumerate(own) if keepdims or k != axes[0]]
    if kind.shape[axes[0]] == 1:
        return filled(sides, INT32, 0)
    last = kind.rank - 1
    if axes[0] != last and not kind.dtype.is_float:
        # The machine finds the places of integers along rows only.
        turned = place(name, permuted(tensor, [*(k for k in range(kind.rank) if k != axes[0]), axes[0]]), -1)
        dims = iter(range(last))
        return rearrange(turned, [-1 if k == axes[0] else next(dims) for k in range(kind.rank)]) if keepdims else turned
    return record("reduce", [tensor], {"row": name, "axes": axes}, result, sides)


def _flat(name: str, tensor: Tensor, keepdims: bool) -> Tensor:
    """The place in the flattened tensor: of each row first, then of the row that has it."""
    kind = type_of(source(name, tensor))
    count, kept = prod(kind.shape), (1,) * kind.rank if keepdims else ()
    if count == 0 or count >= 2**31:
        raise ShapeError(
            f"{name} of a whole tensor needs an element to find, and a place that INT32 holds",
            span=here(),
            found=list(kind.shape),
            expected=f"1 to {2**31 - 1} elements",
        )
    check_row(f"row_{name}", kind.dtype)
    if count == 1:
        return filled(kept, INT32, 0)
    columns = kind.shape[-1]
    found = place(name, tensor, -1)
    rows = count // columns
    if rows > 1:
        extremes = _in_one_row(reduce(name.removeprefix("arg"), tensor, -1), rows)
        numbers = elementwise("sub", cumulated(filled((rows,), INT32, 1), 0), 1)
        flat = elementwise("add", elementwise("mul", numbers, columns), _in_one_row(found, rows))
        held = compared("eq", numbers, place(name, extremes, 0, keepdims=True))
        found = reduce("sum", where(held, flat, 0))
    else:
        found = rearrange(found, [])
    return rearrange(found, [-1] * kind.rank) if keepdims else found


def _in_one_row(tensor: Tensor, count: int) -> Tensor:
    """A computed tensor as one of a single dimension."""
    from pypto_jit.language.tensors import reshape_tensor

    return tensor if type_of(tensor).rank == 1 else reshape_tensor(tensor, [count])
