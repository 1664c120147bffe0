"""Parts of tiles: taken out, written in, and filled where they are not valid."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from pypto_jit._mlir import ir
from pypto_jit.dtypes import INT8, INT16, INT32, DType
from pypto_jit.lowering.cpu import convert, cube
from pypto_jit.lowering.cpu.columns import Column, Columns, Sums
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.program import Instruction, Tile
from pypto_jit.lowering.cpu.transfer import Area, copy_area, tile_area
from pypto_jit.lowering.tree import constant
from pypto_jit.targets import Space

# Elements that are only moved, by their bytes.
_BITS = {1: INT8, 2: INT16, 4: INT32}
_ZERO, _MAX, _MIN = 1, 2, 3

Pair = tuple[Extent, Extent]
# An offset, a size, and the extent that both must lie in.
Side = tuple[Extent, Extent, Extent]


def check_limits(frame: Frame, op: ir.Operation, tile: Tile, limits: tuple[int, ...]) -> None:
    """Check that the valid extents of a handle lie within what its author made."""
    boxes: list[Side] = [(0, v, s) for v, s in zip(tile.valid, limits, strict=True)]
    check_boxes(frame, op, boxes, "the valid shape does not lie in its tile")


def check_boxes(
    frame: Frame, op: ir.Operation, boxes: list[tuple[Extent, Extent, Extent]], what: str
) -> ir.Value | None:
    """Check ``0 <= offset``, ``0 <= size`` and ``offset + size <= limit``; the condition, None where it is certain."""
    e, ranges, number = frame.e, frame.ranges, frame.number
    conditions = []
    for offset, size, limit in boxes:
        for value in (offset, size):
            if not ranges.not_negative(value):
                conditions.append(e.compare("sge", e.value(number(value)), e.constant(0, "i64")))
        if not ranges.ends_within(offset, size, limit):
            room = e.sub(number(limit), number(offset))
            conditions.append(e.compare("sle", e.value(number(size)), e.value(room)))
    if not conditions:
        return None
    condition = conditions[0]
    for other in conditions[1:]:
        condition = e.same("arith.andi", condition, other)
    frame.fail_unless(condition, op, what)
    return condition


def _offsets(instruction: Instruction) -> Pair:
    """Row and column at which a part starts."""
    found: list[Extent] = []
    for name in ("row", "column"):
        value = instruction.operands[name]
        assert isinstance(value, ir.Value)
        known = constant(value)
        found.append(value if known is None else known)
    return found[0], found[1]


def _distance(frame: Frame, tile: Tile, place: Pair) -> Extent:
    """Bytes from the start of a tile to an element."""
    e = frame.e
    rows, columns = (e.mul(frame.number(k), stride) for k, stride in zip(place, tile.strides, strict=True))
    return e.mul(e.add(rows, columns), tile.dtype.bytes)


def _extents(frame: Frame, tile: Tile) -> Pair:
    rows, columns = (frame.bounded(v, s) for v, s in zip(tile.valid, tile.type.shape, strict=True))
    return rows, columns


def _guarded(
    frame: Frame, instruction: Instruction, place: Pair, part: Tile, whole: Tile, what: str
) -> ir.Value | None:
    boxes = list(zip(place, part.valid, whole.valid, strict=True))
    # A valid extent that is only known at run time may also exceed the buffer.
    boxes += [(0, v, s) for v, s in zip(part.valid, part.type.shape, strict=True) if not isinstance(v, int)]
    boxes += [(0, v, s) for v, s in zip(whole.valid, whole.type.shape, strict=True) if not isinstance(v, int)]
    return check_boxes(frame, instruction.op, boxes, what)


def emit_extract(frame: Frame, instruction: Instruction) -> None:
    """A box of a tile becomes a tile."""
    source, result = instruction.tile("src"), instruction.result
    place = _offsets(instruction)
    inside = _guarded(frame, instruction, place, result, source, "a part of a tile leaves its valid region")
    distance = _distance(frame, source, place)

    def move() -> None:
        if result.space in (Space.LEFT, Space.RIGHT):
            cube.emit_part(frame, instruction, distance)
            return
        area = _as_bits(tile_area(frame, source))
        start = replace(area, address=frame.address(source, distance))
        copy_area(frame, start, _as_bits(tile_area(frame, result)), *_extents(frame, result))

    move() if inside is None else frame.e.when(inside, move)


def emit_insert(frame: Frame, instruction: Instruction) -> None:
    """The valid region of a tile is written into another one."""
    source, result = instruction.tile("src"), instruction.result
    place = _offsets(instruction)
    what = "a tile is written outside of the valid region of another"
    inside = _guarded(frame, instruction, place, source, result, what)

    def move() -> None:
        first, second = tile_area(frame, source), tile_area(frame, result)
        if source.dtype == result.dtype:
            first, second = _as_bits(first), _as_bits(second)
        goal = replace(second, address=frame.address(result, _distance(frame, result, place)))
        copy_area(frame, first, goal, *_extents(frame, source))

    move() if inside is None else frame.e.when(inside, move)


def _as_bits(area: Area) -> Area:
    return replace(area, dtype=_BITS.get(area.dtype.bytes, area.dtype))


def emit_fillpad(frame: Frame, instruction: Instruction) -> None:
    """What is not valid of a tile is filled; the rest is copied, unless both are one buffer."""
    source, result = instruction.tile("src"), instruction.result
    rows, columns = _extents(frame, source)
    whole = result.valid
    assert isinstance(whole[0], int)
    assert isinstance(whole[1], int)
    first, second = _as_bits(tile_area(frame, source)), _as_bits(tile_area(frame, result))
    if frame.program.position(source) != frame.program.position(result) or first != second:
        copy_area(frame, first, second, rows, columns)
    value = frame.e.constant(_padding(result), convert.stored(result.dtype), frame.e.lanes)
    if columns != whole[1]:
        _fill(frame, result, value, (0, rows), (columns, whole[1]))
    if rows != whole[0]:
        _fill(frame, result, value, (rows, whole[0]), (0, whole[1]))


def _padding(tile: Tile) -> int | float:
    """The element that the handle's type says, as memory holds it."""
    dtype, pad = tile.dtype, tile.type.pad
    if pad == _ZERO:
        return 0
    if dtype.is_float:
        if convert.stored(dtype) == "i16":
            return 0x7F80 if pad == _MAX else 0xFF80
        return inf if pad == _MAX else -inf
    return _limits(dtype)[pad == _MAX]


def _limits(dtype: DType) -> tuple[int, int]:
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def _fill(frame: Frame, tile: Tile, value: ir.Value, rows: Pair, columns: Pair) -> None:
    """Fill rows and columns, each from one number to another, of a tile whose columns lie side by side."""
    e, size = frame.e, tile.dtype.bytes
    start = frame.address(tile, e.mul(columns[0], size))

    def one_row(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        line = e.address(start, e.mul(row, tile.strides[0] * size))

        def vectors(places: list[Column], mask: ir.Value | None, sums: list[Sums]) -> list[list[ir.Value]]:
            for column in places:
                e.store(value, column.address(e, line, size, {}), mask)
            return [[] for _ in places]

        Columns(e, e.sub(columns[1], columns[0])).run(1, [], [], vectors)
        return carried

    e.loop(rows[0], rows[1], 1, [], one_row)
