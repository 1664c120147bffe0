"""Rules of the matrix products."""

from __future__ import annotations

from dataclasses import replace

from pypto_jit.dialects.operators import BY_NAME, Operator
from pypto_jit.dialects.rules.common import (
    Attributes,
    Operands,
    check_dtype,
    expect_matrix,
    expect_same_dtype,
    expect_tile,
    known_unequal,
    merge_valid,
    rule,
)
from pypto_jit.dialects.types import TileType
from pypto_jit.dtypes import FP16, FP32, INT8, INT32, DType
from pypto_jit.errors import DTypeError, LayoutError, ShapeError
from pypto_jit.targets import Space, Target


def _matmul_type(row: Operator, lhs: TileType, rhs: TileType, target: Target) -> TileType:
    expect_matrix(row, lhs)
    expect_matrix(row, rhs)
    check_dtype(BY_NAME["matmul"], lhs.dtype, target)
    expect_same_dtype(row, lhs, rhs, ("lhs", "rhs"))
    if lhs.shape[1] != rhs.shape[0] or known_unequal(lhs.valid[1:], rhs.valid[:1]):
        raise ShapeError(
            f"the inner extents of {row.name} differ",
            found=f"lhs is {lhs.describe()}, rhs is {rhs.describe()}",
            expected="[M, K] and [K, N]",
        )
    for name, tile, spaces in (
        ("lhs", lhs, (Space.VEC, Space.MAT, Space.LEFT)),
        ("rhs", rhs, (Space.VEC, Space.MAT, Space.RIGHT)),
    ):
        if tile.space not in spaces and tile.space is not Space.ACC:
            raise LayoutError(f"{row.name} takes '{name}' from {spaces[-1].name.capitalize()}", found=tile.describe())
    return TileType((lhs.shape[0], rhs.shape[1]), matmul_dtype(lhs.dtype), Space.ACC, (lhs.valid[0], rhs.valid[1]))


@rule
def _matmul(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    return _matmul_type(row, expect_tile(row, operands[0], "lhs"), expect_tile(row, operands[1], "rhs"), target)


@rule
def _matmul_acc(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    acc = expect_tile(row, operands[0], "acc")
    product = _matmul_type(row, expect_tile(row, operands[1], "lhs"), expect_tile(row, operands[2], "rhs"), target)
    if acc.shape != product.shape or acc.dtype != product.dtype or known_unequal(acc.valid, product.valid):
        raise ShapeError("the accumulator does not fit the product", found=acc.describe(), expected=product.describe())
    if acc.space is not Space.ACC:
        raise LayoutError(
            "matmul_acc accumulates in Acc",
            found=acc.describe(),
            hint="start with pl.matmul, or pl.create_tile(..., target_memory=pl.Mem.Acc)",
        )
    return replace(product, valid=merge_valid(acc.valid, product.valid))


@rule
def _matmul_bias(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    bias = expect_tile(row, operands[2], "bias")
    product = _matmul_type(row, expect_tile(row, operands[0], "lhs"), expect_tile(row, operands[1], "rhs"), target)
    if bias.shape != (1, product.shape[1]):
        raise ShapeError("the bias of matmul_bias is one row", found=bias.describe(), expected=[1, product.shape[1]])
    source = bias.dtype
    if source != product.dtype and not (product.dtype == FP32 and source == FP16 and bias.space is not Space.BIAS):
        raise DTypeError("the bias has the accumulator's dtype", found=bias.describe(), expected=product.dtype)
    return product


def matmul_dtype(dtype: DType) -> DType:
    """The dtype a matmul of this input dtype accumulates in."""
    return INT32 if dtype == INT8 else FP32
