"""Memory as matrices."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dtypes import DType
from pypto_jit.lowering.cpu.emitter import Emitter, Extent


@dataclass(frozen=True)
class Area:
    """Memory that holds a matrix: address of its first element, strides in elements."""

    address: ir.Value
    dtype: DType
    row_stride: Extent
    column_stride: Extent

    def element(self, e: Emitter, row: Extent, column: Extent) -> ir.Value:
        """The address of an element."""
        offset = e.add(e.mul(row, self.row_stride), e.mul(column, self.column_stride))
        return e.address(self.address, e.mul(offset, self.dtype.bytes))
