"""Instructions that only move elements: transpose and concat."""

from __future__ import annotations

from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.packing import transpose_block
from pypto_jit.lowering.cpu.program import Instruction
from pypto_jit.lowering.cpu.transfer import Area, copy_area, copy_elements, tile_area


def emit_concat(frame: Frame, instruction: Instruction) -> None:
    """Two tiles side by side. The columns of the left one are all valid."""
    result = instruction.result
    whole = tile_area(frame, result)
    left, right = instruction.tile("lhs"), instruction.tile("rhs")
    rows = frame.bounded(result.valid[0], min(t.type.shape[0] for t in (left, right, result)))
    width = left.valid[1]
    assert isinstance(width, int)
    copy_area(frame, tile_area(frame, left), whole, rows, width)
    offset = width * result.strides[1] * result.dtype.bytes
    rest = replace(whole, address=frame.e.address(whole.address, offset))
    columns = frame.bounded(right.valid[1], min(right.type.shape[1], result.type.shape[1] - width))
    copy_area(frame, tile_area(frame, right), rest, rows, columns)


def emit_transpose(frame: Frame, instruction: Instruction) -> None:
    """Rows become columns, in square blocks that are transposed in registers.

    Elements outside of the valid region are unspecified, so all that both buffers have is moved.
    """
    source, target = instruction.tile("src"), instruction.result
    rows = min(source.type.shape[0], target.type.shape[1])
    columns = min(source.type.shape[1], target.type.shape[0])
    first, second = tile_area(frame, source), tile_area(frame, target)
    lanes = frame.e.lanes
    whole_rows, whole_columns = 0, 0
    if first.column_stride == 1 and second.column_stride == 1:
        whole_rows, whole_columns = rows // lanes * lanes, columns // lanes * lanes
    if whole_rows and whole_columns:
        _transpose_blocks(frame, first, second, whole_rows, whole_columns)
    else:
        whole_rows = whole_columns = 0
    turned = Area(second.address, second.dtype, second.column_stride, second.row_stride)
    _rest(frame, first, turned, (0, whole_rows), (whole_columns, columns))
    _rest(frame, first, turned, (whole_rows, rows), (0, columns))


def _transpose_blocks(frame: Frame, source: Area, target: Area, rows: int, columns: int) -> None:
    e, lanes, size = frame.e, frame.e.lanes, source.dtype.bytes
    element = convert.stored(source.dtype)

    def block(row: ir.Value, column: ir.Value) -> None:
        start = e.address(source.address, e.mul(e.add(e.mul(row, source.row_stride), column), size))
        loaded = [e.load(e.address(start, e.mul(source.row_stride, k * size)), element, lanes) for k in range(lanes)]
        end = e.address(target.address, e.mul(e.add(e.mul(column, target.row_stride), row), size))
        for k, vector in enumerate(transpose_block(e, loaded)):
            e.store(vector, e.address(end, e.mul(target.row_stride, k * size)))

    def over_columns(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        def one(column: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
            block(row, column)
            return inner

        e.loop(0, columns, lanes, [], one)
        return carried

    e.loop(0, rows, lanes, [], over_columns)


def _rest(frame: Frame, source: Area, target: Area, rows: tuple[int, int], columns: tuple[int, int]) -> None:
    if rows[0] >= rows[1] or columns[0] >= columns[1]:
        return

    def shifted(area: Area) -> Area:
        e = frame.e
        offset = e.add(e.mul(area.row_stride, rows[0]), e.mul(area.column_stride, columns[0]))
        return replace(area, address=e.address(area.address, e.mul(offset, area.dtype.bytes)))

    copy_elements(frame, shifted(source), shifted(target), rows[1] - rows[0], columns[1] - columns[0])
