"""From a Python function and what it is called with to a compiled program: the order of the layers, no more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType, MappingProxyType
from typing import Any

from pypto_jit._cached import Compiled
from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import print_assembly
from pypto_jit.errors import AssemblyError, Span
from pypto_jit.frontend.trace import Returns, Traced, trace
from pypto_jit.lowering.aliasing import safe_in_place
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.cpu.codegen import compile_llvm_ir, to_llvm_ir
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.entry import EntryTensor, Launch, Operand, entry_text, is_parallel
from pypto_jit.lowering.cpu.kernel import lower_to_cpu
from pypto_jit.lowering.pipeline import PASSES, lower
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store.programs import Module, describe_module, find_compiled, publish_program
from pypto_jit.runtime.store.requests import Request
from pypto_jit.runtime.store.serialization import encode_parameters
from pypto_jit.signature import Constant, ParamInfo, TensorSpec
from pypto_jit.targets import Target

Arguments = dict[str, TensorSpec | Constant | None]

# Kernel symbols are set apart from those of libraries: a kernel may be called exp, or free.
_SYMBOL_PREFIX = "kernel."


@dataclass
class Clock:
    """Seconds of each step of a compile."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class Stages(Mapping[str, str]):
    """The text of a kernel at each stage of the compile, by the stage's name, in order.

    ``"pto"`` is the PTO assembly. Where a kernel has none, reading it raises the AssemblyError that says why.
    """

    def __init__(self, texts: dict[str, str], assembly_error: AssemblyError | None) -> None:
        self._texts = texts
        self._error = assembly_error

    def __getitem__(self, name: str) -> str:
        if name == "pto" and self._error is not None:
            raise self._error
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self._texts)})"


def compile_kernel(
    function: FunctionType, arguments: Arguments, target: Target, platform: str, request: Request | None = None
) -> Compiled:
    """Compile a kernel for the CPU, and to PTO assembly.

    Args:
        function: the kernel.
        arguments: what each parameter is given.
        target: the machine the assembly is for.
        platform: its name.
        request: what it is compiled for, if the disk cache is to be asked for the traced module and given the result.

    Raises:
        PyptoError: the kernel is at fault; the error names the line.
    """
    clock = Clock()
    with borrowed_context() as context:
        with clock.step("trace"):
            traced = trace(function, arguments, target, context)
        module = _describe(request, traced, target) if request is not None else None
        known = find_compiled(request, module) if request is not None and module is not None else None
        if known is not None:
            return Compiled(known, traced.reads)
        in_place = _in_place(traced)
        with clock.step("passes"):
            lower(traced.module, target)
        with clock.step("assembly"):
            assembly, error = _assembly(traced.module)
        with clock.step("cpu"):
            text, launches, checks = _llvm(traced, in_place)
    with clock.step("codegen"):
        code = compile_llvm_ir(text, host_cpu())
    work = -1 if any(launch.work < 0 for launch in launches) else sum(launch.work for launch in launches)
    program = CompiledProgram(
        name=function.__name__,
        platform=platform,
        parameters=traced.parameters,
        returns=traced.returns,
        assembly=assembly,
        assembly_error=error.message if error else None,
        code=code,
        parallel=is_parallel(launches),
        work=work,
        checks=checks,
        timings=MappingProxyType(clock.seconds),
        origin=Span(function.__code__.co_filename, function.__code__.co_firstlineno),
    )
    if request is not None and module is not None:
        program = publish_program(request, module, program)
    return Compiled(program, traced.reads)


def _describe(request: Request, traced: Traced, target: Target) -> Module:
    """What the disk cache knows a traced module by: the module, and all that turns it into a program."""
    interface = [encode_parameters(traced.parameters), traced.returns]
    sections = {
        "interface": json.dumps(interface).encode(),
        "target": target.name.encode(),
        "pipeline": " ".join(stage_names()).encode(),
        "options": dict(request.key.parts)["options"],
    }
    text = traced.module.operation.get_asm(enable_debug_info=True, use_local_scope=True)
    return describe_module(request, text, sections)


def lower_kernel(function: FunctionType, arguments: Arguments, target: Target) -> Stages:
    """The text of each stage of compiling a kernel.

    Raises:
        PyptoError: the kernel is at fault; the error names the line.
    """
    texts: dict[str, str] = {}
    with borrowed_context() as context:
        traced = trace(function, arguments, target, context)
        texts["trace"] = str(traced.module)
        in_place = _in_place(traced)
        lower(traced.module, target, dump=texts.__setitem__)
        assembly, error = _assembly(traced.module)
        texts["pto"] = assembly or ""
        texts["llvm"], _, _ = _llvm(traced, in_place)
    return Stages(texts, error)


def stage_names() -> tuple[str, ...]:
    """Names of the stages, in order."""
    return ("trace", *(entry.name for entry in PASSES), "pto", "llvm")


def interpret_kernel(
    function: FunctionType,
    arguments: Arguments,
    target: Target,
    arrays: Callable[[Sequence[ParamInfo]], Sequence[Any]],
) -> Returns:
    """Run a kernel in NumPy.

    Args:
        arrays: given the tensor parameters, the arrays to run on.

    Returns:
        Names of the parameters that a call returns.

    Raises:
        PyptoError: the kernel is at fault, or a box left its tensor.
    """
    from pypto_jit.dialects.interpreter import interpret

    with borrowed_context() as context:
        traced = trace(function, arguments, target, context)
        tensors = [info for info in traced.parameters if isinstance(info.spec, TensorSpec)]
        interpret(traced.module, arrays(tensors))
        return traced.returns


def _assembly(module: ir.Module) -> tuple[str | None, AssemblyError | None]:
    try:
        return print_assembly(module), None
    except AssemblyError as error:
        # The traceback would keep the module, and with it the context, alive.
        return None, error.with_traceback(None)


def _functions(module: ir.Module) -> list[ir.Operation]:
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def _in_place(traced: Traced) -> frozenset[tuple[int, int]]:
    functions = _functions(traced.module)
    return safe_in_place(functions[0]) if len(functions) == 1 else frozenset()


def _llvm(
    traced: Traced, in_place: frozenset[tuple[int, int]]
) -> tuple[str, list[Launch], tuple[tuple[Span | None, str], ...]]:
    """LLVM IR of the kernels and their entry; consumes the module."""
    tensors = [info for info in traced.parameters if isinstance(info.spec, TensorSpec)]
    names = [info.name for info in tensors]
    planned = [(f, *_operands(f, names)) for f in _functions(traced.module)]
    workspaces = max((sizes for _, _, sizes in planned), key=len, default=[])
    operands = {ir.StringAttr(function.attributes["sym_name"]).value: operands for function, operands, _ in planned}
    checks = lower_to_cpu(traced.module, host_cpu()).checks
    kernels = [function for function in _functions(traced.module) if "pypto.arena" in function.attributes]
    launches = [_launch(function, operands) for function in kernels]
    entry_tensors = [
        EntryTensor(info.spec, info.direction != "in", frozenset(b for a, b in in_place if a == k))
        for k, info in enumerate(tensors)
        if isinstance(info.spec, TensorSpec)
    ]
    text = to_llvm_ir(traced.module) + entry_text(entry_tensors, launches, workspaces)
    return text, launches, checks


def _operands(function: ir.Operation, names: list[str]) -> tuple[tuple[Operand, ...], list[int]]:
    """What each argument of a planned function is, and the bytes of its workspaces."""
    operands: list[Operand] = []
    sizes: list[int] = []
    for attributes in ir.ArrayAttr(function.attributes["arg_attrs"]):
        known = {named.name: named.attr for named in ir.DictAttr(attributes)}
        if "pypto.argument" in known:
            operands.append(Operand("data", names.index(ir.StringAttr(known["pypto.argument"]).value)))
        elif "pypto.workspace" in known:
            operands.append(Operand("workspace", len(sizes)))
            sizes.append(ir.IntegerAttr(known["pypto.workspace"]).value)
        else:
            kind = "extent" if "pypto.dim" in known else "stride"
            name, axis = ir.ArrayAttr(known["pypto.dim" if kind == "extent" else "pypto.stride"])
            operands.append(Operand(kind, names.index(ir.StringAttr(name).value), ir.IntegerAttr(axis).value))
    return tuple(operands), sizes


def _launch(function: ir.Operation, operands: Mapping[str, tuple[Operand, ...]]) -> Launch:
    attributes = function.attributes
    name = ir.StringAttr(attributes["sym_name"]).value
    arena, trips, work = (ir.IntegerAttr(attributes[f"pypto.{key}"]).value for key in ("arena", "trips", "work"))
    symbol = _SYMBOL_PREFIX + name
    attributes["sym_name"] = ir.StringAttr.get(symbol, context=function.context)
    return Launch(symbol, operands[name], arena, trips, work)
