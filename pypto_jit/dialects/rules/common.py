"""What all rules share: their registry, their operands, and the checks that several of them make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.types import DYNAMIC, ArrayType, TensorType, TileType
from pypto_jit.dtypes import FP16, FP32, DType
from pypto_jit.errors import DTypeError, ShapeError, TraceError
from pypto_jit.targets import Space, Target

Operands = list[TileType | TensorType | ArrayType | DType]
Attributes = dict[str, object]
Result = TileType | ArrayType | DType | None
Rule = Callable[[Operator, Operands, Attributes, Target], Result]

RULES: dict[str, Rule] = {}


_AnyRule = TypeVar("_AnyRule", bound=Rule)


def rule(function: _AnyRule) -> _AnyRule:
    """Register a rule under the name of its function, which rows of the table give."""
    RULES[function.__name__.strip("_")] = function
    return function


def check_dtype(row: Operator, dtype: DType, target: Target) -> None:
    """Raise a DTypeError unless the row's instruction takes the dtype on the target."""
    allowed = row.dtypes[target.name]
    if dtype in allowed:
        return
    via = next((d for d in (FP32, FP16) if d in allowed and d in target.casts.get(dtype, ())), None)
    hint = None
    if via is not None and any(operand.kind == "tile" for operand in row.operands):
        rest = ", ..." if len(row.operands) > 1 else ""
        hint = f"cast first: pl.{row.name}(pl.cast(tile, pl.{via.name}){rest}), and cast the result back"
    elif via is not None:
        hint = f"make it in {via.name} and cast it: pl.cast(pl.{row.name}(..., pl.{via.name}), pl.{dtype.name})"
    raise DTypeError(
        f"{row.name} does not take {dtype} on {target.name}",
        found=dtype,
        expected=", ".join(sorted(d.name for d in allowed)),
        hint=hint,
    )


def expect_tile(row: Operator, operand: object, name: str) -> TileType:
    """The operand as a tile.

    Raises:
        TraceError: it is none.
    """
    if not isinstance(operand, TileType):
        raise TraceError(f"{row.name} takes a tile as '{name}'", found=operand, expected="a tile")
    return operand


def expect_matrix(row: Operator, tile: TileType) -> TileType:
    """The tile, which has two dimensions.

    Raises:
        ShapeError: it has not.
    """
    if tile.rank != 2:
        raise ShapeError(
            f"{row.name} takes two-dimensional tiles", found=tile.describe(), hint="reshape it to two dimensions first"
        )
    return tile


def known_unequal(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether valid extents differ for certain, whatever the dynamic ones turn out to be."""
    return len(a) != len(b) or any(x != y and DYNAMIC not in (x, y) for x, y in zip(a, b, strict=True))


def merge_valid(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Equal valid extents, static where either says so."""
    return tuple(y if x == DYNAMIC else x for x, y in zip(a, b, strict=True))


def in_vec(tile: TileType, shape: tuple[int, ...], valid: tuple[int, ...]) -> TileType:
    """A tile in Vec of the dtype of another."""
    return TileType(shape, tile.dtype, Space.VEC, valid)


def expect_same_dtype(row: Operator, first: TileType, second: TileType, names: tuple[str, str]) -> None:
    """Raise a DTypeError unless two operands have one dtype."""
    if first.dtype != second.dtype:
        raise DTypeError(
            f"{row.name} takes operands of one dtype",
            found=f"{names[0]} is {first.describe()}, {names[1]} is {second.describe()}",
            expected="the same dtype on both",
            hint=f"convert one of them, for example pl.cast({names[1]}, pl.{first.dtype.name})",
        )


def check_extents(row: Operator, shape: tuple[int, ...], valid: tuple[int, ...]) -> None:
    """Raise a ShapeError unless a tile has positive extents, and its valid shape lies in it."""
    if not shape or any(extent <= 0 for extent in shape):
        raise ShapeError(f"{row.name} needs a tile shape of positive extents", found=list(shape))
    if len(valid) != len(shape) or any(v != DYNAMIC and not 0 <= v <= s for v, s in zip(valid, shape, strict=True)):
        raise ShapeError(
            f"the valid shape of {row.name} does not lie in its tile",
            found=list(valid),
            expected=f"within {list(shape)}",
        )
