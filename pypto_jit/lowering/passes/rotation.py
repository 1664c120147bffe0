"""``rotation``: turns of a pipelined loop that follow each other use buffers of their own, so that they can overlap.

A machine's queues for loads, moves and computation run side by side, and wait for each other only where they use the
same memory. A loop of ``stage`` turns in flight therefore becomes a loop whose body is that many turns, whose buffers
`plan` keeps apart where there is room; the turns that are left over have a loop of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import STAGES, number
from pypto_jit.lowering.copies import copy_operation
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.tree import Body, Node, constant, trip_count

# What other queues than those that compute fill a tile with: without it nothing can overlap.
BRINGS = frozenset({"pto.tload", "pto.tmov", "pto.textract"})
# A body of more operations than this keeps the queues busy by itself, and would only make for more code.
_MOST_OPERATIONS = 384


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Unroll each pipelined loop by as many turns as are to overlap."""
    changed = False
    for _, body in lowering.bodies(module):
        loops = list(_pipelined(body))
        if loops:
            emitter = Emitter(body.block, lowering.types)
            for loop, turns in loops:
                _rotate(loop, turns, emitter)
            changed = True
    return changed


def _pipelined(body: Body) -> Iterator[tuple[Node, int]]:
    """The innermost pipelined loops, those that gain by it, and how many turns of each are to overlap."""
    for node in body.nodes:
        inner = [each for nested in node.bodies for each in _pipelined(nested)]
        yield from inner
        if not inner and node.name == "scf.for":
            turns = _turns(node)
            if turns > 1:
                yield node, turns


def _turns(loop: Node) -> int:
    turns, trips = number(loop.op, STAGES) or 1, trip_count(loop)
    lower, _, step = map(constant, loop.operands[:3])
    if lower is None or step is None or step <= 0:
        return 1
    operations = list(loop.bodies[0].walk())
    if not any(node.name in BRINGS for node in operations):
        return 1
    turns = turns if trips is None else min(turns, trips)
    return min(turns, _MOST_OPERATIONS // len(operations))


def _rotate(loop: Node, turns: int, emitter: Emitter) -> None:
    emitter.before(loop.op)
    lower, upper, step = loop.operands[:3]
    split = _split(loop, turns, emitter)
    body = loop.bodies[0]
    initial = loop.operands[3:]
    attributes = dict(loop.op.attributes.items())
    stride = emitter.index(turns * _known(step))
    rotated = emitter.emit(
        "scf.for", [lower, split, stride, *initial], [v.type for v in initial], attributes, regions=1
    )
    kinds = [argument.type for argument in body.arguments]
    block = rotated.regions[0].blocks.append(*kinds, arg_locs=[loop.op.location] * len(kinds))
    index, *carried = block.arguments
    with emitter.inside(block):
        for turn in range(turns):
            at = emitter.arith("addi", index, emitter.index(turn * _known(step))) if turn else index
            carried = _turn(body, [at, *carried], block)
        emitter.emit("scf.yield", carried)
    if trip_count(loop) is not None and constant(split) == constant(upper):
        for old, new in zip(loop.results, rotated.results, strict=True):
            old.replace_all_uses_with(new)
        loop.op.erase()
        return
    loop.op.operands[0] = split
    for k, result in enumerate(rotated.results):
        loop.op.operands[3 + k] = result
    del loop.op.attributes[STAGES]


def _split(loop: Node, turns: int, emitter: Emitter) -> ir.Value:
    """Where the turns start that are left over."""
    lower, upper, step = loop.operands[:3]
    stride = turns * _known(step)
    trips = trip_count(loop)
    if trips is not None:
        left = trips % turns
        return emitter.index(_known(lower) + trips // turns * stride) if left else upper
    more = emitter.index(_known(step) - 1 - _known(lower))
    distance = emitter.arith("maxsi", emitter.arith("addi", upper, more), emitter.index(0))
    whole = emitter.arith("floordivsi", distance, emitter.index(stride))
    return emitter.arith("addi", emitter.arith("muli", whole, emitter.index(stride)), lower)


def _known(value: ir.Value) -> int:
    found = constant(value)
    assert found is not None
    return found


def _turn(body: Body, arguments: Sequence[ir.Value], block: ir.Block) -> list[ir.Value]:
    """Add a copy of a loop's body to a block; what it carries on."""
    values = dict(zip(body.arguments, arguments, strict=True))
    for node in body.nodes[:-1]:
        copy = copy_operation(node.op, ir.InsertionPoint(block), values)
        values.update(zip(node.results, copy.results, strict=True))
    return [values.get(value, value) for value in body.terminator.operands]
