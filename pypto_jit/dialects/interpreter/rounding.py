"""Rounding and conversion of values between dtypes, exact in every mode.

Every source dtype is exact in float64, so one rounding step from float64 is the whole of a conversion.
"""

from __future__ import annotations

import numpy
from numpy.typing import NDArray

from pypto_jit.dtypes import BF16, FP16, FP32, DType

Array = NDArray

# Significand bits with the hidden one, and exponent of the smallest normal number (IEEE 754-2019 table 3.5; bfloat16
# has the exponent range of binary32).
_FORMATS: dict[DType, tuple[int, int]] = {FP32: (24, -126), FP16: (11, -14), BF16: (8, -126)}


@numpy.errstate(invalid="ignore")
def round_to_integral(values: Array, mode: str) -> Array:
    """Round float64 values to integral float64 values.

    Args:
        values: float64, any shape.
        mode: ``rint`` half to even, ``round`` half away from zero, ``floor``, ``ceil``, ``trunc``, ``odd`` (an inexact
            value becomes its odd neighbour).
    """
    truncated = numpy.trunc(values)
    if mode == "rint":
        return numpy.rint(values)
    if mode == "floor":
        return numpy.floor(values)
    if mode == "ceil":
        return numpy.ceil(values)
    away = truncated + numpy.copysign(1.0, values)
    if mode == "round":
        return numpy.where(numpy.abs(values - truncated) >= 0.5, away, truncated)
    if mode == "odd":
        return numpy.where((truncated != values) & (numpy.mod(truncated, 2) == 0), away, truncated)
    return truncated


def round_to_float(values: Array, dtype: DType, mode: str = "rint") -> Array:
    """Round float64 values to a floating-point dtype; ``none`` is ``rint``.

    Overflow follows IEEE 754: to infinity when rounding to nearest or away from zero, else to the largest finite value.
    Returns an array of the dtype, of the same shape.
    """
    precision, smallest = _FORMATS[dtype]
    _, exponent = numpy.frexp(values)
    quantum = numpy.maximum(exponent - 1, smallest) - (precision - 1)
    scaled = numpy.ldexp(values, -quantum)
    rounded = numpy.ldexp(round_to_integral(scaled, "rint" if mode == "none" else mode), quantum)
    limit = largest(dtype)
    toward_zero = {
        "floor": values > 0,
        "ceil": values < 0,
        "trunc": numpy.full(values.shape, True),
        "odd": numpy.full(values.shape, True),
    }.get(mode, numpy.full(values.shape, False))
    overflow = numpy.where(toward_zero, limit, numpy.inf)
    rounded = numpy.where(numpy.abs(rounded) > limit, overflow, numpy.abs(rounded))
    rounded = numpy.copysign(rounded, values)
    return numpy.where(numpy.isfinite(values), rounded, values).astype(dtype.numpy)


def largest(dtype: DType) -> float:
    """The largest finite value of a floating-point dtype."""
    precision, smallest = _FORMATS[dtype]
    return (2.0 - 2.0 ** (1 - precision)) * 2.0 ** (1 - smallest)


def convert(values: Array, source: DType, target: DType, mode: str) -> Array:
    """Convert values of one dtype into another, as the ``cast`` operator does.

    Float to integer saturates, and NaN becomes 0; integer to integer keeps the low bits. ``none`` rounds to nearest for
    a floating-point target and toward zero for an integer target.

    Returns:
        An array of the target dtype, of the same shape.
    """
    if target.is_float:
        return round_to_float(values.astype(numpy.float64), target, mode)
    if not source.is_float:
        return values.astype(target.numpy)
    rounded = round_to_integral(values.astype(numpy.float64), "trunc" if mode == "none" else mode)
    limits = numpy.iinfo(target.numpy)
    saturated = numpy.clip(rounded, limits.min, limits.max)
    return numpy.where(numpy.isnan(saturated), 0, saturated).astype(target.numpy)
