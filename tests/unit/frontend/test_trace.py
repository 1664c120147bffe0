"""What a trace is: the module, directions, returns, locations, and errors about parameters."""

from __future__ import annotations

import re

import numpy
import pytest

import pypto_jit.language as pl
from pypto_jit.dtypes import BF16, FP16, FP32
from pypto_jit.errors import ArgumentError, DirectionError, DTypeError, ShapeError, TraceError
from pypto_jit.signature import TensorSpec
from pypto_jit.targets import A5
from tests.tracing import COLUMNS, evaluate, excerpt, lines, spec, with_trace

X = spec(16, 32)


def softmax(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = x.shape
    for i in pl.parallel(0, rows, 4):
        t = pl.load(x, [i, 0], [4, cols], valid_shape=[pl.min(4, rows - i), cols])
        t = pl.exp(pl.row_expand_sub(t, pl.row_max(t)))
        pl.store(pl.row_expand_div(t, pl.row_sum(t)), [i, 0], out)
    return out


SOFTMAX = """\
module attributes {pypto.target = "a2a3"} {
  func.func @softmax(%arg0: X, %arg1: X) attributes {pypto.parameters = ["x", "out"]} {
    %c0 = arith.constant 0 : index
    %c10 = arith.constant 10 : index
    %c4 = arith.constant 4 : index
    %c128 = arith.constant 128 : index
    scf.for %arg2 = %c0 to %c10 step %c4 {
      %0 = arith.subi %c10, %arg2 : index
      %1 = arith.minsi %c4, %0 : index
      %2 = "pypto.load"(%arg0, %arg2, %c0, %1, %c128) : (X, index, index, index, index) -> T
      %3 = "pypto.row_max"(%2) : (T) -> V
      %4 = "pypto.row_expand_sub"(%2, %3) : (T, V) -> T
      %5 = "pypto.exp"(%4) : (T) -> T
      %6 = "pypto.row_sum"(%5) : (T) -> V
      %7 = "pypto.row_expand_div"(%5, %6) : (T, V) -> T
      "pypto.store"(%7, %arg1, %arg2, %c0) : (T, X, index, index) -> ()
    } {pypto.parallel}
    return
  }
}
"""


def test_the_module_of_a_kernel():
    text = with_trace(softmax, spec(10, 128), spec(10, 128), then=lambda traced: str(traced.module))
    for short, long in (
        ("X", "!pypto.tensor<[10, 128], f32, [128, 1]>"),
        ("T", '!pypto.tile<[4, 128], f32, "vec", [-1, 128]>'),
        ("V", '!pypto.tile<[4, 1], f32, "vec", [-1, 1]>'),
    ):
        text = text.replace(long, short)
    assert text == SOFTMAX


def test_parameters_and_returns():
    def check(traced):
        assert [(p.name, p.direction, p.spec) for p in traced.parameters] == [
            ("x", "in", spec(10, 128)),
            ("out", "out", spec(10, 128)),
        ]
        assert traced.returns == "out"

    with_trace(softmax, spec(10, 128), spec(10, 128), then=check)


def test_the_target_and_strides_are_in_the_module():
    def kernel(x, out):
        pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], out)

    text = with_trace(kernel, TensorSpec((16, 32), FP32, (-1, 1)), X, target=A5, then=lambda traced: str(traced.module))
    assert 'pypto.target = "a5"' in text
    assert "!pypto.tensor<[16, 32], f32, [-1, 1]>" in text


class TestDirections:
    def directions(self, kernel, *arguments):
        return with_trace(kernel, *arguments, then=lambda traced: [p.direction for p in traced.parameters])

    def test_are_inferred_from_use(self):
        def kernel(a, b, c):
            t = pl.load(a, [0, 0], [16, 32]) + pl.load(b, [0, 0], [16, 32])
            pl.store(t, [0, 0], b)
            pl.store(t, [0, 0], c)

        assert self.directions(kernel, X, X, X) == ["in", "inout", "out"]

    def test_a_declared_inout_may_be_written_only(self):
        def kernel(a, b: pl.InOut[pl.Tensor]):
            pl.store(pl.load(a, [0, 0], [4, 32]), [0, 0], b)

        assert self.directions(kernel, X, X) == ["in", "inout"]

    def test_writing_an_input_names_the_line(self):
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            t = pl.load(x, [0, 0], [16, 32])
            pl.store(t, [0, 0], x)
            pl.store(t, [0, 0], out)

        with pytest.raises(DirectionError, match="'x' is an input, and the kernel writes it") as caught:
            lines(kernel, X, X)
        assert caught.value.span.line == kernel.__code__.co_firstlineno + 2
        assert "pl.Out[pl.Tensor]" in caught.value.hint

    def test_reading_an_output_names_the_line(self):
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            t = pl.load(out, [0, 0], [16, 32])
            pl.store(t, [0, 0], out)

        with pytest.raises(DirectionError, match="'out' is an output, and the kernel reads it") as caught:
            lines(kernel, X, X)
        assert caught.value.span.line == kernel.__code__.co_firstlineno + 1
        assert "pl.InOut[pl.Tensor]" in caught.value.hint

    def test_an_output_that_is_not_written(self):
        def kernel(x: pl.Tensor, a: pl.Out[pl.Tensor], b: pl.Out[pl.Tensor]):
            pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], a)

        with pytest.raises(DirectionError, match="the kernel never writes 'b'"):
            lines(kernel, X, X, X)

    def test_a_kernel_that_writes_nothing(self):
        def kernel(x, y):
            y = pl.load(x, [0, 0], [16, 32])
            pl.exp(y)

        with pytest.raises(DirectionError, match="kernel 'kernel' writes nothing") as caught:
            lines(kernel, X, X)
        line = kernel.__code__.co_firstlineno + 1
        place = f"{__file__}:{line}:13" if COLUMNS else f"{__file__}:{line}"
        assert caught.value.notes == (f"'y' is bound to a tile at {place}",)

    def test_rebinding_an_output_shows_the_store(self):
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            t = pl.load(x, [0, 0], [16, 32])
            out = t * 2
            return out

        with pytest.raises(DirectionError) as caught:
            lines(kernel, X, X)
        assert str(caught.value) == (
            "[PYPTO-DIRECTION] 'out = ...' binds the name and writes nothing to the output\n"
            + excerpt(kernel, 2, "out = t * 2")
            + "  found:    Tile[[16, 32], FP32, Vec]\n"
            "  expected: a store to 'out'\n"
            "  hint: write it: pl.store(tile, [0, 0], out)"
        )

    def test_a_helper_may_rebind_a_name_like_the_output(self):
        def helper(out):
            out = out * 2.0
            return out

        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            out = pl.store(helper(pl.load(x, [0, 0], [16, 32])), [0, 0], out)
            return out

        assert self.directions(kernel, X, X) == ["in", "out"]

    def test_store_in_a_loop_may_rebind_the_output(self):
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            for i in pl.range(16):
                out = pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)
            return out

        assert self.directions(kernel, X, X) == ["in", "out"]


class TestReturns:
    def returns(self, kernel, *arguments):
        return with_trace(kernel, *arguments, then=lambda traced: traced.returns)

    def test_nothing_means_all_outputs_in_order(self):
        def kernel(a, b, x):
            t = pl.load(x, [0, 0], [16, 32])
            pl.store(t, [0, 0], b)
            pl.store(t, [0, 0], a)

        assert self.returns(kernel, X, X, X) == ("a", "b")

    def test_tuples_and_lists_keep_their_order_and_nesting(self):
        def kernel(a, b, x):
            t = pl.load(x, [0, 0], [16, 32])
            return [b, (pl.store(t, [0, 0], a), pl.store(t, [0, 0], b)), x]

        assert self.returns(kernel, X, X, X) == ("b", ("a", "b"), "x")

    def test_a_tile_cannot_be_returned(self):
        def kernel(x, out):
            return pl.load(x, [0, 0], [16, 32])

        with pytest.raises(TraceError, match="returns something else than its tensors") as caught:
            lines(kernel, X, X)
        assert caught.value.hint == "write it to an output parameter: return pl.store(tile, offsets, out)"

    def test_a_number_cannot_be_returned(self):
        def kernel(x, out):
            pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], out)
            return 5

        with pytest.raises(TraceError, match="int 5"):
            lines(kernel, X, X)


class TestLocations:
    def locations(self, kernel, *arguments):
        def collect(traced):
            text = traced.module.operation.get_asm(enable_debug_info=True, use_local_scope=True)
            found = re.findall(r'"pypto\.(\w+)".*loc\("([^"]+)":(\d+):(\d+)\)', text)
            return [(name, file, int(line), int(column)) for name, file, line, column in found]

        return with_trace(kernel, *arguments, then=collect)

    def test_every_operation_has_the_line_that_wrote_it(self):
        def kernel(x, out):
            a = pl.load(x, [0, 0], [16, 32])
            b = pl.exp(a)
            pl.store(a + b, [0, 0], out)

        found = self.locations(kernel, X, X)
        first = kernel.__code__.co_firstlineno
        assert [(name, file, line - first) for name, file, line, _ in found] == [
            ("load", __file__, 1),
            ("exp", __file__, 2),
            ("add", __file__, 3),
            ("store", __file__, 3),
        ]
        if COLUMNS:
            assert [column for *_, column in found] == [17, 17, 22, 13]

    def test_composites_blame_their_caller(self):
        def kernel(x, out):
            a = pl.load(x, [0, 0], [16, 32])
            a = pl.gelu(a)
            pl.store(a, [0, 0], out)

        found = self.locations(kernel, X, X)
        assert {line - kernel.__code__.co_firstlineno for name, _, line, _ in found} == {1, 2, 3}

    def test_helpers_have_their_own_lines(self):
        def double(t):
            return t * 2.0

        def kernel(x, out):
            pl.store(double(pl.load(x, [0, 0], [16, 32])), [0, 0], out)

        found = {name: line for name, _, line, _ in self.locations(kernel, X, X)}
        assert found["muls"] == double.__code__.co_firstlineno + 1
        assert found["load"] == found["store"] == kernel.__code__.co_firstlineno + 1

    def test_errors_in_composites_blame_their_caller(self):
        def kernel(x, out):
            pl.store(pl.sigmoid(pl.load(x, [0, 0], [16, 32])), [0, 0], out)

        from pypto_jit.dtypes import INT32

        with pytest.raises(DTypeError) as caught:
            lines(kernel, spec(16, 32, dtype=INT32), X)
        assert caught.value.span.line == kernel.__code__.co_firstlineno + 1


class TestOmittedOutputs:
    def shapes(self, kernel, *arguments):
        def collect(traced):
            return [(p.spec.shape, p.spec.dtype) for p in traced.parameters if p.direction != "in"]

        return with_trace(kernel, *arguments, then=collect)

    def test_the_annotation_says_it(self):
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor[[8, 4], pl.FP16]]):
            assert out.shape == (8, 4)
            pl.store(pl.cast(pl.load(x, [0, 0], [8, 4]), out.dtype), [0, 0], out)

        assert self.shapes(kernel, X, None) == [((8, 4), FP16)]

    def test_or_the_stores(self):
        assert self.shapes(softmax, spec(10, 128), None) == [((10, 128), FP32)]
        text = with_trace(softmax, spec(10, 128), None, then=lambda traced: str(traced.module))
        assert text == with_trace(softmax, spec(10, 128), spec(10, 128), then=lambda traced: str(traced.module))

    def test_an_accumulator_gives_its_dtype(self):
        def kernel(a, b, out):
            pl.store(pl.matmul(pl.load(a, [0, 0], [16, 32]), pl.load(b, [0, 0], [32, 16])), [0, 0], out)

        assert self.shapes(kernel, spec(16, 32, dtype=BF16), spec(32, 16, dtype=BF16), None) == [((16, 16), FP32)]

    def test_its_shape_cannot_be_asked_for(self):
        def kernel(x, out):
            pl.store(pl.load(x, [0, 0], list(out.shape)), [0, 0], out)

        with pytest.raises(ArgumentError, match="asks for the shape or dtype of 'out'") as caught:
            lines(kernel, X, None)
        assert caught.value.span.line == kernel.__code__.co_firstlineno + 1

    def test_an_input_cannot_be_left_out(self):
        def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
            pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], out)

        with pytest.raises(ArgumentError, match="'x' is missing"):
            lines(kernel, None, X)

    def test_an_undeclared_input_cannot_be_left_out(self):
        def kernel(x, out):
            pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], out)

        with pytest.raises(ArgumentError):
            lines(kernel, None, X)

    def test_stores_of_two_dtypes(self):
        def kernel(x, out):
            t = pl.load(x, [0, 0], [16, 32])
            pl.store(t, [0, 0], out)
            pl.store(pl.cast(t, pl.FP16), [0, 0], out)

        with pytest.raises(DTypeError):
            lines(kernel, X, None)


class TestUserCode:
    def test_its_exceptions_pass_unchanged(self):
        error = KeyError("mine")

        def kernel(x, out):
            raise error

        with pytest.raises(KeyError) as caught:
            lines(kernel, X, X)
        assert caught.value is error

    def test_an_ordinary_name_error_passes(self):
        def kernel(x, out):
            missing_name  # noqa: B018, F821

        with pytest.raises(NameError, match="missing_name"):
            lines(kernel, X, X)

    def test_a_failed_trace_leaves_nothing_behind(self):
        state = {"fail": True}

        def kernel(x, out):
            for i in pl.range(16):
                if state["fail"]:
                    raise RuntimeError
                pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)

        with pytest.raises(RuntimeError):
            lines(kernel, X, X)
        state["fail"] = False
        assert len(lines(kernel, X, X)) == 3

    def test_a_tile_of_another_trace(self):
        kept = []

        def first(x, out):
            kept.append(pl.load(x, [0, 0], [16, 32]))
            pl.store(kept[0], [0, 0], out)

        def second(x, out):
            pl.store(kept[0], [0, 0], out)

        lines(first, X, X)
        with pytest.raises(Exception, match="belongs to another kernel"):
            lines(second, X, X)

    def test_keyword_only_parameters_and_constants(self):
        def kernel(x, factor, /, *, out, mode: pl.constexpr):
            t = pl.load(x, [0, 0], [16, 32])
            pl.store(t * factor if mode == "scale" else t, [0, 0], out)

        assert lines(kernel, X, 2.0, X, "scale")[1] == "%1 = muls(%0, %cst)"
        assert len(lines(kernel, X, 2.0, X, "copy")) == 2


def test_zero_trip_loops_are_recorded():
    def kernel(x, out):
        for i in pl.range(0):
            pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)

    out = numpy.ones((16, 32), numpy.float32)
    evaluate(kernel, numpy.zeros((16, 32), numpy.float32), out)
    assert out.all()


def test_an_operand_error_has_line_found_and_expected():
    def kernel(x, out):
        t = pl.load(x, [0, 0], [16, 32])
        pl.store(t + pl.row_max(t), [0, 0], out)

    with pytest.raises(ShapeError) as caught:
        lines(kernel, X, X)
    assert str(caught.value) == (
        "[PYPTO-SHAPE] the operands of add have different shapes\n"
        + excerpt(kernel, 2, "t + pl.row_max(t)")
        + "  found:    lhs is Tile[[16, 32], FP32, Vec], rhs is Tile[[16, 1], FP32, Vec]\n"
        "  expected: equal shapes\n"
        "  hint: spread a [M, 1] vector over the rows with pl.row_expand_add"
    )
