"""Global memory: where a box of a tensor lies, whether it lies within its tensor, and copies of matrices."""

from __future__ import annotations

from functools import partial

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.areas import Area
from pypto_jit.lowering.cpu.atomics import add_area
from pypto_jit.lowering.cpu.columns import Column, Columns, Sums
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.outline import call_shared
from pypto_jit.lowering.cpu.program import Box, Instruction, Tile


def tile_area(frame: Frame, tile: Tile) -> Area:
    """A tile's memory."""
    return Area(frame.address(tile), tile.dtype, *tile.strides)


def box_address(frame: Frame, box: Box) -> ir.Value:
    """The address of a box's first element."""
    e = frame.e
    offset: Extent = 0
    for start, stride in zip(box.offsets, box.view.strides, strict=True):
        offset = e.add(offset, e.mul(frame.number(start), frame.number(stride)))
    return e.address(box.view.pointer, e.mul(offset, box.view.dtype.bytes))


def check_box(frame: Frame, instruction: Instruction, box: Box, tile: Tile) -> ir.Value | None:
    """Check that a box lies within its tensor and its tile; the condition, None where it is certain."""
    e, ranges = frame.e, frame.ranges
    conditions: list[ir.Value] = []

    def require(proved: bool, predicate: str, a: Extent, b: Extent) -> None:
        if not proved:
            conditions.append(e.compare(predicate, e.value(a), e.value(b)))

    number = frame.number
    for offset, size, extent in zip(box.offsets, box.sizes, box.view.shape, strict=True):
        require(ranges.not_negative(offset), "sge", number(offset), 0)
        require(ranges.not_negative(size), "sge", number(size), 0)
        if not ranges.ends_within(offset, size, extent):
            require(False, "sle", number(size), e.sub(number(extent), number(offset)))
    rows: Extent = 1
    for size in box.sizes[:-1]:
        rows = e.mul(rows, number(size))
    limits = tile.type.shape
    known = [size for size in box.sizes[:-1] if not (isinstance(size, int) and size == 1)]
    proved = len(known) == 1 and ranges.at_most(known[0], limits[0])
    require(proved or (isinstance(rows, int) and rows <= limits[0]), "sle", rows, limits[0])
    require(ranges.at_most(box.sizes[-1], limits[1]), "sle", number(box.sizes[-1]), limits[1])
    if not conditions:
        return None
    condition = conditions[0]
    for other in conditions[1:]:
        condition = e.same("arith.andi", condition, other)
    verb = "load reads" if instruction.row.rule == "load" else "store writes"
    frame.fail_unless(condition, instruction.op, f"a {verb} outside of its tensor")
    return condition


def copy_rows(frame: Frame, source: Area, target: Area, rows: Extent, columns: Extent) -> None:
    """Copy rows that lie apart from where they go to, of one dtype, out of line: for what seldom happens."""
    e, size = frame.e, source.dtype.bytes
    if (source.column_stride, target.column_stride) == (1, 1):
        lengths = [e.mul(x, size) for x in (source.row_stride, target.row_stride, columns)]
        values = [e.value(x) for x in (rows, *lengths)]
        call_shared(e, "copy_rows", [source.address, target.address, *values], _copy_rows)
        return
    strides = (source.row_stride, source.column_stride, target.row_stride, target.column_stride)
    values = [e.value(x) for x in (rows, columns, *strides)]
    call_shared(e, f"copy_{8 * size}", [source.address, target.address, *values], partial(_copy_each, size))


def _copy_rows(e: Emitter, arguments: list[Extent]) -> None:
    first, second, rows, first_stride, second_stride, length = arguments
    assert isinstance(first, ir.Value)
    assert isinstance(second, ir.Value)

    def one(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        e.copy(e.address(first, e.mul(row, first_stride)), e.address(second, e.mul(row, second_stride)), length)
        return carried

    e.loop(0, rows, 1, [], one)


def _copy_each(size: int, e: Emitter, arguments: list[Extent]) -> None:
    first, second, rows, columns, *strides = arguments
    assert isinstance(first, ir.Value)
    assert isinstance(second, ir.Value)

    def one_row(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        def one(column: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
            offsets = [e.add(e.mul(row, r), e.mul(column, c)) for r, c in (strides[:2], strides[2:])]
            value = e.load(e.address(first, e.mul(offsets[0], size)), f"i{8 * size}")
            e.store(value, e.address(second, e.mul(offsets[1], size)))
            return inner

        e.loop(0, columns, 1, [], one)
        return carried

    e.loop(0, rows, 1, [], one_row)


def copy_elements(frame: Frame, source: Area, target: Area, rows: Extent, columns: Extent) -> None:
    """Copy one element at a time, converting floats, for any strides; ``rows`` and ``columns`` are numbers."""
    e = frame.e

    def address(area: Area, row: Extent, column: Extent) -> ir.Value:
        offset = e.add(e.mul(row, area.row_stride), e.mul(column, area.column_stride))
        return e.address(area.address, e.mul(offset, area.dtype.bytes))

    def columns_of(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        def element(column: ir.Value, inner: list[ir.Value]) -> list[ir.Value]:
            value = e.load(address(source, row, column), convert.stored(source.dtype))
            if source.dtype != target.dtype:
                value = convert.narrow(e, convert.widen(e, value, source.dtype), target.dtype)
            e.store(value, address(target, row, column))
            return inner

        e.loop(0, columns, 1, [], element)
        return carried

    e.loop(0, rows, 1, [], columns_of)


def copy_area(frame: Frame, source: Area, target: Area, rows: Extent, columns: Extent) -> None:
    """Copy rows and columns, both numbers, converting floats; in vectors where columns lie side by side."""
    if source.column_stride != 1 or target.column_stride != 1:
        copy_elements(frame, source, target, rows, columns)
        return
    e = frame.e

    def address(area: Area, row: Extent) -> ir.Value:
        return e.address(area.address, e.mul(row, e.mul(area.row_stride, area.dtype.bytes)))

    def one_row(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        first, second = address(source, row), address(target, row)

        known: dict[object, ir.Value] = {}

        def vectors(places: list[Column], mask: ir.Value | None, sums: list[Sums]) -> list[list[ir.Value]]:
            for column in places:
                place = column.address(e, first, source.dtype.bytes, known)
                value = e.load(place, convert.stored(source.dtype), e.lanes, mask)
                if source.dtype != target.dtype:
                    value = convert.narrow(e, convert.widen(e, value, source.dtype), target.dtype)
                e.store(value, column.address(e, second, target.dtype.bytes, known), mask)
            return [[] for _ in places]

        Columns(e, columns).run(1, [], [], vectors)
        return carried

    e.loop(0, rows, 1, [], one_row)


def emit_transfer(frame: Frame, instruction: Instruction) -> None:
    """A load or store of any shape and strides, by nested loops."""
    e = frame.e
    loads = instruction.row.rule == "load"
    box = instruction.operands["partition"] if loads else instruction.destination
    tile = instruction.result if loads else instruction.tile("src")
    assert isinstance(box, Box)
    condition = check_box(frame, instruction, box, tile)
    base = box_address(frame, box)
    strides = [frame.number(s) for s in box.view.strides]
    sizes = [frame.number(s) for s in box.sizes]
    memory = tile_area(frame, tile)

    def matrices(depth: int, address: ir.Value, row: Extent) -> None:
        """Loop over the leading dimensions; the rows of the tile follow one another."""
        if depth >= len(sizes) - 2:
            row_stride, rows = (strides[-2], sizes[-2]) if len(sizes) > 1 else (0, 1)
            outside = Area(address, box.view.dtype, row_stride, strides[-1])
            offset = e.mul(row, e.mul(memory.row_stride, memory.dtype.bytes))
            inside = Area(e.address(memory.address, offset), memory.dtype, memory.row_stride, memory.column_stride)
            source, target = (outside, inside) if loads else (inside, outside)
            if instruction.adds:
                add_area(frame, source, target, rows, sizes[-1])
                return
            copy_area(frame, source, target, rows, sizes[-1])
            return
        inner: Extent = 1
        for size in sizes[depth + 1 : -1]:
            inner = e.mul(inner, size)

        def step(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            offset = e.mul(index, e.mul(strides[depth], box.view.dtype.bytes))
            matrices(depth + 1, e.address(address, offset), e.add(row, e.mul(index, inner)))
            return carried

        e.loop(0, sizes[depth], 1, [], step)

    if condition is None:
        matrices(0, base, 0)
    else:
        e.when(condition, lambda: matrices(0, base, 0))
