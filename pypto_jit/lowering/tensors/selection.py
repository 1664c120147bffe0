"""Comparisons and selection on the tiles of one block.

The machine's masks are bits along rows, so an ``[N, 1]`` tile is compared as a row. What a machine cannot compare it
compares in another way with the same result: short integers in FP32, long ones by which of two is the larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dtypes import FP32, INT32
from pypto_jit.lowering.tensors.writer import TileWriter

_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
# Of integers: the operator that gives the first operand exactly where the comparison, or its opposite, holds.
_BY_EXTREME = {
    "ge": ("maximum", False),
    "lt": ("maximum", True),
    "le": ("minimum", False),
    "gt": ("minimum", True),
}


@dataclass(frozen=True)
class Bits:
    """A packed mask, and whether it is set where the condition does not hold."""

    mask: ir.Value
    opposite: bool


def along_rows(writer: TileWriter, tile: ir.Value) -> ir.Value:
    """A tile whose elements lie along rows: an ``[N, 1]`` tile turned into a row."""
    rows, columns = writer.tile(tile).shape
    return writer.operator("reshape", tile, shape=(1, rows)) if columns == 1 and rows > 1 else tile


def compare(writer: TileWriter, mode: str, operands: Sequence[ir.Value]) -> Bits:
    """Whether two tiles along rows, or a tile and a scalar, compare so.

    Args:
        writer: where operations go.
        mode: which comparison.
        operands: at least one tile; tiles have one shape and dtype.
    """
    left, right = operands
    if writer.types.tile(left) is None:
        left, right, mode = right, left, _MIRRORED[mode]
    dtype = writer.tile(left).dtype
    scalar = writer.types.tile(right) is None
    opposite = False
    if dtype == INT32 and mode not in writer.target.integer_comparisons:
        if mode == "ne":
            opposite = True
        else:
            name, opposite = _BY_EXTREME[mode]
            right, scalar = writer.operator(f"{name}s" if scalar else name, left, right), False
        mode = "eq"
    row = "cmps" if scalar else "cmp"
    if dtype not in BY_NAME[row].dtypes[writer.target.name]:
        left, right = writer.convert(left, FP32), writer.convert(right, FP32)
    return Bits(writer.operator(row, left, right, mode=mode), opposite)


def as_number(writer: TileWriter, tile: ir.Value) -> ir.Value:
    """A tile in a dtype that the machine computes in, zero exactly where it was."""
    return tile if writer.tile(tile).dtype in writer.target.vector_dtypes else writer.convert(tile, FP32)


def is_set(writer: TileWriter, tile: ir.Value) -> Bits:
    """Whether the elements of a tile along rows are not zero."""
    return compare(writer, "ne", (tile, writer.number(0, writer.tile(tile).dtype)))


def choose(writer: TileWriter, bits: Bits, held: ir.Value, other: ir.Value) -> ir.Value:
    """The elements of one tile where a condition holds, and of another where not; one of them may be a scalar.

    Args:
        writer: where operations go.
        bits: the condition.
        held, other: tiles along rows; the one that the machine takes second may be a scalar.
    """
    if bits.opposite:
        held, other = other, held
    row = "sels" if writer.types.tile(other) is None else "sel"
    return writer.operator(row, bits.mask, held, other)
