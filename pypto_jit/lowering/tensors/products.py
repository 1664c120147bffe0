"""Kernels of matrix products: blocks of the result, each accumulated over pieces of K, with what follows fused in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TensorType
from pypto_jit.dtypes import BF16, FP16, FP32, DType
from pypto_jit.lowering.attributes import STAGES, number, text
from pypto_jit.lowering.layouts import cube_edge, round_up
from pypto_jit.lowering.tensors.evaluation import Evaluation, Place
from pypto_jit.lowering.tensors.extents import Extents, estimated, index_of
from pypto_jit.lowering.tensors.terms import CannotFuseError, Layout, Term
from pypto_jit.lowering.tensors.tiling import (
    ELEMENT_BYTES,
    ENOUGH_BLOCKS,
    FILL,
    SEVERAL_BLOCKS,
    Tiling,
    live_tiles,
    turned_axis,
    whole_fractals,
)
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.lowering.tree import Node
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import FRACTAL_EDGE, Space, Target

# Rows and columns of the block of the result, the first that fits; K takes what L0A and L0B leave.
_BLOCKS = ((128, 256), (128, 128), (64, 128), (64, 64), (32, 64), (32, 32), (16, 32), (16, 16))
# Pieces of K that are on chip at a time.
_STAGES = 2
# Bytes of a piece along K; where few rows meet columns that lie side by side.
_PIECE, _LONGEST_RUN = 256, 4096
# So few rows have one of these widths where that leaves enough blocks.
_FEW_ROWS, _WIDE = 4, (1024, 512)
# Tiles of the result in a block, where they are small because much follows the product.
_STACKS = (4, 2)


@dataclass(frozen=True)
class Operand:
    """An operand of a product: a tensor in memory, and whether its last two dimensions are exchanged."""

    value: ir.Value
    kind: TensorType
    turned: bool

    def load(
        self, writer: TileWriter, batch: list[Index], places: tuple[Place, Place], shape: tuple[int, int]
    ) -> ir.Value:
        """A part of it in Mat, as the product sees it.

        Args:
            writer: where operations go.
            batch: the indices of the product's leading dimensions, with which those of the operand are aligned.
            places: the part along its rows and columns.
            shape: of the tile.
        """
        if self.turned:
            shape, places = (shape[1], shape[0]), (places[1], places[0])
        outer = self.kind.shape[:-2]
        aligned = batch[len(batch) - len(outer) :]
        leading: list[Index] = [0 if extent == 1 else index for extent, index in zip(outer, aligned, strict=True)]
        offsets = [*leading, *(place.offset for place in places)]
        extents: list[Index] = [*(1 for _ in leading), *(place.extent for place in places)]
        valid = places[0].extent, places[1].extent
        tile = writer.load(self.value, offsets, extents, shape, valid, Space.MAT)
        return writer.operator("transpose_view", tile) if self.turned else tile

    def placed(self, value: ir.Value, memory: ir.Value) -> Operand:
        """The operand, read from memory where it is the value that is computed elsewhere."""
        return replace(self, value=memory) if self.value == value else self


def operands_of(product: Node, types: TypeTable) -> list[Operand]:
    """The two operands of a product."""
    turned = [bool(number(product.op, name)) for name in ("a_trans", "b_trans")]
    return [Operand(v, types.tensor(v), turn) for v, turn in zip(product.operands, turned, strict=True)]


class ProductKernel:
    """One kernel around a matrix product.

    Attributes:
        tiling: the tiles of its result.
        depth: of the pieces of K.
        overlap: how many of them are on chip at a time.
        stack: how many tiles of the result, one below the other, a block computes from the same columns.

    Raises:
        CannotFuseError: what follows the product needs whole rows, which do not fit on chip.
    """

    def __init__(self, layout: Layout, types: TypeTable, extents: Extents, target: Target) -> None:
        self._layout = layout
        self._term: Term = layout.of_kind("product")[0]
        node = self._term.node
        assert node is not None
        self._operands = operands_of(node, types)
        left = self._operands[0]
        depth = extents.of(left.value, left.kind.rank - (2 if left.turned else 1))
        self._sides = [*extents.shape(self._term.value), depth]
        *_, self._rows, self._columns, self._depth = map(estimated, self._sides)
        if not self.is_all and not all(isinstance(side, int) for side in self._sides):
            # The cores hand blocks over through a memory of a size that is known.
            raise CannotFuseError(self._term.value)
        self.depth, self.tiling = self._choose(target)
        self.overlap = self._overlap(self.depth)
        self.stack = 1 if self.is_all else self._choose_stack(target)
        self._extents: list[Index] = []
        self._counts: list[Index] = []

    def count_blocks(self, writer: TileWriter) -> Index:
        """How many independent blocks there are."""
        self._extents = [index_of(side, writer) for side in self._sides]
        *batch, rows, columns, _ = self._extents
        sizes = writer.pieces(rows, self.stack * self.tiling.rows), writer.pieces(columns, self.tiling.columns)
        self._counts = [*batch, *sizes]
        return writer.product(self._counts)

    def _choose(self, target: Target) -> tuple[int, Tiling]:
        layout, size = self._layout, self._operands[0].kind.dtype.bytes
        follows = not self.is_all
        live = live_tiles(layout) if follows else 0
        whole_rows = bool(layout.of_kind("reduce"))
        for most_rows, most_columns, piece in self._shapes(target):
            rows, columns = _fitting(self._rows, most_rows), _fitting(self._columns, most_columns)
            if whole_rows:
                columns = whole_fractals(self._columns)
            elements = rows * columns * ELEMENT_BYTES
            depth = piece // size
            while depth > FRACTAL_EDGE and not self._fits(rows, columns, depth, size, target):
                depth //= 2
            on_chip = live * elements <= target.capacity[Space.VEC] * FILL
            if on_chip and elements <= target.capacity[Space.ACC] and self._fits(rows, columns, depth, size, target):
                group = tuple(axis for axis in self._term.axes[-2:-1] if axis is not None)
                turned_axis(layout, group)
                rows, columns = min(rows, self._rows), min(columns, self._columns)
                return min(depth, self._depth), Tiling(group, rows, rows, columns, live)
        raise CannotFuseError(self._term.value)

    def _shapes(self, target: Target) -> list[tuple[int, int, int]]:
        """Most rows and columns of a block and most bytes of a piece along K, what is wanted most first."""
        right, rows = self._operands[1], self._sides[-3]
        usual = [(*block, _PIECE) for block in _BLOCKS]
        if not isinstance(rows, int) or rows > _FEW_ROWS or self._layout.of_kind("reduce"):
            return usual
        # Few rows take as long as the right operand takes to be read, in runs as long as there is room for.
        if right.turned:
            dtype, room = right.kind.dtype, target.capacity[Space.RIGHT]
            edge = cube_edge(dtype, Space.RIGHT)
            run = min(_LONGEST_RUN, room // edge, round_up(self._depth, edge) * dtype.bytes)
            columns = room // run // edge * edge
            return [(FRACTAL_EDGE, min(columns, _BLOCKS[0][1]), run), *usual]
        columns = prod(map(estimated, self._sides[:-3])) * self._columns
        wide = [columns_of for columns_of in _WIDE if columns >= columns_of * SEVERAL_BLOCKS]
        return [*((FRACTAL_EDGE, columns_of, _PIECE) for columns_of in wide), *usual]

    def _choose_stack(self, target: Target) -> int:
        """What follows the product keeps its tiles small; the accumulator has room for more of them."""
        rows, columns = self.tiling.rows, self.tiling.columns
        room = target.capacity[Space.ACC] // (whole_fractals(rows) * whole_fractals(columns) * ELEMENT_BYTES)
        blocks = prod(map(estimated, self._sides[:-3])) * -(-self._columns // columns)
        for stack in _STACKS:
            whole, rest = divmod(self._rows, stack * rows)
            if stack <= room and not rest and blocks * whole >= ENOUGH_BLOCKS:
                return stack
        return 1

    @property
    def is_all(self) -> bool:
        """Whether nothing but the product and its rounding is computed: the accumulator itself goes to memory."""
        layout = self._layout
        root = layout.root
        rounded = root.kind == "map" and root.operands == [self._term] and root.type.dtype in (FP16, BF16)
        node = root.node
        rounded = rounded and node is not None and text(node.op, "row") == "cast" and text(node.op, "mode") == "rint"
        return (root is self._term or rounded) and layout.axes == self._term.axes

    def _stored_as(self, dtype: DType) -> tuple[DType, ...]:
        """What the accumulator can be stored as, where its value is of this dtype."""
        return (dtype,) if dtype != FP32 else (FP32, FP16, BF16)

    def _overlap(self, depth: int) -> int:
        # The first piece starts the sum, and a loop takes the others: of one there is nothing to overlap.
        return _STAGES if 2 * depth < self._depth else 1

    def _fits(self, rows: int, columns: int, depth: int, size: int, target: Target) -> bool:
        """Whether what is in L0A and L0B at a time fits: of several pieces of K, one is multiplied, one on its way."""
        left, right = target.capacity[Space.LEFT], target.capacity[Space.RIGHT]
        row = depth * size * self._overlap(depth)
        return whole_fractals(rows) * row <= left and whole_fractals(columns) * row <= right

    def place(self, value: ir.Value, memory: ir.Value) -> None:
        """Read a value that is computed elsewhere from memory."""
        self._layout.place(value, memory)
        self._operands = [o.placed(value, memory) for o in self._operands]

    def write_block(self, writer: TileWriter, number: Index, destination: ir.Value) -> None:
        """Write one block; the blocks have been counted."""
        tiling, layout = self.tiling, self._layout
        *batch, i, j = writer.digits(number, self._counts)
        top, column = writer.multiply(i, self.stack * tiling.rows), writer.multiply(j, tiling.columns)
        columns = Place(column, writer.part(column, tiling.columns, self._extents[-2]))
        offsets = [writer.add(top, k * tiling.rows) for k in range(self.stack)]
        rows = [Place(offset, writer.part(offset, tiling.rows, self._extents[-3])) for offset in offsets]
        for place, product in zip(rows, self._products(writer, batch, rows, columns), strict=True):
            places = self._places(batch, place, columns)
            evaluation = Evaluation(writer, layout, tiling, places, place.extent, columns.extent)
            dtype = writer.types.tensor(destination).dtype
            if self.is_all and dtype in self._stored_as(layout.root.type.dtype):
                writer.store(product, destination, *evaluation.box(layout.axes))
                continue
            evaluation.known[self._term] = writer.operator("move", product, space=Space.VEC)
            evaluation.write(destination)

    def _places(self, batch: list[Index], rows: Place, columns: Place) -> dict[int, Place]:
        places = [*(Place(index, 1) for index in batch), rows, columns]
        return {axis: place for axis, place in zip(self._term.axes, places, strict=True) if axis is not None}

    def _products(
        self, writer: TileWriter, batch: list[Index], rows: Sequence[Place], columns: Place
    ) -> list[ir.Value]:
        """The accumulated tiles of a block."""
        whole = self._extents[-1]
        left, right = self._operands

        def operands(k: Index) -> list[tuple[ir.Value, ir.Value]]:
            depth = Place(k, writer.part(k, self.depth, whole))
            shapes = (self.tiling.rows, self.depth), (self.depth, self.tiling.columns)
            lefts = [left.load(writer, batch, (place, depth), shapes[0]) for place in rows]
            shared = right.load(writer, batch, (depth, columns), shapes[1])
            return [(each, shared) for each in lefts]

        first = [writer.operator("matmul", *pair) for pair in operands(0)]
        if isinstance(whole, int) and self.depth >= whole:
            return first
        overlap = {STAGES: ir.IntegerAttr.get(writer.types.i64, self.overlap)} if self.overlap > 1 else None
        with writer.loop(self.depth, whole, self.depth, first, overlap) as loop:
            loop.yielded = [
                writer.operator("matmul_acc", carried, *pair)
                for carried, pair in zip(loop.carried, operands(loop.index), strict=True)
            ]
        return list(loop.results)


def _fitting(extent: int, most: int) -> int:
    return min(most, whole_fractals(extent))
