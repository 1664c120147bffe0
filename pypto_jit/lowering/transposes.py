"""Transposes of tiles within Vec, between the instructions that a tile operation becomes."""

from __future__ import annotations

from dataclasses import replace

from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.lowering.buffers import Buffers, TileRef
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.layouts import buffer_type, transpose_scratch
from pypto_jit.targets import ROW_ALIGNMENT, ROW_MAJOR, Space, Target


class Transposes:
    """The transposes of one function.

    Args:
        emitter, buffers: of the function.
        target: the machine.
    """

    def __init__(self, emitter: Emitter, buffers: Buffers, target: Target) -> None:
        self._emitter = emitter
        self._buffers = buffers
        self._target = target

    def room(self, ref: TileRef) -> TileRef:
        """A buffer for the transpose of a tile of rows."""
        (rows, columns), (valid_rows, valid_columns) = ref.type.shape, ref.type.valid
        columns = columns if valid_columns == DYNAMIC else valid_columns
        tile = TileType((columns, rows), ref.type.dtype, Space.VEC, (valid_columns, valid_rows))
        kind = buffer_type(tile, self._target)
        if kind.is_column_vector:
            kind = replace(kind, shape=(columns, ROW_ALIGNMENT // tile.dtype.bytes), layout=ROW_MAJOR)
        return self._buffers.allocate(kind, ref.turned)

    def write(self, source: TileRef, goal: TileRef) -> None:
        """Emit the transpose of one tile into another."""
        scratch = self._buffers.allocate(transpose_scratch(source.type, goal.type, self._target))
        self._emitter.emit("pto.ttrans", (source.handle, scratch.handle, goal.handle))

    def of(self, source: TileRef) -> TileRef:
        """Emit the transpose of a tile of rows into a buffer of its own."""
        goal = self.room(source)
        self.write(source, goal)
        return goal
