"""The extents of the boxes that loads and stores move, as numbers."""

from __future__ import annotations

from math import prod

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.lowering.attributes import numbers
from pypto_jit.lowering.buffers import TileRef
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.tree import Node


def product(sizes: list[ir.Value], emitter: Emitter) -> ir.Value:
    """The product of one or more numbers."""
    value = sizes[0]
    for size in sizes[1:]:
        value = emitter.arith("muli", value, size)
    return value


def stored_sizes(node: Node, ref: TileRef, emitter: Emitter) -> list[ir.Value]:
    """Of the box that a store writes, one for each dimension of its tensor; ``ref`` is the tile's buffer."""
    # "box" is the valid shape that the tile's author sees, where that is not two-dimensional.
    kind = emitter.types.tile(node.operands[0])
    assert kind is not None
    valid = numbers(node.op, "box") or kind.valid
    rank = emitter.types.tensor(node.operands[1]).rank
    leading = valid[:-1]
    sizes: list[ir.Value] = []
    for extent in leading:
        if extent != DYNAMIC:
            sizes.append(emitter.index(extent))
            continue
        assert ref.extents[0] is not None
        others = prod(e for e in leading if e != DYNAMIC)
        rows = ref.extents[0]
        sizes.append(rows if others <= 1 else emitter.arith("divsi", rows, emitter.index(others)))
    sizes.append(ref.extents[1] if ref.extents[1] is not None else emitter.index(valid[-1]))
    if len(sizes) > rank:
        # The leading extents are at most one: none of them may be zero for anything to be stored.
        extra = len(sizes) - rank
        dropped = [s for s, v in zip(sizes[:extra], valid[:extra], strict=True) if v != 1]
        sizes = sizes[extra:]
        if dropped:
            sizes[0] = product([sizes[0], *dropped], emitter)
    return [emitter.index(1)] * (rank - len(sizes)) + sizes
