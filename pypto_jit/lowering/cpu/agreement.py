"""Checks that operands agree on their valid shapes, made while the kernel runs where they are not the same values.

An operator works on the valid region of its result. An operand whose own valid region is smaller would lend it elements
that mean nothing, so a disagreement is reported like a box that leaves its tensor.
"""

from __future__ import annotations

from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.program import Instruction, Tile

Pair = tuple[str, Extent, Extent]


def check_agreement(frame: Frame, instruction: Instruction) -> None:
    """Report operands whose valid shapes differ although the operator's rule needs them equal."""
    for what, left, right in _pairs(instruction):
        if left is right or left == right:
            continue
        e = frame.e
        numbers = [e.constant(n, "i64") if isinstance(n, int) else n for n in map(frame.number, (left, right))]
        frame.fail_unless(
            e.compare("eq", *numbers),
            instruction.op,
            f"the operands of {instruction.row.name} have different valid shapes: their {what} differ",
        )


def _pairs(instruction: Instruction) -> list[Pair]:
    """What has to be equal: its name, and the extent of one and of the other operand."""
    row = instruction.row
    tiles = {
        name: operand for name, operand in instruction.operands.items() if isinstance(operand, Tile) and name != "tmp"
    }
    if row.rule == "elementwise" and len(tiles) == 2:
        left, right = tiles.values()
        return [("rows", left.valid[0], right.valid[0]), ("columns", left.valid[1], right.valid[1])]
    if row.rule in ("row_expand", "col_expand") and len(tiles) == 2:
        matrix, vector = (tiles[operand.name] for operand in row.operands)
        if row.rule == "row_expand":
            return [("rows", matrix.valid[0], vector.valid[0])]
        return [("columns", matrix.valid[1], vector.valid[1])]
    if row.rule == "compare" and len(tiles) == 2:
        left, right = tiles.values()
        return [("rows", left.valid[0], right.valid[0]), ("columns", left.valid[1], right.valid[1])]
    if row.rule == "select":
        mask, left, right = tiles["mask"], tiles.get("lhs", tiles.get("src")), tiles.get("rhs")
        assert left is not None
        found = [("rows of the mask", mask.valid[0], left.valid[0])]
        if right is not None:
            found += [("rows", left.valid[0], right.valid[0]), ("columns", left.valid[1], right.valid[1])]
        return found
    if row.rule == "concat":
        return [("rows", tiles["lhs"].valid[0], tiles["rhs"].valid[0])]
    if row.rule.startswith("matmul"):
        left, right = tiles["lhs"], tiles["rhs"]
        pairs: list[Pair] = [("inner extents", left.valid[1], right.valid[0])]
        if "acc" in tiles:
            acc = tiles["acc"]
            pairs += [("rows", acc.valid[0], left.valid[0]), ("columns", acc.valid[1], right.valid[1])]
        return pairs
    return []
