"""Products of whole tensors that something is added to, in the dtype that products are accumulated in."""

from __future__ import annotations

from typing import Any

from pypto_jit.dtypes import FP32, INT32
from pypto_jit.errors import DTypeError, ShapeError
from pypto_jit.language.expressions import elementwise, matmul, operand_of, type_of
from pypto_jit.language.tracing import here
from pypto_jit.language.values import Tensor


def accumulated(acc: Any, lhs: Any, rhs: Any) -> Tensor:
    """acc + lhs @ rhs.

    Args:
        acc: of the product's shape, in FP32 (INT32 where the factors are INT8).
        lhs, rhs: as in `pypto_jit.language.expressions.matmul`.

    Raises:
        DTypeError, ShapeError: the accumulator does not fit.
    """
    return _added("matmul_acc", acc, lhs, rhs, whole=True)


def biased(lhs: Any, rhs: Any, bias: Any) -> Tensor:
    """lhs @ rhs + bias, the result in the bias's dtype.

    Args:
        lhs, rhs: as in `pypto_jit.language.expressions.matmul`.
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
    shape = type_of(product).shape
    if type_of(result).shape != shape or (whole and kind.shape != shape):
        raise ShapeError(
            f"{name} adds to a product of another shape", span=here(), found=list(kind.shape), expected=list(shape)
        )
    return result
