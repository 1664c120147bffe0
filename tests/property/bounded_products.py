"""Matrix products, with something added too, and sums of products by names, of tensors with error bounds."""

from __future__ import annotations

import math

import torch

from pypto_jit.dtypes import FP32, INT32, DType
from tests.property.bounded import (
    Bounded,
    add,
    convert,
    exact,
    gamma,
    joined,
    multiply,
    rounded,
)


def matmul(
    a: Bounded, b: Bounded, out_dtype: DType | None = None, a_trans: bool = False, b_trans: bool = False
) -> Bounded:
    """The matrix product, accumulated in FP32; of INT8 in INT32."""
    a = a.T if a_trans else a
    b = b.T if b_trans else b
    value = a.value @ b.value
    radius = a.radius @ b.size + a.value.abs().double() @ b.radius
    if not a.dtype.is_float:
        product = exact(value, radius, INT32)
    else:
        product = rounded(value, radius + gamma(a.shape[-1]) * (a.size @ b.size), FP32)
    return convert(product, out_dtype or (a.dtype if a.dtype.is_float else INT32))


def accumulated(acc: Bounded, a: Bounded, b: Bounded) -> Bounded:
    """acc + a @ b, in the dtype of the accumulator; a product may go on from it."""
    product = matmul(a, b, FP32 if a.dtype.is_float else INT32)
    total = add(product, acc)
    if not total.dtype.is_float:
        return total
    return exact(total.value, total.radius + gamma(a.shape[-1] + 1) * acc.size, total.dtype)


def einsum(equation: str, *operands: Bounded) -> Bounded:
    """The sum of products of one or two operands, of which no one is summed over a dimension that only it has."""
    left, _, right = equation.partition("->")
    names = left.split(",")
    if len(operands) == 1:
        (x,) = operands
        axes = tuple(axis for axis, name in enumerate(names[0]) if name not in right)
        summed = x.sum(axes) if axes else x
        kept = "".join(name for name in names[0] if name in right)
        # Of what is in memory a view, as torch gives.
        return summed.seen(lambda tensor: torch.einsum(f"{kept}->{right}", tensor))
    x, y = joined(*operands)
    both = [name for name in names[0] if name in names[1] and name not in right]
    if not both:
        shared = [name for name in names[0] if name in names[1]]
        order = "".join([*shared, *(n for n in names[0] if n not in shared), *(n for n in names[1] if n not in shared)])
        wide = [_spread(each, own, order) for each, own in ((x, names[0]), (y, names[1]))]
        return multiply(*wide).seen(lambda tensor: torch.einsum(f"{order}->{right}", tensor).clone())

    def summed(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return torch.einsum(equation, first, second)

    value = summed(x.value, y.value)
    radius = summed(x.radius, y.size) + summed(x.value.abs().double(), y.radius)
    # What no dimension of a matrix is left for is no matrix product.
    of_elements = set(names[0]) == set(names[1])
    if not x.dtype.is_float:
        return exact(value, radius, x.dtype if of_elements else INT32)
    count = math.prod(x.shape[names[0].index(name)] for name in both)
    # Products of elements are rounded before they are added.
    product = rounded(value, radius + gamma(count + 1) * summed(x.size, y.size), FP32)
    return convert(product, x.dtype)


def _spread(x: Bounded, names: str, order: str) -> Bounded:
    kept = "".join(name for name in order if name in names)
    new = tuple(slice(None) if name in names else None for name in order)
    return x.seen(lambda tensor: torch.einsum(f"{names}->{kept}", tensor)[new])
