"""Reads and writes of single elements, and arrays on the core: from the ``pypto`` to the ``pto`` dialect."""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import ArrayType
from pypto_jit.dtypes import INDEX, INT64
from pypto_jit.lowering.attributes import numbers, text
from pypto_jit.lowering.buffers import Buffers, TileRef
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.memory_order import READS, WRITES, tensor_of
from pypto_jit.lowering.tree import Body, Node
from pypto_jit.lowering.views import Tensors

# An array of more elements is cleared in a loop.
_UNROLLED = 16
_SCALAR_ACCESSES = frozenset({"pypto.read", "pypto.write"})


class Elements:
    """The accesses to single elements of one function.

    Args:
        body, emitter, buffers, tensors: of the function.
        value: the new value of an old one.
        define: the buffer of a node's result.
    """

    def __init__(
        self,
        body: Body,
        emitter: Emitter,
        buffers: Buffers,
        tensors: Tensors,
        value: Callable[[ir.Value], ir.Value],
        define: Callable[[Node], TileRef],
    ) -> None:
        self._emitter = emitter
        self._buffers = buffers
        self._tensors = tensors
        self._value = value
        self._define = define
        self._fenced = _fenced(body)

    def convert(self, node: Node) -> ir.Value | None:
        """Emit what stands for a node at the current place; the value of its result, None where that is a tile."""
        return _CONVERT[node.name](self, node, [self._value(v) for v in node.operands])

    def _read(self, node: Node, operands: list[ir.Value]) -> ir.Value:
        pointer, offset, bounds = self._tensors.element(node.operands[0], operands[1:])
        if node in self._fenced:
            self._emitter.emit("pto.fence")
        return self._emitter.value("pto.load_scalar", [pointer, offset, *bounds], node.results[0].type)

    def _write(self, node: Node, operands: list[ir.Value]) -> None:
        pointer, offset, bounds = self._tensors.element(node.operands[1], operands[2:])
        if node in self._fenced:
            self._emitter.emit("pto.fence")
        self._emitter.emit("pto.store_scalar", [operands[0], pointer, offset, *bounds])
        if node in self._fenced:
            self._emitter.emit("pto.fence")

    def _place(self, node: Node, ref: TileRef, indices: list[ir.Value]) -> tuple[ir.Value, list[ir.Value]]:
        """Where an element of a tile is: the offset in its buffer, and its row and column."""
        emitter = self._emitter
        *leading, column = indices
        # "box" is the shape that the tile's author sees, where that is not two-dimensional.
        extents = numbers(node.op, "box") or ref.type.shape
        row = leading[0] if leading else emitter.index(0)
        for index, extent in zip(leading[1:], extents[1:-1], strict=True):
            row = emitter.arith("addi", emitter.arith("muli", row, emitter.index(extent)), index)
        if ref.type.is_column_vector:
            return row, [row, column]
        start = emitter.arith("muli", row, emitter.index(ref.type.shape[1]))
        return emitter.arith("addi", start, column), [row, column]

    def _read_tile(self, node: Node, operands: list[ir.Value]) -> ir.Value:
        ref = self._buffers.ref(node.operands[0])
        offset, place = self._place(node, ref, operands[1:])
        return self._emitter.value("pto.tgetval", [ref.handle, offset, *place], node.results[0].type)

    def _write_tile(self, node: Node, operands: list[ir.Value]) -> None:
        source, goal = self._buffers.ref(node.operands[0]), self._define(node)
        if not self._buffers.share(node.operands[0], node.results[0]):
            self._buffers.copy(source, goal)
        offset, place = self._place(node, goal, operands[2:])
        self._emitter.emit("pto.tsetval", [offset, operands[1], goal.handle, *place])

    def _array_create(self, node: Node, operands: list[ir.Value]) -> ir.Value:
        emitter = self._emitter
        kind = emitter.types.of(node.results[0])
        assert isinstance(kind, ArrayType)
        # The assembler has no arrays of indices.
        kept = INT64 if kind.dtype.mlir == INDEX.mlir else kind.dtype
        array = emitter.value("pto.declare_local_array", (), ArrayType(kind.size, kept, "pto"))
        element = emitter.types.scalar(kept)
        fill = ir.IntegerAttr.get(element, int(text(node.op, "fill") or 0))
        value = emitter.entry_value("arith.constant", (), element, {"value": fill})
        if kind.size <= _UNROLLED:
            for k in range(kind.size):
                emitter.emit("pto.local_array_set", [array, emitter.index(k), value])
            return array
        bounds = [emitter.index(k) for k in (0, kind.size, 1)]
        loop = emitter.emit("scf.for", bounds, regions=1)
        block = loop.regions[0].blocks.append(emitter.types.index, arg_locs=[emitter.location])
        with ir.InsertionPoint(block), emitter.location:
            ir.Operation.create("pto.local_array_set", operands=[array, block.arguments[0], value])
            ir.Operation.create("scf.yield")
        return array

    def _array_get(self, node: Node, operands: list[ir.Value]) -> ir.Value:
        emitter, index = self._emitter, self._emitter.types.index
        if node.results[0].type != index:
            return emitter.value("pto.local_array_get", operands, node.results[0].type)
        kept = emitter.value("pto.local_array_get", operands, emitter.types.scalar(INT64))
        return emitter.value("arith.index_cast", [kept], index)

    def _array_set(self, node: Node, operands: list[ir.Value]) -> None:
        value, array, index = operands
        if value.type == self._emitter.types.index:
            value = self._emitter.value("arith.index_cast", [value], self._emitter.types.scalar(INT64))
        self._emitter.emit("pto.local_array_set", [array, index, value])


def _fenced(body: Body) -> set[Node]:
    """The scalar accesses of tensors that boxes are moved from or to as well, where one of the two writes.

    A caller may pass one tensor as two parameters of one type.
    """
    nodes = [node for node in body.walk() if node.name in READS or node.name in WRITES]
    single = [node for node in nodes if node.name in _SCALAR_ACCESSES]
    boxes = [node for node in nodes if node.name not in _SCALAR_ACCESSES]
    found = set()
    for node in single:
        for other in boxes:
            written = node.name in WRITES or other.name in WRITES
            if written and tensor_of(node).type == tensor_of(other).type:
                found.add(node)
    return found


_CONVERT: dict[str, Callable[[Elements, Node, list[ir.Value]], ir.Value | None]] = {
    "pypto.read": Elements._read,
    "pypto.write": Elements._write,
    "pypto.read_tile": Elements._read_tile,
    "pypto.write_tile": Elements._write_tile,
    "pypto.array_create": Elements._array_create,
    "pypto.array_get": Elements._array_get,
    "pypto.array_set": Elements._array_set,
}
ELEMENT_OPERATIONS = frozenset(_CONVERT)
