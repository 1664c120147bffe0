"""Rules of the operators on valid regions and on parts of tiles: set_validshape, fillpad, extract, insert."""

from __future__ import annotations

from dataclasses import replace

from pypto_jit.dialects.operators import PAD_VALUES, Operator
from pypto_jit.dialects.rules.common import (
    Attributes,
    Operands,
    check_dtype,
    check_extents,
    expect_matrix,
    expect_tile,
    rule,
)
from pypto_jit.dialects.types import TileType
from pypto_jit.dtypes import BF16, FP16, FP32
from pypto_jit.errors import DTypeError, LayoutError, ShapeError, TraceError
from pypto_jit.targets import Space, Target

# Between which memories a part of a tile moves.
_EXTRACTS = {
    Space.VEC: (Space.VEC,),
    Space.MAT: (Space.LEFT, Space.RIGHT, Space.MAT),
    Space.ACC: (Space.VEC,),
}


@rule
def _set_validshape(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_matrix(row, expect_tile(row, operands[0], "src"))
    valid = attributes["valid"]
    assert isinstance(valid, tuple)
    check_extents(row, tile.shape, valid)
    return replace(tile, valid=valid)


@rule
def _fillpad(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_tile(row, operands[0], "src")
    shape, pad = attributes.get("shape", tile.shape), attributes.get("pad", "zero")
    assert isinstance(shape, tuple)
    check_dtype(row, tile.dtype, target)
    if pad not in PAD_VALUES:
        raise TraceError("unknown pad value", found=pad, expected=", ".join(PAD_VALUES))
    if tile.space not in (Space.VEC, Space.ACC):
        raise LayoutError(
            "fillpad fills tiles in Vec", found=tile.describe(), hint="load the tile into Vec, or with its full shape"
        )
    if len(shape) != tile.rank or any(new < old for new, old in zip(shape, tile.shape, strict=True)):
        raise ShapeError("fillpad gives at least the tile's shape", found=list(shape), expected=list(tile.shape))
    if shape != tile.shape:
        expect_matrix(row, tile)
    return TileType(shape, tile.dtype, Space.VEC, shape)


@rule
def _extract(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = expect_matrix(row, expect_tile(row, operands[0], "src"))
    shape, valid, space = attributes["shape"], attributes["valid"], attributes["space"]
    assert isinstance(shape, tuple)
    assert isinstance(valid, tuple)
    assert isinstance(space, Space)
    check_dtype(row, tile.dtype, target)
    allowed = _EXTRACTS.get(tile.space, ())
    if space not in allowed:
        listed = ", ".join(to.name.capitalize() for to in allowed)
        raise LayoutError(
            f"a part of a tile in {tile.space.name.capitalize()} does not go to {space.name.capitalize()}",
            found=tile.describe(),
            expected=f"a part in {listed}" if allowed else "a tile in Vec or Mat",
        )
    check_extents(row, shape, valid)
    if len(shape) != 2 or shape[0] > tile.shape[0] or shape[1] > tile.shape[1]:
        raise ShapeError("a part of a tile is no larger than it", found=list(shape), expected=f"in {tile.describe()}")
    return TileType(shape, tile.dtype, space, valid)


@rule
def _insert(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    whole = expect_matrix(row, expect_tile(row, operands[0], "target"))
    part = expect_matrix(row, expect_tile(row, operands[1], "src"))
    check_dtype(row, whole.dtype, target)
    pair = (part.space, whole.space)
    if pair not in ((Space.VEC, Space.VEC), (Space.ACC, Space.VEC), (Space.ACC, Space.MAT)):
        raise LayoutError(
            f"no tile in {part.space.name.capitalize()} is written into one in {whole.space.name.capitalize()}",
            found=f"{part.describe()} into {whole.describe()}",
            expected="Vec into Vec, or Acc into Vec or Mat",
        )
    narrowing = pair == (Space.ACC, Space.MAT) and part.dtype == FP32 and whole.dtype in (FP16, BF16)
    if part.dtype != whole.dtype and not narrowing:
        raise DTypeError(
            "assemble does not convert",
            found=f"{part.describe()} into {whole.describe()}",
            expected="equal dtypes (an FP32 Acc tile may also go into an FP16 or BF16 Mat tile)",
            hint=f"cast the source first: pl.cast(source, pl.{whole.dtype.name})",
        )
    if part.shape[0] > whole.shape[0] or part.shape[1] > whole.shape[1]:
        raise ShapeError("assemble writes a tile into a larger one", found=f"{part.describe()} into {whole.describe()}")
    return whole
