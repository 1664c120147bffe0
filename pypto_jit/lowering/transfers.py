"""Loads and stores of tiles: from the ``pypto`` to the ``pto`` dialect.

A transfer moves rows of consecutive elements. Of a tensor whose columns lie consecutively it moves the transpose, which
is turned on chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.lowering.box_sizes import product, stored_sizes
from pypto_jit.lowering.buffers import Buffers, TileRef
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.layouts import buffer_type
from pypto_jit.lowering.tree import Node, constant
from pypto_jit.lowering.views import Tensors
from pypto_jit.targets import ROW_ALIGNMENT, ROW_MAJOR, Space, Target


class Transfers:
    """The transfers of one function.

    Args:
        emitter, buffers, tensors: of the function.
        target: the machine.
        value: the new value of an old one.
    """

    def __init__(
        self,
        emitter: Emitter,
        buffers: Buffers,
        tensors: Tensors,
        target: Target,
        value: Callable[[ir.Value], ir.Value],
    ) -> None:
        self._emitter = emitter
        self._buffers = buffers
        self._tensors = tensors
        self._target = target
        self._value = value

    def load(self, node: Node) -> None:
        """Emit a load at the current place."""
        tensor, tile = node.operands[0], node.results[0]
        rank = self._emitter.types.tensor(tensor).rank
        indices = [self._value(v) for v in node.operands[1:]]
        offsets, sizes = indices[:rank], indices[rank:]
        kind = self._emitter.types.tile(tile)
        assert kind is not None
        rows = product(sizes[:-1], self._emitter) if kind.valid[0] == DYNAMIC else None
        columns = sizes[-1] if kind.valid[1] == DYNAMIC else None
        layout = self._layout(tile, tensor, sizes)
        partition = self._tensors.box(tensor, layout, offsets, sizes)
        result = self._buffers.define(tile, (rows, columns))
        if layout == "turned":
            near = self._turned(result)
            self._emitter.emit("pto.tload", (partition, near.handle))
            self._transpose(near, result)
            return
        self._emitter.emit("pto.tload", (partition, result.handle))

    def store(self, node: Node) -> None:
        """Emit a store at the current place."""
        tile, tensor = node.operands[:2]
        ref = self._buffers.ref(tile)
        sizes = stored_sizes(node, ref, self._emitter)
        offsets = [self._value(v) for v in node.operands[2:]]
        layout = self._layout(tile, tensor, sizes)
        if layout == "turned":
            near = self._turned(ref)
            self._transpose(ref, near)
            ref = near
        partition = self._tensors.box(tensor, layout, offsets, sizes)
        attributes = {"atomic": node.op.attributes["atomic"]} if "atomic" in node.op.attributes else None
        self._emitter.emit("pto.tstore", (ref.handle, partition), attributes=attributes)

    def _layout(self, tile: ir.Value, tensor: ir.Value, sizes: list[ir.Value]) -> str:
        """How a box lies in memory; ``turned`` where its columns lie consecutively, which no transfer of rows takes."""
        buffer, strides = self._buffers.physical(tile), self._emitter.types.tensor(tensor).strides
        if buffer.is_column_vector:
            return "dn"
        across = len(strides) > 1 and strides[-2] == 1 and strides[-1] > 1
        if buffer.space is not Space.VEC or not across or constant(sizes[-1]) == 1:
            return "nd"
        return "turned" if all(constant(size) == 1 for size in sizes[:-2]) else "nd"

    def _turned(self, ref: TileRef) -> TileRef:
        """Scratch for the transpose of a tile of rows."""
        (rows, columns), (valid_rows, valid_columns) = ref.type.shape, ref.type.valid
        columns = columns if valid_columns == DYNAMIC else valid_columns
        tile = TileType((columns, rows), ref.type.dtype, Space.VEC, (valid_columns, valid_rows))
        kind = buffer_type(tile, self._target)
        if kind.is_column_vector:
            kind = replace(kind, shape=(columns, ROW_ALIGNMENT // tile.dtype.bytes), layout=ROW_MAJOR)
        return self._buffers.allocate(kind, ref.turned)

    def _transpose(self, source: TileRef, goal: TileRef) -> None:
        scratch = self._buffers.allocate(source.type, source.extents)
        self._emitter.emit("pto.ttrans", (source.handle, scratch.handle, goal.handle))
