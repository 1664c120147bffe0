"""Vectors that sum up whole tiles: to keep them costs less than to compute them again."""

from __future__ import annotations

from collections.abc import Container, Iterable

from pypto_jit._mlir import ir
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tree import Node, carried
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Space


def find_summaries(program: Program, types: TypeTable, moves: Container[ir.Value]) -> list[ir.Value]:
    """The vectors on the vector core that whole tiles from the other core were reduced to, or that such were made of.

    Args:
        program: a function.
        types: of its context.
        moves: the tiles that come from the other core.
    """
    return _Search(program, types, moves).found()


class _Search:
    def __init__(self, program: Program, types: TypeTable, moves: Container[ir.Value]) -> None:
        self._program = program
        self._types = types
        # What is computed from a tile of the other core, and of that the vectors that were reduced.
        self._derived: set[ir.Value] = {v for node in program.nodes for v in node.results if v in moves}
        self._summaries: set[ir.Value] = set()

    def found(self) -> list[ir.Value]:
        changed = True
        while changed:
            before = len(self._derived), len(self._summaries)
            for node in self._program.nodes:
                self._visit(node)
            changed = before != (len(self._derived), len(self._summaries))
        return [v for node in self._program.nodes for v in node.results if v in self._summaries]

    def _visit(self, node: Node) -> None:
        if node.name == "scf.for":
            for initial, argument, yielded, result in carried(node):
                for value in (argument, result):
                    self._add(value, (initial, yielded))
        elif not node.bodies:
            for result in node.results:
                self._add(result, node.operands)

    def _add(self, value: ir.Value, sources: Iterable[ir.Value]) -> None:
        if not self._derived.intersection(sources) or self._types.tile(value) is None:
            return
        self._derived.add(value)
        reduced = any(source in self._derived and not self._is_vector(source) for source in sources)
        if self._is_vector(value) and (reduced or self._summaries.intersection(sources)):
            self._summaries.add(value)

    def _is_vector(self, value: ir.Value) -> bool:
        tile = self._types.tile(value)
        return tile is not None and tile.space is Space.VEC and 1 in tile.shape
