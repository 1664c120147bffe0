"""Recorded loops: what is carried, what is not, and what cannot be."""

from __future__ import annotations

import numpy
import pytest

import pypto_jit.language as pl
from pypto_jit.errors import ControlFlowError, ShapeError, UndefinedError
from tests.tracing import evaluate, excerpt, lines, spec, with_trace

X = spec(16, 32)


def numbers(rows=16, columns=32):
    return numpy.arange(rows * columns, dtype=numpy.float32).reshape(rows, columns)


def test_a_rebound_tile_is_carried():
    def kernel(x, out):
        total = pl.load(x, [0, 0], [1, 32])
        for i in pl.range(1, 16):
            total = total + pl.load(x, [i, 0], [1, 32])
        pl.store(total, [0, 0], out)

    assert lines(kernel, X, spec(1, 32)) == [
        "%0 = load(%arg0, %c0, %c0, %c1, %c32)",
        "%1 = scf.for %arg2 = %c1 to %c16 step %c1 iter_args(%arg3 = %0) {",
        "  %2 = load(%arg0, %arg2, %c0, %c1, %c32)",
        "  %3 = add(%arg3, %2)",
        "  scf.yield %3",
        "store(%1, %arg1, %c0, %c0)",
    ]
    out = numpy.zeros((1, 32), numpy.float32)
    evaluate(kernel, numbers(), out)
    numpy.testing.assert_array_equal(out[0], numbers().sum(0))


def test_what_the_body_leaves_alone_is_not_carried():
    def kernel(x, out):
        scale = pl.load(x, [0, 0], [1, 32])
        pair = (scale, 3)
        for i in pl.range(16):
            row = pl.load(x, [i, 0], [1, 32])
            pair = (pair[0], pair[1])
            pl.store(row * pair[0], [i, 0], out)

    assert lines(kernel, X, X)[1] == "scf.for %arg2 = %c0 to %c16 step %c1 {"


def test_a_name_that_is_rebound_before_it_is_read_is_not_carried():
    def kernel(x, out):
        t = pl.load(x, [0, 0], [16, 32])
        pl.store(t, [0, 0], out)
        for i in pl.range(16):
            t = pl.load(x, [i, 0], [1, 16])
            pl.store(t, [i, 0], out)

    assert "iter_args" not in "".join(lines(kernel, X, X))


def test_the_value_before_a_loop_survives_a_loop_that_does_not_run():
    def kernel(x, out, stop):
        t = pl.load(x, [0, 0], [1, 32])
        for i in pl.range(1, stop):
            t = pl.load(x, [i, 0], [1, 32])
        pl.store(t, [0, 0], out)

    def run(stop):
        out = numpy.zeros((1, 32), numpy.float32)

        def stopped(x, out):
            kernel(x, out, stop)

        evaluate(stopped, numbers(), out)
        return out[0]

    numpy.testing.assert_array_equal(run(1), numbers()[0])
    numpy.testing.assert_array_equal(run(5), numbers()[4])


def test_python_numbers_become_traced_where_they_change():
    def kernel(x, out):
        count, weight = 0, 1.0
        for i in pl.range(4):
            count = count + i
            weight = weight * 0.5
        pl.store(pl.full([1, 32], pl.FP32, count) * weight, [0, 0], out)

    out = numpy.zeros((1, 32), numpy.float32)
    evaluate(kernel, numbers(), out)
    numpy.testing.assert_array_equal(out, 6 * 0.5**4)


def test_swapping_names_swaps_values():
    def kernel(x, out):
        a, b = pl.load(x, [0, 0], [1, 32]), pl.load(x, [1, 0], [1, 32])
        for _ in pl.range(3):
            a, b = b, a
        pl.store(a, [0, 0], out)
        pl.store(b, [1, 0], out)

    out = numpy.zeros((2, 32), numpy.float32)
    evaluate(kernel, numbers(), out)
    numpy.testing.assert_array_equal(out, numbers()[[1, 0]])


def test_a_rotation_carries_the_previous_value():
    def kernel(x, out):
        last = pl.load(x, [0, 0], [1, 32])
        current = pl.load(x, [1, 0], [1, 32])
        for i in pl.range(2, 6):
            last, current = current, last + pl.load(x, [i, 0], [1, 32])
        pl.store(last, [0, 0], out)
        pl.store(current, [1, 0], out)

    x = numbers()
    last, current = x[0], x[1]
    for i in range(2, 6):
        last, current = current, last + x[i]
    out = numpy.zeros((2, 32), numpy.float32)
    evaluate(kernel, x, out)
    numpy.testing.assert_array_equal(out, [last, current])


def test_tuples_lists_and_dicts_of_tiles_are_carried():
    def kernel(x, out):
        state = {"rows": [pl.load(x, [0, 0], [1, 32]), (pl.load(x, [1, 0], [1, 32]), 0)], "name": "s"}
        for i in pl.range(2, 6):
            first, (second, n) = state["rows"]
            state = {"rows": [first + second, (pl.load(x, [i, 0], [1, 32]), n + 1)], "name": "s"}
        first, (second, n) = state["rows"]
        pl.store(first, [0, 0], out)
        pl.store(second * n, [1, 0], out)

    x = numbers()
    out = numpy.zeros((2, 32), numpy.float32)
    evaluate(kernel, x, out)
    numpy.testing.assert_array_equal(out, [x[:5].sum(0), x[5] * 4])


def test_loops_nest_four_deep_with_branches():
    def kernel(x, out):
        t = pl.load(x, [0, 0], [1, 32])
        steps = 0
        for i in pl.range(2):
            for j in pl.range(i, 3):
                for k in pl.range(0, 4, 2):
                    if j > i:
                        for m in pl.range(k, 3):
                            t = t + m
                            steps = steps + 1
                    elif k == 0:
                        t = t * 2.0
                    else:
                        steps = steps + 10
        pl.store(t, [0, 0], out)
        pl.store(pl.full([1, 32], pl.FP32, 1.0) * steps, [1, 0], out)

    t, steps = numbers()[0].copy(), 0
    for i in range(2):
        for j in range(i, 3):
            for k in range(0, 4, 2):
                if j > i:
                    for m in range(k, 3):
                        t = t + m
                        steps = steps + 1
                elif k == 0:
                    t = t * 2
                else:
                    steps = steps + 10
    out = numpy.zeros((2, 32), numpy.float32)
    evaluate(kernel, numbers(), out)
    numpy.testing.assert_array_equal(out[0], t)
    numpy.testing.assert_array_equal(out[1], steps)


def test_plain_loops_inside_recorded_ones_unroll():
    def kernel(x, out):
        t = pl.load(x, [0, 0], [1, 32])
        for _i in pl.range(4):
            for factor in (1.0, 2.0, 3.0):
                if factor == 2.0:
                    continue
                if factor > 5:
                    break
                t = t * factor
        pl.store(t, [0, 0], out)

    assert lines(kernel, X, X)[1:-1] == [
        "%1 = scf.for %arg2 = %c0 to %c4 step %c1 iter_args(%arg3 = %0) {",
        "  %2 = muls(%arg3, %cst)",
        "  %3 = muls(%2, %cst_0)",
        "  scf.yield %3",
    ]


def test_for_else_runs_after_the_loop():
    def kernel(x, out):
        t = pl.load(x, [0, 0], [1, 32])
        for _i in pl.range(3):
            t = t + 1.0
        else:
            t = t * 2.0
        pl.store(t, [0, 0], out)

    out = numpy.zeros((1, 32), numpy.float32)
    evaluate(kernel, numbers(), out)
    numpy.testing.assert_array_equal(out[0], (numbers()[0] + 3) * 2)


def test_bounds_may_be_traced_and_a_step_of_zero_ends():
    def kernel(x, out):
        t = pl.load(x, [0, 0], [1, 32])
        for i in pl.range(3):
            for _ in pl.range(i, i + 4, i):
                t = t + 1.0
        pl.store(t, [0, 0], out)

    out = numpy.zeros((1, 32), numpy.float32)
    evaluate(kernel, numbers(), out)
    numpy.testing.assert_array_equal(out[0], numbers()[0] + 4 + 2)


def test_parallel_loops_are_marked():
    def kernel(x, out):
        for i in pl.parallel(0, 16, 4):
            pl.store(pl.load(x, [i, 0], [4, 32]), [i, 0], out)

    assert "{pypto.parallel}" in with_trace(kernel, X, X, then=lambda traced: str(traced.module))


def test_a_carried_tile_keeps_the_run_time_valid_shape_after_the_loop():
    def kernel(x, out):
        for i in pl.parallel(0, 16, 3):
            n = pl.min(3, 16 - i)
            t = pl.load(x, [i, 0], [3, 32], valid_shape=[n, 32])
            for _ in pl.range(2):
                t = t + 1.0
            assert t.valid_shape[0] is n
            pl.store(t, [i, 0], out)

    out = numpy.zeros((16, 32), numpy.float32)
    evaluate(kernel, numbers(), out)
    numpy.testing.assert_array_equal(out, numbers() + 2)


class TestErrors:
    def test_another_type_after_an_iteration(self):
        def kernel(x, out):
            t = pl.load(x, [0, 0], [16, 32])
            for _ in pl.range(4):
                t = pl.row_sum(t)
            pl.store(t, [0, 0], out)

        with pytest.raises(ShapeError) as caught:
            lines(kernel, X, X)
        first = kernel.__code__.co_firstlineno
        assert str(caught.value) == (
            "[PYPTO-SHAPE] 't' is another kind of tile after an iteration of the loop than before\n"
            + excerpt(kernel, 3, "pl.row_sum(t)")
            + f"  found:    Tile[[16, 32], FP32, Vec] before (line {first + 1}), "
            f"Tile[[16, 1], FP32, Vec] after (line {first + 3})\n"
            "  expected: one shape, dtype, memory and valid shape"
        )

    def test_another_memory_says_what_to_do(self):
        def kernel(x, out):
            acc = pl.create_tile([16, 16], pl.FP32)
            for i in pl.range(2):
                acc = pl.matmul(pl.load(x, [0, 16 * i], [16, 16]), pl.load(x, [0, 0], [16, 16]))
            pl.store(acc, [0, 0], out)

        with pytest.raises(ShapeError, match="target_memory") as caught:
            lines(kernel, X, X)
        assert "Vec] before" in str(caught.value)
        assert "Acc] after" in str(caught.value)

    def test_a_float_that_starts_as_an_int(self):
        def kernel(x, out):
            s = 0
            for _ in pl.range(2):
                s = s + 0.5
            pl.store(pl.load(x, [0, 0], [1, 32]) * s, [0, 0], out)

        with pytest.raises(ControlFlowError, match="start with a float: s = 0.0"):
            lines(kernel, X, X)

    def test_a_string_cannot_change(self):
        def kernel(x, out):
            name = "a"
            for _ in pl.range(2):
                name = name + "b"
            pl.store(pl.load(x, [0, 0], [1, len(name)]), [0, 0], out)

        with pytest.raises(ControlFlowError, match="'name' becomes another kind of value inside the pl.range loop"):
            lines(kernel, X, X)

    def test_another_structure(self):
        def kernel(x, out):
            pair = (pl.load(x, [0, 0], [1, 32]),)
            for _ in pl.range(2):
                pair = (pair[0], pair[0])
            pl.store(pair[0], [0, 0], out)

        with pytest.raises(ControlFlowError, match="'pair' becomes another structure"):
            lines(kernel, X, X)

    def test_appending_to_a_list(self):
        def kernel(x, out):
            rows = []
            for i in pl.range(2):
                rows.append(pl.load(x, [i, 0], [1, 32]))
            pl.store(rows[0], [0, 0], out)

        with pytest.raises(ControlFlowError, match="'rows' is changed in place inside a pl.range loop"):
            lines(kernel, X, X)

    def test_replacing_an_item_of_a_list_in_a_list(self):
        def kernel(x, out):
            rows = [[pl.load(x, [0, 0], [1, 32])]]
            for _i in pl.range(2):
                rows[0][0] = rows[0][0] + 1.0
            pl.store(rows[0][0], [0, 0], out)

        with pytest.raises(ControlFlowError, match="'rows' is changed in place"):
            lines(kernel, X, X)

    def test_a_tile_smuggled_out_of_the_body(self):
        class Box:
            tile = None

        def kernel(x, out):
            box = Box()
            for i in pl.range(2):
                box.tile = pl.load(x, [i, 0], [1, 32])
            pl.store(box.tile, [0, 0], out)

        with pytest.raises(UndefinedError, match="it was made inside the pl.range loop"):
            lines(kernel, X, X)

    def test_parallel_iterations_carry_nothing(self):
        def kernel(x, out):
            total = pl.load(x, [0, 0], [1, 32])
            for i in pl.parallel(1, 16):
                total = total + pl.load(x, [i, 0], [1, 32])
            pl.store(total, [0, 0], out)

        with pytest.raises(ControlFlowError, match="'total' is carried from one iteration of pl.parallel to the next"):
            lines(kernel, X, X)

    @pytest.mark.parametrize("keyword", ["break", "return"])
    def test_jumps_out_of_parallel_loops_name_their_line(self, keyword, tmp_path):
        path = tmp_path / "kernels.py"
        path.write_text(
            "import pypto_jit.language as pl\n"
            "def kernel(x, out):\n"
            "    for i in pl.parallel(4):\n"
            "        if i == 2:\n"
            f"            {keyword}\n"
            "        pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)\n"
        )
        namespace: dict = {}
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        with pytest.raises(ControlFlowError, match=f"`{keyword}` cannot leave a pl.parallel loop") as caught:
            lines(namespace["kernel"], X, X)
        assert caught.value.span is not None
        assert (caught.value.span.filename, caught.value.span.line) == (str(path), 5)
        assert caught.value.hint

    def test_a_name_bound_in_the_body_alone(self):
        def kernel(x, out):
            for i in pl.range(4):
                t = pl.load(x, [i, 0], [1, 32])
            pl.store(t, [0, 0], out)

        with pytest.raises(UndefinedError, match="reading an undefined tile or value: 't'") as caught:
            lines(kernel, X, X)
        first = kernel.__code__.co_firstlineno
        assert caught.value.found == f"'t' only has a value inside the pl.range loop at line {first + 1}"
        assert caught.value.span is not None
        assert caught.value.span.line == first + 3

    def test_the_loop_variable_after_the_loop(self):
        def kernel(x, out):
            i = 0
            for i in pl.range(4):
                pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)
            pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)

        with pytest.raises(UndefinedError, match="'i'"):
            lines(kernel, X, X)

    def test_a_name_read_before_it_is_bound(self):
        def kernel(x, out):
            for i in pl.range(4):
                total = total + pl.load(x, [i, 0], [1, 32])  # noqa: F821
            pl.store(total, [0, 0], out)

        with pytest.raises(UndefinedError) as caught:
            lines(kernel, X, X)
        line = kernel.__code__.co_firstlineno + 1
        assert caught.value.found == f"'total' has no value before the pl.range loop at line {line}"

    def test_a_caught_exception_must_not_leave_a_body_open(self):
        def kernel(x, out):
            try:
                for _ in pl.range(4):
                    raise KeyError
            except KeyError:
                pass
            for i in pl.range(4):
                pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)

        with pytest.raises(ControlFlowError, match="is left while another one is being traced"):
            lines(kernel, X, X)
