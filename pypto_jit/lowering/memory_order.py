"""Which loads and stores of global memory must stay in order when a kernel is cut into stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import parameters
from pypto_jit.lowering.chains import root_of
from pypto_jit.lowering.slices import Program, Slice
from pypto_jit.lowering.tree import Node

READS = frozenset({"pypto.load", "pypto.read"})
WRITES = frozenset({"pypto.store", "pypto.write"})


class Accesses:
    """The loads and stores of a function, those of single elements included."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.loads = [node for node in program.nodes if node.name in READS]
        self.stores = [node for node in program.nodes if node.name in WRITES]
        self._before: dict[Node, list[Node]] = {}
        both = [*self.loads, *self.stores]
        for node in both:
            self._before[node] = [
                other
                for other in both
                if other is not node
                and (node.name in WRITES or other.name in WRITES)
                and tensor_of(other) == tensor_of(node)
                and (other.position < node.position or self.share_turns(node, other))
            ]

    def before(self, node: Node) -> list[Node]:
        """The accesses of the same tensor that a load or store must not come before."""
        return self._before.get(node, [])

    def share_turns(self, a: Node, b: Node) -> bool:
        """Whether both are in one loop whose turns follow each other."""
        loops = [n for n in self._program.loops_around(a) if "pypto.parallel" not in n.op.attributes]
        return any(loop in loops for loop in self._program.loops_around(b))


def tensor_of(node: Node) -> ir.Value:
    """The tensor that a load or store accesses, be it through a view."""
    return root_of(node.operands[0] if node.name in READS else node.operands[1])


def may_be_same(a: Node, b: Node) -> bool:
    """Whether two accesses may be to the same memory."""
    return tensor_of(a).type == tensor_of(b).type


def order_problem(program: Program, parts: Iterable[tuple[int, Slice]], of_store: Mapping[Node, int]) -> str | None:
    """Why the parts would read memory at another time than the whole function, or None where they do not.

    A part loads again what earlier parts loaded. That must not happen after a store that came later in the function, to
    the same tensor or to one that may be the same memory: a caller may pass one tensor as two parameters of one type.
    """
    accesses = Accesses(program)
    for stage, part in parts:
        for load in accesses.loads:
            if load not in part.kept:
                continue
            for store in accesses.stores:
                problem = _problem(load, stage, store, of_store[store], accesses)
                if problem:
                    return _describe(program, load, store)
    return None


def _problem(load: Node, stage: int, store: Node, stored: int, accesses: Accesses) -> bool:
    if not may_be_same(load, store):
        return False
    if load.position < store.position and stage > stored:
        return True
    if tensor_of(load) != tensor_of(store):
        return False
    if load.position > store.position and stage < stored:
        return True
    return stage != stored and accesses.share_turns(load, store)


def _describe(program: Program, load: Node, store: Node) -> str:
    names = parameters(program.function)
    arguments = program.body.arguments
    read, written = (names[arguments.index(tensor_of(node))] for node in (load, store))
    places = [f" at line {node.span.line}" if node.span is not None else "" for node in (load, store)]
    same = "" if read == written else f", which may be the same memory as '{read}'"
    return (
        f"'{read}' is loaded{places[0]} and needed on one core after the other core has stored to '{written}'"
        f"{places[1]}{same}"
    )
