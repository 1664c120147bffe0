"""Valid regions and parts of tiles: from the ``pypto`` to the ``pto`` dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly.forms import REFUSED
from pypto_jit.dialects.operators import PAD_VALUES
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.lowering.attributes import text
from pypto_jit.lowering.buffers import Buffers, Extents, TileRef
from pypto_jit.lowering.divisors import divisor
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.transposes import Transposes
from pypto_jit.lowering.tree import Node, constant
from pypto_jit.targets import FRACTAL_EDGE, NZ, ROW_ALIGNMENT, Space, Target

Define = Callable[[Node], TileRef]
ExtentsOf = Callable[[Node], Extents]
# Row and column.
Place = tuple[ir.Value, ir.Value]


class Parts:
    """The operations on valid regions and on parts of tiles of one function.

    Args:
        emitter, buffers, transposes: of the function.
        target: the machine.
        value: the new value of an old one.
    """

    def __init__(
        self,
        emitter: Emitter,
        buffers: Buffers,
        transposes: Transposes,
        target: Target,
        value: Callable[[ir.Value], ir.Value],
    ) -> None:
        self._emitter = emitter
        self._buffers = buffers
        self._transposes = transposes
        self._target = target
        self._value = value

    def convert(self, node: Node, define: Define, extents: ExtentsOf) -> None:
        """Emit what stands for a node at the current place.

        Args:
            node: one of `PART_OPERATIONS`.
            define: the buffer of a node's result.
            extents: the valid extents of a node's result.
        """
        if node.name == "pypto.set_validshape":
            self._set_validshape(node, extents(node))
        elif node.name == "pypto.fillpad":
            self._fillpad(node, define(node))
        elif node.name == "pypto.extract":
            self._extract(node, define(node))
        else:
            self._insert(node, define(node))

    def _set_validshape(self, node: Node, extents: Extents) -> None:
        kind = self._emitter.types.tile(node.results[0])
        assert kind is not None
        ref = self._buffers.ref(node.operands[0])
        view = self._buffers.view(ref, self._buffers.physical(node.results[0]), extents)
        self._buffers.bind(node.results[0], view)
        if DYNAMIC in kind.valid and view is not ref:
            # The extents are checked against the tile as its author sees it.
            view.handle.owner.attributes["pypto.limits"] = ir.DenseI64ArrayAttr.get(list(kind.shape))

    def _fillpad(self, node: Node, goal: TileRef) -> None:
        source = self._buffers.ref(node.operands[0])
        code = 1 + PAD_VALUES.index(text(node.op, "pad") or "zero")
        padded = self._buffers.view(goal, replace(goal.type, pad=code), goal.extents)
        self._emitter.emit("pto.tfillpad", (source.handle, padded.handle))

    def _extract(self, node: Node, goal: TileRef) -> None:
        source, place = self._buffers.ref(node.operands[0]), self._place(node.operands[1:3])
        if self._moves_at(source, goal, place[1]):
            self._buffers.move_part("textract", source, place, goal, _refused(source, goal, place))
            return
        whole = self._rows(source, place[0], goal)
        cut = self._transposes.room(goal)
        self._move_rows("textract", self._transposes.of(whole), place[1], cut)
        self._transposes.write(cut, goal)

    def _insert(self, node: Node, goal: TileRef) -> None:
        target, source = (self._buffers.ref(v) for v in node.operands[:2])
        if not self._buffers.share(node.operands[0], node.results[0]):
            self._buffers.copy(target, goal)
        place = self._place(node.operands[2:4])
        if self._moves_at(source, source, place[1]):
            self._buffers.move_part("tinsert", source, place, goal)
            return
        whole = self._rows(goal, place[0], source)
        turned = self._transposes.of(whole)
        self._move_rows("tinsert", self._transposes.of(source), place[1], turned)
        self._transposes.write(turned, whole)
        if whole is not goal:
            self._move_rows("tinsert", whole, place[0], goal)

    def _moves_at(self, source: TileRef, part: TileRef, column: ir.Value) -> bool:
        """Whether the machine moves a part by so many columns: by whole units within Vec, or a single element."""
        if source.type.space is not Space.VEC or part.type.space is not Space.VEC or part.type.valid == (1, 1):
            return True
        return (
            self._buffers.moves_width(part.type)
            and divisor(column) * part.type.dtype.bytes % self._target.part_alignment == 0
        )

    def _rows(self, whole: TileRef, row: ir.Value, part: TileRef) -> TileRef:
        """The rows of a tile that a part lies in, with all their columns; the tile where these are all of its rows."""
        rows, columns = part.type.shape[0], whole.type.shape[1]
        if rows == whole.type.shape[0] and constant(row) == 0:
            return whole
        kind = replace(whole.type, shape=(rows, columns), valid=(part.type.valid[0], whole.type.valid[1]))
        found = self._buffers.allocate(kind, (part.extents[0], whole.extents[1]))
        self._move_rows("textract", whole, row, found)
        return found

    def _move_rows(self, name: str, source: TileRef, row: ir.Value, goal: TileRef) -> None:
        """Move a part that has all columns, where what comes to lie outside of the valid region does not matter."""
        source, goal = self._buffers.whole_rows(source), self._buffers.whole_rows(goal)
        self._buffers.move_part(name, source, (row, self._emitter.index(0)), goal)

    def _place(self, values: list[ir.Value]) -> Place:
        row, column = (self._value(value) for value in values)
        return row, column


def _refused(source: TileRef, goal: TileRef, place: Place) -> dict[str, ir.Attribute]:
    """What says why only the CPU takes a part of a tile in Mat, where that is known: it is one of whole fractals."""
    unit = ROW_ALIGNMENT // source.type.dtype.bytes
    edges = (unit, FRACTAL_EDGE) if goal.type.space is Space.RIGHT else (FRACTAL_EDGE, unit)
    if source.type.space is not Space.MAT:
        return {}
    if source.type.layout != NZ:
        edges = (max(edges), max(edges))
    if all((constant(start) or 0) % edge == 0 for start, edge in zip(place, edges, strict=True)):
        return {}
    rows, columns = edges
    why = f"a part of {source.type.dtype} in Mat starts at a multiple of {rows} rows and {columns} columns"
    return {REFUSED: ir.StringAttr.get(why)}


PART_OPERATIONS = frozenset({"pypto.set_validshape", "pypto.fillpad", "pypto.extract", "pypto.insert"})
