"""Kernels of attention: ``softmax(x) @ v`` where x follows a product, one pass over the keys for a block of queries.

The scores of a block of queries and a piece of the keys stay on chip. The softmax is the online one (Milakov and
Gimelshein, 2018): the largest score and the sum of the weights so far are kept, and where a later piece has a larger
score, what was summed fades by as much as its weights would have been smaller.

Where each query sees a band of keys around its own position (`bands`), pieces that no query of the block sees are left
out, and only those that some do not see are masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BF16, FP16, FP32
from pypto_jit.lowering.attributes import number, text
from pypto_jit.lowering.tensors.bands import BandMask, Masked, find_masked
from pypto_jit.lowering.tensors.evaluation import Evaluation, Place
from pypto_jit.lowering.tensors.pieces import Pieces, narrow_columns, seen
from pypto_jit.lowering.tensors.products import operands_of
from pypto_jit.lowering.tensors.terms import Layout, Term, reduced_axes
from pypto_jit.lowering.tensors.tiling import ELEMENT_BYTES, FILL, Tiling, live_tiles, turned_axis, whole_fractals
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.lowering.tree import MOST_TURNS, Node
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import FRACTAL_EDGE, Space, Target

Maker = Callable[[ir.Value], Node | None]
# Queries and keys of a piece of the scores, the first that fits on chip.
_PIECES = ((64, 256), (64, 192), (64, 128), (32, 128), (64, 64), (32, 64), (32, 32), (16, 32), (16, 16))
# Tiles of scores that masking one takes: which positions differ by how much, and what selects.
_MASKS = 3
# A row of scores that are all -inf so far must not make its weights NaN.
_LOWEST = -3.4028234663852886e38


@dataclass(frozen=True)
class Softmax:
    """What a weighted sum consists of.

    Attributes:
        scores: what the softmax is of.
        nodes: all that follows the scores, in order.
        product: with the values.
        masked: which of the scores count; None where all do.
    """

    scores: ir.Value
    nodes: tuple[Node, ...]
    product: Node
    masked: Masked | None = None


def find_attention(value: ir.Value, maker: Maker, origin: Maker, types: TypeTable) -> Softmax | None:
    """Whether a value is a product of a softmax, all of which only it uses, with something in memory.

    Args:
        value: a computed tensor.
        maker: gives the operation that computes a value within the kernel; None where it is in memory.
        origin: gives the operation that computes a value anywhere.
        types: of the context.
    """
    rounded = _mapped(value, "cast", None, maker)
    product = maker(rounded.operands[0] if rounded else value)
    if product is None or product.name != "pypto.product" or number(product.op, "a_trans"):
        return None
    if rounded is not None and (_uses(product.results[0]) != 1 or text(rounded.op, "mode") != "rint"):
        return None
    weights, values = product.operands
    found = _softmax(weights, maker, types)
    if found is None or maker(values) is not None:
        return None
    scores, *nodes = found
    kinds = [types.tensor(v) for v in (value, weights, values)]
    floats = all(kind.dtype in (FP32, FP16, BF16) and min(kind.shape) > 0 for kind in kinds)
    same = kinds[1].dtype == kinds[2].dtype and kinds[0].shape[:-1] == kinds[1].shape[:-1]
    if not floats or not same or min(kinds[1].shape[-2:]) < FRACTAL_EDGE:
        return None
    last = [product] if rounded is None else [product, rounded]
    masked = find_masked(scores, maker, origin, types)
    if masked is None or maker(masked.scores) is None or _uses(masked.scores) != 1:
        return Softmax(scores, (*nodes, *last), product)
    return Softmax(masked.scores, (masked.node, *nodes, *last), product, masked)


def _softmax(weights: ir.Value, maker: Maker, types: TypeTable) -> tuple[Any, ...] | None:
    """The scores and operations of ``exp(x - max(x)) / sum(exp(x - max(x)))`` along the last axis, rounded or not."""
    rounded = _mapped(weights, "cast", 1, maker)
    if rounded is not None and text(rounded.op, "mode") != "rint":
        return None
    quotient = _mapped(rounded.operands[0] if rounded else weights, "div", 1, maker)
    above = _mapped(quotient.operands[0], "exp", 2, maker) if quotient else None
    difference = _mapped(above.operands[0], "sub", 1, maker) if above else None
    if quotient is None or above is None or difference is None:
        return None
    scores = difference.operands[0]
    if maker(scores) is None or _uses(scores) != 2:
        return None
    total = _reduced(quotient.operands[1], "sum", above.results[0], maker, types)
    largest = _reduced(difference.operands[1], "max", scores, maker, types)
    if total is None or largest is None:
        return None
    return (scores, largest, difference, above, total, quotient, *([rounded] if rounded else []))


def _uses(value: ir.Value) -> int:
    return len(list(value.uses))


def _mapped(value: ir.Value, row: str, uses: int | None, maker: Maker) -> Node | None:
    node = maker(value)
    fits = node is not None and node.name == "pypto.map" and text(node.op, "row") == row
    return node if fits and uses in (None, _uses(value)) else None


def _reduced(value: ir.Value, row: str, source: ir.Value, maker: Maker, types: TypeTable) -> Node | None:
    """The reduction of a source along its last axis, which stays as one of extent 1."""
    node = maker(value)
    if node is None or node.name != "pypto.reduce" or text(node.op, "row") != row or _uses(value) != 1:
        return None
    rank = types.tensor(source).rank
    along = node.operands[0] == source and reduced_axes(node) == (rank - 1,) and types.tensor(value).rank == rank
    return node if along else None


def choose_scores(softmax: Softmax, layout: Layout, types: TypeTable, target: Target) -> Tiling | None:
    """The tiles of the scores; None where they are no product of whole rows and columns, or nothing fits on chip.

    Raises:
        CannotFuseError: a tensor has to be in memory in another order first.
    """
    products = layout.of_kind("product")
    if len(products) != 1 or layout.of_kind("reduce") or layout.reduced or products[0].axes != layout.axes:
        return None
    term, node = products[0], products[0].node
    assert node is not None
    kinds = [types.tensor(value) for value in (*node.operands, *softmax.product.operands)]
    if min(extent for kind in kinds for extent in kind.shape) <= 0:
        # The cores hand blocks over through a memory of a size that is known.
        return None
    *_, rows, keys = term.type.shape
    depth = kinds[0].shape[-2 if number(node.op, "a_trans") else -1]
    width = types.tensor(softmax.product.results[0]).shape[-1]
    group = tuple(axis for axis in layout.axes[-2:-1] if axis is not None)
    if not group or layout.axes[-1] is None:
        return None
    turned_axis(layout, group)
    # The weights take the place of the scores.
    live = live_tiles(layout)
    sizes = [kind.dtype.bytes for kind in kinds]
    for most_rows, most_keys in _PIECES:
        m, n = (min(most, whole_fractals(extent)) for most, extent in ((most_rows, rows), (most_keys, keys)))
        needed = _on_chip((m, n, depth, width), keys, live, sizes, masked=softmax.masked is not None)
        fill = {Space.VEC: FILL}
        if all(size <= target.capacity[space] * fill.get(space, 1) for space, size in needed.items()):
            m, n = min(m, rows), min(n, keys)
            return Tiling(group, m, m, n, live)
    return None


def _on_chip(sides: Sequence[int], keys: int, live: int, sizes: Sequence[int], *, masked: bool) -> dict[Space, int]:
    """The bytes of each memory that a piece of the scores takes.

    Args:
        sides: queries and keys of the piece, extents of a query and of a value.
        keys: how many there are.
        live: tiles of scores that live at once.
        sizes: bytes of an element of queries, keys, weights and values.
        masked: whether some scores do not count.
    """
    m, n, d, w = map(whole_fractals, sides)
    query, key, weights, values = (
        count * size for count, size in zip((m * d, d * n, m * n, n * w), sizes, strict=True)
    )
    # What is summed so far, what is added, and their sum, where there are several pieces.
    sums = 3 * m * w if n < keys or masked else 0
    # The weights are another function of the vector core than these.
    vectors = max(live * m * n, sums)
    if masked:
        vectors = max(live * m * n, (live + _MASKS) * m * narrow_columns(m, n)) + sums
    return {
        Space.VEC: vectors * ELEMENT_BYTES,
        Space.MAT: query + key + weights + values,
        Space.LEFT: query + weights,
        Space.RIGHT: max(key, values),
        Space.ACC: m * (n + w) * ELEMENT_BYTES,
    }


class AttentionKernel:
    """One kernel around a softmax between two products; its blocks are those of queries.

    Attributes:
        tiling: the tiles of its scores.
        scores: the layout of the scores.
        layout: all that it computes, for those who look for what it reads.
    """

    def __init__(self, softmax: Softmax, layout: Layout, tiling: Tiling, types: TypeTable) -> None:
        self.scores = layout
        self.tiling = tiling
        (self.term,) = layout.of_kind("product")
        first, second = self.term.node, softmax.product
        assert first is not None
        self.operands = [*operands_of(first, types), operands_of(second, types)[1]]
        query = self.operands[0]
        self.depth = query.kind.shape[-2 if query.turned else -1]
        self.width = types.tensor(second.results[0]).shape[-1]
        *batch, self.rows, self.keys = self.term.type.shape
        self.masked = softmax.masked
        self._counts: list[Index] = [*batch, -(-self.rows // tiling.rows)]
        self.layout = _with(softmax, layout, types)

    @property
    def blocks(self) -> int:
        """How many blocks of queries there are."""
        return prod(self.term.type.shape[:-2]) * -(-self.rows // self.tiling.rows)

    def on_chip(self) -> dict[Space, int]:
        """The bytes of each memory that a block takes."""
        query, key, values = (operand.kind.dtype.bytes for operand in self.operands)
        sides = self.tiling.rows, self.tiling.columns, self.depth, self.width
        sizes = query, key, values, values
        return _on_chip(sides, self.keys, self.tiling.live, sizes, masked=self.masked is not None)

    def keys_of_blocks(self) -> list[int]:
        """With how many keys the queries of each block are compared, in one matrix of a batch."""
        size, band = self.tiling.rows, None if self.masked is None else self.masked.band
        narrow, found = narrow_columns(size, self.tiling.columns), []
        for first in range(0, self.rows, size):
            start, stop = 0, self.keys
            if band is not None and band.lowest is not None:
                start = max(0, first + band.lowest) // narrow * narrow
            if band is not None and band.highest is not None:
                stop = max(0, min(first + size, self.rows) + band.highest)
            found.append(max(0, min(self.keys, -(-stop // narrow) * narrow) - start))
        return found

    def count_blocks(self, writer: TileWriter) -> Index:
        """How many independent blocks there are."""
        return writer.product(self._counts)

    def place(self, value: ir.Value, memory: ir.Value) -> None:
        """Read a value that is computed elsewhere from memory."""
        for layout in (self.scores, self.layout):
            layout.place(value, memory)
        self.operands = [o.placed(value, memory) for o in self.operands]

    def write_block(self, writer: TileWriter, number: Index, destination: ir.Value) -> None:
        """Write one block."""
        *batch, i = writer.digits(number, self._counts)
        block = _Block(self, writer, batch, writer.multiply(i, self.tiling.rows))
        step, keys = self.tiling.columns, self.keys
        place = [*batch, block.queries.offset, 0], [*(1 for _ in batch), block.queries.extent, self.width]
        if keys <= (step if self.masked is None else narrow_columns(self.tiling.rows, step)):
            # The accumulator is rounded as it is stored.
            writer.store(block.only(), destination, *place)
            return
        state = block.start()
        for piece in self._pieces(writer, block.queries):
            state = self._after(writer, block, state, piece)
        _, total, summed = state
        result = writer.operator("row_expand_div", summed, total)
        writer.store(writer.convert(result, writer.types.tensor(destination).dtype), destination, *place)

    def _after(self, writer: TileWriter, block: _Block, state: list[ir.Value], pieces: Pieces) -> list[ir.Value]:
        """The state after some pieces."""
        columns, extent, masked = pieces.columns, pieces.extent, pieces.masked
        if pieces.count == 0:
            return state
        if pieces.count == 1 and isinstance(pieces.start, int) and isinstance(pieces.stop, int):
            return block.following(state, Place(pieces.start, extent), columns, masked=masked)
        most = None if pieces.most is None else {MOST_TURNS: writer.emitter.number(pieces.most)}
        with writer.loop(pieces.start, pieces.stop, columns, state, most) as loop:
            loop.yielded = block.following(loop.carried, Place(loop.index, extent), columns, masked=masked)
        return list(loop.results)

    def _pieces(self, writer: TileWriter, queries: Place) -> list[Pieces]:
        """The pieces of the keys that a block of queries needs, in order.

        In a loop all pieces have the same extent, so that a shorter last one has a loop of its own.
        """
        step, keys = self.tiling.columns, self.keys
        if self.masked is None:
            whole = keys // step * step
            return [Pieces(0, whole, step, step), Pieces(whole, keys, step, keys - whole)]
        return seen(writer, self.masked.band, queries, self.tiling, keys)


class _Block:
    """One block of queries.

    The state that goes from piece to piece: the largest score and the sum of the weights of each query, and the
    weighted sum of the values.
    """

    def __init__(self, kernel: AttentionKernel, writer: TileWriter, batch: list[Index], offset: Index) -> None:
        self._kernel = kernel
        self._writer = writer
        self._batch = batch
        self.queries = Place(offset, writer.part(offset, kernel.tiling.rows, kernel.rows))
        depth = Place(0, kernel.depth)
        query = kernel.operands[0].load(writer, batch, (self.queries, depth), (kernel.tiling.rows, kernel.depth))
        # Once for all pieces of the keys.
        self._query = writer.operator("move", query, space=Space.LEFT)
        self._mask = (
            None if kernel.masked is None else BandMask(writer, kernel.masked, self.queries, kernel.tiling.rows)
        )

    def only(self) -> ir.Value:
        """The result, in the accumulator, where one piece has all keys."""
        writer, keys, columns = self._writer, Place(0, self._kernel.keys), self._kernel.tiling.columns
        scores = self._scores(keys, columns, masked=True)
        largest = writer.operator("row_max", scores)
        largest = writer.operator("maximums", largest, writer.number(_LOWEST, FP32))
        weights = self._weights(scores, largest)
        return self._weighted(
            writer.operator("row_expand_div", weights, writer.operator("row_sum", weights)), keys, columns
        )

    def start(self) -> list[ir.Value]:
        """The state before the first piece."""
        return [self._full(_LOWEST, 1), self._full(0.0, 1), self._full(0.0, self._kernel.width)]

    def following(self, state: Sequence[ir.Value], keys: Place, columns: int, *, masked: bool) -> list[ir.Value]:
        """The state after another piece.

        Args:
            state: before it.
            keys: of the piece.
            columns: of its tiles.
            masked: whether a query may not see some of them.
        """
        writer = self._writer
        before, total, summed = state
        scores = self._scores(keys, columns, masked=masked)
        largest = writer.operator("maximum", before, writer.operator("row_max", scores))
        # What is done to whole tiles follows each other, so that it becomes one loop on the CPU.
        weights = self._weights(scores, largest)
        added = writer.operator("row_sum", weights)
        product = writer.operator("move", self._weighted(weights, keys, columns), space=Space.VEC)
        fade = writer.operator("exp", writer.operator("sub", before, largest))
        total = writer.operator("add", writer.operator("mul", total, fade), added)
        summed = writer.operator("add", writer.operator("row_expand_mul", summed, fade), product)
        return [largest, total, summed]

    def _full(self, number: float, columns: int) -> ir.Value:
        """A tile of a number for each query."""
        writer, rows = self._writer, self._kernel.tiling.rows
        tile = writer.operator("full", writer.number(number, FP32), shape=(rows, columns), dtype=FP32)
        return writer.limited(tile, (self.queries.extent, columns))

    def _scores(self, keys: Place, columns: int, *, masked: bool) -> ir.Value:
        kernel, writer = self._kernel, self._writer
        key = kernel.operands[1].load(writer, self._batch, (Place(0, kernel.depth), keys), (kernel.depth, columns))
        product = writer.operator("move", writer.operator("matmul", self._query, key), space=Space.VEC)
        numbers = [*(Place(index, 1) for index in self._batch), self.queries, keys]
        places = {axis: place for axis, place in zip(kernel.term.axes, numbers, strict=True) if axis is not None}
        tiling = replace(kernel.tiling, columns=columns)
        evaluation = Evaluation(
            writer, kernel.scores, tiling, places, self.queries.extent, keys.extent, {kernel.term: product}
        )
        scores = evaluation.tile(kernel.scores.root)
        return self._mask.apply(scores, keys) if masked and self._mask is not None else scores

    def _weights(self, scores: ir.Value, largest: ir.Value) -> ir.Value:
        return self._writer.operator("exp", self._writer.operator("row_expand_sub", scores, largest))

    def _weighted(self, weights: ir.Value, keys: Place, columns: int) -> ir.Value:
        """The sum of the values of a piece, weighted, in the accumulator."""
        kernel, writer = self._kernel, self._writer
        operand = kernel.operands[2]
        value = operand.load(writer, self._batch, (keys, Place(0, kernel.width)), (columns, kernel.width))
        narrow = writer.operator("move", writer.convert(weights, operand.kind.dtype), space=Space.MAT)
        return writer.operator("matmul", narrow, value)


def _with(softmax: Softmax, layout: Layout, types: TypeTable) -> Layout:
    """The layout of the scores with the rest of the kernel as terms, along axes of its own."""
    terms = list(layout.terms)
    for node in softmax.nodes:
        kind = types.tensor(node.results[0])
        terms.append(Term(node.results[0], kind, (None,) * kind.rank, node))
    return Layout(terms[-1], terms[-1].axes, layout.extents, layout.column, terms)
