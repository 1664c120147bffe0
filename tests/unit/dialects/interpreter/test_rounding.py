from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy
import pytest

from pypto_jit.dialects.interpreter.rounding import convert, largest, round_to_float, round_to_integral
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8

MODES = ("rint", "round", "floor", "ceil", "trunc", "odd")


@pytest.mark.parametrize(
    ("value", "rint", "half_away", "floor", "ceil", "trunc", "odd"),
    [
        (0.0, 0, 0, 0, 0, 0, 0),
        (0.3, 0, 0, 0, 1, 0, 1),
        (-0.3, 0, 0, -1, 0, 0, -1),
        (0.5, 0, 1, 0, 1, 0, 1),
        (1.5, 2, 2, 1, 2, 1, 1),
        (2.5, 2, 3, 2, 3, 2, 3),
        (-2.5, -2, -3, -3, -2, -2, -3),
        (-1.5, -2, -2, -2, -1, -1, -1),
        (3.0, 3, 3, 3, 3, 3, 3),
        (4.0, 4, 4, 4, 4, 4, 4),
        (-4.0, -4, -4, -4, -4, -4, -4),
        (0.49999999999999994, 0, 0, 0, 1, 0, 1),  # adding a half would round up to 1
    ],
)
def test_seven_modes_to_integral(value, rint, half_away, floor, ceil, trunc, odd):
    values = numpy.array([value])
    given = [round_to_integral(values, mode)[0] for mode in MODES]
    assert given == [rint, half_away, floor, ceil, trunc, odd]


def neighbours(value: Fraction, precision: int, smallest: int) -> tuple[Fraction, Fraction]:
    """The representable numbers below and above, by exact arithmetic."""
    exponent = max(smallest, math.frexp(float(value))[1] - 1)
    quantum = Fraction(2) ** (exponent - precision + 1)
    low = (value // quantum) * quantum
    return low, low if low == value else low + quantum


def expected(value: Fraction, mode: str, precision: int, smallest: int) -> Fraction:
    low, high = neighbours(value, precision, smallest)
    toward, away = (low, high) if value > 0 else (high, low)
    if low == high or mode == "floor":
        return low
    if mode in ("ceil", "trunc"):
        return high if mode == "ceil" else toward
    quantum = high - low
    if mode == "odd":
        return low if (low / quantum) % 2 else high
    if value - low != high - value:
        return low if value - low < high - value else high
    if mode == "round":
        return away
    return low if (low / quantum) % 2 == 0 else high


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "precision", "smallest"), [(FP16, 11, -14), (BF16, 8, -126), (FP32, 24, -126)])
def test_float_rounding_is_exact(dtype, precision, smallest, mode):
    generator = numpy.random.default_rng(7)
    limit = 1000.0
    values = generator.uniform(-limit, limit, 200).astype(numpy.float32).astype(numpy.float64)
    halfway = (generator.integers(1, 2**precision, 50) * 2 + 1) * 2.0 ** (-precision)
    denormal = generator.uniform(-1, 1, 50) * 2.0**smallest
    everything = numpy.concatenate([values, halfway, -halfway, denormal])
    given = round_to_float(everything, dtype, mode)
    assert given.dtype == dtype.numpy
    for value, rounded in zip(everything, given, strict=True):
        assert Fraction(float(rounded)) == expected(Fraction(float(value)), mode, precision, smallest)


@pytest.mark.parametrize(("dtype", "numpy_dtype"), [(FP16, numpy.float16), (BF16, ml_dtypes.bfloat16)])
def test_rounding_to_nearest_is_numpys(dtype, numpy_dtype):
    generator = numpy.random.default_rng(3)
    values = generator.integers(0, 2**32, 4000, dtype=numpy.uint32).view(numpy.float32)
    with numpy.errstate(all="ignore"):
        given = convert(values, FP32, dtype, "rint")
        numpy.testing.assert_array_equal(given.astype(float), values.astype(numpy_dtype).astype(float))


@pytest.mark.parametrize("mode", MODES)
def test_specials_pass_through(mode):
    values = numpy.array([numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0])
    given = round_to_float(values, FP16, mode)
    assert numpy.isnan(given[0])
    assert given[1:3].tolist() == [numpy.inf, -numpy.inf]
    assert numpy.signbit(given[3:]).tolist() == [False, True]


@pytest.mark.parametrize(
    ("mode", "positive", "negative"),
    [
        ("none", numpy.inf, -numpy.inf),
        ("rint", numpy.inf, -numpy.inf),
        ("round", numpy.inf, -numpy.inf),
        ("floor", 65504, -numpy.inf),
        ("ceil", numpy.inf, -65504),
        ("trunc", 65504, -65504),
        ("odd", 65504, -65504),
    ],
)
def test_overflow(mode, positive, negative):
    assert round_to_float(numpy.array([1e6, -1e6]), FP16, mode).tolist() == [positive, negative]


@pytest.mark.parametrize(
    ("dtype", "value"), [(FP16, numpy.finfo(numpy.float16).max), (FP32, numpy.finfo(numpy.float32).max)]
)
def test_largest(dtype, value):
    assert largest(dtype) == float(value)
    assert largest(BF16) == float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)


@pytest.mark.parametrize(
    ("dtype", "expected_values"),
    [
        (INT32, [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 300, -300]),
        (INT16, [0, 32767, -32768, 32767, -32768, 300, -300]),
        (INT8, [0, 127, -128, 127, -128, 127, -128]),
        (UINT8, [0, 255, 0, 255, 0, 255, 0]),
    ],
    ids=repr,
)
def test_float_to_integer_saturates(dtype, expected_values):
    values = numpy.array([numpy.nan, numpy.inf, -numpy.inf, 3e9, -3e9, 300.4, -300.4], numpy.float32)
    given = convert(values, FP32, dtype, "rint")
    assert given.dtype == dtype.numpy
    assert given.tolist() == expected_values


@pytest.mark.parametrize(
    ("source", "goal", "value", "kept"),
    [(INT32, INT16, 70000, 4464), (INT32, UINT8, -1, 255), (INT16, UINT8, 258, 2), (INT16, INT32, -5, -5)],
)
def test_integer_to_integer_keeps_the_low_bits(source, goal, value, kept):
    assert convert(numpy.array([value], source.numpy), source, goal, "rint").tolist() == [kept]


def test_none_rounds_to_nearest_for_floats_and_toward_zero_for_integers():
    assert convert(numpy.array([1.75, -1.75], numpy.float32), FP32, INT32, "none").tolist() == [1, -1]
    # 2049 lies between the FP16 numbers 2048 and 2050; the even significand is 2048.
    assert convert(numpy.array([2049.0, 2051.0], numpy.float32), FP32, FP16, "none").tolist() == [2048, 2052]


@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("rint", 2**24),
        ("round", 2**24 + 2),
        ("floor", 2**24),
        ("ceil", 2**24 + 2),
        ("trunc", 2**24),
        ("odd", 2**24 + 2),
    ],
)
def test_inexact_integer_to_float(mode, value):
    # 2**24 + 1 lies between two FP32 numbers whose last bits are 0 (2**24) and 1 (2**24 + 2).
    assert convert(numpy.array([2**24 + 1], numpy.int32), INT32, FP32, mode).tolist() == [value]
