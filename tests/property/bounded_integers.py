"""What integers do on tensors with error bounds: bits, and quotients that are rounded down; of floats these too."""

from __future__ import annotations

from typing import Any

import torch

from tests.property.bounded import (
    ROUNDOFF,
    Bounded,
    Function,
    IllConditionedError,
    divide,
    exact,
    joined,
    multiply,
    spread,
    subtract,
)

BITS = {
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "left": torch.bitwise_left_shift,
    "right": torch.bitwise_right_shift,
}


def _known(*operands: Bounded) -> None:
    """Of what is not known exactly, bits and remainders may be any."""
    if any(bool((each.radius > 0).any()) for each in operands):
        raise IllConditionedError


def bits(name: str, x: Any, y: Any) -> Bounded:
    """An operator on the bits of two integers; shifts to the right repeat the sign."""
    x, y = joined(x, y)
    _known(x, y)
    value = BITS[name](x.value, y.value)
    return exact(value, torch.zeros(value.shape, dtype=torch.float64), x.dtype)


def whole(function: Function, x: Bounded) -> Bounded:
    """Rounded to whole numbers of its dtype, either one where the interval has a step."""
    if not x.dtype.is_float:
        return x
    value = function(x.value)
    # FP16 and BF16 may only now be rounded to their dtype.
    narrow = ROUNDOFF[x.dtype] * 1.001 * value.abs() * (x.radius > 0) if x.dtype.bits == 16 else 0.0
    return exact(value, spread(function, x) + narrow, x.dtype)


def quotient(x: Any, y: Any) -> Bounded:
    """x // y."""
    x, y = joined(x, y)
    if x.dtype.is_float:
        return whole(torch.floor, divide(x, y))
    return _of_integers(torch.floor_divide, x, y)


def remainder(x: Any, y: Any) -> Bounded:
    """x % y: it has the sign of y; of floats what the FP32 quotient leaves."""
    x, y = joined(x, y)
    if x.dtype.is_float:
        return subtract(x, multiply(quotient(x, y), y))
    return _of_integers(torch.remainder, x, y)


def _of_integers(function: Any, x: Bounded, y: Bounded) -> Bounded:
    _known(x, y)
    # A quotient by zero may be any.
    if bool((y.value == 0).any()):
        raise IllConditionedError
    value = function(x.value, y.value)
    return exact(value, torch.zeros(value.shape, dtype=torch.float64), x.dtype)
