"""The function that runs one unit of a kernel: it loads the kernel's arguments from words of memory and has an arena.

    void run(words, i64 unit, i64 units, status)

A unit is a block of the kernel, where there are as many of them as the kernel has blocks, or several.
"""

from __future__ import annotations

from collections.abc import Sequence

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.lowering.cpu.llvm_text import LlvmText

# An arena up to this size lies on the worker's stack; OpenMP and Python threads have stacks of megabytes.
STACK_ARENA = 64 * 1024
ARENA_ALIGNMENT = 64


def emit_runner(
    text: LlvmText,
    name: str,
    kernel: str,
    arguments: Sequence[tuple[str, int]],
    arena: int,
    attributes: str = "",
) -> None:
    """Write the function.

    Args:
        name: of the function.
        kernel: name of what it calls.
        arguments: LLVM type of each of the kernel's arguments, and the offset of its word in bytes.
        arena: bytes of scratch that a unit needs.
        attributes: of the function.
    """
    text.raw(f"define internal void @{name}(ptr %words, i64 %unit, i64 %units, ptr %status) {attributes} {{")
    on_stack = arena <= STACK_ARENA
    if on_stack:
        scratch = text.value(f"alloca i8, i64 {max(arena, 1)}, align {ARENA_ALIGNMENT}")
    else:
        size = -(-arena // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        allocate = text.binding(Binding.ALLOCATE, "ptr")
        scratch = text.value(f"call ptr {allocate}(i64 {ARENA_ALIGNMENT}, i64 {size})")
        got, lost = text.fresh("b"), text.fresh("b")
        text.branch(text.value(f"icmp ne ptr {scratch}, null"), got, lost)
        text.label(lost)
        text.store("i64", -abi.OUT_OF_MEMORY, "%status")
        text.raw("  ret void")
        text.label(got)
    values = [f"{kind} {text.load(kind, '%words', offset)}" for kind, offset in arguments]
    passed = ", ".join([*values, "i64 %unit", "i64 %units", f"ptr {scratch}", "ptr %status"])
    text.raw(f"  call void @{kernel}({passed})")
    if not on_stack:
        text.raw(f"  call void {text.binding(Binding.FREE, 'ptr')}(ptr {scratch})")
    text.raw("  ret void\n}\n")
