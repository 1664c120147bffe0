"""Shape, valid-shape, dtype and space rules: from a row's operands to its result type, or to an error.

The rules run twice: while tracing, where an error points at the line being traced, and in the verifier after each pass.
They know nothing of MLIR. An error carries no span; the caller adds it.

Valid regions: elementwise operators need equal valid regions and keep them; a reduction reduces the valid region only and
keeps the other axis; a matmul takes its rows from the left and its columns from the right operand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from pypto_jit.dialects.operators import BY_NAME, Operator
from pypto_jit.dialects.types import DYNAMIC, TensorType, TileType
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT32, DType
from pypto_jit.errors import DTypeError, LayoutError, ShapeError, TraceError
from pypto_jit.targets import Space, Target

Operands = list[TileType | TensorType | DType]
Attributes = dict[str, object]
Rule = Callable[[Operator, Operands, Attributes, Target], TileType | None]

_RULES: dict[str, Rule] = {}


def result_type(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType | None:
    """The type of the result of an operator, None for an operator without one.

    Args:
        row: the operator.
        operands: one type per operand of the row; a scalar is given by its dtype, indices are left out.
        attributes: the row's attributes, and for operators that make a tile ``shape``, ``dtype``, ``space``, ``valid``.
        target: the machine whose dtype sets, casts and moves hold.

    Raises:
        DTypeError, ShapeError, LayoutError: the operands do not fit; the error has no span yet.
    """
    return _RULES[row.rule](row, operands, attributes, target)


def _rule(function: Rule) -> Rule:
    _RULES[function.__name__.strip("_")] = function
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


def _tile(row: Operator, operand: object, name: str) -> TileType:
    if not isinstance(operand, TileType):
        raise TraceError(f"{row.name} takes a tile as '{name}'", found=operand, expected="a tile")
    return operand


def _matrix(row: Operator, tile: TileType) -> TileType:
    if tile.rank != 2:
        raise ShapeError(
            f"{row.name} takes two-dimensional tiles", found=tile.describe(), hint="reshape it to two dimensions first"
        )
    return tile


def _known_unequal(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(a) != len(b) or any(x != y and DYNAMIC not in (x, y) for x, y in zip(a, b, strict=True))


def _merge_valid(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(y if x == DYNAMIC else x for x, y in zip(a, b, strict=True))


def _in_vec(tile: TileType, shape: tuple[int, ...], valid: tuple[int, ...]) -> TileType:
    return TileType(shape, tile.dtype, Space.VEC, valid)


def _same_dtype(row: Operator, first: TileType, second: TileType, names: tuple[str, str]) -> None:
    if first.dtype != second.dtype:
        raise DTypeError(
            f"{row.name} takes operands of one dtype",
            found=f"{names[0]} is {first.describe()}, {names[1]} is {second.describe()}",
            expected="the same dtype on both",
            hint=f"convert one of them, for example pl.cast({names[1]}, pl.{first.dtype.name})",
        )


@_rule
def _elementwise(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    first = _tile(row, operands[0], row.operands[0].name)
    check_dtype(row, first.dtype, target)
    valid = first.valid
    if len(operands) > 1 and row.operands[1].kind == "tile":
        second = _tile(row, operands[1], row.operands[1].name)
        names = (row.operands[0].name, row.operands[1].name)
        _same_dtype(row, first, second, names)
        if first.shape != second.shape:
            raise ShapeError(
                f"the operands of {row.name} have different shapes",
                found=f"{names[0]} is {first.describe()}, {names[1]} is {second.describe()}",
                expected="equal shapes",
                hint=_expand_hint(row, first, second),
            )
        if _known_unequal(first.valid, second.valid):
            raise ShapeError(
                f"the operands of {row.name} have different valid shapes",
                found=f"{list(first.valid)} and {list(second.valid)}",
                expected="equal valid shapes",
            )
        valid = _merge_valid(first.valid, second.valid)
    return _in_vec(first, first.shape, valid)


def _expand_hint(row: Operator, first: TileType, second: TileType) -> str | None:
    short = {"maximum": "max", "minimum": "min"}.get(row.name, row.name)
    if first.rank == second.rank == 2 and first.shape[0] == second.shape[0] and 1 in (first.shape[1], second.shape[1]):
        return f"spread a [M, 1] vector over the rows with pl.row_expand_{short}"
    if first.rank == second.rank == 2 and first.shape[1] == second.shape[1] and 1 in (first.shape[0], second.shape[0]):
        return f"spread a [1, N] vector over the columns with pl.col_expand_{short}"
    return None


@_rule
def _load(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tensor = operands[0]
    if not isinstance(tensor, TensorType):
        raise TraceError("load reads a tensor", found=operands[0], expected="a tensor parameter")
    shape, valid, space = attributes["shape"], attributes["valid"], attributes["space"]
    assert isinstance(shape, tuple) and isinstance(valid, tuple) and isinstance(space, Space)
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
    _check_extents(row, shape, valid)
    return TileType(shape, tensor.dtype, space, valid)


def _check_extents(row: Operator, shape: tuple[int, ...], valid: tuple[int, ...]) -> None:
    if not shape or any(extent <= 0 for extent in shape):
        raise ShapeError(f"{row.name} needs a tile shape of positive extents", found=list(shape))
    if len(valid) != len(shape) or any(v != DYNAMIC and not 0 <= v <= s for v, s in zip(valid, shape, strict=True)):
        raise ShapeError(
            f"the valid shape of {row.name} does not lie in its tile", found=list(valid), expected=f"within {list(shape)}"
        )


@_rule
def _store(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> None:
    tile = _tile(row, operands[0], "src")
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
    leading = tile.shape[: max(0, tile.rank - tensor.rank)]
    if any(extent != 1 for extent in leading):
        raise ShapeError(
            "store needs a tile of at most the tensor's rank",
            found=f"{tile.describe()} into a tensor with {tensor.rank} dimensions",
        )


@_rule
def _create_tile(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    shape, dtype, space = attributes["shape"], attributes["dtype"], attributes["space"]
    assert isinstance(shape, tuple) and isinstance(dtype, DType) and isinstance(space, Space)
    _check_extents(row, shape, shape)
    return TileType(shape, dtype, space, shape)


@_rule
def _full(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _create_tile(row, operands, {**attributes, "space": Space.VEC}, target)
    check_dtype(row, tile.dtype, target)
    return tile


@_rule
def _cast(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _tile(row, operands[0], "src")
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


@_rule
def _row_reduction(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _tile(row, operands[0], "src")
    check_dtype(row, tile.dtype, target)
    if tile.rank < 2:
        raise ShapeError(f"{row.name} takes a tile with rows", found=tile.describe(), expected="at least two dimensions")
    return _in_vec(tile, (*tile.shape[:-1], 1), (*tile.valid[:-1], 1))


@_rule
def _column_reduction(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _matrix(row, _tile(row, operands[0], "src"))
    check_dtype(row, tile.dtype, target)
    return _in_vec(tile, (1, tile.shape[1]), (1, tile.valid[1]))


def _expand(row: Operator, operands: Operands, target: Target, axis: int) -> TileType:
    tile = _tile(row, operands[0], row.operands[0].name)
    vector = _tile(row, operands[1], "vector")
    check_dtype(row, tile.dtype, target)
    _same_dtype(row, tile, vector, (row.operands[0].name, "vector"))
    expected = tuple(extent if k == axis else 1 for k, extent in enumerate(tile.shape))
    if axis == 0 and tile.rank >= 2:
        expected = (*tile.shape[:-1], 1)
    if tile.rank < 2 or vector.shape != expected:
        raise ShapeError(
            f"{row.name} spreads a vector over a tile",
            found=f"{tile.describe()} and vector {vector.describe()}",
            expected=f"a vector of shape {list(expected)}",
        )
    if axis == 0 and _known_unequal(tile.valid[:-1], vector.valid[:-1]):
        raise ShapeError(f"the valid rows of {row.name} differ", found=f"{list(tile.valid)} and {list(vector.valid)}")
    if axis == 1 and _known_unequal(tile.valid[1:], vector.valid[1:]):
        raise ShapeError(f"the valid columns of {row.name} differ", found=f"{list(tile.valid)} and {list(vector.valid)}")
    return _in_vec(tile, tile.shape, tile.valid)


@_rule
def _row_expand(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    return _expand(row, operands, target, 0)


@_rule
def _col_expand(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    _matrix(row, _tile(row, operands[0], row.operands[0].name))
    return _expand(row, operands, target, 1)


@_rule
def _reshape(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _tile(row, operands[0], "src")
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


@_rule
def _transpose(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _matrix(row, _tile(row, operands[0], "src"))
    return _in_vec(tile, tile.shape[::-1], tile.valid[::-1])


@_rule
def _transpose_view(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _matrix(row, _tile(row, operands[0], "src"))
    if tile.space is not Space.MAT:
        raise LayoutError(
            "transpose_view takes a tile in Mat",
            found=tile.describe(),
            hint="load it with target_memory=pl.Mem.Mat, or use pl.transpose for a tile in Vec",
        )
    return replace(tile, shape=tile.shape[::-1], valid=tile.valid[::-1])


@_rule
def _concat(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    left = _matrix(row, _tile(row, operands[0], "lhs"))
    right = _matrix(row, _tile(row, operands[1], "rhs"))
    _same_dtype(row, left, right, ("lhs", "rhs"))
    if left.shape[0] != right.shape[0] or _known_unequal(left.valid[:1], right.valid[:1]):
        raise ShapeError("concat needs equal rows", found=f"{left.describe()} and {right.describe()}")
    if left.valid[1] != left.shape[1]:
        raise ShapeError("concat needs a left tile with fully valid columns", found=left.describe())
    columns = left.shape[1] + right.shape[1]
    valid_columns = DYNAMIC if right.valid[1] == DYNAMIC else left.shape[1] + right.valid[1]
    return _in_vec(left, (left.shape[0], columns), (_merge_valid(left.valid[:1], right.valid[:1])[0], valid_columns))


@_rule
def _move(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _tile(row, operands[0], "src")
    space = attributes["space"]
    assert isinstance(space, Space)
    pair = (tile.space, space)
    if pair not in target.moves and pair not in target.crossings:
        reachable = sorted(to.name.capitalize() for at, to in target.moves | target.crossings if at is tile.space)
        raise LayoutError(
            f"{target.name} cannot move a tile from {tile.space.name.capitalize()} to {space.name.capitalize()}",
            found=tile.describe(),
            expected="a move to " + (", ".join(reachable) or "nowhere: nothing leaves this memory but through a matmul"),
        )
    return replace(tile, space=space)


def _matmul_type(row: Operator, lhs: TileType, rhs: TileType, target: Target) -> TileType:
    _matrix(row, lhs)
    _matrix(row, rhs)
    check_dtype(BY_NAME["matmul"], lhs.dtype, target)
    _same_dtype(row, lhs, rhs, ("lhs", "rhs"))
    if lhs.shape[1] != rhs.shape[0] or _known_unequal(lhs.valid[1:], rhs.valid[:1]):
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


@_rule
def _matmul(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    return _matmul_type(row, _tile(row, operands[0], "lhs"), _tile(row, operands[1], "rhs"), target)


@_rule
def _matmul_acc(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    acc = _tile(row, operands[0], "acc")
    product = _matmul_type(row, _tile(row, operands[1], "lhs"), _tile(row, operands[2], "rhs"), target)
    if acc.shape != product.shape or acc.dtype != product.dtype or _known_unequal(acc.valid, product.valid):
        raise ShapeError(
            "the accumulator does not fit the product", found=acc.describe(), expected=product.describe()
        )
    if acc.space is not Space.ACC:
        raise LayoutError(
            "matmul_acc accumulates in Acc",
            found=acc.describe(),
            hint="start with pl.matmul, or pl.create_tile(..., target_memory=pl.Mem.Acc)",
        )
    return replace(product, valid=_merge_valid(acc.valid, product.valid))


@_rule
def _matmul_bias(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    bias = _tile(row, operands[2], "bias")
    product = _matmul_type(row, _tile(row, operands[0], "lhs"), _tile(row, operands[1], "rhs"), target)
    if bias.shape != (1, product.shape[1]):
        raise ShapeError("the bias of matmul_bias is one row", found=bias.describe(), expected=[1, product.shape[1]])
    source = bias.dtype
    if source != product.dtype and not (product.dtype == FP32 and source == FP16 and bias.space is not Space.BIAS):
        raise DTypeError("the bias has the accumulator's dtype", found=bias.describe(), expected=product.dtype)
    return product


def matmul_dtype(dtype: DType) -> DType:
    """The dtype a matmul of this input dtype accumulates in."""
    return INT32 if dtype == INT8 else FP32

