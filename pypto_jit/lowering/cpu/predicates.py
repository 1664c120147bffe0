"""Comparisons and what chooses by their bits: eight columns, one byte of the mask, at a time."""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.dtypes import DType
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.frame import Frame, scalar
from pypto_jit.lowering.cpu.program import Instruction, Tile

_LANES = 8
_Body = Callable[[ir.Value, ir.Value, ir.Value | None], None]


def emit_compare(frame: Frame, instruction: Instruction) -> None:
    """The bits of a comparison."""
    e, result = frame.e, instruction.result
    left = instruction.inputs[0]
    dtype = left.dtype
    right = _other(frame, instruction, dtype)
    predicate = _predicate(instruction.mode, dtype)
    # The bytes behind the last valid column are clear.
    _each_row(
        frame,
        left,
        lambda row: e.effect(
            "llvm.intr.memset",
            frame.address(result, e.mul(row, result.strides[0])),
            e.constant(0, "i8"),
            e.constant(result.type.shape[1], "i64"),
            isVolatile=e.parsed("false"),
        ),
    )

    def body(row: ir.Value, column: ir.Value, mask: ir.Value | None) -> None:
        a = _read(frame, left, row, column, mask)
        b = right(row, column, mask)
        bits = e.compare(predicate, a, b)
        if mask is not None:
            bits = e.same("arith.andi", bits, mask)
        byte = e.op("llvm.bitcast", e.type("i8"), bits)
        e.store(byte, _byte(frame, result, row, column))

    _each_byte(frame, left, body)


def emit_select(frame: Frame, instruction: Instruction) -> None:
    """One of two values for each bit."""
    e, result = frame.e, instruction.result
    mask_tile, left = instruction.inputs[:2]
    right = _other(frame, instruction, left.dtype, computed=False)

    def body(row: ir.Value, column: ir.Value, mask: ir.Value | None) -> None:
        byte = e.load(_byte(frame, mask_tile, row, column), "i8")
        bits = e.op("llvm.bitcast", e.type("i1", _LANES), byte)
        a = _read(frame, left, row, column, mask, computed=False)
        b = right(row, column, mask)
        offset = e.add(e.mul(row, result.strides[0]), column)
        e.store(e.select(bits, a, b), frame.address(result, e.mul(offset, result.dtype.bytes)), mask)

    _each_byte(frame, left, body)


def _predicate(mode: str, dtype: DType) -> str:
    """The comparison's ``arith`` name: of NaN and anything only ``ne`` holds."""
    if dtype.is_float:
        return ("u" if mode == "ne" else "o") + mode
    if mode in ("eq", "ne"):
        return mode
    return ("u" if dtype.kind == "uint" else "s") + mode


def _other(
    frame: Frame, instruction: Instruction, dtype: DType, *, computed: bool = True
) -> Callable[[ir.Value, ir.Value, ir.Value | None], ir.Value]:
    """What gives the second value of eight columns: a tile's, or the scalar."""
    e = frame.e
    given = instruction.operands.get("scalar")
    if not isinstance(given, ir.Value):
        tile = instruction.tile("rhs")
        return lambda row, column, mask: _read(frame, tile, row, column, mask, computed=computed)
    held = scalar(e, given, dtype)
    wide = e.splat(held.computed(e) if computed else held.stored(e), _LANES)
    return lambda row, column, mask: wide


def _read(
    frame: Frame, tile: Tile, row: ir.Value, column: ir.Value, mask: ir.Value | None, *, computed: bool = True
) -> ir.Value:
    e = frame.e
    offset = e.add(e.mul(row, tile.strides[0]), column)
    address = frame.address(tile, e.mul(offset, tile.dtype.bytes))
    loaded = e.load(address, convert.stored(tile.dtype), _LANES, mask)
    return convert.widen(e, loaded, tile.dtype) if computed else loaded


def _byte(frame: Frame, tile: Tile, row: ir.Value, column: ir.Value) -> ir.Value:
    """Where the bits of eight columns lie in a mask."""
    e = frame.e
    place = e.same("arith.shrui", column, e.constant(3, "i64"))
    return frame.address(tile, e.add(e.mul(row, tile.strides[0]), place))


def _each_row(frame: Frame, tile: Tile, body: Callable[[ir.Value], None]) -> None:
    def one(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        body(row)
        return carried

    frame.e.loop(0, frame.bounded(tile.valid[0], tile.type.shape[0]), 1, [], one)


def _each_byte(frame: Frame, tile: Tile, body: _Body) -> None:
    """Walk over the valid elements of a tile; the last columns of a row come with a mask of those that there are."""
    e = frame.e
    columns = frame.bounded(tile.valid[1], tile.type.shape[1])
    whole = e.round_down(columns, _LANES)
    rest = e.sub(columns, whole)

    def over_columns(row: ir.Value) -> None:
        def one(column: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            body(row, column, None)
            return carried

        e.loop(0, whole, _LANES, [], one)
        if isinstance(rest, int):
            if rest:
                body(row, e.value(whole), _first(e, rest))
            return
        e.when(e.compare("ne", rest, e.constant(0, "i64")), lambda: body(row, e.value(whole), _first(e, rest)))

    _each_row(frame, tile, over_columns)


def _first(e: Emitter, count: Extent) -> ir.Value:
    """A mask of the first lanes of eight."""
    limit = e.splat(e.cast("trunci", e.value(count), "i32"), _LANES)
    return e.compare("slt", e.lane_numbers(_LANES), limit)
