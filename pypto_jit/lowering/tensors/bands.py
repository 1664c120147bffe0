"""Masks that compare positions: which keys a query sees, where that is a band around the query's own position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TensorType, TileType
from pypto_jit.dtypes import FP32, INT32
from pypto_jit.lowering.attributes import numbers, text
from pypto_jit.lowering.tensors.evaluation import Place
from pypto_jit.lowering.tensors.selection import choose, compare
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.lowering.tree import Node
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Space

Maker = Callable[[ir.Value], Node | None]
# From here down a score that is not minus infinity is taken for that: no other score comes near it.
_NOTHING = -1e30
# Positions are compared as floats, which hold them exactly up to here.
_LARGEST = 1 << 24
_OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
# Values that do not change positions: they are whole numbers within every dtype that computes with them.
_WIDE = frozenset({"i32", "f32"})


@dataclass(frozen=True)
class Band:
    """The query at i sees the keys from ``i + lowest`` to ``i + highest``; None where there is no such bound."""

    lowest: int | None
    highest: int | None

    def meets(self, rows: int, keys: int) -> bool:
        """Whether each of so many queries sees at least one of so many keys."""
        some = None in (self.lowest, self.highest) or self.lowest <= self.highest  # type: ignore[operator]
        before = self.highest is None or self.highest >= 0
        return some and before and (self.lowest is None or rows - 1 + self.lowest < keys)


@dataclass(frozen=True)
class Masked:
    """Scores of which a query keeps those in a band.

    Attributes:
        scores: before the others are hidden.
        band: of those that count.
        hidden: what stands for the others.
        node: the selection.
    """

    scores: ir.Value
    band: Band
    hidden: float
    node: Node


@dataclass(frozen=True)
class _Positions:
    """A whole number for each element: a constant, and multiples of its places along dimensions, the last being -1."""

    constant: int
    factors: Mapping[int, int]

    def plus(self, other: _Positions, factor: int = 1) -> _Positions:
        factors = dict(self.factors)
        for dim, each in other.factors.items():
            factors[dim] = factors.get(dim, 0) + factor * each
        kept = {dim: each for dim, each in factors.items() if each}
        return _Positions(self.constant + factor * other.constant, kept)


class BandMask:
    """Hides the scores of a block of queries that are not in a band.

    Args:
        writer: where operations go.
        masked: the scores.
        queries: of the block.
        rows: of its tiles.
    """

    def __init__(self, writer: TileWriter, masked: Masked, queries: Place, rows: int) -> None:
        self._writer = writer
        self._masked = masked
        self._queries = queries
        self._rows = rows

    def apply(self, scores: ir.Value, keys: Place) -> ir.Value:
        """The scores of a piece of the keys."""
        writer, band = self._writer, self._masked.band
        distances = self._distances(self._writer.tile(scores).shape[1], keys.extent)
        # The place of the first query, seen from the first key.
        ahead = writer.subtract(self._queries.offset, keys.offset)
        hidden = writer.number(self._masked.hidden, FP32)
        for mode, bound in (("le", band.highest), ("ge", band.lowest)):
            if bound is not None:
                limit = writer.as_float(writer.add(ahead, bound))
                bits = compare(writer, mode, (distances, limit))
                scores = choose(writer, bits, scores, hidden)
        return scores

    def _distances(self, columns: int, extent: Index) -> ir.Value:
        """How far the place of each key in the piece is behind that of each query in the block."""
        writer, rows = self._writer, self._rows
        keys = self._counted(columns, extent)
        queries = (
            self._counted(rows, self._queries.extent)
            if rows > 1
            else writer.operator("full", writer.number(0, FP32), shape=(1, 1), dtype=FP32)
        )
        blank = writer.emitter.value(
            "pypto.create_tile", (), TileType((rows, columns), FP32, Space.VEC, (rows, columns))
        )
        blank = writer.limited(blank, (self._queries.extent, extent))
        spread = writer.operator("col_expand", blank, keys)
        return writer.operator("row_expand_sub", spread, writer.operator("reshape", queries, shape=(rows, 1)))

    def _counted(self, count: int, extent: Index) -> ir.Value:
        """0, 1, ... in a row."""
        writer = self._writer
        numbers = writer.operator("ci", writer.number(0, INT32), shape=(1, count), dtype=INT32)
        return writer.limited(writer.convert(numbers, FP32), (1, extent))


def find_masked(value: ir.Value, maker: Maker, origin: Maker, types: TypeTable) -> Masked | None:
    """The band of scores that a selection keeps, hiding all others as well as minus infinity does.

    Args:
        value: the selected scores, whose last dimensions are queries and keys.
        maker: gives the operation that computes a value within the kernel.
        origin: gives the operation that computes a value anywhere.
        types: of the context.
    """
    node = maker(value)
    if node is None or node.name != "pypto.select":
        return None
    condition, *chosen = node.operands
    band, (scores, hidden) = _band(condition, origin, types), chosen
    if _constant(hidden, origin, types) is None:
        scores, hidden = hidden, scores
        band = _band(condition, origin, types, opposite=True)
    least = _constant(hidden, origin, types)
    kind, whole = types.of(scores), types.tensor(value)
    if band is None or least is None or not isinstance(kind, TensorType) or kind.shape != whole.shape:
        return None
    *_, rows, keys = whole.shape
    if max(rows, keys) > _LARGEST or (least != float("-inf") and not (least <= _NOTHING and band.meets(rows, keys))):
        return None
    return Masked(scores, band, least, node)


def _constant(value: ir.Value, origin: Maker, types: TypeTable) -> float | None:
    """The number that all elements are."""
    node = origin(value)
    if node is not None and node.name == "pypto.fill":
        value = node.operands[0]
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return float(attribute.value) if isinstance(attribute, (ir.FloatAttr, ir.IntegerAttr)) else None


def _band(condition: ir.Value, origin: Maker, types: TypeTable, *, opposite: bool = False) -> Band | None:
    """The band of what a comparison, or several that all have to hold, keeps."""
    node = origin(condition)
    if node is None or node.name != "pypto.map":
        return None
    if text(node.op, "row") in ("and_", "mul") and not opposite:
        first, second = (_band(operand, origin, types) for operand in node.operands)
        return None if first is None or second is None else _both(first, second)
    mode = text(node.op, "mode")
    if text(node.op, "row") != "cmp" or mode not in _OPPOSITE:
        return None
    left, right = (_positions(operand, origin, types) for operand in node.operands)
    if left is None or right is None:
        return None
    difference, mode = left.plus(right, -1), _OPPOSITE[mode] if opposite else mode
    if difference.factors == {-1: -1, -2: 1}:
        # Of the query's place less the key's.
        difference, mode = _Positions(0, {}).plus(difference, -1), mode.replace(mode[0], {"l": "g", "g": "l"}[mode[0]])
    if difference.factors != {-1: 1, -2: -1}:
        return None
    bound = -difference.constant
    if mode[0] == "l":
        return Band(None, bound if mode == "le" else bound - 1)
    return Band(bound if mode == "ge" else bound + 1, None)


def _both(a: Band, b: Band) -> Band:
    lowest = [each.lowest for each in (a, b) if each.lowest is not None]
    highest = [each.highest for each in (a, b) if each.highest is not None]
    return Band(max(lowest, default=None), min(highest, default=None))


def _positions(value: ir.Value, origin: Maker, types: TypeTable) -> _Positions | None:
    """What the elements of a value are, where each depends on its place only."""
    number_of_all = _constant(value, origin, types)
    if number_of_all is not None:
        return _Positions(int(number_of_all), {}) if number_of_all == int(number_of_all) else None
    node, kind = origin(value), types.of(value)
    if node is None or not isinstance(kind, TensorType) or kind.dtype.mlir not in _WIDE:
        return None
    if node.name == "pypto.count":
        return _Positions(0, {-1: 1})
    if node.name == "pypto.rearrange":
        return _rearranged(node, origin, types)
    row = text(node.op, "row") if node.name == "pypto.map" else None
    if row not in ("add", "sub", "neg", "cast"):
        return None
    found = [_positions(operand, origin, types) for operand in node.operands]
    first, *others = found
    if first is None or None in others:
        return None
    if row == "neg":
        return _Positions(0, {}).plus(first, -1)
    for other in others:
        assert other is not None
        first = first.plus(other, -1 if row == "sub" else 1)
    return first


def _rearranged(node: Node, origin: Maker, types: TypeTable) -> _Positions | None:
    inner = _positions(node.operands[0], origin, types)
    dims, flipped = numbers(node.op, "dims"), numbers(node.op, "flipped")
    if inner is None or dims is None or flipped:
        return None
    rank = types.tensor(node.operands[0]).rank
    factors = {k - len(dims): inner.factors.get(dim - rank, 0) for k, dim in enumerate(dims) if dim >= 0}
    return _Positions(inner.constant, {dim: each for dim, each in factors.items() if each})
