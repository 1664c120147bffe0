"""From the box of a tensor that a task may touch to bytes: a range of addresses, and in it rows at a pitch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.tasks.tensors import HostTensor
from pypto_jit.lowering.tree import constant


@dataclass(frozen=True)
class Bytes:
    """Memory: rows of ``width`` bytes, ``pitch`` apart, from ``low`` up to ``high``; all of that if the pitch is 0."""

    low: Extent
    high: Extent
    pitch: Extent
    width: Extent


def box_bytes(e: Emitter, tensor: HostTensor, low: Sequence[Extent], high: Sequence[Extent]) -> Bytes:
    """The bytes of the part of a box that lies in its tensor.

    Args:
        low, high: its corners; the upper one is left out.
    """
    corner = [_clamp(e, number, extent) for number, extent in zip(low, tensor.extents, strict=True)]
    ends = [_clamp(e, number, extent) for number, extent in zip(high, tensor.extents, strict=True)]
    sizes = [e.sub(end, start) for start, end in zip(corner, ends, strict=True)]
    pitch, width = _rows(e, tensor, corner, sizes)
    first, end = tensor.range(e, corner, sizes)
    for size in sizes:
        if isinstance(size, int):
            if size <= 0:
                end = first
        else:
            some = e.compare("sgt", size, e.constant(0, "i64"))
            end = e.select(some, e.value(end), e.value(first))
    return Bytes(first, end, pitch, width)


def _clamp(e: Emitter, number: Extent, extent: Extent) -> Extent:
    """A coordinate, brought into a dimension."""
    if isinstance(number, int):
        if number <= 0:
            return 0
        if isinstance(extent, int):
            return min(number, extent)
    if _same(number, extent):
        return extent
    low = e.same("arith.maxsi", e.value(number), e.constant(0, "i64"))
    return e.same("arith.minsi", low, e.value(extent))


def _rows(e: Emitter, tensor: HostTensor, corner: Sequence[Extent], sizes: Sequence[Extent]) -> tuple[Extent, Extent]:
    """Pitch and width: the dimensions that lie consecutively are a row; those around it are its rows."""
    width: Extent = tensor.size
    axis = tensor.type.rank
    whole = True
    while axis > 0 and whole:
        stride = tensor.strides[axis - 1]
        if not _same(e.mul(stride, tensor.size), width):
            break
        axis -= 1
        whole = _is(corner[axis], 0) and _same(sizes[axis], tensor.extents[axis])
        width = e.mul(width, sizes[axis])
    if axis == 0 or (whole and axis == tensor.type.rank):
        return 0, 0
    pitch = tensor.strides[axis - 1]
    outer = zip(tensor.strides[: axis - 1], sizes[: axis - 1], strict=True)
    if not all(_is(size, 1) or _divides(pitch, stride) for stride, size in outer):
        return 0, 0
    return e.mul(pitch, tensor.size), width


def _is(number: Extent, constant: int) -> bool:
    return isinstance(number, int) and number == constant


def _factors(value: Extent) -> tuple[int, Counter[ir.Value]]:
    """What a number is the product of: a constant, and values."""
    if isinstance(value, int):
        return value, Counter()
    known = constant(value)
    if known is not None:
        return known, Counter()
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.muli":
        return 1, Counter([value])
    (a, left), (b, right) = (_factors(operand) for operand in owner.operands)
    return a * b, left + right


def _same(a: Extent, b: Extent) -> bool:
    """Whether two numbers are known to be equal."""
    return _factors(a) == _factors(b)


def _divides(pitch: Extent, stride: Extent) -> bool:
    """Whether a stride is known to be a multiple of a pitch."""
    (a, left), (b, right) = _factors(pitch), _factors(stride)
    return a > 0 and b % a == 0 and left <= right
