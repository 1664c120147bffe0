from __future__ import annotations

import numpy
import pytest
import torch

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.dtypes import FP32, INT32
from pypto_jit.errors import ArgumentError, InternalError, ShapeError, Span
from tests.module_text import ModuleText


def softmax(rows: int, columns: int, block: int) -> ModuleText:
    text = ModuleText()
    x, out = text.tensor((rows, columns), FP32), text.tensor((rows, columns), FP32)
    with text.loop(rows, block, parallel=True) as loop:
        left = text.arith("subi", text.constant(rows), loop.index)
        valid = text.arith("minsi", text.constant(block), left)
        tile = text.load(x, [loop.index, 0], [block, columns], [valid, columns])
        tile = text.operator("exp", text.operator("row_expand_sub", tile, text.operator("row_max", tile)))
        tile = text.operator("row_expand_div", tile, text.operator("row_sum", tile))
        text.store(tile, out, [loop.index, 0])
    return text


def test_softmax_with_a_ragged_block(run_module):
    x = numpy.random.default_rng(0).standard_normal((10, 37)).astype(numpy.float32)
    out = numpy.zeros_like(x)
    run_module(softmax(10, 37, 4), x, out)
    numpy.testing.assert_allclose(out, torch.softmax(torch.from_numpy(x), -1).numpy(), rtol=3e-7)


def test_a_tensor_without_rows(run_module):
    out = numpy.zeros((0, 8), numpy.float32)
    run_module(softmax(0, 8, 4), out, out)


def test_loops_carry_tiles_and_nest(run_module):
    text = ModuleText()
    x, out = text.tensor((6, 4), INT32), text.tensor((1, 4), INT32)
    start = text.operator("full", text.constant(0, "i32"), shape=(1, 4), dtype=INT32)
    with text.loop(3, carried=[start]) as outer:
        with text.loop(2, carried=outer.carried) as inner:
            number = text.arith("addi", text.arith("muli", outer.index, text.constant(2)), inner.index)
            inner.yields = [text.operator("add", inner.carried[0], text.load(x, [number, 0], [1, 4]))]
        outer.yields = inner.results
    text.store(outer.results[0], out, [0, 0])
    values = numpy.arange(24, dtype=numpy.int32).reshape(6, 4)
    given = numpy.zeros((1, 4), numpy.int32)
    run_module(text, values, given)
    assert given.tolist() == [values.sum(axis=0).tolist()]


def test_carried_values_are_swapped_at_once(run_module):
    text = ModuleText()
    out = text.tensor((2, 1), INT32)
    first = text.operator("full", text.constant(1, "i32"), shape=(1, 1), dtype=INT32)
    second = text.operator("full", text.constant(2, "i32"), shape=(1, 1), dtype=INT32)
    with text.loop(3, carried=[first, second]) as loop:
        loop.yields = loop.carried[::-1]
    text.store(loop.results[0], out, [0, 0])
    text.store(loop.results[1], out, [1, 0])
    given = numpy.zeros((2, 1), numpy.int32)
    run_module(text, given)
    assert given.ravel().tolist() == [2, 1]


BRANCH = """
module {
  func.func @f(%x: !pypto.tensor<[2, 3], f32, [3, 1]>, %out: !pypto.tensor<[2, 3], f32, [3, 1]>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    scf.for %i = %c0 to %c2 step %c1 {
      %t = "pypto.load"(%x, %i, %c0, %c1, %c3)
        : (!pypto.tensor<[2, 3], f32, [3, 1]>, index, index, index, index) -> !pypto.tile<[1, 3], f32, "vec", [1, 3]>
      %first = arith.cmpi eq, %i, %c0 : index
      %r, %s = scf.if %first -> (!pypto.tile<[1, 3], f32, "vec", [1, 3]>, index) {
        %n = "pypto.neg"(%t)
          : (!pypto.tile<[1, 3], f32, "vec", [1, 3]>) -> !pypto.tile<[1, 3], f32, "vec", [1, 3]>
        scf.yield %n, %c1 : !pypto.tile<[1, 3], f32, "vec", [1, 3]>, index
      } else {
        scf.yield %t, %c0 : !pypto.tile<[1, 3], f32, "vec", [1, 3]>, index
      }
      "pypto.store"(%r, %out, %s, %c0)
        : (!pypto.tile<[1, 3], f32, "vec", [1, 3]>, !pypto.tensor<[2, 3], f32, [3, 1]>, index, index) -> ()
      scf.if %first {
        scf.yield
      }
    }
    return
  }
}
"""


def test_branches(run_module):
    x = numpy.float32([[1, 2, 3], [4, 5, 6]])
    out = numpy.zeros_like(x)
    run_module(BRANCH, x, out)
    assert out.tolist() == [[4, 5, 6], [-1, -2, -3]]


def test_dimensions_are_read_at_run_time(run_module):
    text = """
    func.func @f(%x: !pypto.tensor<[-1, 2], f32, [2, 1]>) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %rows = "pypto.dim"(%x) {axis = 0 : i64} : (!pypto.tensor<[-1, 2], f32, [2, 1]>) -> index
      %last = arith.subi %rows, %c1 : index
      %value = arith.constant 7.0 : f32
      %t = "pypto.full"(%value) : (f32) -> !pypto.tile<[1, 2], f32, "vec", [1, 2]>
      "pypto.store"(%t, %x, %last, %c0)
        : (!pypto.tile<[1, 2], f32, "vec", [1, 2]>, !pypto.tensor<[-1, 2], f32, [2, 1]>, index, index) -> ()
      return
    }"""
    x = numpy.zeros((5, 2), numpy.float32)
    run_module(text, x)
    assert x.tolist() == [[0, 0]] * 4 + [[7, 7]]


def test_several_functions_hand_over_through_a_workspace(run_module):
    copy = """
      %c0 = arith.constant 0 : index
      %c4 = arith.constant 4 : index
      %t = "pypto.load"(%SOURCE, %c0, %c4)
        : (!pypto.tensor<[4], f32, [1]>, index, index) -> !pypto.tile<[4], f32, "vec", [4]>
      %r = "pypto.adds"(%t, %one)
        : (!pypto.tile<[4], f32, "vec", [4]>, f32) -> !pypto.tile<[4], f32, "vec", [4]>
      "pypto.store"(%r, %GOAL, %c0)
        : (!pypto.tile<[4], f32, "vec", [4]>, !pypto.tensor<[4], f32, [1]>, index) -> ()
      return
    }
    """
    head = """func.func @NAME(%x: !pypto.tensor<[4], f32, [1]>, %out: !pypto.tensor<[4], f32, [1]>,
                      %work: !pypto.tensor<[4], f32, [1]>) {
      %one = arith.constant 1.0 : f32"""
    first = head.replace("NAME", "f_0") + copy.replace("SOURCE", "x").replace("GOAL", "work")
    second = head.replace("NAME", "f_1") + copy.replace("SOURCE", "work").replace("GOAL", "out")
    x, out = numpy.float32([1, 2, 3, 4]), numpy.zeros(4, numpy.float32)
    run_module("module {\n" + first + second + "}", x, out)
    assert out.tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize(
    "array", [numpy.zeros((4, 6)), numpy.zeros((4, 5), numpy.float32), numpy.zeros(24, numpy.float32)], ids=str
)
def test_an_array_that_does_not_fit(run_module, array):
    text = ModuleText()
    text.tensor((4, 6), FP32)
    with pytest.raises(ArgumentError, match="argument 0 does not fit the kernel"):
        run_module(text, array)


@pytest.mark.parametrize("operation", ["%q, %r = arith.mulsi_extended %a, %a : i32", "%r = ub.poison : i32"])
def test_an_operation_without_a_meaning(context, operation):
    text = (
        f'func.func @f(%x: !pypto.tensor<[4], f32, [1]>) {{\n%a = arith.constant 1 : i32\n{operation} loc("k.py":3:4)'
    )
    module = ir.Module.parse(text + "\nreturn\n}", context)
    with pytest.raises(InternalError, match="the interpreter has no meaning for") as caught:
        interpret(module, [numpy.zeros(4, numpy.float32)])
    assert caught.value.span == Span("k.py", 3, 4)


def test_a_loop_that_would_not_end(run_module):
    text = ModuleText()
    with text.loop(4, 0):
        pass
    with pytest.raises(ShapeError, match="the step of a loop must be positive"):
        run_module(text)
