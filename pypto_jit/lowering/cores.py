"""Which core executes an operation: the cube multiplies matrices, the vector core does everything else."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.tree import Node
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Space, Target

CUBE = "cube"
VECTOR = "vector"
KIND = "pto.kernel_kind"
MIXED = "pypto.mixed"


def core_of(node: Node, types: TypeTable) -> str | None:
    """The core of an operation; for a move between the cores the one it starts from; None for no tile operation."""
    row = node.row
    if row is None:
        return None
    if row.name == "write":
        return VECTOR
    if row.instruction is not None and row.instruction.core != "any":
        return row.instruction.core
    tile = None
    for value in [*node.operands, *node.results]:
        tile = types.tile(value)
        if tile is not None:
            break
    if tile is None:
        return None
    return VECTOR if tile.space is Space.VEC else CUBE


def crosses(node: Node, types: TypeTable, target: Target) -> bool:
    """Whether an operation is a move between the cores."""
    if node.name != "pypto.move":
        return False
    source, result = types.tile(node.operands[0]), types.tile(node.results[0])
    return source is not None and result is not None and (source.space, result.space) in target.crossings


def set_kind(function: ir.Operation, kind: str) -> None:
    """Note which core a function is for."""
    function.attributes[KIND] = ir.StringAttr.get(kind)
