"""Tensors as a host function knows them: addresses, extents and strides as 64-bit numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TensorType
from pypto_jit.lowering.cpu.emitter import Emitter, Extent


@dataclass(eq=False)
class HostTensor:
    """A tensor.

    Attributes:
        type: of it.
        data: address of its first element.
        extents, strides: in elements.
        root: where its accesses are listed; None where no task writes it, so that nothing waits.
    """

    type: TensorType
    data: ir.Value
    extents: tuple[Extent, ...]
    strides: tuple[Extent, ...]
    root: ir.Value | None

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.type.dtype.bytes

    def range(self, e: Emitter, low: Sequence[Extent], sizes: Sequence[Extent]) -> tuple[Extent, Extent]:
        """First byte, and the one after the last, of a box that is not empty, from its corner and its extents."""
        first: Extent = 0
        before: Extent = 0
        last: Extent = self.size
        for start, size, stride in zip(low, sizes, self.strides, strict=True):
            step = e.mul(stride, self.size)
            first = e.add(first, e.mul(start, step))
            span = e.mul(e.sub(size, 1), step)
            if isinstance(stride, int) and stride >= 0:
                last = e.add(last, span)
                continue
            zero = e.constant(0, "i64")
            before = e.add(before, e.same("arith.minsi", e.value(span), zero))
            last = e.add(last, e.same("arith.maxsi", e.value(span), zero))
        start = e.add(self.data, first)
        return e.add(start, before), e.add(start, last)

    def address(self, e: Emitter, indices: Sequence[Extent]) -> Extent:
        """The address of an element."""
        offset: Extent = 0
        for index, stride in zip(indices, self.strides, strict=True):
            offset = e.add(offset, e.mul(index, e.mul(stride, self.size)))
        return e.add(self.data, offset)


def resolve(static: Sequence[int], dynamic: Sequence[Extent]) -> tuple[Extent, ...]:
    """Extents or strides of a type, those that it does not know filled in, in order."""
    rest = iter(dynamic)
    return tuple(next(rest) if number == DYNAMIC else number for number in static)


def row_major(e: Emitter, extents: Sequence[Extent]) -> tuple[Extent, ...]:
    """The strides of a contiguous tensor."""
    strides: list[Extent] = []
    step: Extent = 1
    for extent in reversed(extents):
        strides.append(step)
        step = e.mul(step, extent)
    return tuple(reversed(strides))
