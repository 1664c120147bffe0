"""Reads and writes of single elements: of tensors, of tiles, and of arrays on the core."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import ArrayType
from pypto_jit.dtypes import DType
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.program import Element, Instruction, Tile


def emit_element(frame: Frame, instruction: Instruction) -> None:
    """One element, if its index lies within its tensor, tile or array; else a failed check, and reads give zero."""
    assert isinstance(instruction, Element)
    _EMIT[instruction.row.name](frame, instruction)


def _inside(frame: Frame, instruction: Element, what: str, pairs: list[tuple[Extent, Extent]]) -> ir.Value | None:
    """The condition that each index is within its extent, checked; None where that is certain."""
    e, conditions = frame.e, []
    for index, extent in pairs:
        if not frame.ranges.not_negative(index):
            conditions.append(e.compare("sge", e.value(frame.number(index)), e.constant(0, "i64")))
        if not frame.ranges.ends_within(index, 1, extent):
            conditions.append(e.compare("slt", e.value(frame.number(index)), e.value(frame.number(extent))))
    if not conditions:
        return None
    condition = conditions[0]
    for other in conditions[1:]:
        condition = e.same("arith.andi", condition, other)
    frame.fail_unless(condition, instruction.op, f"an element outside of its {what}")
    return condition


def _load(frame: Frame, instruction: Element, address: ir.Value, dtype: DType, inside: ir.Value | None) -> None:
    e = frame.e
    if inside is not None:
        # What lies outside is not read: the arena is memory in any case.
        address = e.select(inside, address, frame.arena)
    value = e.load(address, convert.stored(dtype))
    if inside is not None:
        value = e.select(inside, value, e.constant(0, *e.shape(value)))
    goal = str(instruction.op.results[0].type)
    if goal == "bf16":
        value = e.cast("bitcast", value, "bf16")
    frame.replace(instruction.op, value)


def _store(frame: Frame, address: ir.Value, value: ir.Value, inside: ir.Value | None) -> None:
    e = frame.e
    if e.shape(value)[0] == "bf16":
        value = e.cast("bitcast", value, "i16")
    if inside is None:
        e.store(value, address)
    else:
        e.when(inside, lambda: e.store(value, address))


def _offset(frame: Frame, base: ir.Value, offset: Extent, dtype: DType) -> ir.Value:
    return frame.e.address(base, frame.e.mul(frame.number(offset), dtype.bytes))


def _read(frame: Frame, instruction: Element) -> None:
    dtype = instruction.dtype
    inside = _inside(frame, instruction, "tensor", instruction.bounds)
    _load(frame, instruction, _offset(frame, instruction.scalar("pointer"), instruction.offset, dtype), dtype, inside)


def _write(frame: Frame, instruction: Element) -> None:
    inside = _inside(frame, instruction, "tensor", instruction.bounds)
    address = _offset(frame, instruction.scalar("pointer"), instruction.offset, instruction.dtype)
    _store(frame, address, instruction.scalar("scalar"), inside)


def _tile_address(frame: Frame, instruction: Element, tile: Tile) -> tuple[ir.Value, ir.Value | None]:
    inside = None
    if instruction.bounds:
        row, column = instruction.bounds[0]
        inside = _inside(frame, instruction, "tile's valid region", list(zip((row, column), tile.valid, strict=True)))
        offset = frame.e.add(
            frame.e.mul(frame.number(row), tile.strides[0]), frame.e.mul(frame.number(column), tile.strides[1])
        )
    else:
        inside = _inside(frame, instruction, "tile", [(instruction.offset, tile.bytes // tile.dtype.bytes)])
        offset = frame.number(instruction.offset)
    return frame.address(tile, frame.e.mul(offset, tile.dtype.bytes)), inside


def _read_tile(frame: Frame, instruction: Element) -> None:
    tile = instruction.tile("src")
    address, inside = _tile_address(frame, instruction, tile)
    _load(frame, instruction, address, tile.dtype, inside)


def _write_tile(frame: Frame, instruction: Element) -> None:
    address, inside = _tile_address(frame, instruction, instruction.result)
    _store(frame, address, instruction.scalar("scalar"), inside)


# Arrays


def _array_create(frame: Frame, instruction: Element) -> None:
    kind = instruction.array
    frame.replace(instruction.op, frame.e.reserve(kind.size * _array_bytes(kind)))


def _array_bytes(kind: ArrayType) -> int:
    return kind.dtype.bits // 8


def _array_element(frame: Frame, instruction: Element) -> tuple[ir.Value, ir.Value | None]:
    kind = instruction.array
    inside = _inside(frame, instruction, "array", [(instruction.offset, kind.size)])
    base = frame.replaced(instruction.scalar("array"))
    return frame.e.address(base, frame.e.mul(frame.number(instruction.offset), _array_bytes(kind))), inside


def _stored_as(kind: ArrayType) -> str:
    return f"i{kind.dtype.bits}"


def _array_get(frame: Frame, instruction: Element) -> None:
    e, kind = frame.e, instruction.array
    address, inside = _array_element(frame, instruction)
    if inside is not None:
        address = e.select(inside, address, frame.arena)
    value = e.load(address, _stored_as(kind))
    if inside is not None:
        value = e.select(inside, value, e.constant(0, *e.shape(value)))
    if kind.dtype.mlir == "index":
        value = e.op("arith.index_cast", e.type("index"), value)
    elif kind.dtype.kind == "bool":
        value = e.cast("trunci", value, "i1")
    frame.replace(instruction.op, value)


def _array_set(frame: Frame, instruction: Element) -> None:
    e, kind, value = frame.e, instruction.array, instruction.scalar("scalar")
    address, inside = _array_element(frame, instruction)
    if kind.dtype.mlir == "index":
        value = e.op("arith.index_cast", e.i64, value)
    elif kind.dtype.kind == "bool":
        value = e.cast("extui", value, "i8")
    _store(frame, address, value, inside)


_EMIT = {
    "read": _read,
    "write": _write,
    "read_tile": _read_tile,
    "write_tile": _write_tile,
    "array_create": _array_create,
    "array_get": _array_get,
    "array_set": _array_set,
}
ELEMENT_NAMES = tuple(_EMIT)
