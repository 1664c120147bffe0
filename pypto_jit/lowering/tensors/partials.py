"""Reductions in parts: what each part gives, and how two parts combine.

Most are one tile. An index is found with the extreme that it belongs to: two tiles, of which the first is the result.
"""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dtypes import INT32
from pypto_jit.lowering.attributes import text
from pypto_jit.lowering.tensors.evaluation import Evaluation, computing_dtype
from pypto_jit.lowering.tensors.selection import along_rows, choose, compare
from pypto_jit.lowering.tensors.terms import Term
from pypto_jit.lowering.tensors.writer import Index, TileWriter

# How the partial results of a reduction combine.
_COMBINE = {"sum": "add", "max": "maximum", "min": "minimum", "prod": "mul"}
# The reduction that an index is about, and the comparison with which an earlier extreme stays.
INDEX_OF = {"argmax": ("max", "ge"), "argmin": ("min", "le")}


class Partial:
    """One reduction of a kernel.

    Args:
        writer: where operations go.
        term: the reduction.
    """

    def __init__(self, writer: TileWriter, term: Term) -> None:
        assert term.node is not None
        self._writer = writer
        self._term = term
        self._source = term.terms[0]
        self._row = text(term.node.op, "row") or ""

    def of_rows(self, piece: Evaluation, offset: Index) -> list[ir.Value]:
        """What a piece of the rows gives that begins at a column."""
        found = piece.tile(self._term)
        if self._row not in INDEX_OF:
            return [found]
        tile = self._writer.convert(piece.tile(self._source), computing_dtype(self._source.type.dtype))
        return [self._moved(found, offset), self._writer.operator(f"row_{INDEX_OF[self._row][0]}", tile)]

    def of_block(self, block: Evaluation, offset: Index, also_columns: bool) -> list[ir.Value]:
        """What the rows of a block give that begins at a row.

        Args:
            block: its evaluation.
            offset: of its first row.
            also_columns: whether its columns are reduced as well.
        """
        writer, source = self._writer, self._source
        tile = writer.convert(block.tile(source), computing_dtype(source.type.dtype))
        tile = block.spread(tile, block.whole(source.axes))
        several = writer.tile(tile).shape[0] != 1
        if self._row in INDEX_OF:
            found = writer.operator(f"col_{self._row}", tile) if several else block.zeros(tile, INT32)
            extreme = writer.operator(f"col_{INDEX_OF[self._row][0]}", tile) if several else tile
            return [self._moved(found, offset), extreme]
        if several:
            tile = writer.operator(f"col_{self._row}", tile)
        if also_columns and writer.tile(tile).shape[1] != 1:
            tile = writer.operator(f"row_{self._row}", tile)
        return [tile]

    def _moved(self, index: ir.Value, offset: Index) -> ir.Value:
        """An index within a part as one within the whole."""
        writer = self._writer
        if isinstance(offset, int):
            return index if offset == 0 else writer.operator("adds", index, writer.number(offset, INT32))
        number = writer.emitter.value("arith.index_cast", (offset,), ir.Type.parse(INT32.signless))
        return writer.operator("adds", index, number)

    def combine(self, earlier: list[ir.Value], later: list[ir.Value]) -> list[ir.Value]:
        """What two parts give together, the earlier one first."""
        writer = self._writer
        if self._row not in INDEX_OF:
            return [writer.operator(_COMBINE[self._row], earlier[0], later[0])]
        name, stays = INDEX_OF[self._row]
        shape = writer.tile(earlier[0]).shape
        (place, known), (new_place, value) = ([along_rows(writer, tile) for tile in pair] for pair in (earlier, later))
        found = choose(writer, compare(writer, stays, (known, value)), place, new_place)
        if writer.tile(known).dtype.is_float:
            # Of what is not a number the first one stays.
            found = choose(writer, compare(writer, "ne", (known, known)), place, found)
        extreme = writer.operator(_COMBINE[name], known, value)
        same = writer.tile(found).shape == shape
        return [tile if same else writer.operator("reshape", tile, shape=shape) for tile in (found, extreme)]
