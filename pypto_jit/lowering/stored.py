"""How large the box is that a store writes, where only its tile knows."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.errors import ShapeError
from pypto_jit.lowering.chains import view_of
from pypto_jit.lowering.extents import Pair, UnknownExtentError, ValidExtents
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tree import Body, Node
from pypto_jit.lowering.types import TypeTable


class StoredSizes:
    """The valid extents of the tiles that one function stores to views, found before anything is changed."""

    def __init__(self, function: ir.Operation, body: Body, types: TypeTable) -> None:
        self._pairs: dict[Node, Pair | None] = {}
        extents = ValidExtents(Program(function, body), types)
        for node in body.walk():
            if node.name != "pypto.store" or view_of(node.operands[1]) is None:
                continue
            tile = types.tile(node.operands[0])
            if tile is not None and DYNAMIC in tile.valid:
                try:
                    self._pairs[node] = extents.of(node.operands[0])
                except UnknownExtentError:
                    self._pairs[node] = None

    def of(self, node: Node) -> Pair:
        """Rows and columns of the tile that is stored.

        Raises:
            ShapeError: a loop carries the tile with extents that change.
        """
        pair = self._pairs[node]
        if pair is None:
            raise ShapeError(
                "this store to a slice cannot be checked: a loop changes the valid shape of its tile",
                span=node.span,
                hint="store to the tensor itself, at the offsets of the slice plus those in it",
            )
        return pair
