from __future__ import annotations

import math

import numpy
import pytest
import torch

from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8

NAN, INF = math.nan, math.inf


def row(*values: float, dtype=FP32) -> numpy.ndarray:
    return numpy.array([values]).astype(dtype.numpy)


def check(given: numpy.ndarray, expected: list) -> None:
    numpy.testing.assert_array_equal(given.astype(numpy.float64).ravel(), numpy.array(expected, numpy.float64))


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("add", [1, -2.5, INF, INF], [2, 0.5, 1, -INF], [3, -2, INF, NAN]),
        ("sub", [1, -2.5], [2, 0.5], [-1, -3]),
        ("mul", [3, -2.5, INF], [2, 0.5, 0], [6, -1.25, NAN]),
        ("div", [3, -2.5, 1, -1, 0], [2, 0.5, 0, 0, 0], [1.5, -5, INF, -INF, NAN]),
        ("maximum", [3, NAN, 1, -INF], [2, 1, NAN, 0], [3, NAN, NAN, 0]),
        ("minimum", [3, NAN, 1, -INF], [2, 1, NAN, 0], [2, NAN, NAN, -INF]),
    ],
)
@pytest.mark.parametrize("dtype", [FP32, FP16], ids=repr)
def test_binary_floats(run_operator, name, a, b, expected, dtype):
    check(run_operator(name, row(*a, dtype=dtype), row(*b, dtype=dtype)), expected)


@pytest.mark.parametrize(
    ("name", "dtype", "a", "b", "expected"),
    [
        ("add", INT16, [32767, -5], [1, 3], [-32768, -2]),
        ("add", INT8, [127], [1], [-128]),
        ("sub", INT32, [-(2**31)], [1], [2**31 - 1]),
        ("mul", INT16, [300, -7], [300, 3], [24464, -21]),
        ("div", INT32, [7, -7, 7, 5, -(2**31)], [2, 2, -2, 0, -1], [3, -3, -3, 0, -(2**31)]),
        ("div", INT16, [-32768, -32768], [-1, 0], [-32768, 0]),
        ("maximum", INT8, [-3, 5], [2, -128], [2, 5]),
        ("minimum", INT32, [-3, 5], [2, -128], [-3, -128]),
    ],
)
def test_binary_integers(run_operator, name, dtype, a, b, expected):
    check(run_operator(name, row(*a, dtype=dtype), row(*b, dtype=dtype)), expected)


@pytest.mark.parametrize(
    ("name", "dtype", "values", "scalar", "expected"),
    [
        ("adds", FP32, [1, -2], ("0.5", "f32"), [1.5, -1.5]),
        ("subs", FP16, [1, -2], ("0.5", "f16"), [0.5, -2.5]),
        ("muls", BF16, [1, -2], ("0.5", "bf16"), [0.5, -1]),
        ("divs", FP32, [1, -2], ("4.0", "f32"), [0.25, -0.5]),
        ("rdivs", FP32, [2, -4, 0], ("1.0", "f32"), [0.5, -0.25, INF]),
        ("maximums", INT32, [5, -7], ("-2", "i32"), [5, -2]),
        ("minimums", INT16, [5, -7], ("-2", "i16"), [-2, -7]),
        ("divs", INT32, [7, -7], ("-2", "i32"), [-3, 3]),
        ("divs", INT32, [7, -7], ("0", "i32"), [0, 0]),
        ("rdivs", INT16, [2, -2, 0], ("7", "i16"), [3, -3, 0]),
        ("adds", INT8, [127], ("1", "i8"), [-128]),
        ("maximums", FP32, [NAN, 1], ("2.0", "f32"), [NAN, 2]),
    ],
)
def test_tile_and_scalar(run_operator, name, dtype, values, scalar, expected):
    check(run_operator(name, row(*values, dtype=dtype), scalar=scalar), expected)


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("neg", [1.5, -2, INF, NAN], [-1.5, 2, -INF, NAN]),
        ("abs", [1.5, -2, -INF, NAN], [1.5, 2, INF, NAN]),
        ("exp", [0, -INF, INF, NAN, 1000], [1, 0, INF, NAN, INF]),
        ("log", [1, 0, -1, INF, NAN], [0, -INF, NAN, INF, NAN]),
        ("sqrt", [4, 0, -1, INF, NAN], [2, 0, NAN, INF, NAN]),
        ("rsqrt", [4, 0, -1, INF, NAN], [0.5, INF, NAN, 0, NAN]),
        ("recip", [4, 0, -0.0, INF, NAN], [0.25, INF, -INF, 0, NAN]),
        ("relu", [4, 0, -1, INF, -INF, NAN], [4, 0, 0, INF, 0, NAN]),
    ],
)
@pytest.mark.parametrize("dtype", [FP32, FP16], ids=repr)
def test_unary_floats(run_operator, name, values, expected, dtype):
    check(run_operator(name, row(*values, dtype=dtype)), expected)


@pytest.mark.parametrize(
    ("name", "values", "expected"), [("neg", [3, -(2**31)], [-3, -(2**31)]), ("relu", [3, -2], [3, 0])]
)
def test_unary_integers(run_operator, name, values, expected):
    check(run_operator(name, row(*values, dtype=INT32)), expected)


@pytest.mark.parametrize(
    ("name", "operands", "negative"),
    [
        ("neg", [(0.0, -0.0)], [True, False]),
        ("abs", [(-0.0, 0.0)], [False, False]),
        ("relu", [(-0.0, 0.0)], [True, False]),
        ("add", [(-0.0, 0.0), (-0.0, -0.0)], [True, False]),
        ("sqrt", [(-0.0, 0.0)], [True, False]),
    ],
)
def test_signs_of_zero_are_torchs(run_operator, name, operands, negative):
    given = run_operator(name, *(row(*values) for values in operands))
    assert numpy.signbit(given).ravel().tolist() == negative
    expected = getattr(torch, name)(*(torch.tensor(values) for values in operands))
    assert torch.signbit(expected).tolist() == negative


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_of_two_zeros_the_second_is_taken(run_operator, name):
    given = run_operator(name, row(0.0, -0.0), row(-0.0, 0.0))
    assert numpy.signbit(given).ravel().tolist() == [True, False]


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "rsqrt"])
def test_functions_are_correctly_rounded_in_single_precision(run_operator, name):
    values = numpy.random.default_rng(1).uniform(1e-3, 80, (4, 64)).astype(numpy.float32)
    exact = getattr(torch, name)(torch.from_numpy(values).double())
    numpy.testing.assert_array_equal(run_operator(name, values), exact.float().numpy())


def test_half_precision_is_rounded_once_per_operator(run_operator):
    values = numpy.random.default_rng(2).uniform(-3, 3, (4, 64)).astype(numpy.float16)
    single = torch.from_numpy(values).float()
    numpy.testing.assert_array_equal(run_operator("exp", values), torch.exp(single.double()).float().half().numpy())
    numpy.testing.assert_array_equal(run_operator("mul", values, values), (single * single).half().numpy())


MATRIX = numpy.array([[1, -2, 3], [4, 5, -6]])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("row_sum", [2, 3]),
        ("row_max", [3, 5]),
        ("row_min", [-2, -6]),
        ("col_sum", [5, 3, -3]),
        ("col_max", [4, 5, 3]),
        ("col_min", [1, -2, -6]),
    ],
)
@pytest.mark.parametrize("dtype", [FP32, FP16, INT32, INT16], ids=repr)
def test_reductions(run_operator, name, expected, dtype):
    given = run_operator(name, MATRIX.astype(dtype.numpy))
    assert given.shape == ((2, 1) if name.startswith("row") else (1, 3))
    check(given, expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("row_argmax", [2, 1]), ("row_argmin", [1, 2]), ("col_argmax", [1, 1, 0]), ("col_argmin", [0, 0, 1])],
)
@pytest.mark.parametrize("dtype", [FP32, FP16, INT32, INT16], ids=repr)
def test_places_of_extremes(run_operator, name, expected, dtype):
    if name.startswith("col") and not dtype.is_float:
        return
    given = run_operator(name, MATRIX.astype(dtype.numpy))
    assert given.dtype == numpy.int32
    assert given.shape == ((2, 1) if name.startswith("row") else (1, 3))
    check(given, expected)


def test_places_are_the_first_ones_and_nan_comes_first(run_operator):
    check(run_operator("row_argmax", row(1, 3, 3, 2)), [1])
    check(run_operator("row_argmin", row(0.0, -0.0, 1)), [0])
    for name in ("row_argmax", "row_argmin"):
        check(run_operator(name, row(1, NAN, 5, NAN)), [1])


def test_integer_sums_wrap(run_operator):
    check(run_operator("row_sum", row(32767, 32767, 32767, dtype=INT16)), [32765])


def test_sums_are_rounded_once(run_operator):
    # In FP16 steps 2048 + 1 + 1 stays 2048; the exact sum is 2050.
    check(run_operator("row_sum", row(2048, 1, 1, dtype=FP16)), [2050])


@pytest.mark.parametrize("name", ["row_max", "row_min", "col_max", "row_sum"])
def test_reductions_propagate_nan(run_operator, name):
    assert numpy.isnan(run_operator(name, row(1, NAN, 2) if name != "col_max" else row(1, NAN, 2).T)).all()


@pytest.mark.parametrize(
    ("name", "first"),
    [("", 10), ("_add", 11), ("_sub", -9), ("_mul", 10), ("_div", 0.1), ("_max", 10), ("_min", 1)],
)
def test_expansion(run_operator, name, first):
    tile = MATRIX.astype(numpy.float32)
    column, line = numpy.float32([[10], [20]]), numpy.float32([[10, 20, 40]])
    functions = {
        "": lambda a, v: v + 0 * a,
        "_add": lambda a, v: a + v,
        "_sub": lambda a, v: a - v,
        "_mul": lambda a, v: a * v,
        "_div": lambda a, v: a / v,
        "_max": torch.maximum,
        "_min": torch.minimum,
    }
    for prefix, vector in (("row_expand", column), ("col_expand", line)):
        given = run_operator(prefix + name, tile, vector)
        spread = torch.from_numpy(vector).expand(2, 3)
        numpy.testing.assert_array_equal(given, functions[name](torch.from_numpy(tile), spread).numpy())
        assert given[0, 0] == numpy.float32(first)


def test_cast_uses_its_mode(run_operator):
    values = row(0.5, 1.5, -2.5, 0.3)
    expected = {
        "none": [0, 1, -2, 0],
        "rint": [0, 2, -2, 0],
        "round": [1, 2, -3, 0],
        "floor": [0, 1, -3, 0],
        "ceil": [1, 2, -2, 1],
        "trunc": [0, 1, -2, 0],
        "odd": [1, 1, -3, 1],
    }
    for mode, integers in expected.items():
        check(run_operator("cast", values, dtype=INT32, mode=mode), integers)


def test_cast_chain_keeps_small_integers(run_operator):
    values = numpy.arange(256, dtype=numpy.uint8).reshape(2, 128)
    half = run_operator("cast", values, dtype=FP16, mode="rint")
    numpy.testing.assert_array_equal(run_operator("cast", half, dtype=UINT8, mode="trunc"), values)


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=repr)
def test_float_matmul_is_exact_to_one_rounding(run_operator, dtype):
    generator = numpy.random.default_rng(5)
    lhs = generator.standard_normal((5, 19)).astype(dtype.numpy)
    rhs = generator.standard_normal((19, 7)).astype(dtype.numpy)
    exact = lhs.astype(numpy.float64) @ rhs.astype(numpy.float64)
    given = run_operator("matmul", lhs, rhs)
    assert given.dtype == numpy.float32
    numpy.testing.assert_array_equal(given, exact.astype(numpy.float32))


def test_integer_matmul(run_operator):
    lhs = numpy.full((2, 300), -128, numpy.int8)
    given = run_operator("matmul", lhs, lhs.T.copy())
    assert given.dtype == numpy.int32
    assert (given == 300 * 128 * 128).all()


def test_matmul_with_bias(run_operator):
    lhs, rhs = numpy.float32([[1, 2], [3, 4]]), numpy.float32([[1, 0, 1], [0, 1, 1]])
    check(run_operator("matmul_bias", lhs, rhs, row(10, 20, 30)), [11, 22, 33, 13, 24, 37])
    half = [array.astype(numpy.float16) for array in (lhs, rhs, row(10, 20, 30))]
    check(run_operator("matmul_bias", *half), [11, 22, 33, 13, 24, 37])


def test_integer_matmul_with_bias_wraps(run_operator):
    ones = numpy.ones((1, 1), numpy.int8)
    check(run_operator("matmul_bias", ones, ones, row(2**31 - 1, dtype=INT32)), [-(2**31)])
