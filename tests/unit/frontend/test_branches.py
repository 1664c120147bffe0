"""Recorded branches: which values meet after them, and which cannot."""

from __future__ import annotations

import numpy
import pytest

import pypto_jit.language as pl
from pypto_jit.errors import ControlFlowError, ShapeError, TraceError, UndefinedError
from tests.tracing import evaluate, lines, spec

X = spec(16, 32)


def numbers():
    return numpy.arange(512, dtype=numpy.float32).reshape(16, 32)


def rows(kernel, count=16):
    out = numpy.zeros((count, 32), numpy.float32)
    evaluate(kernel, numbers(), out)
    return out


def test_both_arms_of_a_traced_condition_are_recorded():
    def kernel(x, out):
        for i in pl.range(16):
            t = pl.load(x, [i, 0], [1, 32])
            if i < 4:
                t = t + 1.0
            else:
                t = t * 2.0
            pl.store(t, [i, 0], out)

    assert lines(kernel, X, X) == [
        "scf.for %arg2 = %c0 to %c16 step %c1 {",
        "  %0 = load(%arg0, %arg2, %c0, %c1, %c32)",
        "  %1 = arith.cmpi slt, %arg2, %c4",
        "  %2 = scf.if %1 {",
        "    %3 = adds(%0, %cst)",
        "    scf.yield %3",
        "  } else {",
        "    %3 = muls(%0, %cst_0)",
        "    scf.yield %3",
        "  store(%2, %arg1, %arg2, %c0)",
    ]
    expected = numbers() * 2
    expected[:4] = numbers()[:4] + 1
    numpy.testing.assert_array_equal(rows(kernel), expected)


def test_without_else_the_value_before_meets_the_new_one():
    def kernel(x, out):
        for i in pl.range(16):
            t = pl.load(x, [i, 0], [1, 32])
            if i % 3 == 1:
                t = t * 0.0
            pl.store(t, [i, 0], out)

    expected = numbers()
    expected[1::3] = 0
    numpy.testing.assert_array_equal(rows(kernel), expected)


def test_elif_chains_stay_linear_and_pick_one_arm():
    def kernel(x, out):
        for i in pl.range(16):
            t = pl.load(x, [i, 0], [1, 32])
            if i == 0:
                t = t + 1.0
            elif i == 1:
                t = t + 2.0
            elif i == 2:
                t = t + 3.0
            elif i == 3:
                t = t + 4.0
            elif i == 4:
                t = t + 5.0
            else:
                t = t - 1.0
            pl.store(t, [i, 0], out)

    assert sum("adds" in line for line in lines(kernel, X, X)) == 5
    add = numpy.array([1, 2, 3, 4, 5, *[-1] * 11], numpy.float32)
    numpy.testing.assert_array_equal(rows(kernel), numbers() + add[:, None])


def test_plain_conditions_choose_while_tracing():
    def kernel(x, out, wide):
        if wide:
            t = pl.load(x, [0, 0], [16, 32])
        else:
            t = pl.load(x, [0, 0], [16, 8])
        pl.store(t, [0, 0], out)

    assert lines(kernel, X, X, True)[0] == "%0 = load(%arg0, %c0, %c0, %c16, %c32)"
    assert lines(kernel, X, X, False)[0] == "%0 = load(%arg0, %c0, %c0, %c16, %c8)"


def test_a_plain_condition_may_return_early():
    def kernel(x, out, plain):
        t = pl.load(x, [0, 0], [16, 32])
        if plain:
            pl.store(t, [0, 0], out)
            return out
        for _ in pl.range(2):
            t = t + 1.0
        pl.store(t, [0, 0], out)
        return out

    assert len(lines(kernel, X, X, True)) == 2


def test_an_untouched_value_does_not_become_a_result():
    def kernel(x, out):
        t = pl.load(x, [0, 0], [1, 32])
        for i in pl.range(4):
            if i > 1:
                t = t
                u = t + 1.0
                pl.store(u, [i, 0], out)

    assert "    %2 = adds(%0, %cst)" in lines(kernel, X, X)
    assert not [line for line in lines(kernel, X, X) if "yield" in line]


def test_scalars_and_numbers_meet_in_one_dtype():
    def kernel(x, out):
        for i in pl.range(16):
            n = 2
            w = i / 2
            if i > 8:
                n = i
                w = 3
            pl.store(pl.load(x, [i, 0], [1, 32]) * n * w, [i, 0], out)

    i = numpy.arange(16, dtype=numpy.float32)[:, None]
    factor = numpy.where(i > 8, i * 3, 2 * (i / 2)).astype(numpy.float32)
    numpy.testing.assert_array_equal(rows(kernel), numbers() * factor)


def test_conditional_expressions():
    def kernel(x, out):
        for i in pl.range(16):
            t = pl.load(x, [i, 0], [1, 32])
            pl.store((t + 1.0 if i > 3 else t) * (1.5 if i == 0 else 2), [i, 0], out)

    x = numbers()
    x[4:] += 1
    x[0] *= 1.5
    x[1:] *= 2
    numpy.testing.assert_array_equal(rows(kernel), x)


def test_and_or_not_and_chained_comparisons():
    def kernel(x, out, on):
        for i in pl.range(16):
            t = pl.load(x, [i, 0], [1, 32])
            if (1 <= i < 4 or i > 13) and i != 2 and on:
                t = t * 0.0
            pl.store(t, [i, 0], out)

    def switched_on(x, out):
        kernel(x, out, True)

    expected = numbers()
    expected[[1, 3, 14, 15]] = 0
    numpy.testing.assert_array_equal(rows(switched_on), expected)
    assert not [line for line in lines(kernel, X, X, False) if "muls" in line]


def test_plain_and_or_keep_python_semantics():
    def kernel(x, out):
        calls = []

        def note(value):
            calls.append(value)
            return value

        assert (note(0) or note("b")) == "b"
        assert (note([]) and note("c")) == []
        assert (1 < note(2) < note(1) < note(5)) is False
        assert calls == [0, "b", [], 2, 1]
        assert (not 0) is True
        pl.store(pl.load(x, [0, 0], [1, 32]), [0, 0], out)

    lines(kernel, X, X)


def test_a_number_is_a_condition_as_in_python():
    def kernel(x, out):
        for i in pl.range(16):
            t = pl.load(x, [i, 0], [1, 32])
            if i % 2:
                t = t * 0.0
            pl.store(t, [i, 0], out)

    expected = numbers()
    expected[1::2] = 0
    numpy.testing.assert_array_equal(rows(kernel), expected)


class TestErrors:
    def test_tiles_of_two_types(self):
        def kernel(x, out):
            for i in pl.range(4):
                if i > 1:
                    t = pl.load(x, [i, 0], [1, 32])
                else:
                    t = pl.load(x, [i, 0], [1, 16])
                pl.store(t, [i, 0], out)

        with pytest.raises(ShapeError, match="'t' is another kind of tile in each arm") as caught:
            lines(kernel, X, X)
        first = kernel.__code__.co_firstlineno
        assert caught.value.found == (
            f"Tile[[1, 32], FP32, Vec] (line {first + 3}) and Tile[[1, 16], FP32, Vec] (line {first + 5})"
        )

    def test_a_name_bound_in_one_arm(self):
        def kernel(x, out):
            for i in pl.range(4):
                if i > 1:
                    t = pl.load(x, [i, 0], [1, 32])
                pl.store(t, [i, 0], out)

        with pytest.raises(UndefinedError) as caught:
            lines(kernel, X, X)
        line = kernel.__code__.co_firstlineno + 2
        assert caught.value.found == f"'t' does not have a value in both arms of the `if` at line {line}"

    def test_a_python_value_that_depends_on_a_traced_condition(self):
        def kernel(x, out):
            for i in pl.range(4):
                mode = "rint"
                if i > 1:
                    mode = "floor"
                pl.store(pl.cast(pl.load(x, [i, 0], [1, 32]), pl.INT32, mode), [i, 0], out)

        with pytest.raises(ControlFlowError, match="'mode' is another kind of value in each arm") as caught:
            lines(kernel, X, X)
        assert caught.value.found == "str 'floor' and str 'rint'"

    def test_a_list_changed_in_one_arm(self):
        def kernel(x, out):
            tiles = [pl.load(x, [0, 0], [1, 32])]
            for i in pl.range(4):
                if i > 1:
                    tiles.append(tiles[0])
            pl.store(tiles[-1], [0, 0], out)

        with pytest.raises(ControlFlowError, match="'tiles' is changed in place inside an `if`"):
            lines(kernel, X, X)

    def test_a_tile_is_no_condition(self):
        def kernel(x, out):
            t = pl.load(x, [0, 0], [1, 32])
            if t:
                pl.store(t, [0, 0], out)

        with pytest.raises(ControlFlowError, match="a tile has no truth value"):
            lines(kernel, X, X)

    def test_a_comparison_of_tiles_is_no_condition(self):
        def kernel(x, out):
            t = pl.load(x, [0, 0], [1, 32])
            if t > 0:
                pl.store(t, [0, 0], out)

        with pytest.raises(TraceError, match="tiles have no '>'"):
            lines(kernel, X, X)
