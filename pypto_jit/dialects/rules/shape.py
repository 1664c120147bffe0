"""Rules of the operators that keep the elements and change their order: reshape, transpose, concat."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.rules.common import (
    Attributes,
    Operands,
    expect_matrix,
    expect_same_dtype,
    expect_tile,
    in_vec,
    known_unequal,
    merge_valid,
    rule,
)
from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.errors import LayoutError, ShapeError
from pypto_jit.targets import Space, Target


@rule
def _reshape(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_tile(row, operands[0], "src")
    shape = attributes["shape"]
    assert isinstance(shape, tuple)
    if prod(shape) != prod(tile.shape) or any(extent <= 0 for extent in shape):
        raise ShapeError(
            "reshape keeps the number of elements",
            found=f"{tile.describe()} to {list(shape)}",
            expected=f"{prod(tile.shape)} elements",
        )
    if tile.space is not Space.VEC:
        raise LayoutError("reshape takes a tile in Vec", found=tile.describe())
    return TileType(shape, tile.dtype, tile.space, _reshaped_valid(tile, shape))


def _reshaped_valid(tile: TileType, shape: tuple[int, ...]) -> tuple[int, ...]:
    if tile.valid == tile.shape:
        return shape
    if tile.rank == 2 and shape == tile.shape[::-1] and 1 in shape:
        # A row as a column, or the reverse: the box turns with it.
        return tile.valid[::-1]
    # A partly valid vector keeps its one partial extent; any other partial box is no box under another shape.
    partial = [k for k, (v, s) in enumerate(zip(tile.valid, tile.shape, strict=True)) if v != s]
    long = [k for k, extent in enumerate(shape) if extent != 1]
    if len(partial) == 1 and prod(tile.shape) == tile.shape[partial[0]] and len(long) == 1:
        return tuple(tile.valid[partial[0]] if k == long[0] else 1 for k in range(len(shape)))
    if shape == tile.shape:
        return tile.valid
    raise ShapeError(
        "reshape takes a fully valid tile, or a vector",
        found=tile.describe(),
        expected=f"a valid shape of {list(tile.shape)}",
    )


@rule
def _transpose(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_matrix(row, expect_tile(row, operands[0], "src"))
    return in_vec(tile, tile.shape[::-1], tile.valid[::-1])


@rule
def _transpose_view(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_matrix(row, expect_tile(row, operands[0], "src"))
    if tile.space is not Space.MAT:
        raise LayoutError(
            "transpose_view takes a tile in Mat",
            found=tile.describe(),
            hint="load it with target_memory=pl.Mem.Mat, or use pl.transpose for a tile in Vec",
        )
    return replace(tile, shape=tile.shape[::-1], valid=tile.valid[::-1])


@rule
def _concat(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    left = expect_matrix(row, expect_tile(row, operands[0], "lhs"))
    right = expect_matrix(row, expect_tile(row, operands[1], "rhs"))
    expect_same_dtype(row, left, right, ("lhs", "rhs"))
    if left.shape[0] != right.shape[0] or known_unequal(left.valid[:1], right.valid[:1]):
        raise ShapeError("concat needs equal rows", found=f"{left.describe()} and {right.describe()}")
    if left.valid[1] != left.shape[1]:
        raise ShapeError("concat needs a left tile with fully valid columns", found=left.describe())
    columns = left.shape[1] + right.shape[1]
    valid_columns = DYNAMIC if right.valid[1] == DYNAMIC else left.shape[1] + right.valid[1]
    return in_vec(left, (left.shape[0], columns), (merge_valid(left.valid[:1], right.valid[:1])[0], valid_columns))
