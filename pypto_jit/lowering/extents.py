"""The valid extents of a tile value that are only known at run time, as the numbers they are computed from."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tree import LOOPS, Node, carried, carried_position
from pypto_jit.lowering.types import TypeTable


@dataclass(frozen=True)
class Extent:
    """``constant + product of factors``; without factors just the constant."""

    constant: int = 0
    factors: tuple[ir.Value, ...] = ()


Pair = tuple[Extent, Extent]


class UnknownExtentError(Exception):
    """The extent of a tile depends on the turn of a loop in a way that cannot be followed."""


class ValidExtents:
    """The valid extents of the tiles of one function."""

    def __init__(self, program: Program, types: TypeTable) -> None:
        self._program = program
        self._types = types
        self._known: dict[ir.Value, Pair] = {}

    def of(self, value: ir.Value) -> Pair:
        """Rows and columns of the valid region.

        Raises:
            UnknownExtentError: a loop carries the tile with an extent that changes.
        """
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._find(value)
        return found

    def _find(self, value: ir.Value) -> Pair:
        tile = self._types.tile(value)
        assert tile is not None
        rows, columns = (Extent(v) for v in tile.valid)
        if DYNAMIC not in tile.valid:
            return rows, columns
        maker = self._program.maker.get(value)
        if maker is None:
            found = self._of_argument(value)
        elif maker.bodies:
            found = self._of_result(maker, value)
        else:
            found = self._of_operation(maker)
        return (
            found[0] if tile.valid[0] == DYNAMIC else rows,
            found[1] if tile.valid[1] == DYNAMIC else columns,
        )

    def _of_argument(self, value: ir.Value) -> Pair:
        body = self._program.holder[value]
        owner = body.owner
        assert owner is not None
        initial, _, yielded, _ = carried(owner)[carried_position(owner, value)]
        found = self._known[value] = self.of(initial)
        if self.of(yielded) != found:
            raise UnknownExtentError
        return found

    def _of_result(self, node: Node, value: ir.Value) -> Pair:
        position = node.results.index(value)
        if node.name in LOOPS:
            return self.of(carried(node)[position][1])
        first, *others = (self.of(body.terminator.operands[position]) for body in node.bodies)
        if any(other != first for other in others):
            raise UnknownExtentError
        return first

    def _of_operation(self, node: Node) -> Pair:
        assert node.row is not None
        if node.name == "pypto.load":
            sizes = node.operands[1 + (len(node.operands) - 1) // 2 :]
            return Extent(0, tuple(sizes[:-1])), Extent(0, (sizes[-1],))
        if node.name in ("pypto.set_validshape", "pypto.extract"):
            rows, columns = node.operands[-2:]
            return Extent(0, (rows,)), Extent(0, (columns,))
        if node.name == "pypto.insert":
            return self.of(node.operands[0])
        pairs = [self.of(v) for v in node.operands if self._types.tile(v) is not None]
        rule = node.row.rule
        if rule in ("matmul", "matmul_bias"):
            return pairs[0][0], pairs[1][1]
        if rule == "matmul_acc":
            return _dynamic(pairs[0][0], pairs[1][0]), _dynamic(pairs[0][1], pairs[2][1])
        if rule in ("transpose", "transpose_view"):
            return pairs[0][1], pairs[0][0]
        if rule == "concat":
            left, right = pairs
            return _dynamic(left[0], right[0]), Extent(left[1].constant + right[1].constant, right[1].factors)
        if rule == "reshape":
            source, result = self._types.tile(node.operands[0]), self._types.tile(node.results[0])
            if source is not None and result is not None and result.shape == source.shape[::-1]:
                return pairs[0][1], pairs[0][0]
            partial = _dynamic(*pairs[0])
            return partial, partial
        return _dynamic(*(p[0] for p in pairs)), _dynamic(*(p[1] for p in pairs))


def _dynamic(*extents: Extent) -> Extent:
    return next((e for e in extents if e.factors), extents[0])
