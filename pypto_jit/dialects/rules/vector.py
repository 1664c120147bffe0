"""Rules of the vector operators: elementwise, casts, reductions, expansion of vectors."""

from __future__ import annotations

from dataclasses import replace

from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.rows.families import EXPANSION_OF
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
from pypto_jit.dtypes import FP16, FP32, INT32, DType
from pypto_jit.errors import DTypeError, ShapeError, TraceError
from pypto_jit.targets import Space, Target


@rule
def _elementwise(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    first = expect_tile(row, operands[0], row.operands[0].name)
    check_dtype(row, first.dtype, target)
    valid = first.valid
    if len(operands) > 1 and row.operands[1].kind == "tile":
        second = expect_tile(row, operands[1], row.operands[1].name)
        names = (row.operands[0].name, row.operands[1].name)
        expect_same_dtype(row, first, second, names)
        if first.shape != second.shape:
            raise ShapeError(
                f"the operands of {row.name} have different shapes",
                found=f"{names[0]} is {first.describe()}, {names[1]} is {second.describe()}",
                expected="equal shapes",
                hint=_expand_hint(row, first, second),
            )
        if known_unequal(first.valid, second.valid):
            raise ShapeError(
                f"the operands of {row.name} have different valid shapes",
                found=f"{list(first.valid)} and {list(second.valid)}",
                expected="equal valid shapes",
            )
        valid = merge_valid(first.valid, second.valid)
    return in_vec(first, first.shape, valid)


def _expand_hint(row: Operator, first: TileType, second: TileType) -> str | None:
    short = EXPANSION_OF.get(row.name, row.name)
    if first.rank == second.rank == 2 and first.shape[0] == second.shape[0] and 1 in (first.shape[1], second.shape[1]):
        return f"spread a [M, 1] vector over the rows with pl.row_expand_{short}"
    if first.rank == second.rank == 2 and first.shape[1] == second.shape[1] and 1 in (first.shape[0], second.shape[0]):
        return f"spread a [1, N] vector over the columns with pl.col_expand_{short}"
    return None


@rule
def _cast(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_tile(row, operands[0], "src")
    dtype = attributes["dtype"]
    assert isinstance(dtype, DType)
    allowed = target.casts.get(tile.dtype, frozenset())
    if dtype not in allowed:
        through = next((d for d in (FP32, FP16) if d in allowed and dtype in target.casts.get(d, ())), None)
        hint = f"go through {through}: pl.cast(pl.cast(tile, pl.{through}), pl.{dtype})" if through else None
        if dtype == tile.dtype:
            hint = f"the tile is {dtype} already: leave the cast out"
        raise DTypeError(
            f"{target.name} has no conversion from {tile.dtype} to {dtype}",
            found=f"cast of {tile.describe()} to {dtype}",
            expected="one of " + ", ".join(sorted(d.name for d in allowed)),
            hint=hint,
        )
    mode = attributes.get("mode", "round")
    if mode not in row.attributes[0].choices:
        raise TraceError(
            "unknown rounding mode", found=mode, expected=", ".join(str(c) for c in row.attributes[0].choices)
        )
    return replace(tile, dtype=dtype, space=Space.VEC)


@rule
def _row_reduction(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_tile(row, operands[0], "src")
    check_dtype(row, tile.dtype, target)
    if tile.rank < 2:
        raise ShapeError(
            f"{row.name} takes a tile with rows", found=tile.describe(), expected="at least two dimensions"
        )
    return in_vec(tile, (*tile.shape[:-1], 1), (*tile.valid[:-1], 1))


@rule
def _column_reduction(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_matrix(row, expect_tile(row, operands[0], "src"))
    check_dtype(row, tile.dtype, target)
    return in_vec(tile, (1, tile.shape[1]), (1, tile.valid[1]))


@rule
def _row_index(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    return replace(_row_reduction(row, operands, attributes, target), dtype=INT32)


@rule
def _column_index(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    return replace(_column_reduction(row, operands, attributes, target), dtype=INT32)


def _expand(row: Operator, operands: Operands, target: Target, axis: int) -> TileType:
    tile = expect_tile(row, operands[0], row.operands[0].name)
    vector = expect_tile(row, operands[1], "vector")
    check_dtype(row, tile.dtype, target)
    expect_same_dtype(row, tile, vector, (row.operands[0].name, "vector"))
    expected = tuple(extent if k == axis else 1 for k, extent in enumerate(tile.shape))
    if axis == 0 and tile.rank >= 2:
        expected = (*tile.shape[:-1], 1)
    if tile.rank < 2 or vector.shape != expected:
        raise ShapeError(
            f"{row.name} spreads a vector over a tile",
            found=f"{tile.describe()} and vector {vector.describe()}",
            expected=f"a vector of shape {list(expected)}",
        )
    if axis == 0 and known_unequal(tile.valid[:-1], vector.valid[:-1]):
        raise ShapeError(f"the valid rows of {row.name} differ", found=f"{list(tile.valid)} and {list(vector.valid)}")
    if axis == 1 and known_unequal(tile.valid[1:], vector.valid[1:]):
        raise ShapeError(
            f"the valid columns of {row.name} differ", found=f"{list(tile.valid)} and {list(vector.valid)}"
        )
    return in_vec(tile, tile.shape, tile.valid)


@rule
def _row_expand(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    return _expand(row, operands, target, 0)


@rule
def _col_expand(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    expect_matrix(row, expect_tile(row, operands[0], row.operands[0].name))
    return _expand(row, operands, target, 1)
