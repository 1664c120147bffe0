"""From an MLIR module of func, scf, cf, arith, index, vector and llvm operations to native object code.

MLIR lowers to its llvm dialect and translates to LLVM IR; llvmlite emits position-independent code. Loops are already
vectorized, unrolled and fused by the lowering, and the code generator itself folds, schedules and strength-reduces, so
of LLVM's optimizations only the cheapest is run: instcombine and gvn took a quarter of the time and did not change the
code's speed by anything that could be measured. Level 3 runs all of them all the same.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pypto_jit._mlir import MLIRError, PassManager, ir, translate_module_to_llvmir
from pypto_jit.errors import InternalError
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.partition import partition

# All dialects but scf are converted in one walk over the module.
_PASSES = ("convert-scf-to-cf", "convert-to-llvm", "reconcile-unrealized-casts")


@dataclass(frozen=True)
class CodegenResult:
    """Native code of a module.

    Attributes:
        objects: relocatable object files, which belong together.
        llvm: the LLVM IR they were made from, before LLVM's optimizations.
    """

    objects: tuple[bytes, ...]
    llvm: str


# LLVM's levels run from 0 to 3; of ours, 2 is the one that is measured and used unless another is asked for.
DEFAULT_LEVEL = 2
# LLVM calls this where the processor does not round to BF16, and not every system's libraries have it: to nearest, ties
# to even, and NaN stays one.
_TO_BFLOAT = """
define weak_odr bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %high = lshr i32 %bits, 16
  %odd = and i32 %high, 1
  %half = add i32 %odd, 32767
  %sum = add i32 %bits, %half
  %nearest = lshr i32 %sum, 16
  %quiet = or i32 %high, 64
  %nan = fcmp uno float %x, %x
  %chosen = select i1 %nan, i32 %quiet, i32 %nearest
  %narrow = trunc i32 %chosen to i16
  %result = bitcast i16 %narrow to bfloat
  ret bfloat %result
}
"""


def emit_object(module: ir.Module, cpu: CpuDescription) -> CodegenResult:
    """Compile a module, which is consumed, to object code for a processor.

    Raises:
        InternalError: the module is invalid, or holds an operation that none of the passes lowers.
    """
    text = to_llvm_ir(module)
    return CodegenResult(compile_llvm_ir(text, cpu), text)


def to_llvm_ir(module: ir.Module) -> str:
    """Lower a module in place to the llvm dialect and give its LLVM IR.

    Raises:
        InternalError: the module is invalid, or holds an operation that none of the passes lowers.
    """
    operation = module.operation
    with operation.context, ir.Location.unknown():
        _verify(operation, "before the conversion to LLVM")
        manager = PassManager.parse(f"builtin.module({','.join(_PASSES)})")
        manager.enable_verifier(False)
        try:
            manager.run(operation)
        except MLIRError as error:
            raise InternalError(f"a kernel could not be lowered to LLVM: {error}") from error
        _verify(operation, "after the conversion to LLVM")
        _check_lowered(operation)
        text = translate_module_to_llvmir(operation)
        return text + _TO_BFLOAT if "bfloat" in text else text


def compile_llvm_ir(text: str, cpu: CpuDescription, level: int = DEFAULT_LEVEL) -> tuple[bytes, ...]:
    """Emit position-independent object files, which belong together, from LLVM IR. Large modules are compiled in parts.

    Args:
        text: the IR.
        cpu: the processor.
        level: 0: as it is; 1, 2: branches simplified, and code generated at that level; 3: all of LLVM's passes, which
            see the module as a whole.

    Raises:
        InternalError: LLVM refuses the IR.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    parts = partition(text) if level < 3 else (text,)
    if len(parts) == 1:
        return (_compile_part(llvm, text, cpu, level),)
    with ThreadPoolExecutor(min(len(parts), os.cpu_count() or 1)) as pool:
        return tuple(pool.map(lambda part: _compile_part(llvm, part, cpu, level), parts))


def _compile_part(llvm: Any, text: str, cpu: CpuDescription, level: int) -> bytes:
    try:
        # A context of its own is what lets LLVM work in several threads.
        module = llvm.parse_assembly(text, llvm.create_context())
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the IR of a kernel: {error}") from error
    module.triple = llvm.get_process_triple()
    machine = _target_machine(llvm, cpu, level)
    module.data_layout = str(machine.target_data)
    _optimize(llvm, module, machine, level)
    return _emit(llvm, machine, module)


def _emit(llvm: Any, machine: Any, module: Any) -> bytes:
    """As ``machine.emit_object``, but without llvmlite's lock around all of LLVM where its function can be had bare."""
    locked = llvm.ffi.lib.LLVMPY_TargetMachineEmitToMemory
    with llvm.ffi.OutputString() as message:
        buffer = getattr(locked, "_cfn", locked)(machine, module, 1, message)
        if not buffer:
            raise InternalError(f"LLVM cannot generate code for a kernel: {message}")
    try:
        return ctypes.string_at(llvm.ffi.lib.LLVMPY_GetBufferStart(buffer), llvm.ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        llvm.ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def _target_machine(llvm: Any, cpu: CpuDescription, level: int) -> Any:
    # LLVM tunes several AVX-512 processors for 256-bit vectors; the lowering has already chosen the width.
    features = cpu.features + (",-prefer-256-bit" if cpu.vector_bytes == 64 else "")
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=cpu.name, features=features, opt=level, reloc="pic", codemodel="small")


def _optimize(llvm: Any, module: Any, machine: Any, level: int) -> None:
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=level))
    passes = llvm.create_new_function_pass_manager()
    passes.add_simplify_cfg_pass()
    for function in module.functions:
        if not function.is_declaration:
            function.add_function_attribute("nounwind")
            if level > 0:
                passes.run(function, builder)
    if level == 3:
        builder.getModulePassManager().run(module, builder)


def _verify(operation: ir.Operation, when: str) -> None:
    try:
        operation.verify()
    except MLIRError as error:
        raise InternalError(f"a kernel's module is invalid {when}: {error}") from error


def _check_lowered(operation: ir.Operation) -> None:
    """Raise where an operation is left that MLIR's translation would abort the process on."""
    left: set[str] = set()

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if not name.startswith("llvm.") and name != "builtin.module":
            left.add(name)
        return ir.WalkResult.ADVANCE

    operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    if left:
        raise InternalError("operations are left that do not lower to LLVM: " + ", ".join(sorted(left)))
