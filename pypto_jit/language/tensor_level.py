"""Functions of whole tensors: reductions over any axes, normalizations, linear layers.

Shapes broadcast as in NumPy; FP16 and BF16 are computed in FP32 and rounded once.
"""

from __future__ import annotations

from typing import Any

from pypto_jit.dtypes import BF16, FP16, FP32
from pypto_jit.language import cumulative, expressions, extremes, selection
from pypto_jit.language.expressions import convert, elementwise, mean_of, operand_of, reduce
from pypto_jit.language.signatures import checked
from pypto_jit.language.values import Tensor


@checked
def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over some axes (an integer or a tuple); over all where none is given.

    Args:
        x: a tensor.
        axis: counts from the end where negative.
        keepdims: whether reduced dimensions stay, with extent 1.

    Raises:
        ShapeError: there is no such axis.
    """
    return reduce("sum", x, axis, keepdims)


@checked
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over some axes, as `sum`; of integers in FP32."""
    return mean_of(x, axis, keepdims)


def _wide(x: Any) -> tuple[Any, Any]:
    """A tensor in FP32, and the dtype that it had."""
    dtype = operand_of("a normalization", x).dtype
    return (convert(x, FP32, "rint") if dtype in (FP16, BF16) else x), dtype


@checked
def rms_norm(x: Any, weight: Any = None, eps: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x^2) + eps) along the last axis, times ``weight`` where it is given.

    Args:
        x: ``[..., N]``.
        weight: ``[N]``.
        eps: keeps the root from zero.
    """
    wide, dtype = _wide(x)
    scale = elementwise("rsqrt", elementwise("add", mean_of(wide * wide, -1, True), eps))
    result = wide * scale
    return convert(result if weight is None else result * weight, dtype, "rint")


@checked
def layer_norm(x: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) along the last axis, times ``weight``, plus ``bias``.

    Args:
        x: ``[..., N]``.
        weight, bias: ``[N]``.
        eps: keeps the root from zero.
    """
    wide, dtype = _wide(x)
    centered = wide - mean_of(wide, -1, True)
    result = centered * elementwise("rsqrt", elementwise("add", mean_of(centered * centered, -1, True), eps))
    if weight is not None:
        result = result * weight
    return convert(result if bias is None else result + bias, dtype, "rint")


@checked
def expand(x: Any, shape: Any) -> Tensor:
    """A tensor broadcast to a shape.

    Raises:
        ShapeError: it does not broadcast to it.
    """
    return expressions.expand(x, shape)


@checked
def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The product over some axes, as `sum`."""
    return reduce("prod", x, axis, keepdims)


@checked
def argmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Where the largest element is along an axis, as INT32; in the flattened tensor where none is given.

    Of equal elements the first; NaN counts as larger than all numbers.

    Raises:
        ShapeError: there is no such axis, or it has no elements.
    """
    return extremes.place("argmax", x, axis, keepdims)


@checked
def argmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Where the smallest element is, as `argmax`; NaN counts as smaller than all numbers."""
    return extremes.place("argmin", x, axis, keepdims)


@checked
def cumsum(x: Any, axis: Any) -> Tensor:
    """The sums of the elements up to each one along an axis, in the dtype of the tensor.

    FP16 and BF16 are added up in FP32 and rounded once; integers wrap.

    Raises:
        ShapeError: there is no such axis.
    """
    return cumulative.cumulated(x, axis)


@checked
def where(mask: Any, x: Any, y: Any) -> Tensor:
    """The elements of ``x`` where the mask is not zero, those of ``y`` elsewhere.

    Args:
        mask: a tensor, such as a comparison gives.
        x, y: tensors or numbers; the shapes of all three broadcast.

    Raises:
        ShapeError: they do not.
    """
    return selection.where(mask, x, y)


@checked
def full_like(x: Any, value: Any) -> Tensor:
    """A tensor of the shape and dtype of another one, of one value."""
    tensor = operand_of("full_like", x)
    return expressions.filled(expressions.sides_of(tensor), tensor.dtype, value)


@checked
def zeros_like(x: Any) -> Tensor:
    """Zeros in the shape and dtype of another tensor."""
    return full_like(x, 0)


@checked
def ones_like(x: Any) -> Tensor:
    """Ones in the shape and dtype of another tensor."""
    return full_like(x, 1)


__all__ = [
    "argmax",
    "argmin",
    "cumsum",
    "expand",
    "full_like",
    "layer_norm",
    "mean",
    "ones_like",
    "prod",
    "rms_norm",
    "sum",
    "where",
    "zeros_like",
]
# Those that are methods of a tensor too.
METHODS = ("argmax", "argmin", "cumsum", "expand", "layer_norm", "mean", "prod", "rms_norm", "sum")
