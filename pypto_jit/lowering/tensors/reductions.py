"""Kernels that reduce dimensions other than the last: blocks of columns, each accumulated over all that is reduced."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.tensors.evaluation import Evaluation, Place
from pypto_jit.lowering.tensors.extents import index_of
from pypto_jit.lowering.tensors.partials import Partial
from pypto_jit.lowering.tensors.terms import CannotFuseError, Layout
from pypto_jit.lowering.tensors.tiling import Tiling, choose
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.targets import Target


class ColumnKernel:
    """One kernel whose root is a reduction along rows of its tiles.

    Attributes:
        tiling: its tiles.

    Raises:
        CannotFuseError: what it reduces needs whole rows, which do not fit on chip.
    """

    def __init__(self, layout: Layout, target: Target) -> None:
        self._layout = layout
        along_rows = [t for t in layout.of_kind("reduce") if t is not layout.root and layout.column in t.reduced]
        tiling = choose(layout, target, whole_rows=bool(along_rows))
        if tiling is None:
            raise CannotFuseError(along_rows[0].value)
        self.tiling: Tiling = tiling
        self._outer = [axis for axis in layout.rows if axis not in layout.reduced]
        self._inner = [axis for axis in layout.reduced if axis not in (*tiling.group, layout.column)]
        self._extents: list[Index] = []
        self._counts: list[Index] = []
        self._steps: list[Index] = []

    def count_blocks(self, writer: TileWriter) -> Index:
        """How many independent blocks there are."""
        layout, tiling = self._layout, self.tiling
        extents = self._extents = [index_of(extent, writer) for extent in layout.extents]
        pieces = 1 if layout.column is None else writer.pieces(extents[layout.column], tiling.columns)
        reduces_columns = layout.column in layout.reduced
        self._counts = [extents[axis] for axis in self._outer] + [1 if reduces_columns else pieces]
        self._steps = [extents[axis] for axis in self._inner]
        self._steps += [writer.pieces(extents[axis], tiling.size) for axis in tiling.group]
        self._steps += [pieces if reduces_columns else 1]
        return writer.product(self._counts)

    def place(self, value: ir.Value, memory: ir.Value) -> None:
        """Read a value that is computed elsewhere from memory."""
        self._layout.place(value, memory)

    def write_block(self, writer: TileWriter, number: Index, destination: ir.Value) -> None:
        """Write one block; the blocks have been counted."""
        digits = writer.digits(number, self._counts)
        partial = Partial(writer, self._layout.root)
        first, state = self._partial(writer, partial, digits, 0)
        steps = writer.product(self._steps)
        if not (isinstance(steps, int) and steps == 1):
            with writer.loop(1, steps, 1, state) as loop:
                step = self._partial(writer, partial, digits, loop.index)[1]
                loop.yielded = partial.combine(loop.carried, step)
            state = loop.results
        first.store(state[0], self._layout.axes, destination)

    def _partial(
        self, writer: TileWriter, partial: Partial, block: list[Index], step: Index
    ) -> tuple[Evaluation, list[ir.Value]]:
        """One step: its evaluation, and what the root is of this part alone."""
        layout, tiling = self._layout, self.tiling
        *outer, piece = block
        places = {axis: Place(index, 1) for axis, index in zip(self._outer, outer, strict=True)}
        digits = writer.digits(step, self._steps)
        whole: Index = 1
        for axis in self._inner:
            # What turns out to have no elements has no first one either.
            present = writer.least(1, self._extents[axis]) if isinstance(step, int) else 1
            places[axis] = Place(digits.pop(0), present)
            whole = writer.multiply(whole, present)
        rows: Index = 1
        row: Index = 0
        for axis in tiling.group:
            row = offset = writer.multiply(digits.pop(0), tiling.size)
            rows = writer.part(offset, tiling.size, self._extents[axis])
            places[axis] = Place(offset, rows)
        if layout.column in layout.reduced:
            piece = digits.pop(0)
        columns: Index = 1
        if layout.column is not None:
            offset = writer.multiply(piece, tiling.columns)
            columns = writer.part(offset, tiling.columns, self._extents[layout.column])
            places[layout.column] = Place(offset, columns)
        evaluation = Evaluation(writer, layout, tiling, places, writer.multiply(rows, whole), columns)
        return evaluation, partial.of_block(evaluation, row, layout.column in layout.reduced)
