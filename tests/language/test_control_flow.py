"""Kernels with control flow on values that only the running kernel knows, interpreted and compiled, against NumPy."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy
import pytest

import pypto_jit.language as pl
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.errors import ControlFlowError, ShapeError, UndefinedError
from pypto_jit.targets import A2A3
from tests.property.compiled import CompiledModule
from tests.tracing import lines, spec, with_trace

X = numpy.arange(64, dtype=numpy.float32).reshape(8, 8)
S = spec(8, 8)


def run(kernel) -> numpy.ndarray:
    """The first row that a kernel writes; interpreted and compiled agree."""
    out = numpy.zeros_like(X)

    def both(traced):
        interpret(traced.module, [X, out])
        return CompiledModule(traced.module, A2A3)([X, numpy.zeros_like(X)])[1]

    compiled = with_trace(kernel, S, S, then=both)
    numpy.testing.assert_array_equal(compiled, out)
    return out[0]


def check(kernel, expected) -> None:
    numpy.testing.assert_array_equal(run(kernel), expected)


def row(x, k):
    return pl.load(x, [k, 0], [1, 8])


class TestExplicitlyCarriedValues:
    def test_values_by_position_under_other_names(self):
        def kernel(x, out):
            for _, (a, b) in pl.range(3, init_values=(row(x, 0), row(x, 1))):
                total = a + b
                c, d = pl.yield_(b, total)
            pl.store(c * 100.0 + d, [0, 0], out)

        a, b = X[0], X[1]
        for _ in range(3):
            a, b = b, a + b
        check(kernel, a * 100 + b)

    def test_a_single_value(self):
        def kernel(x, out):
            for i, (t,) in pl.range(4, 0, -1, init_values=(row(x, 0),)):
                t = pl.yield_(t + i)
            pl.store(t, [0, 0], out)

        check(kernel, X[0] + 10)

    def test_a_loop_that_does_not_run_leaves_the_first_values(self):
        def kernel(x, out):
            for n in pl.range(0, 1):
                for _, (t,) in pl.range(n, init_values=(row(x, 3),)):
                    last = pl.yield_(t + 1.0)
                pl.store(last, [0, 0], out)

        check(kernel, X[3])

    def test_a_condition_first(self):
        def kernel(x, out):
            for start in pl.range(1):
                for i, t in pl.while_(init_values=(start, row(x, 0))):
                    pl.cond(i < 5)
                    i, t = pl.yield_(i + 2, t + i)
                pl.store(t + i, [0, 0], out)

        check(kernel, X[0] + 2 + 4 + 6)

    def test_both_arms_of_an_if(self):
        def kernel(x, out):
            for i in pl.range(3, 4):
                if i > 2:
                    t, n = pl.yield_(row(x, i), 5)
                else:
                    t, n = pl.yield_(row(x, 0), i)
                pl.store(t + n, [0, 0], out)

        check(kernel, X[3] + 5)

    def test_pipelined_and_unrolled(self):
        def kernel(x, out):
            t = row(x, 0)
            for i in pl.pipeline(4, stage=2):
                t = t + i
            for _, (u,) in pl.unroll(3, init_values=(t,)):
                u = pl.yield_(u * 2.0)
            pl.store(u, [0, 0], out)

        check(kernel, (X[0] + 6) * 8)
        assert any("pypto.stages = 2" in line for line in lines(kernel, S, S))


class TestJumps:
    def test_break_and_continue(self):
        def kernel(x, out):
            total, count = pl.full([1, 8], pl.FP32, 0.0), 0
            for i in pl.range(8):
                if i == 5:
                    break
                if i % 2 == 0:
                    continue
                total, count = total + row(x, i), count + 1
            pl.store(total + count, [0, 0], out)

        check(kernel, X[1] + X[3] + 2)

    def test_the_rest_of_a_loop_is_not_run(self):
        def kernel(x, out):
            for i in pl.range(1000000000):
                if i == 3:
                    pl.store(row(x, i), [0, 0], out)
                    break

        check(kernel, X[3])

    def test_for_else(self):
        def kernel(x, out):
            for limit in pl.range(5, 7):
                found = row(x, 7)
                for i in pl.range(6):
                    if i == limit:
                        found = row(x, i)
                        break
                else:
                    found = row(x, 0)
                pl.store(found, [limit - 5, 0], out)

        out = numpy.zeros_like(X)
        with_trace(kernel, S, S, then=lambda traced: interpret(traced.module, [X, out]))
        numpy.testing.assert_array_equal(out[:2], X[[5, 0]])

    def test_a_helper_returns_from_two_loops(self):
        def find(x, value):
            for i in pl.range(8):
                for j in pl.range(i):
                    if i * j > value:
                        return row(x, i), (i, j)
            return row(x, 0), (-1, -1)

        def kernel(x, out):
            for value in pl.range(10, 11):
                t, (i, j) = find(x, value)
                pl.store(t + i * 10 + j, [0, 0], out)

        check(kernel, X[4] + 43)

    def test_a_kernel_returns_early(self):
        def kernel(x, out):
            for i in pl.range(8):
                if i == 2:
                    return out
                pl.store(row(x, i), [i, 0], out)
            return out

        out = numpy.zeros_like(X)
        with_trace(kernel, S, S, then=lambda traced: interpret(traced.module, [X, out]))
        numpy.testing.assert_array_equal(out[:2], X[:2])
        assert not out[2:].any()

    def test_a_partly_valid_tile_is_returned_from_a_loop(self):
        def ragged(x):
            for i in pl.range(8):
                t = pl.load(x, [0, 0], [4, 8], valid_shape=[pl.min(4, i + 1), 8])
                if i == 2:
                    return t
            return pl.load(x, [4, 0], [4, 8], valid_shape=[pl.min(4, i_of(x)), 8])

        def i_of(x):
            last = 0
            for i in pl.range(2):
                last = i
            return last

        def kernel(x, out):
            pl.store(ragged(x), [0, 0], out)

        out = numpy.zeros_like(X)

        def both(traced):
            interpret(traced.module, [X, out])
            return CompiledModule(traced.module, A2A3)([X, numpy.zeros_like(X)])[1]

        compiled = with_trace(kernel, S, S, then=both)
        numpy.testing.assert_array_equal(out[:3], X[:3])
        assert not out[3:].any()
        numpy.testing.assert_array_equal(compiled, out)

    def test_plain_loops_around_and_inside(self):
        def kernel(x, out):
            total = pl.full([1, 8], pl.FP32, 0.0)
            for k in range(3):
                for i in pl.range(4):
                    for j in range(4):
                        if j > i:
                            break
                        if k == 1:
                            continue
                        total = total + float(10**j)
                if k == 2:
                    break
            pl.store(total, [0, 0], out)

        check(kernel, numpy.full(8, 2 * 1234.0))

    def test_four_deep(self):
        def body(load, full, loop, store):
            total = full
            for a in loop(3):
                n = 0
                while n < 4 + a:
                    n = n + 1
                    for b in loop(n):
                        if b == 3:
                            break
                        m = b
                        while m < 6:
                            m = m + 1 + a
                            if m == 4:
                                continue
                            total = total + m
                            if total_too_large(n, b):
                                return store(total)
                    else:
                        total = total + load(a)
            return store(total)

        def total_too_large(n, b):
            return n == 5 and b == 2

        def kernel(x, out):
            body(lambda a: row(x, a), pl.full([1, 8], pl.FP32, 0.0), pl.range, lambda t: pl.store(t, [0, 0], out))

        check(kernel, body(lambda a: X[a], numpy.zeros(8, numpy.float32), range, lambda t: t))


class TestWhile:
    def test_tiles_and_numbers_are_carried(self):
        def kernel(x, out):
            for start in pl.range(1, 2):
                n, t = start, row(x, 0)
                while n < 100 and n != 32:
                    n, t = n * 2, t + n
                pl.store(t + n, [0, 0], out)

        check(kernel, X[0] + 31 + 32)

    def test_until_a_break(self):
        def kernel(x, out):
            n = 0
            while True:
                t = row(x, n)
                for step in pl.range(2, 3):
                    n = n + step
                if n > 6:
                    break
            pl.store(t, [0, 0], out)

        check(kernel, X[6])

    def test_objects_are_carried(self):
        @dataclasses.dataclass(frozen=True)
        class State:
            total: Any
            seen: dict
            turns: Any = 0

        def kernel(x, out):
            state = State(row(x, 0), {"last": row(x, 1), "all": [0, 0]})
            for stop in pl.range(3, 4):
                while state.turns < stop:
                    both = [state.seen["all"][0] + 1, state.seen["all"][1] + state.turns]
                    seen = {"last": state.total, "all": both}
                    state = State(state.total + state.seen["last"], seen, state.turns + 1)
                pl.store(state.total + state.seen["all"][1] * 10 + state.seen["all"][0], [0, 0], out)

        a, b = X[0], X[1]
        for _ in range(3):
            a, b = a + b, a
        check(kernel, a + 30 + 3)

    def test_a_walrus_in_the_condition(self):
        def kernel(x, out):
            for start in pl.range(1):
                n = start
                while (square := n * n) < 20:
                    n = n + 1
                pl.store(row(x, 0) + n * 100 + square, [0, 0], out)

        check(kernel, X[0] + 525)


def test_conditions_are_only_worked_out_where_they_decide():
    def kernel(x, out):
        for i in pl.range(8, 9):
            # There is no row 8.
            late = i > 7 or pl.read(x, [i, 0]) > 0.0
            early = i < 8 and pl.read(x, [i, 0]) > 0.0
            pl.store(pl.full([1, 8], pl.FP32, (2 if late else 0) + (1 if early else 0)), [0, 0], out)

    check(kernel, numpy.full(8, 2.0))


def test_a_step_that_may_go_either_way():
    def kernel(x, out):
        total = pl.full([1, 8], pl.FP32, 0.0)
        for step in pl.range(-3, 4):
            for i in pl.range(5, 5 + step * 2, step):
                total = total * 2.0 + i
        pl.store(total, [0, 0], out)

    total = 0
    for step in range(-3, 4):
        for i in range(5, 5 + step * 2, step) if step else ():
            total = total * 2 + i
    check(kernel, numpy.full(8, total, numpy.float32))


def test_what_a_branch_may_not_bind_keeps_its_value_from_the_turn_before():
    def kernel(x, out):
        last = 7
        for i in pl.range(4):
            if i == 1:
                last = i
        pl.store(row(x, last), [0, 0], out)

    check(kernel, X[1])


def test_the_shape_of_an_omitted_output_is_worked_out_from_a_loop_that_is_left():
    def kernel(x, out):
        total = row(x, 0)
        for i in pl.range(2, 8, 3):
            total = total + row(x, i)
            if i == 4:
                break
            pl.store(total, [i, 0], out)

    def shape(traced):
        return traced.parameters[1].spec.shape

    assert with_trace(kernel, S, None, then=shape) == (6, 8)


class TestErrors:
    def fails(self, kernel, error, line, **expected):
        with pytest.raises(error) as caught:
            lines(kernel, S, S)
        assert caught.value.message == expected.pop("message")
        assert caught.value.span is not None
        assert caught.value.span.line == kernel.__code__.co_firstlineno + line
        for name, text in expected.items():
            assert str(getattr(caught.value, name)) == text

    def test_yield_is_missing(self):
        def kernel(x, out):
            for _, (t,) in pl.range(3, init_values=(row(x, 0),)):
                t = t + 1.0
            pl.store(t, [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            2,
            message="the body of a pl.range loop with init_values ends in pl.yield_",
            hint="end it with `a, b = pl.yield_(x, y)`, or leave init_values out and rebind the names",
        )

    def test_too_few_names(self):
        def kernel(x, out):
            for _, (t,) in pl.range(3, init_values=(row(x, 0), 1)):
                t = pl.yield_(t)
            pl.store(t, [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            1,
            message="pl.range carries as many values as it has init_values",
            found="1 names",
            expected="2, as in init_values",
        )

    def test_too_many_yielded(self):
        def kernel(x, out):
            for _, (t,) in pl.range(3, init_values=(row(x, 0),)):
                t, u = pl.yield_(t, 1)
            pl.store(t, [u, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            2,
            message="pl.range carries as many values as it has init_values",
            found="2 values in pl.yield_",
            expected="1, as in init_values",
        )

    def test_a_condition_is_missing(self):
        def kernel(x, out):
            for (t,) in pl.while_(init_values=(row(x, 0),)):
                t = pl.yield_(t + 1.0)
            pl.store(t, [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            1,
            message="the body of a pl.while_ loop begins with pl.cond",
            hint="write `pl.cond(condition)` as its first statement, or use a `while` statement",
        )

    def test_a_condition_elsewhere(self):
        def kernel(x, out):
            pl.cond(True)

        self.fails(
            kernel,
            ControlFlowError,
            1,
            message="pl.cond is the first statement of a pl.while_ loop",
            found="pl.cond(True) elsewhere",
            hint="write `if` for a condition on a part of the body",
        )

    def test_while_without_values(self):
        def kernel(x, out):
            for _ in pl.while_():
                pl.store(row(x, 0), [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            1,
            message="pl.while_ takes the first of the values it carries",
            found="pl.while_()",
            expected="pl.while_(init_values=(x, y))",
            hint="or write a `while` statement",
        )

    def test_a_step_of_zero(self):
        def kernel(x, out):
            for _ in pl.range(0, 4, 0):
                pl.store(row(x, 0), [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            1,
            message="the step of pl.range is zero",
            found="0",
            expected="a step up or down",
        )

    def test_unrolling_an_unknown_number(self):
        def kernel(x, out):
            for i in pl.range(3):
                for _ in pl.unroll(i):
                    pl.store(row(x, 0), [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            2,
            message="pl.unroll needs a number of iterations that is known while tracing",
            found="pl.unroll(0, Scalar[INDEX], 1)",
            hint="record the loop with pl.range",
        )

    def test_a_stage_of_zero(self):
        def kernel(x, out):
            for _ in pl.pipeline(3, stage=0):
                pl.store(row(x, 0), [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            1,
            message="the stage of pl.pipeline is a positive int",
            found="0",
            expected="how many turns overlap",
        )

    def test_a_loop_that_never_ends(self):
        def kernel(x, out):
            for i in pl.range(3):
                going = i > 0
                while going:
                    going = True
                pl.store(row(x, 0), [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            3,
            message="a recorded `while` loop never ends: its condition is True after each turn",
            hint="compare values that the body changes, or leave the loop with `break`",
        )

    def test_a_break_out_of_a_parallel_loop(self):
        def kernel(x, out):
            for i in pl.parallel(3):
                if i == 1:
                    break
                pl.store(row(x, 0), [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            3,
            message="`break` cannot leave a pl.parallel loop, whose turns do not follow each other",
            hint="use pl.range, or put the rest of the body under an `if`",
        )

    def test_a_value_of_another_kind_after_a_turn(self):
        def kernel(x, out):
            for stop in pl.range(3):
                n, t = 0, row(x, 0)
                while n < stop:
                    n, t = n + 1, pl.load(x, [0, 0], [2, 8])
                pl.store(t, [0, 0], out)

        first = kernel.__code__.co_firstlineno
        self.fails(
            kernel,
            ShapeError,
            4,
            message="'t' is another kind of tile after an iteration of the loop than before",
            found=f"Tile[[1, 8], FP32, Vec] before (line {row.__code__.co_firstlineno + 1}), "
            f"Tile[[2, 8], FP32, Vec] after (line {first + 4})",
            expected="one shape, dtype, memory and valid shape",
        )

    def test_what_a_function_returns_differs(self):
        def choose(x, i):
            if i > 0:
                return row(x, i)
            return 0.0

        def kernel(x, out):
            for i in pl.range(3):
                pl.store(choose(x, i), [0, 0], out)

        with pytest.raises(ControlFlowError) as caught:
            lines(kernel, S, S)
        assert caught.value.message == (
            "what the function returns is another kind of value in each arm of an `if` on a traced value"
        )

    def test_a_value_of_some_turns(self):
        def kernel(x, out):
            for i in pl.range(3):
                if i == 1:
                    t = row(x, i)
                    break
            pl.store(t, [0, 0], out)

        first = kernel.__code__.co_firstlineno
        self.fails(
            kernel,
            UndefinedError,
            5,
            message="reading an undefined tile or value: 't'",
            found=f"'t' only has a value inside the pl.range loop at line {first + 1}",
        )

    def test_an_exception_under_a_condition(self):
        def kernel(x, out):
            for i in pl.range(3):
                if i == 2:
                    raise ValueError("too many")
                pl.store(row(x, 0), [0, 0], out)

        self.fails(
            kernel,
            ControlFlowError,
            3,
            message="`raise` cannot depend on a traced value: no exception leaves a running kernel",
            hint="check what is known while tracing, or check it where the kernel is called",
        )

    def test_a_generator(self):
        def rows(x):
            for i in pl.range(3):
                yield row(x, i)

        def kernel(x, out):
            for t in rows(x):
                pl.store(t, [0, 0], out)

        with pytest.raises(ControlFlowError, match="`yield` cannot leave a pl.range loop, which is recorded rather"):
            lines(kernel, S, S)
