"""Arithmetic on traced scalars: the operations recorded, and their values against Python's."""

from __future__ import annotations

import numpy
import pytest

import pypto_jit.language as pl
from pypto_jit.errors import ControlFlowError, DTypeError, TraceError
from tests.tracing import evaluate, lines, spec

X = spec(16, 32)


def recorded(expression):
    """The scalar operations that an expression of a loop variable records."""

    def kernel(x, out):
        for i in pl.range(16):
            value = expression(i)
            pl.store(pl.load(x, [i, 0], [1, 32]) * value, [i, 0], out)

    return [line.strip().partition(" = ")[2] for line in lines(kernel, X, X) if " = arith." in line]


def values(expression, count=8):
    """The float32 values of an expression of the loop variable, for each of its values."""

    def kernel(x, out):
        for i in pl.range(count):
            pl.store(pl.full([1, 8], pl.FP32, 1.0) * expression(i), [i, 0], out)
        pl.load(x, [0, 0], [1, 8])

    out = numpy.zeros((count, 8), numpy.float32)
    evaluate(kernel, numpy.zeros((1, 8), numpy.float32), out)
    return out[:, 0].tolist()


@pytest.mark.parametrize(
    "expression",
    [
        lambda i: i + 3,
        lambda i: 3 + i,
        lambda i: i - 5,
        lambda i: 5 - i,
        lambda i: i * -2,
        lambda i: -i,
        lambda i: +i,
        lambda i: abs(i - 4),
        lambda i: i**3,
        lambda i: i**0,
        lambda i: i / 4,
        lambda i: 3 / (i + 1),
        lambda i: (i - 4) // 3,
        lambda i: (i - 4) % 3,
        lambda i: (i - 4) // -3,
        lambda i: (i - 4) % -3,
        lambda i: (i - 4) // -1,
        lambda i: 7 // (i - 9),
        lambda i: 7 % (i - 9),
        lambda i: (i - 4) // (i - 9),
        lambda i: (i - 4) % (i - 9),
        lambda i: i * 0.5 + 1,
        lambda i: 1 - i * 0.5,
        lambda i: -(i * 0.5),
        lambda i: i * 1 + 0,
    ],
)
def test_arithmetic_is_pythons(expression):
    assert values(expression) == [numpy.float32(expression(i)) for i in range(8)]


def test_division_by_zero():
    assert values(lambda i: 7 // (i - i), 1) == [0]
    assert values(lambda i: (i + 7) % (i - i), 1) == [7]


def test_comparison_operators():
    i = range(8)

    def one(condition):
        return pl.cast(condition, pl.FP32)

    assert values(lambda i: one(i < 3)) == [float(k < 3) for k in i]
    assert values(lambda i: one(i <= 3)) == [float(k <= 3) for k in i]
    assert values(lambda i: one(i < 3)) == [float(k < 3) for k in i]
    assert values(lambda i: one(i >= 3.5)) == [float(k >= 3.5) for k in i]
    assert values(lambda i: one(i == 3)) == [float(k == 3) for k in i]
    assert values(lambda i: one(i != 3)) == [float(k != 3) for k in i]
    assert values(lambda i: one(i * 0.5 < i - 2)) == [float(k * 0.5 < k - 2) for k in i]
    assert values(lambda i: one(i * 0.5 <= 1.5)) == [float(k * 0.5 <= 1.5) for k in i]
    assert values(lambda i: one(i * 0.5 > 1)) == [float(k * 0.5 > 1) for k in i]
    assert values(lambda i: one(i * 0.5 == 1.5)) == [float(k * 0.5 == 1.5) for k in i]
    assert values(lambda i: one(i * 0.5 != 1.5)) == [float(k * 0.5 != 1.5) for k in i]
    # Of the comparisons with NaN only != holds.
    assert values(lambda i: one(i / (i - i) != i / (i - i)), 1) == [1]
    assert values(lambda i: one(i / (i - i) == i / (i - i)), 1) == [0]
    assert values(lambda i: one((i < 3) == (i < 5))) == [float((k < 3) == (k < 5)) for k in i]
    assert values(lambda i: one(((i < 3) | (i > 5)) & ~(i == 1) ^ False)) == [
        float((k < 3 or k > 5) and k != 1) for k in i
    ]


def test_min_and_max():
    assert values(lambda i: pl.min(i, 3, 5)) == [min(k, 3) for k in range(8)]
    assert values(lambda i: pl.max([i, 3])) == [max(k, 3) for k in range(8)]
    assert pl.min(3, 2, 5) == 2
    assert pl.max((1.5, 1)) == 1.5


def test_constants_fold():
    assert recorded(lambda i: 2.0) == []
    assert recorded(lambda i: pl.min(4, 6) * 2.0) == []
    assert recorded(lambda i: (i * 1 + 0 - 0) // 1)[0].startswith("arith.index_cast")
    assert recorded(lambda i: 1 if (i < 3) & False else 2) == ["arith.cmpi slt, %arg2, %c3"]


def test_operand_order_and_operations():
    assert recorded(lambda i: pl.cast(pl.min(4, 16 - i), pl.FP32))[:2] == [
        "arith.subi %c16, %arg2",
        "arith.minsi %c4, %0",
    ]


def test_casts_between_dtypes():
    assert values(lambda i: pl.cast(pl.cast(i * 0.75, pl.INDEX), pl.FP32)) == [int(k * 0.75) for k in range(8)]
    assert values(lambda i: pl.cast(pl.cast(i - 4, pl.INT8), pl.FP32)) == [k - 4 for k in range(8)]
    assert values(lambda i: pl.cast(pl.cast(i * 100, pl.INT8), pl.INDEX)) == [
        (k * 100 + 128) % 256 - 128 for k in range(8)
    ]
    assert values(lambda i: pl.cast(pl.cast(i * 0.1, pl.FP16), pl.FP32)) == [
        float(numpy.float16(numpy.float32(k) * numpy.float32(0.1))) for k in range(8)
    ]
    assert values(lambda i: pl.cast(pl.cast(i, pl.BF16), pl.FP16)) == list(range(8))
    assert values(lambda i: pl.cast(pl.cast(i < 3, pl.INT32), pl.INDEX) + (i - i)) == [1, 1, 1, 0, 0, 0, 0, 0]


def test_mixed_dtypes():
    assert values(lambda i: pl.cast(i, pl.INT32) + i) == [2 * k for k in range(8)]
    assert values(lambda i: pl.cast(i, pl.FP32) + i) == [2 * k for k in range(8)]
    assert values(lambda i: pl.add(i, 1) + pl.maximum(i, 3)) == [k + 1 + max(k, 3) for k in range(8)]


class TestErrors:
    def test_two_integer_dtypes(self):
        with pytest.raises(DTypeError, match=r"'\+' has scalars of different dtypes") as caught:
            recorded(lambda i: pl.cast(i, pl.INT32) + pl.cast(i, pl.INT16))
        assert caught.value.found == "INT32 and INT16"

    def test_arithmetic_on_conditions(self):
        with pytest.raises(DTypeError, match="BOOL"):
            recorded(lambda i: (i < 3) + 1)
        with pytest.raises(DTypeError, match="does not take BOOL"):
            recorded(lambda i: (i < 3) + (i < 4))

    def test_logic_on_numbers(self):
        with pytest.raises(DTypeError, match="does not take INDEX"):
            recorded(lambda i: i & 3)

    def test_arithmetic_on_unsigned_scalars(self):
        with pytest.raises(DTypeError, match="does not take UINT8"):
            recorded(lambda i: pl.cast(i, pl.UINT8) + 1)

    def test_floor_division_of_floats(self):
        with pytest.raises(DTypeError, match="takes integer scalars"):
            recorded(lambda i: i * 0.5 // 2)

    def test_division_by_a_constant_zero(self):
        with pytest.raises(TraceError, match="divided by zero"):
            recorded(lambda i: i // 0)

    def test_powers(self):
        with pytest.raises(TraceError, match="no such power"):
            recorded(lambda i: i**0.5)

    @pytest.mark.parametrize("use", [range, int, float, bool, lambda i: [1, 2][i]])
    def test_where_python_needs_a_number(self, use):
        def kernel(x, out):
            for i in pl.range(4):
                use(i)

        with pytest.raises(ControlFlowError, match="only known when the kernel runs") as caught:
            lines(kernel, X, X)
        assert caught.value.hint

    def test_other_operands(self):
        with pytest.raises(TypeError):
            recorded(lambda i: i + "a")

    def test_minimum_of_tiles(self):
        def kernel(x, out):
            t = pl.load(x, [0, 0], [1, 32])
            pl.store(pl.min(t, 1), [0, 0], out)

        with pytest.raises(TraceError, match="pl.minimum"):
            lines(kernel, X, X)

    def test_minimum_of_nothing(self):
        with pytest.raises(TraceError, match="at least one"):
            pl.min()
