"""Products of whole tensors, and what is added to them in the dtype that products are accumulated in."""

from __future__ import annotations

from typing import Any

from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rules.tensors import broadcast, product_type, tensor_type
from pypto_jit.dialects.types import TensorType
from pypto_jit.dtypes import FP32, INT32, DType
from pypto_jit.errors import DTypeError, ShapeError
from pypto_jit.language.expressions import (
    at_the_line,
    convert,
    elementwise,
    operand_of,
    rearrange,
    record,
    sides_of,
    type_of,
)
from pypto_jit.language.extents import Side
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import Tensor


def matmul(
    lhs: Any,
    rhs: Any,
    out_dtype: DType | None = None,
    a_trans: bool = False,
    b_trans: bool = False,
    bias: Any = None,
) -> Tensor:
    """The matrix product of two tensors: accumulated in FP32 (INT32 of INT8), in the operands' dtype.

    Args:
        lhs, rhs: one dimension (a vector), two, or more (leading ones broadcast).
        out_dtype: of the result; by default the operands' dtype, INT32 of INT8.
        a_trans, b_trans: whether an operand is taken transposed.
        bias: is added before the result is rounded; broadcasts to its shape.

    Raises:
        DTypeError, ShapeError: the operands or the bias do not fit.
    """
    left, right = type_of(operand_of("matmul", lhs)), type_of(operand_of("matmul", rhs))
    vectors = left.rank == 1, right.rank == 1
    if vectors[0]:
        lhs = rearrange(lhs, [-1, 0])
    if vectors[1]:
        rhs = rearrange(rhs, [0, -1])
    lhs, turned_lhs = _untransposed(lhs, a_trans and not vectors[0])
    rhs, turned_rhs = _untransposed(rhs, b_trans and not vectors[1])
    kinds = [_turned(type_of(t), turn) for t, turn in ((lhs, turned_lhs), (rhs, turned_rhs))]
    with at_the_line():
        result = product_type(*kinds)
        _check_product(left.dtype)
    sides = _product_sides(*(_swapped(sides_of(t), turn) for t, turn in ((lhs, turned_lhs), (rhs, turned_rhs))))
    attributes: dict[str, str | int | tuple[int, ...]] = {}
    if turned_lhs:
        attributes["a_trans"] = 1
    if turned_rhs:
        attributes["b_trans"] = 1
    product: Tensor = record("product", [lhs, rhs], attributes, result, sides)
    dtype = out_dtype or (left.dtype if left.dtype.is_float else result.dtype)
    if bias is None:
        product = convert(product, dtype, "rint")
    kept = [dim for dim in range(result.rank) if not (vectors[0] and dim == result.rank - 2)]
    kept = [dim for dim in kept if not (vectors[1] and dim == result.rank - 1)]
    product = product if len(kept) == result.rank else rearrange(product, kept)
    return product if bias is None else convert(_with_bias(product, bias), dtype, "rint")


def _with_bias(product: Tensor, bias: Any) -> Tensor:
    total, own = elementwise("add", product, bias), type_of(product).dtype
    if type_of(total).dtype != own:
        raise DTypeError(
            "the bias of matmul is added in the dtype that the product is accumulated in",
            span=here(),
            found=bias,
            expected=own,
            hint="add to the product: lhs @ rhs + bias",
        )
    if sides_of(total) != sides_of(product):
        found = list(sides_of(bias)) if isinstance(bias, Tensor) else bias
        raise ShapeError(
            "the bias of matmul has another shape", span=here(), found=found, expected=list(sides_of(product))
        )
    return total


def _check_product(dtype: DType) -> None:
    allowed = BY_NAME["matmul"].dtypes[current("pl.matmul").target.name]
    if dtype not in allowed:
        raise DTypeError(
            f"matmul does not take {dtype}",
            found=dtype,
            expected=", ".join(sorted(known.name for known in allowed)),
            hint="convert first: pl.cast(tensor, pl.FP32)",
        )


def _untransposed(tensor: Tensor, turned: bool) -> tuple[Tensor, bool]:
    """What a tensor is the transpose of, if of one: the cube takes it so. What has no rows in memory is copied."""
    rank = type_of(tensor).rank
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    found = current("pl.matmul").permutation(tensor)
    if found is not None and found[1] == swapped:
        tensor, turned = found[0], not turned
    kind = type_of(tensor)
    has_rows = kind.strides[-1] <= 1 or kind.shape[-1] == 1
    return (tensor if has_rows else rearrange(tensor, range(rank))), turned


def _turned(kind: TensorType, turn: bool) -> TensorType:
    return tensor_type(_swapped(kind.shape, turn), kind.dtype)


def _swapped(sides: tuple[Any, ...], turn: bool) -> tuple[Any, ...]:
    if not turn or len(sides) < 2:
        return sides
    *batch, rows, columns = sides
    return (*batch, columns, rows)


def _product_sides(left: tuple[Side, ...], right: tuple[Side, ...]) -> tuple[Side, ...]:
    """The extents of a product of matrices."""
    *leading, rows, inner = left
    *others, depth, columns = right
    with at_the_line():
        if inner != depth:
            raise ShapeError(
                "the inner extents of a matrix product differ",
                found=f"{list(left)} and {list(right)}",
                expected="[..., M, K] and [..., K, N]",
                hint="extents that are only known at run time are equal where they have one name",
            )
        batch = broadcast("matmul", [tuple(leading), tuple(others)]) if leading or others else ()
    return (*batch, rows, columns)


def accumulated(acc: Any, lhs: Any, rhs: Any) -> Tensor:
    """acc + lhs @ rhs.

    Args:
        acc: of the product's shape, in FP32 (INT32 where the factors are INT8).
        lhs, rhs: as in `matmul`.

    Raises:
        DTypeError, ShapeError: the accumulator does not fit.
    """
    return _added("matmul_acc", acc, lhs, rhs, whole=True)


def biased(lhs: Any, rhs: Any, bias: Any) -> Tensor:
    """lhs @ rhs + bias, the result in the bias's dtype.

    Args:
        lhs, rhs: as in `matmul`.
        bias: broadcasts to the product's shape, in FP32 (INT32 where the factors are INT8).

    Raises:
        DTypeError, ShapeError: the bias does not fit.
    """
    return _added("matmul_bias", bias, lhs, rhs, whole=False)


def _added(name: str, addend: Any, lhs: Any, rhs: Any, *, whole: bool) -> Tensor:
    kind, factor = type_of(operand_of(name, addend)), type_of(operand_of(name, lhs)).dtype
    wanted = FP32 if factor.is_float else INT32
    if kind.dtype != wanted:
        raise DTypeError(
            f"{name} adds in the dtype that products of {factor} are accumulated in",
            span=here(),
            found=kind.dtype,
            expected=wanted,
            hint=f"pl.cast(x, pl.{wanted}), or add to the product: lhs @ rhs + x",
        )
    product = matmul(lhs, rhs, wanted)
    result = elementwise("add", product, addend)
    own, sides = sides_of(addend), sides_of(product)
    if sides_of(result) != sides or (whole and own != sides):
        raise ShapeError(
            f"{name} adds to a product of another shape", span=here(), found=list(own), expected=list(sides)
        )
    return result
