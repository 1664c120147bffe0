"""Kernels of running totals: what comes before is carried from step to step along the axis.

Where the axis is not the last, a step is one index of it, and what is carried are full tiles. Along the columns of a
tile the machine cannot add: pieces of rows are turned on chip, and added up row by row.
"""

from __future__ import annotations

from math import prod

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.lowering.tensors.evaluation import Evaluation, Place, computing_dtype
from pypto_jit.lowering.tensors.extents import estimated, index_of
from pypto_jit.lowering.tensors.terms import CannotFuseError, Layout
from pypto_jit.lowering.tensors.tiling import (
    CACHED_ELEMENTS,
    ELEMENT_BYTES,
    ENOUGH_BLOCKS,
    FILL,
    TURNED_EDGE,
    Tiling,
    live_tiles,
    padded,
    turned_axis,
)
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.targets import Space, Target

# Rows that are turned together even where that makes fewer blocks.
_LEAST_TURNED = 16
# Full tiles besides those of the terms: the totals before and after a step; where tiles are turned, both ways of that.
_TOTALS, _TURNED = 3, 6


class CumulativeKernel:
    """One kernel whose root adds up along an axis.

    Attributes:
        tiling: its tiles.

    Raises:
        CannotFuseError: what is added up is a reduction, a product or places, or lies turned in memory.
    """

    def __init__(self, layout: Layout, target: Target) -> None:
        for term in layout.terms:
            if term.kind in ("reduce", "product", "count"):
                raise CannotFuseError(term.value)
        turned_axis(layout, ())
        assert layout.cumulated is not None
        self._layout = layout
        self._axis = layout.cumulated
        self._along = layout.column == self._axis
        self.tiling = _choose(layout, self._axis, target)
        self._outer = [axis for axis in layout.rows if axis not in (*self.tiling.group, self._axis)]
        self._extents: list[Index] = []
        self._counts: list[Index] = []

    def count_blocks(self, writer: TileWriter) -> Index:
        """How many independent blocks there are."""
        layout, tiling = self._layout, self.tiling
        extents = self._extents = [index_of(extent, writer) for extent in layout.extents]
        self._counts = [extents[axis] for axis in self._outer]
        self._counts += [writer.pieces(extents[axis], tiling.size) for axis in tiling.group]
        whole = self._along or layout.column is None
        self._counts.append(1 if whole else writer.pieces(self._columns, tiling.columns))
        return writer.product(self._counts)

    @property
    def _columns(self) -> Index:
        return 1 if self._layout.column is None else self._extents[self._layout.column]

    def place(self, value: ir.Value, memory: ir.Value) -> None:
        """Read a value that is computed elsewhere from memory."""
        self._layout.place(value, memory)

    def write_block(self, writer: TileWriter, number: Index, destination: ir.Value) -> None:
        """Write one block; the blocks have been counted."""
        layout, tiling = self._layout, self.tiling
        digits = writer.digits(number, self._counts)
        places = {axis: Place(digits.pop(0), 1) for axis in self._outer}
        rows: Index = 1
        for axis in tiling.group:
            offset = writer.multiply(digits.pop(0), tiling.size)
            rows = writer.part(offset, tiling.size, self._extents[axis])
            places[axis] = Place(offset, rows)
        if self._along:
            self._write_turned(writer, places, rows, destination)
            return
        columns: Index = 1
        if layout.column is not None:
            offset = writer.multiply(digits.pop(0), tiling.columns)
            columns = writer.part(offset, tiling.columns, self._columns)
            places[layout.column] = Place(offset, columns)
        before = self._zeros(writer, (tiling.rows, tiling.columns), (rows, columns))
        with writer.loop(0, self._extents[self._axis], 1, [before]) as loop:
            step = Evaluation(writer, layout, tiling, {**places, self._axis: Place(loop.index, 1)}, rows, columns)
            loop.yielded[0] = writer.operator("add", loop.carried[0], self._source(writer, step))
            step.store(loop.yielded[0], layout.axes, destination)

    def _write_turned(self, writer: TileWriter, places: dict[int, Place], rows: Index, destination: ir.Value) -> None:
        """Add up along the columns of tiles, a piece of the rows at a time."""
        layout, tiling = self._layout, self.tiling
        before = self._zeros(writer, (1, tiling.rows), (1, rows))
        with writer.loop(0, self._columns, tiling.columns, [before]) as pieces:
            columns = writer.part(pieces.index, tiling.columns, self._columns)
            here = {**places, self._axis: Place(pieces.index, columns)}
            piece = Evaluation(writer, layout, tiling, here, rows, columns)
            turned = writer.operator("transpose", self._source(writer, piece))
            with writer.loop(0, columns, 1, [pieces.carried[0], turned]) as steps:
                total, tile = steps.carried
                kind = TileType((1, tiling.rows), writer.tile(tile).dtype, Space.VEC, writer.tile(total).valid)
                place = [steps.index, writer.value(0)]
                box = [tile, *place, writer.value(1), writer.value(rows)]
                total = writer.operator("add", total, writer.emitter.value("pypto.extract", box, kind))
                tile = writer.emitter.value("pypto.insert", [tile, total, *place], writer.tile(tile))
                steps.yielded = [total, tile]
            pieces.yielded[0] = steps.results[0]
            piece.store(writer.operator("transpose", steps.results[1]), layout.axes, destination)

    def _source(self, writer: TileWriter, step: Evaluation) -> ir.Value:
        """What is added in a step, in the form of full tiles."""
        source = self._layout.root.terms[0]
        tile = writer.convert(step.tile(source), computing_dtype(source.type.dtype))
        return step.spread(tile, step.whole(self._layout.axes))

    def _zeros(self, writer: TileWriter, shape: tuple[int, int], valid: tuple[Index, Index]) -> ir.Value:
        dtype = computing_dtype(self._layout.root.type.dtype)
        tile = writer.operator("full", writer.number(0, dtype), shape=shape, dtype=dtype)
        if valid == shape:
            return tile
        static = tuple(extent if isinstance(extent, int) else DYNAMIC for extent in valid)
        operands = [tile, *(writer.value(extent) for extent in valid)]
        return writer.emitter.value("pypto.set_validshape", operands, TileType(shape, dtype, Space.VEC, static))


def _choose(layout: Layout, axis: int, target: Target) -> Tiling:
    """Tiles: full rows of what is not added up along, or squares where they are turned."""
    along = layout.column == axis
    live = live_tiles(layout) + (_TURNED if along else _TOTALS)
    most = int(target.capacity[Space.VEC] * FILL) // (ELEMENT_BYTES * live)
    extents = [estimated(extent) for extent in layout.extents]
    columns = 1 if layout.column is None else extents[layout.column]
    columns = min(columns, TURNED_EDGE if along else CACHED_ELEMENTS, most // 64 * 64)
    group = tuple(row for row in layout.rows if row != axis)[-1:]
    if not group:
        return Tiling((), 1, 1, columns, live)
    extent = extents[group[0]]
    outside = prod(extents[row] for row in layout.rows if row not in (*group, axis))
    size = min(extent, TURNED_EDGE if along else CACHED_ELEMENTS, max(1, most // padded(columns)))
    size = max(1, min(size, max(_LEAST_TURNED if along else 1, -(-extent * outside // ENOUGH_BLOCKS))))
    return Tiling(group, size, size, columns, live)
