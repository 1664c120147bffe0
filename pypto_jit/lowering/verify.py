"""The semantic verifier of the ``pypto`` dialect: what IRDL cannot say about tiles, checked after each pass.

MLIR itself checks structure, types of operands, terminators and dominance. Here every operation is held against the
rule of its row: shapes, valid regions, dtypes of the target, memories.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects import rules
from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.types import DYNAMIC, TensorType, TileType
from pypto_jit.dtypes import BF16, FP16, FP32, SCALARS_BY_MLIR, DType
from pypto_jit.errors import DTypeError, InternalError, LayoutError, PyptoError, ShapeError
from pypto_jit.lowering.attributes import numbers, text
from pypto_jit.lowering.layouts import is_column
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.tree import Node
from pypto_jit.targets import ROW_ALIGNMENT, Space, Target

_ELEMENTS = frozenset({"read", "write", "read_tile", "write_tile", "array_create", "array_get", "array_set"})
# How many indices an operator takes.
_INDICES = {"set_validshape": 2, "extract": 4, "insert": 2}
_CUBE_OPERANDS = {"lhs": Space.LEFT, "rhs": Space.RIGHT, "bias": Space.BIAS, "acc": Space.ACC}


def verify_values(module: ir.Operation, lowering: Lowering, *, flat: bool, placed: bool) -> None:
    """Check every function of a module in the ``pypto`` dialect.

    Args:
        module: the module.
        lowering: target and types.
        flat: whether every tile must be two-dimensional.
        placed: whether every operand must lie in the memory its instruction reads.

    Raises:
        DTypeError, ShapeError, LayoutError: an operation that breaks the rule of its row, with its line.
    """
    checked = lowering.types.verified
    for _, body in lowering.bodies(module):
        for node in body.walk():
            if node.row is None:
                continue
            key = (flat, placed, lowering.target.name, node.name, *(v.type for v in node.operands + node.results))
            if node.row.attributes:
                key = (*key, str(node.op.attributes))
            if key in checked:
                continue
            try:
                _check(node, node.row, lowering, flat, placed)
            except PyptoError as error:
                error.span = error.span or node.span
                raise
            checked.add(key)


def _check(node: Node, row: Operator, lowering: Lowering, flat: bool, placed: bool) -> None:
    types = lowering.types
    operands = [types.of(v) or SCALARS_BY_MLIR.get(str(v.type)) for v in node.operands]
    result = types.of(node.results[0]) if node.results else None
    for kind in (*operands, result):
        if flat and isinstance(kind, TileType) and kind.rank != 2:
            raise InternalError(f"a tile of {row.name} is still not two-dimensional", found=kind.describe())
    if row.name == "load":
        _check_load(row, operands, len(node.operands), result, lowering.target)
    elif row.name == "store":
        _check_store(row, operands, len(node.operands), lowering.target, adds=text(node.op, "atomic") == "add")
    elif row.rule in _ELEMENTS:
        _check_element(node, row, operands, result, lowering.target)
    else:
        _check_by_rule(node, row, operands, result, lowering.target)
    if placed and row.instruction is not None:
        _check_places(row, operands, result, lowering.target)


def _check_load(row: Operator, operands: list, count: int, result: object, target: Target) -> None:
    tensor = operands[0]
    if not isinstance(tensor, TensorType) or not isinstance(result, TileType):
        raise InternalError("load takes a tensor and gives a tile", found=f"{tensor}, {result}")
    if count != 1 + 2 * tensor.rank:
        raise ShapeError(
            "load takes one offset and one valid extent for each dimension of the tensor",
            found=f"{count - 1} numbers",
            expected=f"{2 * tensor.rank} numbers",
        )
    rules.check_dtype(row, tensor.dtype, target)
    if result.dtype != tensor.dtype:
        raise DTypeError("load does not convert", found=result.describe(), expected=tensor.dtype)
    if result.space not in (Space.VEC, Space.MAT):
        raise LayoutError("load puts a tile into Vec or Mat", found=result.describe())
    _check_valid(result)


def _check_store(row: Operator, operands: list, count: int, target: Target, *, adds: bool) -> None:
    tile, tensor = operands[:2]
    if not isinstance(tensor, TensorType) or not isinstance(tile, TileType):
        raise InternalError("store takes a tile and a tensor", found=f"{tile}, {tensor}")
    if count != 2 + tensor.rank:
        raise ShapeError(
            "store takes one offset for each dimension of the tensor",
            found=f"{count - 2} offsets",
            expected=f"{tensor.rank} offsets",
        )
    rules.check_dtype(row, tile.dtype, target)
    if adds and tensor.dtype not in target.atomics:
        raise DTypeError(f"{target.name} adds no {tensor.dtype} in global memory")
    narrowing = tile.space is Space.ACC and tile.dtype == FP32 and tensor.dtype in (FP16, BF16)
    if tile.dtype != tensor.dtype and not narrowing:
        raise DTypeError("store does not convert", found=f"{tile.describe()} into a {tensor.dtype} tensor")


def _check_element(node: Node, row: Operator, operands: list, result: object, target: Target) -> None:
    """An operator on one element: the dtype of the scalar, and one index for each dimension."""
    if row.name == "array_create":
        return
    if result is None and node.results:
        result = SCALARS_BY_MLIR[str(node.results[0].type)]
    named = len(row.operands) - 1
    expected = rules.result_type(row, operands[:named], {}, target)
    same = expected == result
    if isinstance(expected, DType):
        same = isinstance(result, DType) and expected.signless == result.signless
    if not same:
        raise DTypeError(f"the result of {row.name} has another type", found=result, expected=expected)
    rank = next((k.rank for k in operands if isinstance(k, TensorType | TileType)), 1)
    rank = len(numbers(node.op, "box") or (None,) * rank)
    if len(operands) != named + rank:
        raise ShapeError(
            f"{row.name} takes one index for each dimension", found=f"{len(operands) - named} indices", expected=rank
        )


def _check_valid(tile: TileType) -> None:
    if any(v != DYNAMIC and not 0 <= v <= s for v, s in zip(tile.valid, tile.shape, strict=True)):
        raise ShapeError("a valid shape does not lie in its tile", found=tile.describe())


def _check_by_rule(node: Node, row: Operator, operands: list, result: object, target: Target) -> None:
    assert isinstance(result, TileType)
    _check_valid(result)
    attributes: dict[str, object] = {
        "shape": result.shape,
        "dtype": result.dtype,
        "space": result.space,
        "valid": result.valid,
    }
    for attribute in row.attributes:
        if attribute.name in node.op.attributes:
            attributes[attribute.name] = text(node.op, attribute.name)
    fixed = [operand for operand in row.operands if operand.kind != "indices"]
    if len(operands) != len(fixed) + _INDICES.get(row.name, 0):
        raise ShapeError(f"{row.name} takes another number of indices", found=len(operands) - len(fixed))
    given: rules.Operands = list(operands[: len(fixed)])
    if row.name == "move" and result.space is Space.BIAS and result.dtype == FP32 and operands[0].dtype == FP16:
        # The move to Bias widens.
        given[0] = replace(operands[0], dtype=FP32)
    of_source = row.rule == "compare" and isinstance(given[0], TileType)
    dtype = given[0].dtype if of_source and isinstance(given[0], TileType) else result.dtype
    for operand, kind in zip(fixed, given, strict=True):
        if operand.kind == "scalar" and not isinstance(kind, DType):
            raise DTypeError(f"the scalar of {row.name} is no number", found=kind)
        if operand.kind == "scalar" and isinstance(kind, DType) and kind.mlir != dtype.signless:
            raise DTypeError(f"the scalar of {row.name} has another dtype", found=kind, expected=dtype)
    if row.name == "create_tile":
        return
    if row.name in ("concat", "insert"):
        given = [_as_written(kind) for kind in given if isinstance(kind, TileType)]
    if row.name == "extract":
        result = _as_written(result)
        attributes["shape"] = result.shape
    expected = rules.result_type(row, given, attributes, target)
    assert isinstance(expected, TileType)
    same = (expected.shape, expected.dtype, expected.space) == (result.shape, result.dtype, result.space)
    if not same or any(a != b and DYNAMIC not in (a, b) for a, b in zip(expected.valid, result.valid, strict=True)):
        raise ShapeError(
            f"the result of {row.name} has another type than its operands give",
            found=result.describe(),
            expected=expected.describe(),
        )


def _as_written(tile: TileType) -> TileType:
    """A column that was spread into the first element of each padded row, as the column it stands for."""
    spread = tile.valid[-1] == 1 and tile.shape[-1] * tile.dtype.bytes == ROW_ALIGNMENT
    return replace(tile, shape=(*tile.shape[:-1], 1)) if spread else tile


def _check_places(row: Operator, operands: list, result: object, target: Target) -> None:
    assert row.instruction is not None
    if row.instruction.core == "cube":
        for operand, kind in zip(row.operands, operands, strict=True):
            space = _CUBE_OPERANDS[operand.name]
            if kind.space is not space:
                raise LayoutError(
                    f"{row.name} takes '{operand.name}' from {space.name.capitalize()}", found=kind.describe()
                )
    elif row.instruction.core == "vector":
        for operand, kind in zip(row.operands, operands, strict=False):
            if isinstance(kind, TileType) and kind.space is not Space.VEC:
                raise LayoutError(f"{row.name} takes '{operand.name}' from Vec", found=kind.describe())
        if (
            row.rule in ("elementwise", "cast", "full", "fillpad")
            and isinstance(result, TileType)
            and is_column(result)
        ):
            raise LayoutError(f"{row.name} takes no [N, 1] tile: the machine works on rows", found=result.describe())
