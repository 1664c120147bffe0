"""Whole tensors of one value, and of numbers in order.

``pl.full`` makes a tile, as in PyPTO; a tensor is made by ``pl.tensor.full``, or by these other names.
"""

from __future__ import annotations

from typing import Any

from pypto_jit.dtypes import ALL, FP32, INT32, DType
from pypto_jit.errors import DTypeError, ShapeError, TraceError
from pypto_jit.language.expressions import convert, elementwise, filled, rearrange, record, tensor_type
from pypto_jit.language.indices import indices, static
from pypto_jit.language.scalars import Scalar, is_number
from pypto_jit.language.signatures import checked
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import Tensor


def _filled(name: str, shape: Any, dtype: Any, value: Any) -> Tensor:
    extents = indices((shape,) if isinstance(shape, (int, Scalar)) else shape, f"the shape of {name}")
    if any(isinstance(extent, int) and extent < 0 for extent in extents):
        raise ShapeError("an extent is negative", span=here(), found=list(extents))
    if dtype not in ALL:
        listed = ", ".join(f"pl.{known}" for known in ALL)
        raise DTypeError(f"{name} takes a dtype", span=here(), found=dtype, expected=listed)
    if not isinstance(value, Scalar) and not is_number(value):
        raise TraceError(f"{name} takes a number", span=here(), found=value)
    trace = current(f"pl.{name}")
    return filled([trace.side(extent) for extent in extents], dtype, value)


@checked
def full(shape: Any, dtype: DType, value: Any) -> Tensor:
    """A tensor of one value.

    Args:
        shape: its extents, known now or when the kernel runs.
        dtype: of the elements.
        value: a number, known now or when the kernel runs.
    """
    return _filled("full", shape, dtype, value)


@checked
def zeros(shape: Any, dtype: DType = FP32) -> Tensor:
    """A tensor of zeros, as `full`."""
    return _filled("zeros", shape, dtype, 0)


@checked
def ones(shape: Any, dtype: DType = FP32) -> Tensor:
    """A tensor of ones, as `full`."""
    return _filled("ones", shape, dtype, 1)


@checked
def arange(start: Any, shape: Any, dtype: DType = INT32, descending: bool = False) -> Tensor:
    """A tensor of ``start, start + 1, ...``, or downwards, along its last dimension.

    Args:
        start: the first number, known now or when the kernel runs.
        shape: one extent, or several of which all but the last are 1.
        dtype: of the elements; counted in INT32.
        descending: whether the numbers become smaller.

    Raises:
        ShapeError: another extent than the last is not 1.
    """
    extents = static((shape,) if isinstance(shape, int) else shape, "the shape of arange")
    if not extents or any(extent != 1 for extent in extents[:-1]):
        raise ShapeError(
            "arange counts along one dimension",
            span=here(),
            found=list(extents),
            expected="[N] or [1, N]",
            hint="pl.expand(x, shape) repeats it",
        )
    if extents[-1] < 0:
        raise ShapeError("an extent is negative", span=here(), found=list(extents))
    places = record("count", [], {}, tensor_type(tuple(extents[-1:]), INT32))
    if not isinstance(start, Scalar) and not is_number(start):
        raise TraceError("arange starts at a number", span=here(), found=start)
    wide = FP32 if dtype in ALL and dtype.is_float else INT32
    places = convert(elementwise("neg", places) if descending else places, wide, "rint")
    numbers = elementwise("add", places, start)
    if dtype not in ALL:
        raise DTypeError("arange takes a dtype", span=here(), found=dtype, expected="such as pl.INT32")
    numbers = convert(numbers, dtype, "rint")
    return numbers if len(extents) == 1 else rearrange(numbers, [*(-1 for _ in extents[1:]), 0])


__all__ = ["arange", "ones", "zeros"]
