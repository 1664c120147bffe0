"""What a call takes, told from the text of a module."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import parse_assembly
from pypto_jit.dtypes import FP32, INT32
from pypto_jit.errors import AssemblyError
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.interface import planned_interface, traced_interface
from pypto_jit.signature import ParamInfo, TensorSpec

TRACED = """module attributes {pypto.target = "a2a3"} {
  func.func @f(%a: !pypto.tensor<[4, 8], f32, [8, 1]>, %b: !pypto.tensor<[4, 8], f32, [-1, 1]>,
               %c: !pypto.tensor<[4, 8], f32, [8, 1]>) ATTRIBUTES {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %t = "pypto.load"(%b, %c0, %c0, %c4, %c8) : (!pypto.tensor<[4, 8], f32, [-1, 1]>, index, index, index, index)
      -> !pypto.tile<[4, 8], f32, "vec", [4, 8]>
    "pypto.store"(%t, %b, %c0, %c0) : (!pypto.tile<[4, 8], f32, "vec", [4, 8]>, !pypto.tensor<[4, 8], f32, [-1, 1]>,
      index, index) -> ()
    "pypto.store"(%t, %c, %c0, %c0) : (!pypto.tile<[4, 8], f32, "vec", [4, 8]>, !pypto.tensor<[4, 8], f32, [8, 1]>,
      index, index) -> ()
    return
  }
}
"""


def traced(attributes: str = "") -> tuple[ParamInfo, ...]:
    with borrowed_context() as context, context, ir.Location.unknown():
        return traced_interface(ir.Module.parse(TRACED.replace("ATTRIBUTES", attributes)))


def planned(text: str) -> tuple[ParamInfo, ...]:
    with borrowed_context() as context, context, ir.Location.unknown():
        return planned_interface(parse_assembly(text, context))


def test_directions_come_from_loads_and_stores():
    dense, strided = TensorSpec((4, 8), FP32, (8, 1)), TensorSpec((4, 8), FP32, (-1, 1))
    expected = [("a", "in", dense), ("b", "inout", strided), ("c", "out", dense)]
    assert traced('attributes {pypto.parameters = ["a", "b", "c"]}') == tuple(ParamInfo(*each) for each in expected)
    assert [info.name for info in traced()] == ["arg0", "arg1", "arg2"]


@pytest.mark.parametrize("names", ['["a", "b"]', '["a", "b", "b"]'])
def test_every_argument_has_a_name(names):
    with pytest.raises(AssemblyError, match="names every argument once"):
        traced(f"attributes {{pypto.parameters = {names}}}")


def copied(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    pl.store(pl.load(x, [0, 0], x.shape), [0, 0], out)


@pytest.mark.parametrize("shape", [(4, 8), (1, 8), (16, 1), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_assembly_tells_what_the_kernel_was_specialized_on(shape, dtype):
    kernel = pypto.jit(copied)
    own = FP32 if dtype is torch.float32 else INT32
    x = torch.zeros(shape, dtype=dtype)
    rows, columns = shape
    info = planned(kernel.lower(x, x.clone())["pto"])
    assert info == (
        ParamInfo("x", "in", TensorSpec((rows, columns), own, (columns, 1))),
        ParamInfo("out", "out", TensorSpec((rows, columns), own, (columns, 1))),
    )


def test_strides_read_at_run_time():
    kernel = pypto.jit(copied)
    x = torch.zeros(8, 4).t()
    info = planned(kernel.lower(x, torch.zeros(4, 8))["pto"])
    assert info[0].spec == TensorSpec((4, 8), FP32, (-1, -1))


def test_what_no_call_could_give():
    kernel = pypto.jit(copied)
    text = kernel.lower(torch.zeros(8, 4).t(), torch.zeros(4, 8))["pto"]
    bare = "\n".join(line for line in text.splitlines() if "x_stride0 = {" not in line)
    with pytest.raises(AssemblyError, match="stride of a tensor is a constant, or what"):
        planned(bare)
    unused = text.replace("(%x: ", "(%more: !pto.ptr<f32>, %x: ")
    with pytest.raises(AssemblyError, match="'more' is not accessed"):
        planned(unused)
    with pytest.raises(AssemblyError, match="holds no kernel"):
        planned("module {\n}\n")
