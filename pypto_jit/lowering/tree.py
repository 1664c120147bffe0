"""A function as plain Python objects: what a pass looks at more than once is read from MLIR once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import BY_NAME, Operator
from pypto_jit.errors import Span
from pypto_jit.lowering.spans import span_of

# Operations whose body may run more than once.
LOOPS = frozenset({"scf.for", "scf.while"})
# On a loop whose bounds are computed: as many turns as it has at most.
MOST_TURNS = "pypto.most_turns"
# Operands of a loop before what it carries: the bounds of a counted one, and whether another one runs at all.
_HEAD = {"scf.for": 3, "scf.while": 1}
# Arguments of a loop's body before what it carries: the counter.
_COUNTERS = {"scf.for": 1, "scf.while": 0}


@dataclass(eq=False)
class Node:
    """One operation: ``position`` counts operations in program order, ``end`` is the position after its regions."""

    op: ir.Operation
    name: str
    row: Operator | None
    operands: list[ir.Value]
    results: list[ir.Value]
    body: Body
    position: int
    bodies: list[Body] = field(default_factory=list)
    end: int = 0

    @property
    def span(self) -> Span | None:
        """Where in the user's source the operation comes from."""
        return span_of(self.op)


@dataclass(eq=False)
class Body:
    """The only block of a region."""

    block: ir.Block
    arguments: list[ir.Value]
    owner: Node | None
    nodes: list[Node] = field(default_factory=list)

    @property
    def terminator(self) -> Node:
        """The last operation."""
        return self.nodes[-1]

    def walk(self) -> Iterator[Node]:
        """Every operation in program order, those of nested regions after their owner."""
        for node in self.nodes:
            yield node
            for body in node.bodies:
                yield from body.walk()


def functions(module: ir.Operation) -> list[ir.Operation]:
    """The functions of a module, in order."""
    return [op.operation for op in module.regions[0].blocks[0].operations if op.operation.name == "func.func"]


def read(function: ir.Operation) -> Body:
    """The body of a function as a tree."""
    return _read_block(function.regions[0].blocks[0], None, [0])


def _read_block(block: ir.Block, owner: Node | None, counter: list[int]) -> Body:
    body = Body(block, list(block.arguments), owner)
    for view in block.operations:
        op = view.operation
        name = op.name
        row = BY_NAME.get(name[6:]) if name.startswith("pypto.") else None
        node = Node(op, name, row, list(op.operands), list(op.results), body, counter[0])
        counter[0] += 1
        if row is None and name.startswith("scf."):
            for inner in _blocks(op):
                node.bodies.append(_read_block(inner, node, counter))
        node.end = counter[0]
        body.nodes.append(node)
    return body


def _blocks(op: ir.Operation) -> list[ir.Block]:
    """The blocks of an operation, without the first one of a flagged loop, in which nothing happens."""
    blocks = [block for region in op.regions for block in region.blocks]
    return blocks[1:] if op.name == "scf.while" and is_flagged(op) else blocks


def is_flagged(op: ir.Operation) -> bool:
    """Whether an ``scf.while`` decides by its first value alone, which each turn computes for the next one.

    Such loops are what is traced: ``scf.condition(%go) %a, %b`` is all that is in the first region, and the second one
    yields whether to go on, then what is carried. Text written elsewhere may have others, after destination passing.
    """
    block = op.regions[0].blocks[0]
    first = block.operations[0].operation
    return first.name == "scf.condition" and list(first.operands) == list(block.arguments)


def carried(node: Node) -> list[tuple[ir.Value, ir.Value, ir.Value, ir.Value]]:
    """What a loop carries: (initial value, argument, yielded value, result) for each."""
    body = node.bodies[0]
    initial = node.operands[_HEAD[node.name] :]
    arguments = body.arguments[_COUNTERS[node.name] :]
    yielded = body.terminator.operands[1 - _COUNTERS[node.name] :]
    return list(zip(initial, arguments, yielded, node.results, strict=True))


def head_operands(loop: Node) -> list[ir.Value]:
    """The operands of a loop before what it carries."""
    return loop.operands[: _HEAD[loop.name]]


def carried_position(loop: Node, argument: ir.Value) -> int:
    """Which of the values a loop carries an argument of its body stands for, negative for the counter."""
    return loop.bodies[0].arguments.index(argument) - _COUNTERS[loop.name]


def constant(value: ir.Value) -> int | None:
    """The value of an integer or index constant, else None."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "arith.constant":
        attribute = owner.attributes["value"]
        if isinstance(attribute, ir.IntegerAttr):
            return attribute.value
    return None


def most_turns(node: Node) -> int | None:
    """Iterations of a loop, or as many as it certainly has no more of; None where that is not known."""
    attributes = node.op.attributes
    return ir.IntegerAttr(attributes[MOST_TURNS]).value if MOST_TURNS in attributes else trip_count(node)


def trip_count(node: Node) -> int | None:
    """Iterations of a loop whose bounds are constants, else None."""
    if node.name != "scf.for":
        return None
    lower, upper, step = (constant(v) for v in node.operands[:3])
    if lower is None or upper is None or step is None or step <= 0:
        return None
    return max(0, -((lower - upper) // step))
