"""Which products that follow each other into one accumulator are computed as one.

Pieces of K come one by one, as the machine's memories are small; its accumulator stays where it is meanwhile. The CPU
keeps a block of it in registers, over as many pieces as there are at hand, and goes to memory once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_jit.dtypes import INT8
from pypto_jit.lowering.cpu.cube_tiles import has_tiles
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.program import Block, Instruction, Program, Tile
from pypto_jit.lowering.cpu.streams import Streams

# More would only make for more code: as many as turns of a loop are usually in flight.
_MOST = 4


@dataclass(eq=False)
class Joined:
    """What was found in a function.

    Attributes:
        earlier: for the last product of each group those before it, in order.
        deferred: all that are computed by a later one.
    """

    earlier: dict[Instruction, tuple[Instruction, ...]] = field(default_factory=dict)
    deferred: set[Instruction] = field(default_factory=set)


def find_joined(program: Program, cpu: CpuDescription, streams: Streams) -> Joined:
    """The groups of a function: products of one block, of equal shapes and valid rows and columns.

    Each but the first adds to what the one before it gives, in place, and nothing in between touches the accumulator,
    or writes where an operand of a product before it lies.
    """
    found = Joined()

    def close(group: list[Instruction]) -> None:
        if len(group) > 1:
            found.earlier[group[-1]] = tuple(group[:-1])
            found.deferred.update(group[:-1])
        group.clear()

    def visit(block: Block) -> None:
        group: list[Instruction] = []
        for item in block.items:
            if not isinstance(item, Instruction):
                close(group)
                for inner in item.blocks:
                    visit(inner)
            elif _joins(item, cpu) and item not in streams.products:
                if not group or len(group) == _MOST or not _continues(program, group[-1], item):
                    close(group)
                group.append(item)
            elif group and _disturbs(program, item, group):
                close(group)
        close(group)

    visit(program.body)
    return found


def _joins(instruction: Instruction, cpu: CpuDescription) -> bool:
    """Whether it is a product in float32."""
    if not instruction.row.rule.startswith("matmul"):
        return False
    dtype = instruction.tile("lhs").type.dtype
    return dtype != INT8 and not has_tiles(cpu, dtype)


def _continues(program: Program, first: Instruction, second: Instruction) -> bool:
    if second.row.rule != "matmul_acc":
        return False
    place = program.position(first.result)
    if program.position(second.tile("acc")) != place or program.position(second.result) != place:
        return False
    operands = [(each.tile("lhs"), each.tile("rhs"), each.result) for each in (first, second)]
    same = all(a.type.shape == b.type.shape for a, b in zip(*operands, strict=True))
    (left, right, _), (other_left, other_right, _) = operands
    return same and left.valid[0] == other_left.valid[0] and right.valid[1] == other_right.valid[1]


def _disturbs(program: Program, instruction: Instruction, group: list[Instruction]) -> bool:
    acc = group[0].result
    if any(_overlap(program, tile, acc) for tile in instruction.tiles):
        return True
    written = instruction.destination
    operands = [tile for each in group for tile in each.inputs]
    return isinstance(written, Tile) and any(_overlap(program, written, tile) for tile in operands)


def _overlap(program: Program, a: Tile, b: Tile) -> bool:
    start, other = program.position(a), program.position(b)
    return start < other + b.bytes and other < start + a.bytes
