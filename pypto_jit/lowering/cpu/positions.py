"""Where the largest or smallest element of a row or column is: lanes of candidates, each a value and where it was.

A candidate gives way to what is better, not to what is equal, so that it is the first of its lane; a NaN gives way to
nothing. Of the lanes' candidates that are the extreme the least place is the result.
"""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dtypes import INT32, DType
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.columns import Column, Columns, Sums
from pypto_jit.lowering.cpu.elements import FOLDS, start
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.fusion import row_step
from pypto_jit.lowering.cpu.program import Instruction
from pypto_jit.lowering.cpu.transfer import tile_area

# Vectors of a row whose candidates are kept apart, so that they do not wait for each other.
_TOGETHER = 4
_LAST = 2**31 - 1


def _stays(e: Emitter, fold: str, dtype: DType, known: ir.Value, value: ir.Value) -> ir.Value:
    """Whether what is known is no worse than a value."""
    order = "ge" if fold == "max" else "le"
    if not dtype.is_float:
        return e.compare(("u" if dtype.kind == "uint" else "s") + order, known, value)
    return e.same("arith.ori", e.compare("o" + order, known, value), e.compare("uno", known, known))


def _at_extreme(e: Emitter, dtype: DType, values: ir.Value, extreme: ir.Value) -> ir.Value:
    """Which values are the extreme of all: equal to it, or NaN, as the extreme then is."""
    if not dtype.is_float:
        return e.compare("eq", values, extreme)
    return e.same("arith.ori", e.compare("oeq", values, extreme), e.compare("uno", values, values))


def emit_row_position(frame: Frame, instruction: Instruction) -> None:
    """Each row of the valid region gives the column of its extreme."""
    e, lanes = frame.e, frame.e.lanes
    source, result = instruction.tile("src"), instruction.result
    dtype, fold = source.dtype, instruction.row.name.removeprefix("row_arg")
    neutral = e.constant(start(fold, dtype), convert.computed(dtype), lanes)
    nowhere = e.constant(0, "i32", lanes)
    area, step = tile_area(frame, source), row_step(result)
    columns = frame.bounded(source.valid[1], source.type.shape[1])

    def one_row(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        top = e.address(area.address, e.mul(row, e.mul(area.row_stride, dtype.bytes)))

        def candidates(column: Extent, mask: ir.Value | None, best: list[ir.Value]) -> list[ir.Value]:
            """The better of some vectors and of what was in their lanes; places are the first vector's."""
            place = e.splat(e.cast("trunci", e.value(column), "i32"), lanes)
            following = []
            for k in range(len(best) // 2):
                known, where = best[2 * k : 2 * k + 2]
                address = e.address(top, e.mul(e.add(column, k * lanes), dtype.bytes))
                value = convert.widen(e, e.load(address, convert.stored(dtype), lanes, mask), dtype)
                if mask is not None:
                    value = e.select(mask, value, neutral)
                stays = _stays(e, fold, dtype, known, value)
                following += [e.select(stays, known, value), e.select(stays, where, place)]
            return following

        whole, vectors = e.round_down(columns, _TOGETHER * lanes), e.round_down(columns, lanes)
        best = [neutral, nowhere] * _TOGETHER
        if whole != 0:
            best = e.loop(0, whole, _TOGETHER * lanes, best, lambda c, known: candidates(c, None, known))
        first = best[:2]
        if vectors != whole:
            first = e.loop(whole, vectors, lanes, first, lambda c, known: candidates(c, None, known))
        if columns != vectors:
            first = candidates(vectors, e.first_lanes(e.sub(columns, vectors)), first)
        values, places = [first[0], *best[2::2]], [first[1], *best[3::2]]
        place = _first_place(e, fold, dtype, values if whole != 0 else values[:1], places)
        e.store(place, frame.address(result, e.mul(row, step * INT32.bytes)))
        return carried

    e.loop(0, frame.bounded(source.valid[0], source.type.shape[0]), 1, [], one_row)


def _first_place(e: Emitter, fold: str, dtype: DType, values: list[ir.Value], places: list[ir.Value]) -> ir.Value:
    """The least place of the extreme among the candidates of some vectors."""
    lanes = e.lanes
    extreme = values[0]
    for other in values[1:]:
        extreme = FOLDS[fold].combine(e, dtype, [other, extreme])
    extreme = e.splat(FOLDS[fold].across(e, dtype, extreme), lanes)
    least = e.constant(_LAST, "i32", lanes)
    for k, (value, place) in enumerate(zip(values, places, strict=False)):
        offset = e.same("arith.addi", e.lane_numbers(lanes), e.constant(k * lanes, "i32", lanes))
        here = e.same("arith.addi", place, offset)
        found = e.select(_at_extreme(e, dtype, value, extreme), here, e.constant(_LAST, "i32", lanes))
        least = e.same("arith.minsi", least, found)
    return e.reduction("minsi", least)


def emit_column_position(frame: Frame, instruction: Instruction) -> None:
    """Each column of the valid region gives the row of its extreme."""
    e, lanes = frame.e, frame.e.lanes
    source, result = instruction.tile("src"), instruction.result
    dtype, fold = source.dtype, instruction.row.name.removeprefix("col_arg")
    neutral = e.constant(start(fold, dtype), convert.computed(dtype), lanes)
    nowhere = e.constant(0, "i32", lanes)
    area, target = tile_area(frame, source), tile_area(frame, result)
    rows = frame.bounded(source.valid[0], source.type.shape[0])
    columns = frame.bounded(result.valid[1], min(source.type.shape[1], result.type.shape[1]))

    def vectors(places: list[Column], mask: ir.Value | None, sums: list[Sums]) -> list[list[ir.Value]]:
        numbers = [e.add(place.base, place.offset) for place in places]

        def one_row(row: ir.Value, best: list[ir.Value]) -> list[ir.Value]:
            line = e.address(area.address, e.mul(row, e.mul(area.row_stride, dtype.bytes)))
            here = e.splat(e.cast("trunci", row, "i32"), lanes)
            following = []
            for k, column in enumerate(numbers):
                known, where = best[2 * k : 2 * k + 2]
                address = e.address(line, e.mul(column, dtype.bytes))
                value = convert.widen(e, e.load(address, convert.stored(dtype), lanes, mask), dtype)
                stays = _stays(e, fold, dtype, known, value)
                following += [e.select(stays, known, value), e.select(stays, where, here)]
            return following

        best = e.loop(0, rows, 1, [neutral, nowhere] * len(numbers), one_row)
        for column, where in zip(numbers, best[1::2], strict=True):
            e.store(where, e.address(target.address, e.mul(column, INT32.bytes)), mask)
        return [[] for _ in places]

    Columns(e, columns).run(_COLUMN_COST, [], [], vectors)


# Instructions of a vector in the loop over rows: a few vectors are done together.
_COLUMN_COST = 8
