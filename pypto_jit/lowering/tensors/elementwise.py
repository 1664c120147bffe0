"""Kernels of elementwise work and of reductions along rows: one loop over blocks of rows, fused into each.

Where a row fits on chip, reductions along it take one pass over it; where not, each level of reductions takes a pass
over pieces of the row, and what is written takes a last one. Of rows of unknown length both are there.
"""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.tensors.evaluation import Evaluation, Place
from pypto_jit.lowering.tensors.extents import index_of
from pypto_jit.lowering.tensors.partials import Partial
from pypto_jit.lowering.tensors.terms import Layout, Term
from pypto_jit.lowering.tensors.tiling import Tiling, choose
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.targets import Target


class RowKernel:
    """One kernel, as blocks that are independent of each other.

    Attributes:
        tiling: its tiles.
        in_pieces: whether reductions along a row take passes over pieces of it.
    """

    def __init__(self, layout: Layout, target: Target) -> None:
        self._layout = layout
        self._reductions = [t for t in layout.of_kind("reduce") if layout.column in t.reduced]
        tiling = choose(layout, target, whole_rows=bool(self._reductions))
        self.in_pieces = tiling is None
        self.tiling: Tiling = tiling or _must(choose(layout, target, whole_rows=False))
        self._outer = [axis for axis in layout.rows if axis not in self.tiling.group]
        self._extents: list[Index] = []
        self._counts: list[Index] = []

    def place(self, value: ir.Value, memory: ir.Value) -> None:
        """Read a value that is computed elsewhere from memory."""
        self._layout.place(value, memory)

    def count_blocks(self, writer: TileWriter) -> Index:
        """How many blocks there are."""
        self._extents = [index_of(extent, writer) for extent in self._layout.extents]
        self._counts = [self._extents[axis] for axis in self._outer]
        group = self.tiling.group
        if group:
            self._counts.append(writer.pieces(self._extents[group[0]], self.tiling.size))
        if not self.in_pieces:
            self._counts.append(writer.pieces(self._columns, self.tiling.columns))
        return writer.product(self._counts)

    @property
    def levels(self) -> list[list[Term]]:
        """The reductions along rows; each level is computed from what earlier ones give."""
        return _levels(self._layout, self._reductions)

    @property
    def _may_be_whole(self) -> bool:
        """Whether some rows are short enough for one pass where long ones take several."""
        several = len(self.levels) > 1 or self._layout.column in self._layout.axes
        return self.in_pieces and several and not isinstance(self._columns, int)

    @property
    def _columns(self) -> Index:
        return 1 if self._layout.column is None else self._extents[self._layout.column]

    def write_block(self, writer: TileWriter, number: Index, destination: ir.Value) -> None:
        """Write one block; the blocks have been counted."""
        tiling = self.tiling
        digits = writer.digits(number, self._counts)
        places: dict[int, Place] = {axis: Place(digits.pop(0), 1) for axis in self._outer}
        rows: Index = 1
        for k, axis in enumerate(tiling.group):
            extent = self._extents[axis]
            if k:
                places[axis] = Place(0, extent)
                rows = writer.multiply(rows, extent)
            else:
                offset = writer.multiply(digits.pop(0), tiling.size)
                rows = writer.part(offset, tiling.size, extent)
                places[axis] = Place(offset, rows)
        block = _Block(writer, self._layout, tiling, places, rows, self._columns)
        if self._may_be_whole:
            writer.if_at_most(
                self._columns,
                tiling.columns,
                lambda: block.write_whole(destination),
                lambda: block.write_in_pieces(self._reductions, destination),
            )
        elif self.in_pieces:
            block.write_in_pieces(self._reductions, destination)
        else:
            block.piece(writer.multiply(digits.pop(0), tiling.columns), {}).write(destination)


class _Block:
    def __init__(
        self,
        writer: TileWriter,
        layout: Layout,
        tiling: Tiling,
        places: dict[int, Place],
        rows: Index,
        columns: Index,
    ) -> None:
        self._writer = writer
        self._layout = layout
        self._tiling = tiling
        self._places = places
        self._rows = rows
        self._columns = columns

    def piece(self, offset: Index, known: dict[Term, ir.Value]) -> Evaluation:
        """The evaluation of a piece of each row."""
        columns = self._writer.part(offset, self._tiling.columns, self._columns)
        places = self._places
        if self._layout.column is not None:
            places = {**places, self._layout.column: Place(offset, columns)}
        return Evaluation(self._writer, self._layout, self._tiling, places, self._rows, columns, known)

    def write_whole(self, destination: ir.Value) -> None:
        """Rows that are not longer than a tile, in one pass."""
        self.piece(0, {}).write(destination)

    def write_in_pieces(self, reductions: list[Term], destination: ir.Value) -> None:
        """Rows of any length, in a pass for each level of their reductions and one for what is written."""
        known: dict[Term, ir.Value] = {}
        step = self._tiling.columns
        for level in _levels(self._layout, reductions):
            partials = [Partial(self._writer, term) for term in level]
            first = self.piece(0, known)
            initial = [partial.of_rows(first, 0) for partial in partials]
            with self._writer.loop(step, self._columns, step, [tile for state in initial for tile in state]) as loop:
                piece, carried = self.piece(loop.index, known), iter(loop.carried)
                combined = [
                    partial.combine([next(carried) for _ in state], partial.of_rows(piece, loop.index))
                    for partial, state in zip(partials, initial, strict=True)
                ]
                loop.yielded = [tile for state in combined for tile in state]
            found = iter(loop.results)
            known.update({term: [next(found) for _ in s][0] for term, s in zip(level, initial, strict=True)})  # noqa: RUF015
        if self._layout.column not in self._layout.axes:
            self.piece(0, known).write(destination)
            return
        with self._writer.loop(0, self._columns, step) as loop:
            self.piece(loop.index, known).write(destination)


def _levels(layout: Layout, reductions: list[Term]) -> list[list[Term]]:
    """The reductions, each level computed from what earlier ones give."""
    depth: dict[Term, int] = {}
    levels: dict[int, list[Term]] = {}
    for term in layout.terms:
        depth[term] = max((depth[operand] for operand in term.terms), default=0) + (term in reductions)
        if term in reductions:
            levels.setdefault(depth[term], []).append(term)
    return [levels[level] for level in sorted(levels)]


def _must(tiling: Tiling | None) -> Tiling:
    assert tiling is not None
    return tiling
