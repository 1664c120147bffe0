"""Reductions along columns: a few vectors of columns at a time, walking down the rows."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.areas import Area
from pypto_jit.lowering.cpu.columns import Column, Columns, Sums
from pypto_jit.lowering.cpu.elements import FOLDS, start, unsigned_zero
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.frame import Frame, Held
from pypto_jit.lowering.cpu.planes import box_plane
from pypto_jit.lowering.cpu.program import Box, Instruction
from pypto_jit.lowering.cpu.transfer import box_address, check_box, tile_area

# Vectors of columns reduced together: as many as hide the latency of an addition.
_TOGETHER = 4


def emit_column_reduction(frame: Frame, instruction: Instruction) -> None:
    """Each column of the valid region comes down to one element."""
    _emit(frame, instruction, tile_area(frame, instruction.tile("src")))


def emit_streamed_reduction(frame: Frame, instruction: Instruction, load: Instruction) -> None:
    """A reduction along columns that reads the box of a load itself (`streams.find_reductions`).

    The load's bounds are checked here; nothing is reduced where the check fails.
    """
    box = load.operands["partition"]
    assert isinstance(box, Box)
    condition = check_box(frame, load, box, load.result)
    plane = box_plane(box, load.result)
    assert plane is not None
    area = Area(box_address(frame, box), box.view.dtype, frame.number(plane.row_stride), 1)
    if condition is None:
        _emit(frame, instruction, area)
    else:
        frame.e.when(condition, lambda: _emit(frame, instruction, area))


def _emit(frame: Frame, instruction: Instruction, area: Area) -> None:
    e, lanes = frame.e, frame.e.lanes
    source, result = instruction.tile("src"), instruction.result
    dtype = source.dtype
    name = instruction.row.name.partition("_")[2]
    fold = FOLDS[name]
    neutral = e.constant(start(name, dtype), convert.computed(dtype), lanes)
    target = tile_area(frame, result)
    rows = frame.bounded(source.valid[0], source.type.shape[0])
    columns = frame.bounded(result.valid[1], min(source.type.shape[1], result.type.shape[1]))

    def block(column: Extent, count: int, mask: ir.Value | None) -> None:
        top = e.address(area.address, e.mul(column, dtype.bytes))

        def one_row(row: ir.Value, totals: list[ir.Value]) -> list[ir.Value]:
            place = e.address(top, e.mul(row, e.mul(area.row_stride, dtype.bytes)))
            following = []
            for k, total in enumerate(totals):
                value = e.load(e.address(place, k * lanes * dtype.bytes), convert.stored(dtype), lanes, mask)
                following.append(fold.combine(e, dtype, [convert.widen(e, value, dtype), total]))
            return following

        totals = e.loop(0, rows, 1, [neutral] * count, one_row)
        place = e.address(target.address, e.mul(column, dtype.bytes))
        for k, total in enumerate(totals):
            held = Held.rounded(e, unsigned_zero(e, name, dtype, total, rows), dtype)
            e.store(held.stored(e), e.address(place, k * lanes * dtype.bytes), mask)

    def singly(places: list[Column], mask: ir.Value | None, sums: list[Sums]) -> list[list[ir.Value]]:
        for column in places:
            block(e.add(e.add(column.base, column.offset), done), 1, mask)
        return [[] for _ in places]

    def together(column: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        block(column, _TOGETHER, None)
        return carried

    done = e.round_down(columns, _TOGETHER * lanes)
    if done != 0:
        e.loop(0, done, _TOGETHER * lanes, [], together)
    if done != columns:
        Columns(e, e.sub(columns, done)).run(_TOGETHER * lanes, [], [], singly)
