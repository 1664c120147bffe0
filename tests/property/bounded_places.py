"""Places of extremes, running totals and numbers in order, of tensors with error bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pypto_jit.dtypes import FP32, INT32, DType
from tests.property.bounded import Bounded, IllConditionedError, add, convert, exact, gamma, negated, rounded


def place(x: Bounded, axis: int | None, keepdims: bool, sign: int) -> Bounded:
    """Where the largest element is, or with a sign of -1 the smallest: of equal ones the first.

    An element may be found in place of the true one where its interval reaches as far as the largest lower end does;
    one that comes later and only reaches it is no larger.
    """
    rank = len(x.shape)
    if axis is None:
        found = place(x.seen(lambda tensor: tensor.reshape(-1)), 0, False, sign)
        return found.seen(lambda tensor: tensor.reshape([1] * rank)) if keepdims else found
    if x.shape[axis] == 0:
        raise IllConditionedError
    value = x.value.movedim(axis, -1) * sign
    radius = x.radius.movedim(axis, -1)
    numbers = torch.arange(value.shape[-1])

    def first(holds: torch.Tensor) -> torch.Tensor:
        return torch.where(holds, numbers, value.shape[-1]).amin(-1, keepdim=True)

    low, high = value - radius, value + radius
    best = low.amax(-1, keepdim=True)
    able = (high > best) | ((high == best) & (numbers <= first(low == best)))
    true = first(value == value.amax(-1, keepdim=True))
    off = torch.where(able, (numbers - true).abs(), 0).amax(-1, keepdim=True)
    forms = [each.movedim(-1, axis) if keepdims else each.squeeze(-1) for each in (true, off)]
    return exact(forms[0], forms[1].double(), INT32)


def cumulated(x: Bounded, axis: int) -> Bounded:
    """The sums of the elements up to each one: of floats added in FP32 in any order, and rounded once."""
    value, radius, size = (each.cumsum(axis) for each in (x.value, x.radius, x.size))
    if not x.dtype.is_float:
        return exact(value, radius, x.dtype)
    return rounded(value, radius + gamma(x.shape[axis]) * size, x.dtype)


def counted(start: float, shape: Sequence[int], dtype: DType, descending: bool) -> Bounded:
    """``start, start + 1, ...``, or downwards."""
    value = torch.arange(shape[-1]).reshape(tuple(shape))
    wide = FP32 if dtype.is_float else INT32
    places: Any = Bounded(value.double() if dtype.is_float else value, torch.zeros(value.shape).double(), wide)
    # Whole numbers of this size are exact.
    numbers = add(negated(places) if descending else places, start) if int(start) != start else None
    if numbers is None:
        numbers = exact(int(start) + (-places.value if descending else places.value), places.radius, wide)
    return convert(numbers, dtype)
