"""``blocks``: the iterations of a top-level parallel loop are dealt to the blocks that run the function.

A block takes every so-many-th iteration, starting at its own number. A function without such a loop runs as one block.
"""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.tree import Body, Node, trip_count

PARALLEL = "pypto.parallel"
TRIPS = "pypto.trips"
_WRITES = frozenset({"pto.tstore", "pto.store_scalar"})


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Turn the parallel loop of each function into a block-strided loop and note how many iterations it has."""
    for function, body in lowering.bodies(module):
        loop = _dealt_loop(body)
        trips = 1
        if loop is not None:
            count = trip_count(loop)
            trips = -1 if count is None else count
            _deal(loop, Emitter(body.block, lowering.types))
        for node in body.walk():
            if PARALLEL in node.op.attributes:
                del node.op.attributes[PARALLEL]
        function.attributes[TRIPS] = ir.IntegerAttr.get(lowering.types.i64, trips)
    return True


def _dealt_loop(body: Body) -> Node | None:
    """The one parallel loop, if nothing outside of it writes to global memory."""
    loops = [node for node in body.nodes if PARALLEL in node.op.attributes]
    if len(loops) != 1:
        return None
    outside = [node for node in body.nodes if node is not loops[0]]
    if any(_writes(node) for node in outside) or _shares_array(loops[0]):
        return None
    return loops[0]


def _shares_array(loop: Node) -> bool:
    """Whether iterations hand something on to others in an array on the core, of which each block has one."""
    inside = [node for body in loop.bodies for node in body.walk()]
    own = {result for node in inside for result in node.results}
    return any(node.name == "pto.local_array_set" and node.operands[0] not in own for node in inside)


def _writes(node: Node) -> bool:
    return node.name in _WRITES or any(_writes(inner) for body in node.bodies for inner in body.nodes)


def _deal(loop: Node, emitter: Emitter) -> None:
    emitter.before(loop.op)
    lower, _, step = loop.operands[:3]
    i64, index = emitter.types.i64, emitter.types.index
    number = emitter.value("arith.index_cast", [emitter.value("pto.get_block_idx", (), i64)], index)
    count = emitter.value("arith.index_cast", [emitter.value("pto.get_block_num", (), i64)], index)
    first = emitter.arith("addi", lower, emitter.arith("muli", number, step))
    stride = emitter.arith("muli", count, step)
    loop.op.operands[0] = first
    loop.op.operands[2] = stride
