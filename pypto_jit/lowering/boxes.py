"""What a task may touch: the boxes of tensors that its loads and stores move, as the host can work them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TensorType, TileType
from pypto_jit.lowering.bounds import UNKNOWN, Bounds, Interval, Term, TermWriter, combine
from pypto_jit.lowering.chains import locate, root_of
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.tree import Node

# More boxes of one tensor than this are joined into one.
_MOST = 8
_ATOMIC = "atomic"
# Of each dimension, the least index and the one past the largest.
Box = tuple[Interval, ...]


class Accesses:
    """The boxes that operations touch.

    Args:
        nodes: the operations, with those inside of them.
        inside: every value that is made inside of them.
        lowering: of the run.
    """

    def __init__(self, nodes: Iterable[Node], inside: set[ir.Value], lowering: Lowering) -> None:
        self._types = lowering.types
        self._bounds = Bounds(lambda value: value not in inside)
        # Tensor and mode -> distinct boxes, in the order in which they were found.
        self._boxes: dict[tuple[ir.Value, str], dict[Box, None]] = {}
        for node in nodes:
            self._note(node)

    def _note(self, node: Node) -> None:
        if node.name in ("pypto.dim", "pypto.view"):
            return
        for position, operand in enumerate(node.operands):
            if isinstance(self._types.of(operand), TensorType):
                for mode in _modes(node):
                    self._add(operand, mode, self._box(node, position))

    def _box(self, node: Node, position: int) -> Box | None:
        """The box of one access on its view; None where it may be anywhere."""
        rank = self._types.tensor(node.operands[position]).rank
        numbers = [self._bounds.of(value) for value in node.operands[position + 1 :]]
        if node.name == "pypto.load":
            return _sides(numbers[:rank], numbers[rank:])
        if node.name == "pypto.store":
            tile = self._types.tile(node.operands[0])
            assert tile is not None
            return _sides(numbers[:rank], _extents(tile, rank))
        if node.name in ("pypto.read", "pypto.write") and len(numbers) == rank:
            return _sides(numbers, [Interval(1, 1)] * rank)
        return None

    def _add(self, tensor: ir.Value, mode: str, box: Box | None) -> None:
        root, found = locate(tensor, box, self._types, self._shift, self._point, self._whole)
        rank = self._types.tensor(root).rank
        boxes = self._boxes.setdefault((root, mode), {})
        boxes[tuple(found) if found is not None else (UNKNOWN,) * rank] = None
        if len(boxes) > _MOST:
            joined = _join(list(boxes), rank)
            boxes.clear()
            boxes[joined] = None

    def _shift(self, side: Interval, offset: ir.Value) -> Interval:
        start = self._bounds.of(offset)
        return Interval(combine("addi", side.low, start.low), combine("addi", side.high, start.high))

    def _point(self, offset: ir.Value) -> Interval:
        return self._shift(Interval(0, 1), offset)

    def _whole(self, offset: ir.Value, extent: ir.Value) -> Interval:
        return self._shift(Interval(0, self._bounds.of(extent).high), offset)

    def emit(self, emitter: Emitter) -> None:
        """Write a ``pypto.access`` for each box."""
        writer = TermWriter(emitter)
        for (tensor, mode), boxes in self._boxes.items():
            for box in boxes:
                low = [0 if side.low is None else side.low for side in box]
                high = [self._end(tensor, axis, side, emitter) for axis, side in enumerate(box)]
                corners = [writer.write(term) for term in [*low, *high]]
                emitter.emit("pypto.access", [tensor, *corners], (), {"mode": ir.StringAttr.get(mode)})

    def _end(self, tensor: ir.Value, axis: int, side: Interval, emitter: Emitter) -> Term:
        if side.high is not None:
            return side.high
        extent = self._types.tensor(tensor).shape[axis]
        if extent != DYNAMIC:
            return extent
        attribute = {"axis": ir.IntegerAttr.get(self._types.i64, axis)}
        return emitter.value("pypto.dim", [tensor], self._types.index, attribute)

    @property
    def written(self) -> set[ir.Value]:
        """The tensors that are written."""
        return {tensor for tensor, mode in self._boxes if mode != "read"}


def touched(node: Node, lowering: Lowering) -> list[ir.Value]:
    """The tensors that an operation reads or writes, views by what they show."""
    return [root_of(value) for value in node.operands if isinstance(lowering.types.of(value), TensorType)]


def _modes(node: Node) -> tuple[str, ...]:
    if node.name in ("pypto.load", "pypto.read"):
        return ("read",)
    if _ATOMIC in node.op.attributes and "none" not in str(node.op.attributes[_ATOMIC]).lower():
        return ("atomic",)
    if node.name in ("pypto.store", "pypto.write"):
        return ("write",)
    return ("read", "write")


def _extents(tile: TileType, rank: int) -> list[Interval]:
    """The extents of the box that a tile is stored to: it lies right-aligned in the tensor's dimensions."""
    sides = [
        Interval(0, size if valid == DYNAMIC else valid) for size, valid in zip(tile.shape, tile.valid, strict=True)
    ]
    return ([Interval(1, 1)] * rank + sides)[-rank:] if rank else []


def _sides(offsets: Sequence[Interval], extents: Sequence[Interval]) -> Box:
    return tuple(
        Interval(offset.low, combine("addi", offset.high, extent.high))
        for offset, extent in zip(offsets, extents, strict=True)
    )


def _join(boxes: list[Box], rank: int) -> Box:
    joined = []
    for axis in range(rank):
        low, high = boxes[0][axis]
        for box in boxes[1:]:
            low, high = combine("minsi", low, box[axis].low), combine("maxsi", high, box[axis].high)
        joined.append(Interval(low, high))
    return tuple(joined)
