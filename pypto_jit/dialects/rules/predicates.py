"""Rules of comparisons and of what chooses by their bits."""

from __future__ import annotations

from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.rules.common import (
    Attributes,
    Operands,
    check_dtype,
    expect_matrix,
    expect_same_dtype,
    expect_tile,
    in_vec,
    known_unequal,
    merge_valid,
    rule,
)
from pypto_jit.dialects.types import TileType
from pypto_jit.dtypes import INT32, UINT8
from pypto_jit.errors import DTypeError, ShapeError, TraceError
from pypto_jit.targets import ROW_ALIGNMENT, Space, Target


def packed(columns: int) -> int:
    """Bytes of a row of a mask: one bit for each column, in whole units of memory."""
    return -(-columns // (8 * ROW_ALIGNMENT)) * ROW_ALIGNMENT


def _rows(row: Operator, operand: object, name: str) -> TileType:
    tile = expect_matrix(row, expect_tile(row, operand, name))
    if tile.shape[1] == 1 and tile.shape[0] > 1:
        raise ShapeError(
            f"{row.name} takes no [N, 1] tile: the bits of a mask lie along rows",
            found=tile.describe(),
            hint=f"reshape it to a row: pl.reshape(tile, [1, {tile.shape[0]}])",
        )
    return tile


def _alike(row: Operator, operands: Operands, first: int) -> TileType:
    """One or two tiles of the same shape, dtype and valid region, as one type in Vec."""
    names = [operand.name for operand in row.operands]
    left = _rows(row, operands[first], names[first])
    valid = left.valid
    if row.operands[first + 1].kind == "tile":
        right = _rows(row, operands[first + 1], names[first + 1])
        expect_same_dtype(row, left, right, (names[first], names[first + 1]))
        if left.shape != right.shape or known_unequal(left.valid, right.valid):
            raise ShapeError(
                f"the operands of {row.name} differ in shape or in valid shape",
                found=f"{names[first]} is {left.describe()}, {names[first + 1]} is {right.describe()}",
                expected="equal shapes",
            )
        valid = merge_valid(left.valid, right.valid)
    return in_vec(left, left.shape, valid)


@rule
def _compare(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _alike(row, operands, 0)
    check_dtype(row, tile.dtype, target)
    mode = attributes.get("mode", row.attributes[0].default)
    if mode not in row.attributes[0].choices:
        raise TraceError(
            "unknown comparison", found=mode, expected=", ".join(str(choice) for choice in row.attributes[0].choices)
        )
    if tile.dtype == INT32 and mode not in target.integer_comparisons:
        raise DTypeError(
            f"{target.name} compares integers of 32 bits only for equality",
            found=f"{row.name} '{mode}' of {tile.describe()}",
            expected=", ".join(sorted(target.integer_comparisons)),
            hint="lhs >= rhs where pl.maximum(lhs, rhs) equals lhs; or pl.cast to FP32 what has at most 24 bits",
        )
    # All of a mask's bytes are there, whatever part of the tile is valid: the other bits mean nothing.
    columns = packed(tile.shape[1])
    return TileType((tile.shape[0], columns), UINT8, Space.VEC, (tile.valid[0], columns))


@rule
def _select(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    mask = expect_matrix(row, expect_tile(row, operands[0], "mask"))
    tile = _alike(row, operands, 1)
    check_dtype(row, tile.dtype, target)
    if mask.dtype != UINT8:
        raise DTypeError(
            f"the mask of {row.name} is one of bits", found=mask.describe(), expected="UINT8, as of pl.cmp"
        )
    expected = (tile.shape[0], packed(tile.shape[1]))
    if mask.shape != expected or mask.valid[1] != expected[1] or known_unequal(mask.valid[:1], tile.valid[:1]):
        raise ShapeError(
            f"the mask of {row.name} is that of another shape",
            found=f"{mask.describe()} for {tile.describe()}",
            expected=f"a mask of shape {list(expected)}, as pl.cmp makes of tiles of this shape",
        )
    return tile
