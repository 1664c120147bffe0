"""Buffers that must be padded alike although their dtypes differ.

Rows are padded to 32 bytes, so seven columns are eight FP32 elements but sixteen FP16 ones. Some instructions take
buffers of equal physical shape (`Instruction.alike`): their sources and their result are padded to the widest of them.
"""

from __future__ import annotations

from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.row import Operator
from pypto_jit.dialects.types import TileBufType, TileType
from pypto_jit.dtypes import UINT8
from pypto_jit.lowering.layouts import buffer_type, round_up
from pypto_jit.lowering.tree import LOOPS, Body, Node, carried
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import ROW_ALIGNMENT, Space, Target


def alike(row: Operator, target: Target) -> tuple[str, ...]:
    """The operands of an operator whose buffers have the physical shape of the result's."""
    if row.instruction is None or (row.rule == "compare" and not target.wide_masks):
        return ()
    return row.instruction.alike


def padded_alike(body: Body, types: TypeTable, target: Target) -> dict[ir.Value, TileBufType]:
    """The buffer types of tiles that are padded more than their own dtype asks for.

    Tiles that share a buffer, or are copied into each other, are padded alike too. A tile that is reshaped keeps its
    own padding, because more of it would open gaps between its rows; an ``[N, 1]`` vector seen as a row has none.
    """
    related = _Alike(types, target)
    for node in body.walk():
        related.add(node)
    if not related.needed:
        return {}
    found = {}
    for members in related.classes():
        unit = max(ROW_ALIGNMENT // tile.dtype.bytes for _, tile in members)
        for value, tile in members:
            if value not in related.kept and tile.space is Space.VEC and unit != ROW_ALIGNMENT // tile.dtype.bytes:
                found[value] = buffer_type(tile, target, unit=unit)
        # A mask, and what carries it, has as many bytes in a row as what was compared has elements.
        widths = {tile.shape: related.masks[value] for value, tile in members if value in related.masks}
        for value, tile in members:
            if tile.dtype == UINT8 and tile.shape in widths:
                own = buffer_type(tile, target)
                found[value] = replace(own, shape=(own.shape[0], round_up(widths[tile.shape], ROW_ALIGNMENT)))
    return found


# What gives its first operand's elements, in its buffer or in one like it.
_KEEP = frozenset({"pypto.move", "pypto.set_validshape", "pypto.write_tile", "pypto.insert"})


class _Alike:
    def __init__(self, types: TypeTable, target: Target) -> None:
        self._types = types
        self._target = target
        self._parent: dict[ir.Value, ir.Value] = {}
        self.kept: set[ir.Value] = set()
        # Columns of what was compared, by the mask.
        self.masks: dict[ir.Value, int] = {}
        self.needed = False

    def add(self, node: Node) -> None:
        shaped = alike(node.row, self._target) if node.row is not None else ()
        if node.row is not None and shaped:
            self.needed = self.needed or node.row.rule in ("cast", "compare")
            for operand, value in zip(node.row.operands, node.operands, strict=True):
                if operand.name in shaped:
                    self._unite(value, node.results[0])
            source = self._types.tile(node.operands[0])
            if node.row.rule == "compare" and source is not None:
                self.masks[node.results[0]] = source.shape[1]
        elif node.name == "pypto.reshape":
            source, result = self._types.tile(node.operands[0]), self._types.tile(node.results[0])
            if source is not None and result is not None and source.shape == result.shape[::-1] and 1 in source.shape:
                self._unite(node.operands[0], node.results[0])
            else:
                self.kept.update((node.operands[0], node.results[0]))
        elif node.name in _KEEP or self._keeps_shape(node):
            self._unite(node.operands[0], node.results[0])
        elif node.name in LOOPS:
            for initial, argument, yielded, result in carried(node):
                for value in (argument, yielded, result):
                    self._unite(initial, value)
        elif node.name == "scf.if":
            for inner in node.bodies:
                for yielded, result in zip(inner.terminator.operands, node.results, strict=True):
                    self._unite(yielded, result)

    def _keeps_shape(self, node: Node) -> bool:
        """Whether a node fills a tile rather than makes a larger one of it."""
        if node.name != "pypto.fillpad":
            return False
        source, result = self._types.tile(node.operands[0]), self._types.tile(node.results[0])
        return source is not None and result is not None and source.shape == result.shape

    def _unite(self, a: ir.Value, b: ir.Value) -> None:
        one, other = self._types.tile(a), self._types.tile(b)
        if one is not None and other is not None and one.space is other.space:
            first, second = self._find(a), self._find(b)
            if first != second:
                self._parent[second] = first

    def _find(self, value: ir.Value) -> ir.Value:
        self._parent.setdefault(value, value)
        while self._parent[value] != value:
            value = self._parent[value]
        return value

    def classes(self) -> list[list[tuple[ir.Value, TileType]]]:
        found: dict[ir.Value, list[tuple[ir.Value, TileType]]] = {}
        for value in list(self._parent):
            tile = self._types.tile(value)
            assert tile is not None
            found.setdefault(self._find(value), []).append((value, tile))
        return list(found.values())
