"""The extents of tensor-level values: numbers, or where one that is only known at run time comes from."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DIMS, DYNAMIC, TensorType
from pypto_jit.lowering.attributes import number, numbers, text
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.lowering.tree import Node, constant
from pypto_jit.lowering.types import TypeTable

# What the choice of tiles takes an extent for that is only known at run time: one of many tiles.
LARGE = 1 << 16


@dataclass(frozen=True)
class RuntimeExtent:
    """An extent that is only known at run time; equal to another one if their keys are.

    Attributes:
        key: tells it from others.
        source: the index that it is, or a tensor in memory and its dimension.
    """

    key: Hashable
    source: ir.Value | tuple[ir.Value, int] | int = field(compare=False)

    def index(self, writer: TileWriter) -> ir.Value:
        """The extent as an index, at the writer's place."""
        if not isinstance(self.source, tuple):
            return writer.value(self.source)
        tensor, axis = self.source
        attributes: dict[str, ir.Attribute] = {"axis": ir.IntegerAttr.get(writer.types.i64, axis)}
        return writer.emitter.value("pypto.dim", [tensor], writer.types.index, attributes)


Extent = int | RuntimeExtent
# No tile has an extent of none: a tensor without elements is one whose extent turns out to be 0.
_EMPTY = RuntimeExtent("empty", 0)


def estimated(extent: Extent) -> int:
    """The number that the choice of tiles takes an extent for."""
    return extent if isinstance(extent, int) else LARGE


def index_of(extent: Extent, writer: TileWriter) -> Index:
    """An extent at the writer's place."""
    return extent if isinstance(extent, int) else extent.index(writer)


class Extents:
    """The extents of the tensors of one function."""

    def __init__(self, program: Program, types: TypeTable) -> None:
        self._maker = program.maker
        self._types = types
        self._known: dict[tuple[ir.Value, int], Extent] = {}
        self._names = _names(program)

    def of(self, value: ir.Value, axis: int) -> Extent:
        """The extent of a dimension."""
        # Down to where each comes from: graphs are deeper than Python's stack.
        chain: list[tuple[ir.Value, int]] = []
        found: Extent | tuple[ir.Value, int] = (value, axis)
        while isinstance(found, tuple):
            if found in self._known:
                found = self._known[found]
                break
            chain.append(found)
            found = self._step(*found)
        for each in chain:
            self._known[each] = found
        return found

    def shape(self, value: ir.Value) -> tuple[Extent, ...]:
        """All extents of a tensor."""
        return tuple(self.of(value, axis) for axis in range(self._types.tensor(value).rank))

    def _step(self, value: ir.Value, axis: int) -> Extent | tuple[ir.Value, int]:
        """The extent, or the tensor and the dimension that it is the extent of as well."""
        static = self._types.tensor(value).shape[axis]
        if static != DYNAMIC:
            return static or _EMPTY
        node = self._maker.get(value)
        if node is None:
            return RuntimeExtent(self._names.get((value, axis), (value, axis)), (value, axis))
        kind = node.name.removeprefix("pypto.")
        if kind in ("map", "select"):
            return self._broadcast(node, axis)
        if kind == "cumulate":
            return node.operands[0], axis
        if kind == "reduce":
            return node.operands[0], self._unreduced(node, axis)
        if kind == "product":
            return self._multiplied(node, axis)
        if kind == "view":
            return self._viewed(node, axis)
        if kind == "rearrange":
            dims = numbers(node.op, "dims")
            assert dims is not None
            if dims[axis] >= 0:
                return node.operands[0], dims[axis]
        elif kind not in ("fill", "create_tensor"):
            return RuntimeExtent((value, axis), (value, axis))
        return self._given(node, axis)

    def _given(self, node: Node, axis: int) -> Extent | tuple[ir.Value, int]:
        """An extent that is an operand, one of the last."""
        dims = numbers(node.op, "dims")
        shape = self._types.tensor(node.results[0]).shape
        new = [k for k, side in enumerate(shape) if side == DYNAMIC and (dims is None or dims[k] < 0)]
        return self._index(node.operands[new.index(axis) - len(new)])

    def _index(self, value: ir.Value) -> Extent | tuple[ir.Value, int]:
        known = constant(value)
        if known is not None:
            return known
        node = self._maker.get(value)
        if node is not None and node.name == "pypto.dim":
            return node.operands[0], number(node.op, "axis") or 0
        return RuntimeExtent(value, value)

    def _broadcast(self, node: Node, axis: int) -> tuple[ir.Value, int]:
        rank = self._types.tensor(node.results[0]).rank
        for operand in node.operands:
            kind = self._types.of(operand)
            own = axis - rank + kind.rank if isinstance(kind, TensorType) else -1
            if isinstance(kind, TensorType) and own >= 0 and kind.shape[own] == DYNAMIC:
                return operand, own
        raise AssertionError(str(node.op))

    def _unreduced(self, node: Node, axis: int) -> int:
        rank, along = self._types.tensor(node.operands[0]).rank, numbers(node.op, "axes")
        assert along is not None
        kept = [dim for dim in range(rank) if dim not in along]
        return axis if self._types.tensor(node.results[0]).rank == rank else kept[axis]

    def _multiplied(self, node: Node, axis: int) -> tuple[ir.Value, int]:
        rank = self._types.tensor(node.results[0]).rank
        if axis < rank - 2:
            return self._broadcast(node, axis)
        which = axis - (rank - 2)
        turned = bool(number(node.op, ("a_trans", "b_trans")[which]))
        own = self._types.tensor(node.operands[which]).rank
        return node.operands[which], own - 2 + (which ^ turned)

    def _viewed(self, node: Node, axis: int) -> Extent | tuple[ir.Value, int]:
        source, *given = node.operands
        axes = numbers(node.op, "axes") or ()
        if text(node.op, "kind") == "slice":
            return self._index(given[len(given) // 2 + axes[axis]])
        if text(node.op, "kind") == "transpose":
            return source, axes[axis]
        # Of another shape only the first extent may be one that is not known.
        return self._index(given[0])


def _names(program: Program) -> dict[tuple[ir.Value, int], str]:
    """The names that the function gives to the extents of its arguments."""
    function = program.function
    if DIMS not in function.attributes:
        return {}
    return {
        (argument, axis): ir.StringAttr(name).value
        for argument, names in zip(program.body.arguments, ir.ArrayAttr(function.attributes[DIMS]), strict=True)
        for axis, name in enumerate(ir.ArrayAttr(names))
        if ir.StringAttr(name).value
    }
