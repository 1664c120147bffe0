"""Entries around kernels written in LLVM IR, for tests of the runtime and of the entry itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pypto_jit.dtypes import FP32, DType
from pypto_jit.lowering.cpu.codegen import compile_llvm_ir
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.entry import EntryTensor, Host, Launch, Operand, entry_text
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.native import load_entry
from pypto_jit.signature import ParamInfo, TensorSpec

# out[i] = x[i] + 1 for `count` elements, block-strided; i64 arguments scale the index of x.
KERNEL = """
define void @bump(ptr %x, STRIDE ptr %out, i64 %index, i64 %count, ptr %arena, ptr %status) {
entry:
  br label %head
head:
  %i = phi i64 [ %index, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, COUNT
  br i1 %more, label %body, label %exit
body:
  %at = mul i64 %i, SCALE
  %from = getelementptr float, ptr %x, i64 %at
  %value = load float, ptr %from
  %sum = fadd float %value, 1.0
  %to = getelementptr float, ptr %out, i64 %i
  store float %sum, ptr %to
  %next = add i64 %i, %count
  br label %head
exit:
  ret void
}
"""
# Writes the number of blocks to every element it owns, and fails where the block index says so.
TEAM = """
define void @team(ptr %out, ptr %scratch, i64 %index, i64 %count, ptr %arena, ptr %status) {
  %to = getelementptr i8, ptr %out, i64 %index
  %narrow = trunc i64 %count to i8
  store i8 %narrow, ptr %to
  %end = getelementptr i8, ptr %arena, i64 LAST
  store i8 1, ptr %end
  store i8 1, ptr %scratch
  ret void
}
"""
FAIL = """
define void @fail(ptr %out, i64 %index, i64 %count, ptr %arena, ptr %status) {
  store i64 7, ptr %status
  ret void
}
"""


def dense(*shape: int, dtype: DType = FP32) -> TensorSpec:
    """A contiguous tensor."""
    return TensorSpec(shape, dtype, tuple(int(numpy.prod(shape[k + 1 :])) for k in range(len(shape))))


def object_code(
    kernels: str,
    tensors: Sequence[EntryTensor],
    launches: Sequence[Launch],
    workspaces: Sequence[int] = (),
    host: Host | None = None,
) -> bytes:
    """An object file of kernels and their entry."""
    return compile_llvm_ir(kernels + entry_text(tensors, launches, workspaces, host=host), host_cpu())


def build(
    kernels: str,
    tensors: Sequence[EntryTensor],
    launches: Sequence[Launch],
    workspaces: Sequence[int] = (),
    host: Host | None = None,
) -> Any:
    """The entry as a function."""
    return load_entry(object_code(kernels, tensors, launches, workspaces, host)).function


def bump_code(spec: TensorSpec, in_place: frozenset[int] = frozenset({1}), work: int = 1, trips: int = -1) -> bytes:
    """An entry of ``out = x + 1`` over ``spec``; the kernel is given the stride of a one-dimensional strided spec."""
    strided = spec.strides == (-1,)
    kernel = KERNEL.replace("COUNT", str(int(numpy.prod(spec.shape))))
    kernel = kernel.replace("STRIDE", "i64 %stride," if strided else "").replace("SCALE", "%stride" if strided else "1")
    operands = (Operand("data", 0), *([Operand("stride", 0, 0)] if strided else []), Operand("data", 1))
    tensors = [EntryTensor(spec, in_place=in_place), EntryTensor(dense(*spec.shape), written=True)]
    return object_code(kernel, tensors, [Launch("bump", operands, 0, trips, work)])


def bump_entry(spec: TensorSpec, in_place: frozenset[int] = frozenset({1}), work: int = 1, trips: int = -1) -> Any:
    """`bump_code` as a function."""
    return load_entry(bump_code(spec, in_place, work, trips)).function


def bump_program(shape: tuple[int, ...], in_place: frozenset[int] = frozenset({1})) -> CompiledProgram:
    """`bump_code` as a compiled program of parameters ``x`` and ``out``."""
    spec = dense(*shape)
    return CompiledProgram(
        name="bump",
        platform="a2a3sim",
        parameters=(ParamInfo("x", "in", spec), ParamInfo("out", "out", spec)),
        returns="out",
        assembly="module {}",
        assembly_error=None,
        code=bump_code(spec, in_place),
        parallel=False,
        work=int(numpy.prod(shape)),
        checks=(),
    )
