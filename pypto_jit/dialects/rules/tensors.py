"""Rules of tensor-level operations: what elementwise work, reductions and products of whole tensors give.

Promotion: of two tensor dtypes a float wins over an integer, then the wider one, then the signed one; FP16 with BF16
gives FP32. A scalar takes the tensor's dtype, but a float with an integer tensor makes the result FP32. Shapes
broadcast as in NumPy.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.types import TensorType, row_major_strides
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT32, DType
from pypto_jit.errors import DTypeError, ShapeError

# Rows of the table whose result is a float whatever they are given.
_FLOAT_RESULTS = frozenset({"div", "exp", "log", "sqrt", "rsqrt", "recip"})


def tensor_type(shape: Sequence[int], dtype: DType) -> TensorType:
    """The type of a computed tensor: contiguous."""
    return TensorType(tuple(shape), dtype, row_major_strides(tuple(shape)))


def broadcast(name: str, shapes: Sequence[tuple[Hashable, ...]]) -> tuple[Any, ...]:
    """The shape that operands of these shapes broadcast to.

    Args:
        name: of the operation.
        shapes: of numbers, or of whatever stands for an extent that is only known at run time.

    Raises:
        ShapeError: they do not.
    """
    rank = max(map(len, shapes))
    result = []
    for position in range(-rank, 0):
        extents = {shape[position] for shape in shapes if len(shape) >= -position}
        wide = extents - {1}
        if len(wide) > 1:
            known = all(isinstance(extent, int) for extent in wide)
            raise ShapeError(
                f"the operands of {name} do not broadcast",
                found=" and ".join(str(list(shape)) for shape in shapes),
                expected="extents that are equal, or 1, from the last dimension on",
                hint=None if known else "extents that are only known at run time are equal where they have one name",
            )
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def promote(first: DType, second: DType) -> DType:
    """The dtype that two tensor dtypes are computed in."""
    if first == second:
        return first
    if {first, second} == {FP16, BF16}:
        return FP32
    return max(first, second, key=lambda dtype: (dtype.is_float, dtype.bits, dtype.kind == "int"))


def map_type(row: Operator, operands: Sequence[TensorType | DType]) -> TensorType:
    """The result of elementwise work on tensors and scalars.

    Raises:
        ShapeError: the shapes do not broadcast.
    """
    tensors = [operand for operand in operands if isinstance(operand, TensorType)]
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = promote(dtype, tensor.dtype)
    scalars = [operand for operand in operands if isinstance(operand, DType)]
    if not dtype.is_float and (row.name in _FLOAT_RESULTS or any(scalar.is_float for scalar in scalars)):
        dtype = FP32
    return tensor_type(broadcast(row.name, [tensor.shape for tensor in tensors]), dtype)


def select_type(operands: Sequence[TensorType | DType]) -> TensorType:
    """The result of a selection: the mask, which only broadcasts, and the tensors or scalars that it chooses from.

    Raises:
        ShapeError: the shapes do not broadcast.
    """
    values = [operand.dtype if isinstance(operand, TensorType) else operand for operand in operands[1:]]
    tensors = [operand for operand in operands[1:] if isinstance(operand, TensorType)]
    if tensors:
        dtype = tensors[0].dtype
        for tensor in tensors[1:]:
            dtype = promote(dtype, tensor.dtype)
    else:
        dtype = promote(*values)
    if not dtype.is_float and any(value.is_float for value in values):
        dtype = FP32
    shapes = [operand.shape for operand in operands if isinstance(operand, TensorType)]
    return tensor_type(broadcast("where", shapes), dtype)


def reduce_type(name: str, operand: TensorType, axes: Sequence[int], keepdims: bool) -> TensorType:
    """The result of a reduction over some axes.

    Raises:
        ShapeError: an axis that is not there, or is named twice.
    """
    rank = operand.rank
    normal = sorted(axis + rank if axis < 0 else axis for axis in axes)
    if any(not 0 <= axis < rank for axis in normal) or len(set(normal)) != len(normal):
        raise ShapeError(
            f"{name} reduces axes of its tensor, each once",
            found=f"axes {list(axes)} of a tensor with {rank} dimensions",
            expected=f"{-rank} to {rank - 1}",
        )
    shape = [1 if k in normal else extent for k, extent in enumerate(operand.shape) if keepdims or k not in normal]
    return tensor_type(shape, operand.dtype)


def index_type(name: str, operand: TensorType, axes: Sequence[int], keepdims: bool) -> TensorType:
    """The result of ``argmax`` or ``argmin`` over an axis: INT32.

    Raises:
        ShapeError: as `reduce_type`, or the axis has no elements.
    """
    result = reduce_type(name, operand, axes, keepdims)
    if any(operand.shape[axis] == 0 for axis in axes):
        raise ShapeError(
            f"{name} needs an element to find",
            found=list(operand.shape),
            expected=f"a positive extent along axis {axes[0]}",
        )
    return tensor_type(result.shape, INT32)


def cumulate_type(operand: TensorType, axis: int) -> TensorType:
    """The result of running totals along an axis.

    Raises:
        ShapeError: there is no such axis.
    """
    reduce_type("cumsum", operand, (axis,), keepdims=True)
    return tensor_type(operand.shape, operand.dtype)


def product_type(lhs: TensorType, rhs: TensorType) -> TensorType:
    """The result of a matrix product: FP32, or INT32 of INT8; leading dimensions broadcast.

    Raises:
        DTypeError: the operands have different dtypes.
        ShapeError: the inner extents differ, or an operand is no matrix.
    """
    if lhs.dtype != rhs.dtype:
        raise DTypeError(
            "a matrix product takes operands of one dtype",
            found=f"{lhs.dtype} and {rhs.dtype}",
            hint=f"convert one of them, for example pl.cast(rhs, pl.{lhs.dtype.name})",
        )
    if lhs.rank < 2 or rhs.rank < 2 or lhs.shape[-1] != rhs.shape[-2]:
        raise ShapeError(
            "the inner extents of a matrix product differ",
            found=f"{list(lhs.shape)} and {list(rhs.shape)}",
            expected="[..., M, K] and [..., K, N]",
        )
    batch = broadcast("matmul", [lhs.shape[:-2], rhs.shape[:-2]]) if lhs.rank > 2 or rhs.rank > 2 else ()
    return tensor_type((*batch, lhs.shape[-2], rhs.shape[-1]), INT32 if lhs.dtype == INT8 else FP32)
