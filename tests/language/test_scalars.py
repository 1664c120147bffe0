"""Scalar arguments: values at run time, and constants where the kernel needs to know them."""

from __future__ import annotations

import math
import operator
from enum import IntEnum
from fractions import Fraction

import ml_dtypes
import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ArgumentError, BoundsError, TraceError

X = torch.arange(48, dtype=torch.float32).reshape(6, 8)


def misses(kernel) -> int:
    return kernel.cache_info().misses


@pypto.jit
def power(x: pl.Tensor, factor, n, shifted, out: pl.Out[pl.Tensor]):
    """x * factor ** n, and one more where it is shifted."""
    t = pl.load(x, [0, 0], [6, 8])
    for _ in pl.range(n):
        t = t * factor
    if shifted:
        t = t + 1.0
    pl.store(t, [0, 0], out)
    return out


def test_one_program_serves_all_values():
    power.cache_clear()
    for factor, n, shifted in [(2.0, 3, True), (0.5, 2, False), (3.0, 0, True), (-1.0, 1, False), (2.0, -4, False)]:
        expected = X * factor ** max(n, 0) + (1.0 if shifted else 0.0)
        for _ in range(2):
            assert torch.equal(power(X, factor, n, shifted), expected)
        assert torch.equal(pypto.interpret(power)(X, factor, n, shifted), expected)
    assert misses(power) == 1


def test_numpy_arrays_and_numbers():
    power.cache_clear()
    result = power(X.numpy(), numpy.float32(2.0), numpy.int64(2), numpy.bool_(True))
    assert isinstance(result, numpy.ndarray)
    assert (result == X.numpy() * 4 + 1).all()
    assert (power(X.numpy(), 3.0, 1, False) == X.numpy() * 3).all()
    assert misses(power) == 1


def test_types_are_different_specializations():
    @pypto.jit
    def kind(x: pl.Tensor, value, out: pl.Out[pl.Tensor]):
        code = {int: 1.0, float: 2.0, bool: 3.0}[type(value)] if isinstance(value, (int, float)) else 0.0
        pl.store(pl.full([1, 8], pl.FP32, code), [0, 0], out)

    for value, code in [(1, 1.0), (1.0, 2.0), (True, 3.0), (7, 1.0), (float("nan"), 2.0), (False, 3.0)] * 2:
        assert kind(X, value)[0, 0] == code
    assert misses(kind) == 3


class Mode(IntEnum):
    FAST = 1


def test_other_constants_stay_part_of_the_key():
    @pypto.jit
    def chosen(x: pl.Tensor, how, out: pl.Out[pl.Tensor]):
        factor = {"twice": 2.0, None: 3.0, Mode.FAST: 4.0, (1, 2): 5.0}[how]
        pl.store(pl.load(x, [0, 0], [6, 8]) * factor, [0, 0], out)

    for how, factor in [("twice", 2), (None, 3), (Mode.FAST, 4), ((1, 2), 5)]:
        assert torch.equal(chosen(X, how), X * factor)
    assert misses(chosen) == 4


# Where the value is needed


def needing(body):
    """A kernel of ``x, n, out`` that needs n, and what it says of that."""
    kernel = pypto.jit(body)

    def check(n, expected, why):
        assert torch.equal(kernel(X, n), expected)
        assert f"specialized on n: {why} at test_scalars.py:" in kernel.explain_last_miss()
        assert kernel.explain_last_miss().endswith("needs its value")

    return kernel, check


def test_a_shape():
    def body(x: pl.Tensor, n, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, n // 2]), [0, 0], out)

    kernel, check = needing(body)
    check(8, X[:, :4], "the shape of load")
    check(4, X[:, :2], "the shape of load")
    check(8, X[:, :4], "the shape of load")
    assert misses(kernel) == 2
    assert "n was 8, now 4" in kernel.explain_last_miss()


def test_a_static_loop_a_list_and_a_dict():
    def body(x: pl.Tensor, n, out: pl.Out[pl.Tensor]):
        t = pl.load(x, [0, 0], [6, 8])
        for k in range(n):
            t = t * [2.0, 3.0][k] * {1: 1.0, 2: 5.0}[n]
        pl.store(t, [0, 0], out)

    kernel, check = needing(body)
    check(1, X * 2, "an integer")
    check(2, X * 6 * 25, "an integer")
    assert misses(kernel) == 2


@pytest.mark.parametrize(
    ("factor", "n", "expected", "why"),
    [
        (lambda n: {2: 3.0}[n], 2, 3, "a key of a dict or set"),
        (lambda n: float(f"{n}"), 2, 2, "a text"),
        (lambda n: float(str(n)), 2, 2, "a text"),
        (lambda n: math.sqrt(n), 4, 2, "a float"),
        (lambda n: 2.0**n, 3, 8, "an exponent"),
        (lambda n: 1.0 + operator.truth(n > 2), 3, 2, "the truth of a value"),
        (lambda n: round(n / 2) * 1.0, 6, 3, "an integer"),
        (lambda n: [1.0, 2.0, 3.0][n % 3], 5, 3, "an integer"),
        (lambda n: divmod(n, 4)[1] * 1.0 if n in (6, 7) else 0.0, 7, 3, "the truth of a value"),
    ],
)
def test_python_itself(factor, n, expected, why):
    def body(x: pl.Tensor, n, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, 8]) * factor(n), [0, 0], out)

    kernel, check = needing(body)
    for _ in range(3):
        check(n, X * expected, why)
    assert misses(kernel) == 1


def test_a_float_for_integers():
    @pypto.jit
    def scaled(x: pl.Tensor, factor, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, 8]) * factor, [0, 0], out)

    x = X.int()
    assert torch.equal(scaled(x, 2.0), x * 2)
    assert "factor: a scalar of muls on a INT32 tile" in scaled.explain_last_miss()
    with pytest.raises(pypto.PyptoError, match="takes an integer"):
        scaled(x, 2.5)


def test_an_output_that_is_left_out():
    @pypto.jit
    def rows(x: pl.Tensor, n, out: pl.Out[pl.Tensor]):
        for i in pl.parallel(0, n, 2):
            pl.store(pl.load(x, [i, 0], [2, 8]) * 2.0, [i, 0], out)

    assert torch.equal(rows(X, 4), X[:4] * 2)
    assert "the shape of 'out', which is left out" in rows.explain_last_miss()
    out = torch.zeros(6, 8)
    assert torch.equal(rows(X, 6, out), X * 2)
    assert torch.equal(rows(X, 2, out), X * 2)
    assert misses(rows) == 2
    with pytest.raises(BoundsError):
        rows(X, 8, out)


def test_an_if_whose_arms_do_not_both_trace():
    @pypto.jit
    def biased(x: pl.Tensor, has, bias, out: pl.Out[pl.Tensor]):
        t = pl.load(x, [0, 0], [6, 8])
        if has:
            more = pl.load(bias, [0, 0], [6, 8])
        if has:
            t = t + more
        pl.store(t, [0, 0], out)

    assert torch.equal(biased(X, True, X), X * 2)
    assert "an `if` that may leave 'more' without a value" in biased.explain_last_miss()
    assert torch.equal(biased(X, False, None), X)
    assert "an `if` whose arms cannot both be recorded" in biased.explain_last_miss()


def test_an_if_whose_arms_differ():
    @pypto.jit
    def turned(x: pl.Tensor, wide, out: pl.Out[pl.Tensor]):
        if wide:
            t = pl.load(x, [0, 0], [2, 8])
        else:
            t = pl.load(x, [0, 0], [6, 2])
        pl.store(t, [0, 0], out)

    assert torch.equal(turned(X, True), X[:2])
    assert "an `if` whose arms do not agree" in turned.explain_last_miss()
    assert torch.equal(turned(X, False), X[:, :2])


def test_what_catches_everything_does_not_catch_this():
    @pypto.jit
    def stubborn(x: pl.Tensor, n, out: pl.Out[pl.Tensor]):
        try:
            columns = [8, 4][n]
        except:  # noqa: E722
            columns = 2
        pl.store(pl.load(x, [0, 0], [6, columns]), [0, 0], out)

    assert torch.equal(stubborn(X, 1), X[:, :4])
    assert torch.equal(stubborn(X, 5), X[:, :2])


def test_what_a_loop_counts_is_not_decided_by_the_bound():
    @pypto.jit
    def wrong(x: pl.Tensor, n, out: pl.Out[pl.Tensor]):
        for i in pl.range(n):
            pl.store(pl.load(x, [0, 0], [6, i]), [0, 0], out)

    with pytest.raises(pypto.PyptoError, match="shape of load is static"):
        wrong(X, 3, torch.empty(6, 8))


# Declared dtypes


def nearest_bfloat16(value: float) -> float:
    """By exact comparison with the neighbours: ml_dtypes rounds to float32 first."""
    start = numpy.array(value, ml_dtypes.bfloat16).view(numpy.int16)
    near = [numpy.int16(start + step).view(ml_dtypes.bfloat16) for step in (0, 1, -1)]
    return float(min(near, key=lambda each: abs(Fraction(float(each)) - Fraction(value))))


@pypto.jit
def declared(
    x: pl.Tensor,
    h: pl.Scalar[pl.FP16],
    b: pl.BF16,
    i: pl.INT16,
    u: pl.Scalar[pl.UINT8],
    f: pl.FP32,
    flag: pl.BOOL,
    out: pl.Out[pl.Tensor],
):
    t = pl.load(x, [0, 0], [6, 8]) * pl.cast(h, pl.FP32) + pl.cast(b, pl.FP32)
    t = t + pl.cast(pl.cast(i, pl.INT32) + pl.cast(u, pl.INT32), pl.FP32)
    if flag:
        t = t + f
    pl.store(t, [0, 0], out)
    return out


@pytest.mark.parametrize(
    ("h", "b", "i", "u", "f", "flag"),
    [
        (0.1, 0.3, -5, 200, 3, True),
        (1e-7, -1e38, 32767, 0, 0.25, False),
        (65519.0, 1.00390625001, -32768, 255, True, True),
        (1.00048828125001, 1.0039062500001, 1, 1, 2.5, True),
        (2, 5, 1, 1, 2, False),
    ],
)
def test_numbers_are_rounded_once_to_the_declared_dtype(h, b, i, u, f, flag):
    zero = torch.zeros(6, 8)
    low = numpy.float32(numpy.float16(h)), numpy.float32(nearest_bfloat16(b))
    for x, expected in ((zero, low[1] + numpy.float32(i + u)), (zero + 1, None)):
        result = declared(x, h, b, i, u, f, flag)
        if expected is not None:
            expected = expected + numpy.float32(f) if flag else expected
            assert (result == float(expected)).all()
        assert torch.equal(declared(x, h, b, i, u, f, flag, torch.empty_like(x)), result)
        assert torch.equal(pypto.interpret(declared)(x, h, b, i, u, f, flag), result)
    assert (declared(zero + 1, h, 0.0, 0, 0, 0, flag) == float(low[0])).all()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("h", 65520.0, "'h' does not fit FP16"),
        ("h", "a", "'h' is a number"),
        ("b", 3.4e38, "'b' does not fit BF16"),
        ("i", 40000, "'i' does not fit INT16"),
        ("i", 1.0, "'i' is an integer"),
        ("u", -1, "'u' does not fit UINT8"),
        ("f", 1e39, "'f' does not fit FP32"),
        ("f", 10**400, "'f' does not fit FP32"),
        ("flag", 1, "'flag' is a bool"),
        ("f", X, "'f' is a number, not a tensor"),
        ("f", None, "'f' is a number"),
    ],
)
def test_numbers_that_do_not_fit(name, value, message):
    good = {"h": 1.0, "b": 1.0, "i": 1, "u": 1, "f": 1.0, "flag": True}
    declared(X, **good)
    with pytest.raises(ArgumentError, match=message):
        declared(X, **{**good, name: value})
    if name != "f" or value is not X:
        program = declared.compile(X, **good)
        with pytest.raises(ArgumentError, match=message.split(",")[0].replace("a number", "a number")):
            program(X, *{**good, name: value}.values()) if value is not None else declared(X, **{**good, name: value})


def test_infinity_and_nan_fit():
    zero = torch.zeros(6, 8)
    assert (declared(zero, 1, 1, 1, 1, math.inf, True) == math.inf).all()
    assert declared(zero, 1, 1, 1, 1, math.nan, True).isnan().all()


def test_big_integers():
    @pypto.jit
    def first(x: pl.Tensor, n, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, 8], valid_shape=[6, pl.min(n, 8)]), [0, 0], out)

    out = torch.zeros(6, 8)
    assert torch.equal(first(X, 2**63 - 1, out), X)
    for _ in range(2):
        with pytest.raises(ArgumentError, match="'n' does not fit INDEX"):
            first(X, 2**63, out)


# Forced and forbidden


def test_constexpr_is_always_a_constant():
    @pypto.jit
    def scaled(x: pl.Tensor, factor: pl.constexpr, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, 8]) * factor, [0, 0], out)

    assert torch.equal(scaled(X, 2.0), X * 2)
    assert torch.equal(scaled(X, 3.0), X * 3)
    assert misses(scaled) == 2


def test_runtime_is_never_one():
    @pypto.jit
    def part(x: pl.Tensor, n: pl.RUNTIME[pl.INDEX], out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, n]), [0, 0], out)

    with pytest.raises(TraceError, match="needs the value of 'n'") as caught:
        part(X, 4)
    assert caught.value.span.line == part.__wrapped__.__code__.co_firstlineno + 2
    assert "the shape of load that depends on 'n'" in str(caught.value)

    @pypto.jit
    def arms(x: pl.Tensor, n: pl.RUNTIME, out: pl.Out[pl.Tensor]):
        if n > 2:
            t = pl.load(x, [0, 0], [6, 8])
        else:
            t = pl.load(x, [0, 0], [6, 4])
        pl.store(t, [0, 0], out)

    with pytest.raises(pypto.PyptoError, match="another kind of tile in each arm"):
        arms(X, 4)


def test_runtime_in_the_place_of_a_value():
    def part(x: pl.Tensor, n: pl.INDEX, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, 8], valid_shape=[6, n]), [0, 0], out)

    kernel, out = pypto.jit(part), torch.zeros(6, 8)
    program = kernel.compile(X, pl.RUNTIME, out)
    program(X, 3, out)
    assert torch.equal(out[:, :3], X[:, :3])
    assert not out[:, 3:].any()
    kernel(X, 5, out)
    assert misses(kernel) == 1
    with pytest.raises(ArgumentError, match="called with pl.RUNTIME"):
        kernel(X, pl.RUNTIME, out)
    with pytest.raises(ArgumentError, match="the dtype of 'n' is not known"):
        power.compile(X, 2.0, pl.RUNTIME, True)
    assert "%n: index" in kernel.lower(X, pl.RUNTIME, out)["pto"]


def test_compile_from_the_signature_alone():
    @pypto.jit
    def scaled(x: pl.Tensor[[6, 8], pl.FP32], factor: pl.FP32, n: int = 2, *, out: pl.Out[pl.Tensor]):
        t = pl.load(x, [0, 0], [6, 8]) * factor
        for _ in pl.range(n):
            t = t + 1.0
        pl.store(t, [0, 0], out)

    program = scaled.compile()
    assert torch.equal(program(X, 3.0), X * 3 + 2)
    assert torch.equal(scaled(X, 4.0, 1), X * 4 + 1)
    assert misses(scaled) == 1
    assert scaled.compile(factor=2.0) is program
    with pytest.raises(ArgumentError, match="misses 'factor'"):
        scaled(X)


# Programs, assembly


def test_a_program_takes_its_scalars_in_order():
    out = torch.zeros(6, 8)
    program = power.compile(X, 2.0, 3, True)
    assert [(p.name, p.spec.dtype.name) for p in program.scalars] == [
        ("factor", "FP32"),
        ("n", "INDEX"),
        ("shifted", "BOOL"),
    ]
    assert torch.equal(program(X, 3.0, 1, False, out), X * 3)
    assert torch.equal(program(X, 3, 1, False), X * 3)
    with pytest.raises(ArgumentError, match="'n' is missing or no number"):
        program(X, 3.0)
    with pytest.raises(ArgumentError, match="too many arguments"):
        program(X, 3.0, 1, False, out, 5)


@pytest.mark.parametrize("stage", ["trace", "pto"])
def test_a_program_from_text(stage):
    program = pypto.compile(power.lower(X, 2.0, 3, True)[stage])
    assert [(p.name, p.direction) for p in program.parameters] == [
        ("x", "in"), ("factor", "in"), ("n", "in"), ("shifted", "in"), ("out", "out")
    ]  # fmt: skip
    assert torch.equal(program(X, 3.0, 2, True), X * 9 + 1)


def test_scalars_follow_the_tensors_in_the_assembly():
    text = power.lower(X, 2.0, 3, True)["pto"]
    assert "(%x: !pto.ptr<f32>, %out: !pto.ptr<f32>, %factor: f32, %n: index, %shifted: i1)" in text


def test_a_kernel_of_cube_and_vector_work():
    @pypto.jit
    def product(x: pl.Tensor, y: pl.Tensor, n, factor, out: pl.Out[pl.Tensor]):
        for i in pl.parallel(0, 64, 16):
            t = pl.matmul(pl.load(x, [i, 0], [16, 32]), pl.load(y, [0, 0], [32, 16]))
            t = pl.relu(t) * factor
            for _ in pl.range(n):
                t = t + factor
            pl.store(t, [i, 0], out)

    x, y = torch.randn(64, 32), torch.randn(32, 16)
    out = torch.empty(64, 16)
    for n, factor in [(0, 1.0), (2, 0.5), (3, -2.0)]:
        expected = (x @ y).relu() * factor + n * factor
        torch.testing.assert_close(product(x, y, n, factor, out), expected, rtol=1e-4, atol=1e-4)
    assert misses(product) == 1
