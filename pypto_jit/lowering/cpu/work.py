"""How much a kernel computes, roughly: what decides whether waking other threads pays."""

from __future__ import annotations

from math import prod

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import number
from pypto_jit.lowering.cpu.program import Block, Instruction, Nested, Program
from pypto_jit.lowering.tree import constant

# Element operations of a matmul take far less time than others: a vector register full of them at once, twice.
_PRODUCTS_PER_ELEMENT = 16


def estimate(program: Program, function: ir.Operation) -> int:
    """Element operations of one launch in all, -1 where loops have unknown trip counts."""
    trips = number(function, "pypto.trips")
    return _block(program.body, -1 if trips is None else trips)


def estimate_block(program: Program) -> int:
    """Element operations of one block, -1 where loops have unknown trip counts."""
    return _block(program.body, 1)


def _block(block: Block, trips: int) -> int:
    total = 0
    for item in block.items:
        amount = _instruction(item) if isinstance(item, Instruction) else _nested(item, trips)
        if amount < 0:
            return -1
        total += amount
    return total


def _nested(item: Nested, trips: int) -> int:
    inner = [_block(block, trips) for block in item.blocks]
    if min(inner) < 0:
        return -1
    if not item.loops:
        return max(inner)
    if item.op.name != "scf.for":
        return -1
    lower, upper, step = (constant(v) for v in list(item.op.operands)[:3])
    if lower is None or upper is None or step is None:
        # The one loop that is dealt to blocks: all blocks together run its trips.
        dealt = _is_dealt(item.op)
        return inner[0] * trips if dealt and trips >= 0 else -1
    return inner[0] * max(0, -((lower - upper) // step))


def _is_dealt(loop: ir.Operation) -> bool:
    """Whether the loop's step is a multiple of the number of blocks."""
    step = loop.operands[2]
    pending = [step]
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, ir.Block):
            continue
        if owner.name == "pto.get_block_num":
            return True
        if owner.name in ("arith.muli", "arith.index_cast"):
            pending.extend(owner.operands)
    return False


def _instruction(instruction: Instruction) -> int:
    if instruction.row.rule.startswith("matmul"):
        left, acc = instruction.tile("lhs"), instruction.result
        return prod(acc.type.shape) * left.type.shape[1] // _PRODUCTS_PER_ELEMENT
    return max(prod(tile.type.shape) for tile in instruction.tiles) if instruction.tiles else 1
