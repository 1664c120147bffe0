"""The tensor-level language on tensors with error bounds: what a kernel's own source means in double precision.

A kernel's text runs with this module as ``pl`` as it runs with the language itself.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import torch

from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType
from tests.property import bounded_places, bounded_products
from tests.property.bounded import (
    ROUNDOFF,
    TABULATED,
    Bounded,
    IllConditionedError,
    add,
    choose,
    compare,
    convert,
    divide,
    exact,
    extreme,
    gamma,
    joined,
    monotone,
    multiply,
    operand,
    rounded,
)
from tests.property.bounded_integers import whole
from tests.property.bounded_products import accumulated, einsum

# Documented: the error of gelu in FP32 for inputs known exactly; of tanh 6 units in the last place.
GELU_ERROR = 5e-7
TANH_UNITS = 12
# The largest slopes of gelu and silu.
GELU_SLOPE, SILU_SLOPE = 1.13, 1.1

Axis = Any


# Elementwise


def exp(x: Bounded) -> Bounded:
    return monotone(torch.exp, x, TABULATED)


def log(x: Bounded) -> Bounded:
    return monotone(torch.log, x, TABULATED)


def sqrt(x: Bounded) -> Bounded:
    if bool((x.value < 0).any()):
        raise IllConditionedError
    return monotone(lambda value: torch.sqrt(value.double().clamp(min=0)), x, 1)


def rsqrt(x: Bounded) -> Bounded:
    return monotone(torch.rsqrt, x, TABULATED)


def recip(x: Bounded) -> Bounded:
    return divide(1.0, x)


def maximum(x: Any, y: Any) -> Bounded:
    return extreme(torch.maximum, x, y)


def minimum(x: Any, y: Any) -> Bounded:
    return extreme(torch.minimum, x, y)


def relu(x: Bounded) -> Bounded:
    return maximum(x, 0)


def cast(x: Bounded, dtype: DType, mode: str = "round") -> Bounded:
    return convert(x, dtype, mode)


def cmp(x: Any, y: Any, mode: str) -> Bounded:
    return compare(mode, x, y)


def where(mask: Bounded, x: Any, y: Any) -> Bounded:
    return choose(mask, x, y)


def sigmoid(x: Bounded) -> Bounded:
    # Roundings of exp, of the sum and of the quotient; of a sum of at least one exp's own error counts at most whole.
    return monotone(torch.sigmoid, x, TABULATED + 2)


def silu(x: Bounded) -> Bounded:
    (x,) = joined(x, always_float=True)
    return rounded(torch.nn.functional.silu(x.value), SILU_SLOPE * x.radius, x.dtype, TABULATED + 2)


def gelu(x: Bounded, approximate: str = "none") -> Bounded:
    (x,) = joined(x, always_float=True)
    value = torch.nn.functional.gelu(x.value, approximate=approximate)
    # The argument of the exponential function carries the roundings of a cubic.
    own = GELU_ERROR if approximate == "none" else 8 * ROUNDOFF[FP32] * (x.value.abs() + x.value.abs() ** 3)
    return rounded(value, GELU_SLOPE * x.radius + own, x.dtype, TABULATED + 2)


def tanh(x: Bounded) -> Bounded:
    return monotone(torch.tanh, x, TANH_UNITS)


def square(x: Bounded) -> Bounded:
    return multiply(x, x)


def clamp(x: Bounded, min: Any = None, max: Any = None) -> Bounded:
    low = x if min is None else maximum(x, min)
    return low if max is None else minimum(low, max)


def floor(x: Bounded) -> Bounded:
    return whole(torch.floor, x)


def ceil(x: Bounded) -> Bounded:
    return whole(torch.ceil, x)


def trunc(x: Bounded) -> Bounded:
    return whole(torch.trunc, x)


def round(x: Bounded) -> Bounded:
    return whole(torch.round, x)


# Reductions


def _axes(x: Bounded, axis: Axis) -> tuple[int, ...]:
    rank = len(x.shape)
    if axis is None:
        return tuple(builtins.range(rank))
    return tuple(each % rank for each in (axis if isinstance(axis, tuple) else (axis,)))


def _count(x: Bounded, axes: Sequence[int]) -> int:
    return math.prod(x.shape[axis] for axis in axes)


def sum(x: Bounded, axis: Axis = None, keepdims: bool = False) -> Bounded:
    axes = _axes(x, axis)
    if not axes:
        return x
    value, radius, size = (each.sum(axes, keepdim=keepdims) for each in (x.value, x.radius, x.size))
    # A sum over several axes may be made of sums, which are rounded as well.
    own = gamma(_count(x, axes)) + (2 * ROUNDOFF[x.dtype] if x.dtype in (FP16, BF16) else 0)
    return rounded(value, radius + own * size if x.dtype.is_float else radius, x.dtype, narrowings=1)


def mean(x: Bounded, axis: Axis = None, keepdims: bool = False) -> Bounded:
    (x,) = joined(x, always_float=True)
    if _count(x, _axes(x, axis)) == 0:
        raise IllConditionedError
    return multiply(sum(x, axis, keepdims), 1.0 / _count(x, _axes(x, axis)))


def _extremum(name: str, x: Bounded, axis: Axis, keepdims: bool) -> Bounded:
    axes = _axes(x, axis)
    if not axes:
        return x
    if _count(x, axes) == 0:
        raise IllConditionedError
    function = getattr(torch, name)
    value = function(x.value, axes, keepdims)
    ends = [function(x.value + sign * x.radius, axes, keepdims) for sign in (-1, 1)]
    return exact(value, torch.maximum(*((end - value).abs() for end in ends)), x.dtype)


def max(x: Bounded, axis: Axis = None, keepdims: bool = False) -> Bounded:
    return _extremum("amax", x, axis, keepdims)


def min(x: Bounded, axis: Axis = None, keepdims: bool = False) -> Bounded:
    return _extremum("amin", x, axis, keepdims)


def _multiplied(x: torch.Tensor, axes: Sequence[int], keepdims: bool) -> torch.Tensor:
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keepdims)
    return x


def prod(x: Bounded, axis: Axis = None, keepdims: bool = False) -> Bounded:
    axes = _axes(x, axis)
    value = _multiplied(x.value, axes, keepdims)
    if not x.dtype.is_float:
        if bool((x.radius > 0).any()):
            raise IllConditionedError
        return exact(value, torch.zeros_like(value, dtype=torch.float64), x.dtype)
    size = x.size
    # Where a partial product could overflow, or lose digits as a subnormal number, the order decides.
    large = _multiplied(size.clamp(min=1), axes, keepdims)
    small = _multiplied(torch.where(size == 0, 1.0, size.clamp(max=1)), axes, keepdims)
    if bool((large > (1e3 if x.dtype == FP16 else 1e25)).any() or (small < (1e-3 if x.dtype == FP16 else 1e-25)).any()):
        raise IllConditionedError
    most = _multiplied(size, axes, keepdims)
    own = gamma(_count(x, axes)) + (2 * ROUNDOFF[x.dtype] if x.dtype != FP32 else 0)
    return rounded(value, most - value.abs() + own * most, x.dtype)


def argmax(x: Bounded, axis: int | None = None, keepdims: bool = False) -> Bounded:
    return bounded_places.place(x, axis, keepdims, 1)


def argmin(x: Bounded, axis: int | None = None, keepdims: bool = False) -> Bounded:
    return bounded_places.place(x, axis, keepdims, -1)


def cumsum(x: Bounded, axis: int) -> Bounded:
    return bounded_places.cumulated(x, axis)


# Products


def matmul(
    a: Bounded,
    b: Bounded,
    out_dtype: DType | None = None,
    a_trans: bool = False,
    b_trans: bool = False,
    bias: Any = None,
) -> Bounded:
    if bias is None:
        return bounded_products.matmul(a, b, out_dtype, a_trans, b_trans)
    product = bounded_products.matmul(a, b, FP32 if a.dtype.is_float else INT32, a_trans, b_trans)
    return convert(add(product, bias), out_dtype or (a.dtype if a.dtype.is_float else INT32))


def matmul_acc(acc: Bounded, a: Bounded, b: Bounded) -> Bounded:
    return accumulated(acc, a, b)


def matmul_bias(a: Bounded, b: Bounded, bias: Bounded) -> Bounded:
    return add(matmul(a, b, bias.dtype), bias)


# Normalizations, as they are defined; narrow floats are widened first


def _in_fp32(x: Bounded) -> Bounded:
    return convert(x, FP32) if x.dtype in (FP16, BF16) else x


def softmax(x: Bounded, axis: int = -1) -> Bounded:
    wide = _in_fp32(x)
    exponentials = exp(wide - max(wide, axis, True))
    result = exponentials / sum(exponentials, axis, True)
    return convert(result, x.dtype) if x.dtype.is_float else result


def rms_norm(x: Bounded, weight: Any = None, eps: float = 1e-5) -> Bounded:
    wide = _in_fp32(x)
    result = wide * rsqrt(mean(wide * wide, -1, True) + eps)
    return convert(result if weight is None else result * weight, x.dtype)


def layer_norm(x: Bounded, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Bounded:
    wide = _in_fp32(x)
    centered = wide - mean(wide, -1, True)
    result = centered * rsqrt(mean(centered * centered, -1, True) + eps)
    result = result if weight is None else result * weight
    return convert(result if bias is None else result + bias, x.dtype)


# Forms


def reshape(x: Bounded, shape: Sequence[int]) -> Bounded:
    return x.seen(lambda tensor: tensor.reshape(tuple(shape)))


def transpose(x: Bounded, axis1: int, axis2: int) -> Bounded:
    return x.seen(lambda tensor: tensor.transpose(axis1, axis2))


def expand(x: Bounded, shape: Sequence[int]) -> Bounded:
    # A computed tensor: what is written to its source later does not reach it.
    return x.seen(lambda tensor: tensor.expand(tuple(shape)).clone())


def concat(*tensors: Bounded, axis: int = -1) -> Bounded:
    parts = joined(*tensors)
    value, radius = (torch.cat([getattr(part, name) for part in parts], axis) for name in ("value", "radius"))
    return exact(value, radius, parts[0].dtype)


# Made tensors


def create_tensor(shape: Sequence[int], dtype: DType, init_value: float | None = None) -> Bounded:
    if init_value is not None:
        return tensor.full(shape, dtype, init_value)
    empty = zeros(shape, dtype)
    return Bounded(empty.value, torch.full(tuple(shape), math.inf).double(), dtype)


def zeros(shape: Sequence[int], dtype: DType = FP32) -> Bounded:
    return tensor.full(shape, dtype, 0)


def ones(shape: Sequence[int], dtype: DType = FP32) -> Bounded:
    return tensor.full(shape, dtype, 1)


def arange(start: float, shape: Any, dtype: DType = INT32, descending: bool = False) -> Bounded:
    return bounded_places.counted(start, [shape] if isinstance(shape, int) else shape, dtype, descending)


def full_like(x: Bounded, value: float) -> Bounded:
    return tensor.full(x.shape, x.dtype, value)


def zeros_like(x: Bounded) -> Bounded:
    return full_like(x, 0)


def ones_like(x: Bounded) -> Bounded:
    return full_like(x, 1)


class tensor:
    """Functions whose plain names are those of tiles."""

    @staticmethod
    def full(shape: Sequence[int], dtype: DType, value: float) -> Bounded:
        number = operand(value, dtype)
        return Bounded(number.value.expand(tuple(shape)).clone(), number.radius.expand(tuple(shape)).clone(), dtype)


# Methods


def method(x: Bounded, name: str) -> Any:
    """A function of a tensor as its method, with torch's names for arguments."""
    torch_names = {"dim": "axis", "keepdim": "keepdims"}
    conversions = {"float": FP32, "int": INT32}

    def call(*given: Any, **named: Any) -> Bounded:
        named = {torch_names.get(key, key): value for key, value in named.items()}
        if name in ("reshape", "expand", "view") and isinstance(given[0], int):
            given = (given,)
        return to(x, conversions[name]) if name in conversions else globals()[name](x, *given, **named)

    return call


def view(x: Bounded, shape: Sequence[int]) -> Bounded:
    return reshape(x, shape)


def to(x: Bounded, dtype: DType) -> Bounded:
    return convert(x, dtype, "rint" if dtype.is_float else "trunc")


range = builtins.range


class jit:
    """Decorators of functions that kernels call."""

    @staticmethod
    def inline(function: Any) -> Any:
        return function


class Tensor:
    """An annotation."""


class InOut:
    """An annotation."""

    def __class_getitem__(cls, of: Any) -> Any:
        return cls


__all__ = ["BF16", "FP16", "FP32", "INT8", "INT16", "INT32", "UINT8", "einsum"]
