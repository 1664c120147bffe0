"""The scheduler as a whole: LLVM IR to be set after that of a host function and its kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.lowering.cpu.runner import Part, emit_runner
from pypto_jit.lowering.cpu.tasks.dependencies import emit_dependencies
from pypto_jit.lowering.cpu.tasks.execution import emit_execution
from pypto_jit.lowering.cpu.tasks.layout import Frame, Table
from pypto_jit.lowering.cpu.tasks.memory import emit_memory
from pypto_jit.lowering.cpu.tasks.planning import emit_planning
from pypto_jit.lowering.cpu.tasks.submission import KERNELS, emit_submission

# What runs for each task and its accesses. LLVM spends most of its time on the rest if it optimizes it.
_OPTIMIZED = ("access", "commit", "link", "parts", "record", "run", "scan", "submit")
# Of a block whose loops have unknown trip counts.
_UNKNOWN_WORK = 64 * 1024
_DEFINED = re.compile(r"define internal \w+ @pypto\.(\w+)\(")


@dataclass(frozen=True)
class TaskKernel:
    """A kernel that tasks run.

    Attributes:
        parts: its functions, with the offsets of their arguments in a task.
        arena: bytes of scratch that a block needs.
        work: element operations of a block; -1 where unknown.
        blocks: how many there are, where there are several parts.
    """

    parts: tuple[Part, ...]
    arena: int
    work: int
    blocks: int = 1


def emit_scheduler(text: LlvmText, kernels: Sequence[TaskKernel], table: Table) -> None:
    """Write the scheduler, and what runs each kernel; the kernels are numbered in order."""
    for number, kernel in enumerate(kernels):
        emit_runner(text, f"pypto.kernel.{number}", kernel.parts, kernel.arena, kernel.blocks)
    rows = [
        f"{{ ptr, i64 }} {{ ptr @pypto.kernel.{number}, i64 {kernel.work if kernel.work >= 0 else _UNKNOWN_WORK} }}"
        for number, kernel in enumerate(kernels)
    ]
    text.raw(f"{KERNELS} = internal constant [{len(rows)} x {{ ptr, i64 }}] [{', '.join(rows)}]\n")
    start = len(text.lines)
    emit_memory(text)
    emit_dependencies(text, table)
    emit_submission(text, table)
    emit_planning(text, table)
    emit_execution(text, table)
    _finish(text)
    for k, line in enumerate(text.lines[start:], start):
        defined = _DEFINED.match(line)
        if defined is not None and defined[1] not in _OPTIMIZED:
            text.lines[k] = line.removesuffix("{") + "optnone noinline {"


def call_host(text: LlvmText, host: str, arguments: Sequence[str], table: Table, threads: str, flags: str) -> None:
    """Call a host function from an entry, which has the frame ``%tasks`` and the word ``%status``.

    Args:
        arguments: types and values.
        threads, flags: the entry's.
    """
    text.raw(f"  call void @llvm.memset.p0.i64(ptr %tasks, i8 0, i64 {table.frame}, i1 false)")
    shuffle = text.value(f"lshr i64 {flags}, {abi.SHUFFLE}")
    text.store("i64", threads, "%tasks", Frame.THREADS.at)
    text.store("i64", shuffle, "%tasks", Frame.SHUFFLE.at)
    text.store("i64", 1, "%tasks", Frame.EPOCH.at)
    pool = text.binding(Binding.PARALLEL, "ptr")
    serial = text.any([text.value(f"icmp sle i64 {threads}, 1"), text.value(f"icmp eq ptr {pool}, null")])
    ordered = text.value(f"icmp eq i64 {shuffle}, 0")
    immediate = text.value(f"zext i1 {text.every([serial, ordered])} to i64")
    text.store("i64", immediate, "%tasks", Frame.IMMEDIATE.at)
    passed = ", ".join([*arguments, "ptr %tasks"])
    text.raw(f"  call void @{host}({passed})")
    text.raw("  call void @pypto.finish(ptr %tasks)")
    text.store("i64", text.load("i64", "%tasks", Frame.STATUS.at), "%status")


def _finish(text: LlvmText) -> None:
    """Run what is left, and free everything."""
    text.raw("define internal void @pypto.finish(ptr %frame) {")
    text.raw("  call void @pypto.flush(ptr %frame)")
    text.raw(f"  call void @pypto.free(ptr %frame, i64 {Frame.LIVE.at})")
    table = text.load("ptr", "%frame", Frame.TABLE.at)
    text.raw(f"  call void {text.binding(Binding.FREE, 'ptr')}(ptr {table})")
    text.raw("  ret void\n}\n")
