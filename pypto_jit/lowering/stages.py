"""Numbering the stages of a kernel that mixes cube and vector work."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.cores import CUBE, core_of, crosses
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.memory_order import Accesses
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tree import LOOPS, Node, carried


class CannotStageError(Exception):
    """A kernel that cannot be split into stages; the message says why in its author's words."""


class Stages:
    """The stage of every tile and of every store of a function.

    Cube work is in even stages, vector work in odd ones; what a move between the cores brings is one stage later. An
    operation's stage is the earliest that is not before any of its operands, nor, for a load or store, before what it
    must follow in memory.

    Raises:
        CannotStageError: a tile goes to the other core and back on the way round a loop.
    """

    def __init__(self, program: Program, lowering: Lowering) -> None:
        self._program = program
        self._types = lowering.types
        self._target = lowering.target
        self._of: dict[ir.Value, int] = {}
        self._of_node: dict[Node, int] = {}
        self._accesses = Accesses(program)
        moves = [node for node in program.nodes if crosses(node, self._types, self._target)]
        for node in moves:
            self._check_turns(node)
        crossings = len(moves)
        self._limit = 2 * (crossings + len(self._accesses.stores) + 1)
        self._solve()
        self.of_store = {node: self._of_node[node] for node in self._accesses.stores}
        self.last = max(self.of_store.values(), default=0)

    def of(self, value: ir.Value) -> int:
        """The stage in which a tile is first there."""
        return self._of[value]

    def _solve(self) -> None:
        changed = True
        while changed:
            changed = False
            for node in self._program.nodes:
                changed |= self._region(node) if node.bodies else self._plain(node)

    def _check_turns(self, move: Node) -> None:
        for loop in self._program.loops_around(move):
            if loop.name == "scf.while":
                where = f" at line {loop.span.line}" if loop.span is not None else ""
                raise CannotStageError(
                    f"the number of turns of the loop{where} is only known at run time, and each turn hands a tile to "
                    "the other core"
                )

    def _raise_to(self, value: ir.Value, stage: int, node: Node) -> bool:
        if self._of.get(value, -1) >= stage:
            return False
        if stage > self._limit:
            raise CannotStageError(self._explain(node))
        self._of[value] = stage
        return True

    def _plain(self, node: Node) -> bool:
        core = core_of(node, self._types)
        if core is None:
            return False
        stage = max((self._of.get(v, 0) for v in node.operands if self._types.tile(v) is not None), default=0)
        for other in self._accesses.before(node):
            stage = max(stage, self._of_node.get(other, 0))
        parity = 0 if core == CUBE else 1
        stage += stage % 2 != parity
        changed = self._of_node.get(node) != stage
        if stage > self._limit:
            raise CannotStageError(self._explain(node))
        self._of_node[node] = stage
        for result in node.results:
            changed |= self._raise_to(result, stage + crosses(node, self._types, self._target), node)
        return changed

    def _region(self, node: Node) -> bool:
        changed = False
        if node.name in LOOPS:
            for initial, argument, yielded, result in carried(node):
                if self._types.tile(argument) is None:
                    continue
                stage = max(self._of.get(v, 0) for v in (initial, argument, yielded))
                changed |= self._raise_to(argument, stage, node)
                changed |= self._raise_to(result, stage, node)
            return changed
        for k, result in enumerate(node.results):
            if self._types.tile(result) is not None:
                stage = max(self._of.get(body.terminator.operands[k], 0) for body in node.bodies)
                changed |= self._raise_to(result, stage, node)
        return changed

    def _explain(self, node: Node) -> str:
        loops = [node] if node.name in LOOPS else self._program.loops_around(node)
        turns = loops[-1].span if loops else None
        where = f" at line {turns.line}" if turns is not None else ""
        return (
            f"each turn of the loop{where} takes a tile to the other core and back before the next turn can start; "
            "the cube and the vector core would have to wait for each other inside of the loop"
        )
