"""The function that runs one unit of a kernel: it loads the kernel's arguments from words of memory and has an arena.

    void run(words, i64 unit, i64 units, status)

A unit is a block of the kernel, where there are as many of them as the kernel has blocks, or several. A kernel of
several functions that run block by block has memory for the shares of one block behind its arena.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.lowering.cpu.chains import Share
from pypto_jit.lowering.cpu.llvm_text import LlvmText

# An arena up to this size lies on the worker's stack; OpenMP and Python threads have stacks of megabytes.
STACK_ARENA = 64 * 1024
ARENA_ALIGNMENT = 64


@dataclass(frozen=True)
class Part:
    """A function that a unit runs.

    Attributes:
        symbol: its name.
        arguments: LLVM type of each of its arguments, up to the block index, and the offset of its word in bytes, or
            the share of a workspace.
    """

    symbol: str
    arguments: tuple[tuple[str, int | Share], ...]


def emit_runner(
    text: LlvmText, name: str, parts: Sequence[Part], arena: int, blocks: int = 1, attributes: str = ""
) -> None:
    """Write the function.

    Args:
        name: of the function.
        parts: what it calls; where there are several, all of them for a block before the next block.
        arena: bytes of scratch that a unit needs.
        blocks: how many there are; of one part it does not matter.
        attributes: of the function.
    """
    text.raw(f"define internal void @{name}(ptr %words, i64 %unit, i64 %units, ptr %status) {attributes} {{")
    shares = {given for part in parts for _, given in part.arguments if isinstance(given, Share)}
    arena = -(-arena // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
    size = arena + sum(share.size for share in shares)
    # Shares are addressed from where no memory is, which LLVM must not see of a variable of its own.
    on_stack = size <= STACK_ARENA and not shares
    if on_stack:
        scratch = text.value(f"alloca i8, i64 {max(size, 1)}, align {ARENA_ALIGNMENT}")
    else:
        allocate = text.binding(Binding.ALLOCATE, "ptr")
        scratch = text.value(f"call ptr {allocate}(i64 {ARENA_ALIGNMENT}, i64 {size})")
        got, lost = text.fresh("b"), text.fresh("b")
        text.branch(text.value(f"icmp ne ptr {scratch}, null"), got, lost)
        text.label(lost)
        text.store("i64", -abi.OUT_OF_MEMORY, "%status")
        text.raw("  ret void")
        text.label(got)
    if len(parts) == 1:
        _call(text, parts[0], {}, ("%unit", "%units", scratch))
    else:
        _block_by_block(text, parts, scratch, arena, blocks)
    if not on_stack:
        text.raw(f"  call void {text.binding(Binding.FREE, 'ptr')}(ptr {scratch})")
    text.raw("  ret void\n}\n")


def _block_by_block(text: LlvmText, parts: Sequence[Part], scratch: str, arena: int, blocks: int) -> None:
    def more(values: list[str]) -> str:
        sound = text.value(f"icmp eq i64 {text.load('i64', '%status')}, 0")
        return text.every([text.value(f"icmp slt i64 {values[0]}, {blocks}"), sound])

    def one(values: list[str]) -> list[str]:
        (block,) = values
        places: dict[Share, str] = {}
        for part in parts:
            for _, given in part.arguments:
                if isinstance(given, Share) and given.size and given not in places:
                    # Where the workspace of all blocks would start if this block's part of it were here.
                    before = text.value(f"mul i64 {block}, {-given.size}")
                    places[given] = text.address(scratch, text.value(f"add i64 {before}, {arena + given.at}"))
        _call(text, parts[0], places, (block, str(blocks), scratch))
        for part in parts[1:]:
            with text.only_if(text.value(f"icmp eq i64 {text.load('i64', '%status')}, 0")):
                _call(text, part, places, (block, str(blocks), scratch))
        return [text.value(f"add i64 {block}, %units")]

    text.loop([("i64", "%unit")], more, one)


def _call(text: LlvmText, part: Part, places: dict[Share, str], trailing: tuple[str, str, str]) -> None:
    values = []
    for kind, given in part.arguments:
        value = places.get(given, "null") if isinstance(given, Share) else text.load(kind, "%words", given)
        values.append(f"{kind} {value}")
    unit, units, scratch = trailing
    passed = ", ".join([*values, f"i64 {unit}", f"i64 {units}", f"ptr {scratch}", "ptr %status"])
    text.raw(f"  call void @{part.symbol}({passed})")
