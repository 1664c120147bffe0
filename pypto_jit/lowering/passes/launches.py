"""``launches``: a kernel with several top-level parallel loops becomes several functions, launched one after the other.

The blocks of one launch do not wait for each other, so a loop that follows another one starts when all of that is done.
Each function keeps the stores of one parallel loop, or of what lies between two of them, and computes again what that
needs: index arithmetic and loads. Where a function would load a tile from before a store of an earlier one, whose
memory it may be, nothing is split and the kernel runs as one block.
"""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import KERNEL, symbol
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.memory_order import READS, WRITES, may_be_same
from pypto_jit.lowering.passes.blocks import PARALLEL
from pypto_jit.lowering.slices import Program, Slice, SliceWriter
from pypto_jit.lowering.tree import Body, Node


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Split every function of the module that has several parallel loops; whether there was one."""
    changed = False
    for function, body in lowering.bodies(module):
        groups = _groups(body)
        if len(groups) < 2:
            continue
        program = Program(function, body)
        slices = [Slice(program, {}) for _ in groups]
        for part, group in zip(slices, groups, strict=True):
            part.keep(_stores(group))
        if any(_reads_too_late(part, groups[:k]) for k, part in enumerate(slices)):
            continue
        name = symbol(function)
        for k, part in enumerate(slices):
            part_function = SliceWriter(part, {}).write(f"{name}_{k}", function)
            if KERNEL not in part_function.attributes:
                part_function.attributes[KERNEL] = function.attributes["sym_name"]
        function.erase()
        changed = True
    return changed


def _stores(group: list[Node]) -> list[Node]:
    found = []
    for top in group:
        inner = [node for body in top.bodies for node in body.walk()]
        found += [node for node in [top, *inner] if node.name in WRITES]
    return found


def _groups(body: Body) -> list[list[Node]]:
    """The top-level operations that store, those between two parallel loops together."""
    groups: list[list[Node]] = []
    joins = False
    parallel = 0
    for node in body.nodes:
        if not _stores([node]):
            continue
        alone = PARALLEL in node.op.attributes
        parallel += alone
        if joins and not alone:
            groups[-1].append(node)
        else:
            groups.append([node])
        joins = not alone
    return groups if parallel else []


def _reads_too_late(part: Slice, earlier: list[list[Node]]) -> bool:
    stores = [node for group in earlier for node in _stores(group)]
    loads = [node for node in part.kept if node.name in READS]
    return any(load.position < store.position and may_be_same(load, store) for load in loads for store in stores)
