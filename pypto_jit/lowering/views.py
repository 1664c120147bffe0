"""The boxes of tensors in global memory that loads and stores move, and the function arguments they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, PartitionType, PointerType, TensorType, TensorViewType
from pypto_jit.lowering.attributes import TENSOR, described_arguments, parameters, set_arguments
from pypto_jit.lowering.chains import VIEW, root_of, view_of
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.tree import constant

Entry = TypeVar("Entry")


# The view of a tensor whose last two dimensions swap places.
TURNED = "turned"


def turned(entries: Sequence[Entry], new: Entry) -> list[Entry]:
    """An entry for each dimension, where the last two dimensions swap places; a vector's becomes the first of two."""
    return [*entries, new] if len(entries) == 1 else [*entries[:-2], entries[-1], entries[-2]]


class Tensors:
    """The tensor arguments of one function, as pointers with extents and strides.

    The function gets its new arguments when this is made; its tensor arguments stay until `finish`.
    """

    def __init__(self, function: ir.Operation, emitter: Emitter) -> None:
        self._function = function
        self._emitter = emitter
        self._types = emitter.types
        self._block = function.regions[0].blocks[0]
        self._pointers: dict[ir.Value, ir.Value] = {}
        self._extents: dict[tuple[ir.Value, int], ir.Value] = {}
        self._strides: dict[tuple[ir.Value, int], ir.Value] = {}
        self._scalars: dict[ir.Value, ir.Value] = {}
        self._views: dict[tuple[ir.Value, str], ir.Value] = {}
        self._attributes: list[ir.DictAttr] = []
        self._old = list(self._block.arguments)
        self._replace_arguments()

    def _replace_arguments(self) -> None:
        names = parameters(self._function)
        described = described_arguments(self._function, len(self._old))
        workspaces = {k for k, a in enumerate(described) if "pypto.workspace" in a}
        tensors = [(k, self._types.of(v)) for k, v in enumerate(self._old)]
        named = [(k, t, names[k]) for k, t in tensors if isinstance(t, TensorType) and k not in workspaces]
        for k, kind, name in named:
            about: dict[str, ir.Attribute] = {"pypto.argument": ir.StringAttr.get(name)}
            if any(use.owner.name == VIEW for use in self._old[k].uses):
                # The shapes of strided views do not tell the tensor's own.
                sides = (kind.shape, kind.strides)
                about[TENSOR] = ir.ArrayAttr.get([ir.DenseI64ArrayAttr.get(list(side)) for side in sides])
            self._pointers[self._old[k]] = self._add(PointerType(kind.dtype), about)
        for k, kind in tensors:
            if kind is None:
                scalar = self._add(self._old[k].type, {"pypto.scalar": ir.StringAttr.get(names[k])})
                self._scalars[self._old[k]] = scalar
        for purpose, table in (("dim", self._extents), ("stride", self._strides)):
            for k, kind, name in named:
                for axis, number in enumerate(kind.shape if purpose == "dim" else kind.strides):
                    if number == DYNAMIC:
                        place = [ir.StringAttr.get(name), ir.IntegerAttr.get(self._types.i64, axis)]
                        attribute = {f"pypto.{purpose}": ir.ArrayAttr.get(place)}
                        table[self._old[k], axis] = self._add(self._types.index, attribute)
        for k in sorted(workspaces):
            kind = self._types.tensor(self._old[k])
            size = kind.dtype.bytes * kind.shape[0] * kind.strides[0]
            attribute = {"pypto.workspace": ir.IntegerAttr.get(self._types.i64, size)}
            self._pointers[self._old[k]] = self._add(PointerType(kind.dtype), attribute)

    def _add(self, kind: PointerType | ir.Type, attributes: Mapping[str, ir.Attribute]) -> ir.Value:
        mlir = kind if isinstance(kind, ir.Type) else self._types.build(kind)
        self._attributes.append(ir.DictAttr.get(dict(attributes)))
        return self._block.add_argument(mlir, self._function.location)

    def finish(self) -> None:
        """Drop the old arguments, of which only scalars are still used, and set the function's new type."""
        for old, new in self._scalars.items():
            old.replace_all_uses_with(new)
        for k in reversed(range(len(self._old))):
            self._block.erase_argument(k)
        set_arguments(self._function, self._attributes)

    def extent(self, tensor: ir.Value, axis: int) -> ir.Value:
        """An extent of a tensor, or of a strided view of one."""
        number = self._types.tensor(tensor).shape[axis]
        if number != DYNAMIC:
            return self._emitter.index(number)
        view = view_of(tensor)
        if view is None:
            return self._extents[tensor, axis]
        if view.axes[axis] >= 0:
            return self._extents[view.source, view.axes[axis]]
        return self._count(view.source)

    def _count(self, tensor: ir.Value) -> ir.Value:
        """How many elements a tensor has."""
        count: ir.Value | None = None
        for axis in range(self._types.tensor(tensor).rank):
            extent = self.extent(tensor, axis)
            both = None if count is None else (count, extent)
            count = extent if both is None else self._emitter.entry_value("arith.muli", both, self._types.index)
        return self._emitter.index(1) if count is None else count

    def _stride(self, tensor: ir.Value, axis: int) -> ir.Value:
        number = self._types.tensor(tensor).strides[axis]
        if number != DYNAMIC:
            return self._emitter.index(number)
        view = view_of(tensor)
        return self._strides[(tensor, axis) if view is None else (view.source, view.axes[axis])]

    def view(self, tensor: ir.Value, layout: str) -> ir.Value:
        """The tensor as a view.

        Args:
            tensor: one.
            layout: ``nd``, ``dn`` where columns are what lies consecutively, or `TURNED` for the ``nd`` view of a
                tensor whose last two dimensions swap places.
        """
        found = self._views.get((tensor, layout))
        if found is not None:
            return found
        kind = self._types.tensor(tensor)
        strides = [self._stride(tensor, axis) for axis in range(kind.rank)]
        extents = [self.extent(tensor, axis) for axis in range(kind.rank)]
        shape = kind.shape
        if layout == TURNED:
            one = self._emitter.index(1)
            shape, strides, extents = turned(shape, 1), turned(strides, one), turned(extents, one)
        if layout == "dn" and kind.shape[-1] == 1 and DYNAMIC not in kind.shape:
            # Both strides of an [N, 1] tensor are one; the assembler tells dn from nd by the stride of the last
            # dimension.
            strides[-1] = self._emitter.index(kind.shape[-2])
        operands = [
            self._pointers[root_of(tensor)],
            *extents,
            *strides,
        ]
        found = self._emitter.entry_value(
            "pto.make_tensor_view",
            operands,
            TensorViewType(tuple(shape), kind.dtype),
            {"layout": ir.StringAttr.get("dn" if layout == "dn" else "nd")},
        )
        self._views[tensor, layout] = found
        return found

    def element(self, tensor: ir.Value, indices: list[ir.Value]) -> tuple[ir.Value, ir.Value, list[ir.Value]]:
        """One element of a tensor: a pointer, the offset in elements, and index and extent of each dimension."""
        # Nothing else may use the view, but it says in the assembly what the tensor is.
        self.view(tensor, "nd")
        emitter, kind = self._emitter, self._types.tensor(tensor)
        offset: ir.Value | None = None
        bounds: list[ir.Value] = []
        for axis, index in enumerate(indices):
            step, number = kind.strides[axis], constant(index)
            if number != 0 and step != 0:
                part = index
                if step != 1:
                    part = emitter.arith("muli", index, self._stride(tensor, axis))
                offset = part if offset is None else emitter.arith("addi", offset, part)
            bounds += [index, self.extent(tensor, axis)]
        return self._pointers[root_of(tensor)], emitter.index(0) if offset is None else offset, bounds

    def box(self, tensor: ir.Value, layout: str, offsets: list[ir.Value], sizes: list[ir.Value]) -> ir.Value:
        """A box of a tensor; its extents as the layout has them (`view`)."""
        if layout == TURNED:
            offsets, sizes = turned(offsets, self._emitter.index(0)), turned(sizes, self._emitter.index(1))
        static = [constant(size) for size in sizes]
        shape = tuple(DYNAMIC if number is None else number for number in static)
        kind = PartitionType(shape, self._types.tensor(tensor).dtype)
        return self._emitter.value("pto.partition_view", [self.view(tensor, layout), *offsets, *sizes], kind)
