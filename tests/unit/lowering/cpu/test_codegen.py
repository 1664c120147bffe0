"""Code generation: what it makes, and that a mistake is an error and not the end of the process."""

from __future__ import annotations

import dataclasses
import platform

import numpy as np
import pytest

from pypto_jit._mlir import ir
from pypto_jit.errors import InternalError
from pypto_jit.lowering.context import make_context
from pypto_jit.lowering.cpu.codegen import compile_llvm_ir, emit_object, to_llvm_ir
from pypto_jit.lowering.cpu.description import CpuDescription, host_cpu
from tests.native import NativeFunction

DOUBLE = """
func.func @double(%p: !llvm.ptr, %n: i64) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  scf.for %i = %zero to %n step %one : i64 {
    %a = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %x = llvm.load %a : !llvm.ptr -> f32
    %y = arith.addf %x, %x : f32
    llvm.store %y, %a : f32, !llvm.ptr
  }
  return
}"""


def parse(text: str) -> ir.Module:
    with make_context():
        return ir.Module.parse(text)


def test_an_object_of_a_module():
    result = emit_object(parse(DOUBLE), host_cpu())
    assert "define void @double" in result.llvm
    values = np.arange(10, dtype=np.float32)
    NativeFunction(result.objects, "double")(values, 9)
    np.testing.assert_array_equal(values, [0, 2, 4, 6, 8, 10, 12, 14, 16, 9])


def test_rounding_to_bf16_needs_no_library():
    """A processor without such an instruction, whatever the one here has."""
    result = emit_object(
        parse("""
        func.func @narrow(%from: !llvm.ptr, %to: !llvm.ptr) {
          %x = llvm.load %from : !llvm.ptr -> f32
          %y = arith.truncf %x : f32 to bf16
          %z = arith.addf %y, %y : bf16
          llvm.store %z, %to : bf16, !llvm.ptr
          return
        }"""),
        CpuDescription("x86-64-v3" if platform.machine() == "x86_64" else host_cpu().name, "", 32),
    )
    narrow = NativeFunction(result.objects, "narrow")
    for given, bits in [
        (1.0, 0x4000),
        (1.0 + 2**-8, 0x4000),  # a tie, to the even neighbour below
        (1.0 + 3 * 2**-8, 0x4002),  # a tie, to the even neighbour above
        (1.0 + 2**-8 + 2**-20, 0x4001),
        (-3.0e38, 0xFF80),
        (np.inf, 0x7F80),
    ]:
        out = np.zeros(1, np.uint16)
        narrow(np.array([given], np.float32), out)
        assert out[0] == bits, given
    out = np.zeros(1, np.uint16)
    narrow(np.array([np.nan], np.float32), out)
    assert np.isnan((out.astype(np.uint32) << 16).view(np.float32)[0])


def test_an_operation_without_lowering_is_an_error():
    module = parse('func.func @f() {\n  %0 = "pto.get_block_idx"() : () -> i64\n  return\n}')
    with pytest.raises(InternalError, match=r"pto\.get_block_idx"):
        to_llvm_ir(module)


def test_an_invalid_module_is_an_error():
    module = parse("func.func @f(%a: i64) {\n  %b = arith.addi %a, %a : i64\n  return\n}")
    with module.context:
        wrong = ir.FunctionType.get([ir.F32Type.get()], [])
        module.body.operations[0].operation.attributes["function_type"] = ir.TypeAttr.get(wrong)
    with pytest.raises(InternalError, match="invalid"):
        to_llvm_ir(module)


def test_llvm_refuses_nonsense():
    with pytest.raises(InternalError, match="LLVM refuses"):
        compile_llvm_ir("define void @f() { nonsense }", host_cpu())


def test_a_folded_vector_still_lowers():
    result = emit_object(
        parse("""
        func.func @fill(%p: !llvm.ptr) {
          %c = arith.constant 1.5 : f32
          %v = vector.broadcast %c : f32 to vector<8xf32>
          %w = arith.addf %v, %v : vector<8xf32>
          llvm.store %w, %p {alignment = 4 : i64} : vector<8xf32>, !llvm.ptr
          return
        }"""),
        host_cpu(),
    )
    values = np.zeros(9, np.float32)
    NativeFunction(result.objects, "fill")(values)
    np.testing.assert_array_equal(values, [3.0] * 8 + [0.0])


@pytest.mark.parametrize("width", [16, 32])
def test_narrower_processors_compile_too(width):
    result = emit_object(parse(DOUBLE), dataclasses.replace(host_cpu(), vector_bytes=width))
    values = np.ones(4, np.float32)
    NativeFunction(result.objects, "double")(values, 3)
    np.testing.assert_array_equal(values, [2, 2, 2, 1])
