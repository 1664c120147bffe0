"""Rules of the operators on single elements: of tensors, of tiles, and of arrays on the core."""

from __future__ import annotations

from dataclasses import replace

from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.rules.common import Attributes, Operands, check_dtype, expect_tile, rule
from pypto_jit.dialects.types import ArrayType, TensorType, TileType
from pypto_jit.dtypes import INDEX, TASK_ID, DType
from pypto_jit.errors import DTypeError, LayoutError, ShapeError, TraceError
from pypto_jit.targets import Space, Target


def _tensor(row: Operator, operand: object) -> TensorType:
    if not isinstance(operand, TensorType):
        raise TraceError(f"{row.name} takes a tensor", found=operand, expected="a tensor parameter")
    return operand


def _same_dtype(row: Operator, value: object, dtype: DType) -> None:
    if not isinstance(value, DType) or value.signless != dtype.signless:
        raise DTypeError(f"the value of {row.name} has another dtype", found=value, expected=dtype)


@rule
def _read(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> DType:
    tensor = _tensor(row, operands[0])
    check_dtype(row, tensor.dtype, target)
    return tensor.dtype


@rule
def _write(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> None:
    tensor = _tensor(row, operands[1])
    check_dtype(row, tensor.dtype, target)
    _same_dtype(row, operands[0], tensor.dtype)


def _in_vec(row: Operator, operand: object, target: Target) -> TileType:
    tile = expect_tile(row, operand, "src")
    check_dtype(row, tile.dtype, target)
    if tile.space is Space.ACC or tile.space is Space.VEC:
        return replace(tile, space=Space.VEC)
    raise LayoutError(
        "single elements are read and written in Vec",
        found=tile.describe(),
        hint="load the tile into Vec, or read the element from the tensor",
    )


@rule
def _read_tile(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> DType:
    return _in_vec(row, operands[0], target).dtype


@rule
def _write_tile(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> TileType:
    tile = _in_vec(row, operands[0], target)
    _same_dtype(row, operands[1], tile.dtype)
    return tile


@rule
def _array_create(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> ArrayType:
    size, dtype = attributes["size"], attributes["dtype"]
    assert isinstance(size, int)
    assert isinstance(dtype, DType)
    if size < 1:
        raise ShapeError("an array has at least one element", found=size)
    check_dtype(row, dtype, target)
    return ArrayType(size, dtype)


@rule
def _array_get(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> DType:
    array = operands[0]
    assert isinstance(array, ArrayType)
    return INDEX if array.dtype == TASK_ID else array.dtype


@rule
def _array_set(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> None:
    array = operands[1]
    assert isinstance(array, ArrayType)
    _same_dtype(row, operands[0], array.dtype)
