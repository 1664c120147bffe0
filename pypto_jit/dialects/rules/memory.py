"""Rules of the operators that make tiles or move them: load, store, create_tile, full, move."""

from __future__ import annotations

from dataclasses import replace

from pypto_jit.dialects.operators import ATOMICS, Operator
from pypto_jit.dialects.rules.common import Attributes, Operands, check_dtype, check_extents, expect_tile, rule
from pypto_jit.dialects.types import TensorType, TileType
from pypto_jit.dtypes import BF16, FP16, FP32, DType
from pypto_jit.errors import DTypeError, LayoutError, ShapeError, TraceError
from pypto_jit.targets import Space, Target


@rule
def _load(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tensor = operands[0]
    if not isinstance(tensor, TensorType):
        raise TraceError("load reads a tensor", found=operands[0], expected="a tensor parameter")
    shape, valid, space = attributes["shape"], attributes["valid"], attributes["space"]
    assert isinstance(shape, tuple)
    assert isinstance(valid, tuple)
    assert isinstance(space, Space)
    check_dtype(row, tensor.dtype, target)
    if space not in (Space.VEC, Space.MAT):
        raise LayoutError(
            "load puts a tile into Vec or Mat",
            found=f"target_memory={space.name.capitalize()}",
            hint="load into Mat, then pl.move the tile to Left, Right or Bias",
        )
    if len(shape) != tensor.rank:
        raise ShapeError(
            "the shape of a load has one extent per dimension of the tensor",
            found=f"shape {list(shape)} of a tensor with {tensor.rank} dimensions",
            expected=f"{tensor.rank} extents",
        )
    check_extents(row, shape, valid)
    return TileType(shape, tensor.dtype, space, valid)


@rule
def _store(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> None:
    tile = expect_tile(row, operands[0], "src")
    tensor = operands[1]
    if not isinstance(tensor, TensorType):
        raise TraceError("store writes to a tensor", found=operands[1], expected="a tensor parameter")
    if tile.space not in (Space.VEC, Space.ACC, Space.MAT):
        raise LayoutError("store takes a tile in Vec or Acc", found=tile.describe())
    narrowing = tile.space is Space.ACC and tile.dtype == FP32 and tensor.dtype in (FP16, BF16)
    if tile.dtype != tensor.dtype and not narrowing:
        raise DTypeError(
            "store does not convert",
            found=f"a tile of {tile.dtype} into a tensor of {tensor.dtype}",
            expected="equal dtypes (an FP32 Acc tile may also go to FP16 or BF16)",
            hint=f"cast the tile first: pl.cast(tile, pl.{tensor.dtype.name})",
        )
    atomic = attributes.get("atomic", "none")
    if atomic not in ATOMICS:
        raise TraceError("unknown atomic operation of a store", found=atomic, expected=", ".join(ATOMICS))
    if atomic != "none" and tensor.dtype not in target.atomics:
        raise DTypeError(
            f"{target.name} adds no {tensor.dtype} in global memory",
            found=tensor.dtype,
            expected=", ".join(sorted(dtype.name for dtype in target.atomics)),
            hint="add in FP32, and cast when all is added" if tensor.dtype.is_float else None,
        )
    leading = tile.shape[: max(0, tile.rank - tensor.rank)]
    if any(extent != 1 for extent in leading):
        raise ShapeError(
            "store needs a tile of at most the tensor's rank",
            found=f"{tile.describe()} into a tensor with {tensor.rank} dimensions",
        )


@rule
def _create_tile(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    shape, dtype, space = attributes["shape"], attributes["dtype"], attributes["space"]
    assert isinstance(shape, tuple)
    assert isinstance(dtype, DType)
    assert isinstance(space, Space)
    check_extents(row, shape, shape)
    return TileType(shape, dtype, space, shape)


@rule
def _full(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _create_tile(row, operands, {**attributes, "space": Space.VEC}, target)
    check_dtype(row, tile.dtype, target)
    return tile


@rule
def _ci(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _create_tile(row, operands, {**attributes, "space": Space.VEC}, target)
    check_dtype(row, tile.dtype, target)
    if any(extent != 1 for extent in tile.shape[:-1]) or tile.shape[-1] == 1:
        raise ShapeError(
            "ci counts along a tile of one row and several columns", found=list(tile.shape), expected="such as [1, 64]"
        )
    return tile


@rule
def _move(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_tile(row, operands[0], "src")
    space = attributes["space"]
    assert isinstance(space, Space)
    pair = (tile.space, space)
    if pair not in target.moves and pair not in target.crossings:
        reachable = sorted(to.name.capitalize() for at, to in target.moves | target.crossings if at is tile.space)
        raise LayoutError(
            f"{target.name} cannot move a tile from {tile.space.name.capitalize()} to {space.name.capitalize()}",
            found=tile.describe(),
            expected="a move to "
            + (", ".join(reachable) or "nowhere: nothing leaves this memory but through a matmul"),
        )
    return replace(tile, space=space)
