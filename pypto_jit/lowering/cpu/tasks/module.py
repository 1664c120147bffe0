"""Lowers a module of a host function and kernels: all there is between planned code and the entry's text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import HOST
from pypto_jit.lowering.context import type_table
from pypto_jit.lowering.cpu.codegen import to_llvm_ir
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.frame import Check
from pypto_jit.lowering.cpu.kernel import lower_to_cpu
from pypto_jit.lowering.cpu.tasks.calls import Kernels
from pypto_jit.lowering.cpu.tasks.host import HostCode, lower_host
from pypto_jit.lowering.cpu.tasks.scheduler import TaskKernel
from pypto_jit.lowering.tree import functions

# LLVM's parser takes no declaration of what the same text defines.
_DECLARED = re.compile(r"^declare [^\n]*@pypto\.[^\n]*\n", re.MULTILINE)


@dataclass(frozen=True)
class TaskModule:
    """A lowered module.

    Attributes:
        text: LLVM IR of the host function and the kernels, without the scheduler.
        host: the host function.
        kernels: what tasks run, in the order of their numbers.
        checks: what a status of 1, 2, ... means.
        work: element operations of a call at most; -1 where unknown.
    """

    text: str
    host: HostCode
    kernels: tuple[TaskKernel, ...]
    checks: tuple[Check, ...]
    work: int


def find_host(module: ir.Operation) -> ir.Operation | None:
    """The host function of a module, if it has one."""
    return next((function for function in functions(module) if HOST in function.attributes), None)


def lower_tasks(module: ir.Module, host: ir.Operation, cpu: CpuDescription, prefix: str) -> TaskModule:
    """Lower a planned module, which is consumed.

    Args:
        host: its host function.
        prefix: put before the names of its functions.

    Raises:
        InternalError: it is no such module.
    """
    operation = module.operation
    kernels = Kernels(operation)
    checks = list(lower_to_cpu(module, cpu).checks)
    with operation.context, ir.Location.unknown():
        code = lower_host(host, type_table(operation.context), cpu, kernels, checks, prefix)
        tasks = kernels.lowered(operation, prefix)
    return TaskModule(_DECLARED.sub("", to_llvm_ir(module)), code, tasks, tuple(checks), _work(code, kernels))


def _work(code: HostCode, kernels: Kernels) -> int:
    total = 0
    for callee, times in code.calls:
        each = [kernels.work[piece.number] for piece in kernels.pieces(callee)]
        if times is None or min(each) < 0:
            return -1
        total += times * sum(each)
    return total
