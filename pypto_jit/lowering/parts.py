"""Valid regions and parts of tiles: from the ``pypto`` to the ``pto`` dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import PAD_VALUES
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.lowering.attributes import text
from pypto_jit.lowering.buffers import Buffers, Extents, TileRef
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.tree import Node

Define = Callable[[Node], TileRef]
ExtentsOf = Callable[[Node], Extents]


class Parts:
    """The operations on valid regions and on parts of tiles of one function.

    Args:
        emitter, buffers: of the function.
        value: the new value of an old one.
    """

    def __init__(self, emitter: Emitter, buffers: Buffers, value: Callable[[ir.Value], ir.Value]) -> None:
        self._emitter = emitter
        self._buffers = buffers
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
            self._move("textract", self._buffers.ref(node.operands[0]), node.operands[1:3], define(node))
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

    def _insert(self, node: Node, goal: TileRef) -> None:
        target, source = (self._buffers.ref(v) for v in node.operands[:2])
        if not self._buffers.share(node.operands[0], node.results[0]):
            self._buffers.copy(target, goal)
        self._move("tinsert", source, node.operands[2:4], goal)

    def _move(self, name: str, source: TileRef, place: list[ir.Value], goal: TileRef) -> None:
        row, column = (self._value(v) for v in place)
        handles = [self._buffers.as_floats(ref).handle for ref in (source, goal)]
        self._emitter.emit(f"pto.{name}", (handles[0], row, column, handles[1]))


PART_OPERATIONS = frozenset({"pypto.set_validshape", "pypto.fillpad", "pypto.extract", "pypto.insert"})
