"""Loads and stores of tiles: from the ``pypto`` to the ``pto`` dialect.

A transfer moves rows of consecutive elements. Of a tensor whose columns lie consecutively it moves the transpose, which
is turned on chip; where neither does, see `lines`.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly.forms import REFUSED
from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.types import DYNAMIC, TileBufType
from pypto_jit.lowering.box_sizes import product, stored_sizes
from pypto_jit.lowering.buffers import Buffers
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.lines import Lines
from pypto_jit.lowering.transposes import Transposes
from pypto_jit.lowering.tree import Node, constant
from pypto_jit.lowering.views import TURNED, Tensors
from pypto_jit.targets import Space, Target

LINES = "lines"


class Transfers:
    """The transfers of one function.

    Args:
        emitter, buffers, tensors, transposes: of the function.
        target: the machine.
        value: the new value of an old one.
    """

    def __init__(
        self,
        emitter: Emitter,
        buffers: Buffers,
        tensors: Tensors,
        transposes: Transposes,
        target: Target,
        value: Callable[[ir.Value], ir.Value],
    ) -> None:
        self._emitter = emitter
        self._buffers = buffers
        self._tensors = tensors
        self._transposes = transposes
        self._target = target
        self._lines = Lines(emitter, buffers, tensors, transposes, target)
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
        result = self._buffers.define(tile, (rows, columns))
        if layout == LINES:
            self._lines.load(tensor, offsets, sizes, result)
            return
        partition = self._tensors.box(tensor, layout, offsets, sizes)
        refused = self._refused(tensor, result.type, layout, sizes)
        if layout == TURNED:
            near = self._transposes.room(result)
            self._emitter.emit("pto.tload", (partition, near.handle))
            self._transposes.write(near, result)
            return
        self._emitter.emit("pto.tload", (partition, result.handle), attributes=refused)

    def store(self, node: Node) -> None:
        """Emit a store at the current place."""
        tile, tensor = node.operands[:2]
        ref = self._buffers.ref(tile)
        sizes = stored_sizes(node, ref, self._emitter)
        offsets = [self._value(v) for v in node.operands[2:]]
        layout = self._layout(tile, tensor, sizes)
        attributes = {name: node.op.attributes[name] for name in ("atomic",) if name in node.op.attributes}
        if layout == LINES:
            self._lines.store(ref, tensor, offsets, sizes, attributes)
            return
        if layout == TURNED:
            near = self._transposes.room(ref)
            self._transposes.write(ref, near)
            ref = near
        partition = self._tensors.box(tensor, layout, offsets, sizes)
        refused = self._refused(tensor, ref.type, layout, sizes)
        self._emitter.emit("pto.tstore", (ref.handle, partition), attributes={**attributes, **refused})

    def _refused(
        self, tensor: ir.Value, tile: TileBufType, layout: str, sizes: list[ir.Value]
    ) -> dict[str, ir.Attribute]:
        """What says why only the CPU moves a box, where that is known; nothing else."""
        strides, longest = self._emitter.types.tensor(tensor).strides, self._target.longest_stride
        why = None
        if layout == "nd" and strides and strides[-1] > 1 and constant(sizes[-1]) != 1:
            space = tile.space.name.capitalize()
            why = f"no transfer to or from {space} moves {tile.dtype} elements that lie {strides[-1]} apart"
        elif tile.space is Space.MAT and longest is not None and len(strides) > 1:
            rows = constant(sizes[-2])
            if strides[-2] > longest and rows != 1:
                why = f"a load into Mat takes rows that lie up to {longest} elements apart, not {strides[-2]}"
        return {REFUSED: ir.StringAttr.get(why)} if why is not None else {}

    def _layout(self, tile: ir.Value, tensor: ir.Value, sizes: list[ir.Value]) -> str:
        """How a box lies in memory: a layout of views, or `LINES` where neither its rows nor its columns lie in one."""
        buffer, strides = self._buffers.physical(tile), self._emitter.types.tensor(tensor).strides
        if buffer.is_column_vector:
            return "dn"
        if buffer.space is not Space.VEC or not strides or strides[-1] in (0, 1, DYNAMIC) or constant(sizes[-1]) == 1:
            return "nd"
        across = len(strides) > 1 and strides[-2] == 1
        if across and all(constant(size) == 1 for size in sizes[:-2]):
            return TURNED
        return LINES if buffer.dtype in BY_NAME["transpose"].dtypes[self._target.name] else "nd"
