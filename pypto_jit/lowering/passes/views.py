"""``views``: loads, stores and single accesses of views become those of the tensors that the views show.

A slice only moves the box. Where dimensions are in another order, where the last one is dropped, or where a tensor has
another shape, the box is that of a ``pypto.view`` of the kind ``strided``: a tensor's memory under extents and strides
of its own. Its attribute ``axes`` says which of the tensor's dimensions each of its dimensions is, or -1 for one with
the extent and the stride that its type has; an extent that the type does not know is the number of elements.

What lies within a slice is a part of what lies within its tensor, so that checks against the tensor alone would let a
box reach past its slice. An offset that is not certain to stay inside therefore goes through a ``pypto.within``: it
gives the offset, and fails where ``0 <= offset``, ``0 <= size`` or ``offset + size <= extent`` does not hold. What uses
the offset keeps the check, wherever later passes take it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TensorType
from pypto_jit.errors import ShapeError, TraceError
from pypto_jit.lowering.attributes import number, numbers
from pypto_jit.lowering.bounds import Bounds, combine
from pypto_jit.lowering.chains import VIEW, View, view_of
from pypto_jit.lowering.emitter import Emitter, anchor
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.stored import StoredSizes
from pypto_jit.lowering.tree import Node, constant, functions, read

STRIDED = "strided"
WITHIN = "pypto.within"
_OUTSIDE = {
    "pypto.load": "a load reads outside of its tensor",
    "pypto.store": "a store writes outside of its tensor",
    "pypto.read": "an element outside of its tensor",
    "pypto.write": "an element outside of its tensor",
}


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Resolve the views of every function, host functions too; whether there were any."""
    changed = False
    for function in functions(module):
        body = read(function)
        if any(node.name == VIEW for node in body.walk()):
            _Resolution(function, lowering, StoredSizes(function, body, lowering.types)).run(list(body.walk()))
            changed = True
    return changed


@dataclass
class _Form:
    """A view as part of memory.

    Attributes:
        root: the tensor.
        shape: None, or the shape that the tensor's elements are counted in; there is then one more dimension before,
            whose offset counts elements.
        strides: of that shape.
        offsets: of every dimension; None for 0.
        axes: the dimensions that the view has.
        limits: of every dimension, the extent of the slice that is all that the view shows of it; None where it shows
            what the tensor, or the shape, has.
    """

    root: ir.Value
    shape: tuple[int, ...] | None
    strides: tuple[int, ...]
    offsets: list[ir.Value | None]
    axes: list[int]
    limits: list[ir.Value | None]


class _Resolution:
    def __init__(self, function: ir.Operation, lowering: Lowering, stored: StoredSizes) -> None:
        self._types = lowering.types
        self._stored = stored
        self._bounds = Bounds(lambda value: False)
        self._replaced: dict[ir.Value, ir.Value] = {}
        self._erased: list[ir.Operation] = []
        block = function.regions[0].blocks[0]
        # Constants go before the first operation, which must not be one that goes.
        self._entry = anchor(block, lowering.types)
        self._emitter = Emitter(block, lowering.types)
        self._forms: dict[ir.Value, _Form] = {}
        self._strided: dict[tuple[ir.Value, tuple[int, ...] | None, tuple[int, ...], tuple[int, ...]], ir.Value] = {}

    def run(self, nodes: list[Node]) -> None:
        """Resolve every use, then drop the views."""
        views = [node for node in nodes if node.name == VIEW]
        for node in views:
            view = view_of(node.results[0])
            assert view is not None
            self._emitter.before(node.op)
            self._forms[node.results[0]] = self._compose(node, view)
        for node in nodes:
            # A load that went before gave its result to what uses it.
            node.operands = list(node.op.operands)
            if node.name != VIEW and any(operand in self._forms for operand in node.operands):
                self._resolve(node)
        for op in [*reversed(self._erased), *(node.op for node in reversed(views))]:
            op.erase()

    # Views

    def _form(self, tensor: ir.Value) -> _Form:
        found = self._forms.get(tensor)
        if found is None:
            rank = self._types.tensor(tensor).rank
            found = _Form(tensor, None, (), [None] * rank, list(range(rank)), [None] * rank)
        return found

    def _compose(self, node: Node, view: View) -> _Form:
        source = self._form(view.source)
        if view.kind in ("reshape", STRIDED):
            return self._reshape(node, source, view.numbers)
        offsets, limits = list(source.offsets), list(source.limits)
        for axis, offset, extent in zip(source.axes, view.offsets, view.extents, strict=False):
            whole = self._limit(source, axis)
            inside = self._within(offset, extent, whole, "a slice leaves its tensor")
            offsets[axis] = self._sum(offsets[axis], inside)
            if constant(offset) != 0 or not self._is_same(extent, whole):
                limits[axis] = extent
        axes = [source.axes[axis] for axis in view.axes]
        return _Form(source.root, source.shape, source.strides, offsets, axes, limits)

    def _new(self, value: ir.Value) -> ir.Value:
        """What a value has been replaced by."""
        return self._replaced.get(value, value)

    def _limit(self, form: _Form, axis: int) -> ir.Value:
        """How much a view shows of a dimension."""
        limit = form.limits[axis]
        if limit is not None:
            return self._new(limit)
        return self._extent(form.root, axis) if form.shape is None else self._emitter.index(form.shape[axis - 1])

    def _within(self, offset: ir.Value, size: ir.Value, extent: ir.Value, message: str) -> ir.Value:
        """An offset, checked unless it is certain that what starts there stays inside."""
        if self._is_inside(offset, size, extent):
            return offset
        attributes = {"message": ir.StringAttr.get(message)}
        return self._emitter.value(WITHIN, [offset, size, extent], self._types.index, attributes)

    def _is_inside(self, offset: ir.Value, size: ir.Value, extent: ir.Value) -> bool:
        start, length = self._bounds.of(offset), self._bounds.of(size)
        if not (isinstance(start.low, int) and isinstance(length.low, int) and min(start.low, length.low) >= 0):
            return False
        if constant(offset) == 0 and size == extent:
            return True
        end, room = combine("addi", start.high, length.high), self._bounds.of(extent).low
        return isinstance(end, int) and isinstance(room, int) and end <= room

    def _is_same(self, left: ir.Value, right: ir.Value) -> bool:
        number = constant(left)
        return left == right or (number is not None and number == constant(right))

    def _checked(
        self, node: Node, form: _Form, indices: Sequence[ir.Value], size: Callable[[int], ir.Value], *, all: bool
    ) -> list[ir.Value]:
        """The offsets of a box on a view, checked against what slices left of its dimensions.

        Args:
            size: gives the size of the box in each dimension of the view.
            all: check the other dimensions as well.
        """
        return [
            self._within(index, size(k), self._limit(form, axis), _OUTSIDE[node.name])
            if all or form.limits[axis] is not None
            else index
            for k, (index, axis) in enumerate(zip(indices, form.axes, strict=True))
        ]

    def _reshape(self, node: Node, source: _Form, extents: Sequence[ir.Value]) -> _Form:
        linear: ir.Value | None = None
        for offset, stride in zip(source.offsets, self._strides(source), strict=True):
            if offset is None:
                continue
            if stride == DYNAMIC:
                raise ShapeError(
                    "reshape of a slice needs the strides of its tensor when the kernel is compiled",
                    span=node.span,
                    found=str(self._types.tensor(source.root)),
                    hint="pass a contiguous tensor",
                )
            linear = self._sum(linear, self._emitter.arith("muli", offset, self._emitter.index(stride)))
        kind = self._types.tensor(node.results[0])
        shape = kind.shape
        rest = [None] * len(shape)
        given = iter(extents)
        limits = [self._new(next(given)) if extent == DYNAMIC else None for extent in shape]
        axes = list(range(1, len(shape) + 1))
        return _Form(source.root, shape, kind.strides, [linear, *rest], axes, [None, *limits])

    def _strides(self, form: _Form) -> tuple[int, ...]:
        if form.shape is None:
            return self._types.tensor(form.root).strides
        return (1, *form.strides)

    def _sum(self, left: ir.Value | None, right: ir.Value | None) -> ir.Value | None:
        if left is None or (right is not None and constant(left) == 0):
            return right if right is None or constant(right) != 0 else None
        if right is None or constant(right) == 0:
            return left
        return self._emitter.arith("addi", left, right)

    # Uses

    def _resolve(self, node: Node) -> None:
        self._emitter.before(node.op)
        # What was read before may have been replaced since.
        node.operands = list(node.op.operands)
        if node.name == "pypto.load":
            self._load(node)
        elif node.name == "pypto.store":
            self._store(node)
        elif node.name in ("pypto.read", "pypto.write"):
            self._element(node)
        elif node.name == "pypto.dim":
            self._dim(node)
        else:
            raise TraceError(
                f"{node.name.removeprefix('pypto.')} takes a tensor, not a view of one",
                span=node.span,
                hint="load the part that it needs, or pass the tensor and the offsets",
            )

    def _load(self, node: Node) -> None:
        tensor, *rest = node.operands
        form, rank = self._forms[tensor], self._types.tensor(tensor).rank
        base, order = self._base(node, form)
        indices = self._checked(node, form, rest[:rank], rest[rank:].__getitem__, all=False)
        offsets = self._moved(form, order, indices)
        one = self._emitter.index(1)
        sizes = [rest[rank:][form.axes.index(d)] if d in form.axes else one for d in order]
        operands = [base, *offsets, *sizes]
        new = self._emitter.emit(node.name, operands, [node.results[0].type], dict(node.op.attributes.items()))
        node.results[0].replace_all_uses_with(new.results[0])
        self._erased.append(node.op)

    def _store(self, node: Node) -> None:
        tile, tensor, *indices = node.operands
        form = self._forms[tensor]
        base, order = self._base(node, form)
        kind = self._types.tile(tile)
        assert kind is not None
        valid = list(numbers(node.op, "box") or kind.valid)
        # A tile lies right-aligned in the dimensions of a view.
        surplus = len(valid) - len(form.axes)
        leading, sides = (valid[:surplus], valid[surplus:]) if surplus > 0 else ([], [1] * -surplus + valid)
        indices = self._checked(node, form, indices, lambda k: self._size(node, valid, sides, k), all=False)
        box = [*leading, *(sides[form.axes.index(d)] if d in form.axes else 1 for d in order)]
        attributes = dict(node.op.attributes.items())
        attributes["box"] = ir.DenseI64ArrayAttr.get(box)
        self._emitter.emit(node.name, [tile, base, *self._moved(form, order, indices)], (), attributes)
        self._erased.append(node.op)

    def _size(self, node: Node, valid: Sequence[int], sides: Sequence[int], k: int) -> ir.Value:
        """The size in a dimension of a view of the box that a store writes."""
        emitter = self._emitter
        if sides[k] != DYNAMIC:
            return emitter.index(sides[k])
        last = k == len(sides) - 1
        extent = self._stored.of(node)[1 if last else 0]
        size = None
        for factor in extent.factors:
            value = self._new(factor)
            size = value if size is None else emitter.arith("muli", size, value)
        if size is None:
            size = emitter.index(extent.constant)
        elif extent.constant:
            size = emitter.arith("addi", size, emitter.index(extent.constant))
        others = prod(side for side in valid[:-1] if side != DYNAMIC)
        return size if last or others <= 1 else emitter.arith("divsi", size, emitter.index(others))

    def _moved(self, form: _Form, order: Sequence[int], indices: Sequence[ir.Value]) -> list[ir.Value]:
        """The offsets of a box, by those on the view."""
        moved = []
        for dimension in order:
            inside = indices[form.axes.index(dimension)] if dimension in form.axes else None
            total = self._sum(form.offsets[dimension], inside)
            moved.append(self._emitter.index(0) if total is None else total)
        return moved

    def _base(self, node: Node, form: _Form) -> tuple[ir.Value, list[int]]:
        """What a box lies in: the tensor itself or a strided view of it; and its dimensions in order."""
        every = range(len(form.offsets))
        if form.shape is None and form.axes == sorted(form.axes) and form.axes[-1:] == list(every)[-1:]:
            return form.root, list(every)
        order = [d for d in every if d not in form.axes] + form.axes
        if form.shape is not None and form.offsets[0] is None:
            order.remove(0)
        key = (form.root, form.shape, form.strides, tuple(order))
        found = self._strided.get(key)
        if found is None:
            # Kernels make no tensors, so that every tensor is there at their entry.
            self._emitter.before(self._entry)
            found = self._strided[key] = self._make_strided(form, order)
            self._emitter.before(node.op)
        return found, order

    def _make_strided(self, form: _Form, order: list[int]) -> ir.Value:
        root = self._types.tensor(form.root)
        strides = self._strides(form)
        if form.shape is None:
            shape, axes = root.shape, list(order)
        else:
            count = prod(root.shape) if DYNAMIC not in root.shape else DYNAMIC
            shape, axes = (count, *form.shape), [-1] * len(order)
        kind = TensorType(tuple(shape[d] for d in order), root.dtype, tuple(strides[d] for d in order))
        attributes = {"kind": ir.StringAttr.get(STRIDED), "axes": ir.DenseI64ArrayAttr.get(axes)}
        return self._emitter.value(VIEW, [form.root], kind, attributes)

    def _extent(self, tensor: ir.Value, axis: int) -> ir.Value:
        extent = self._types.tensor(tensor).shape[axis]
        if extent != DYNAMIC:
            return self._emitter.index(extent)
        attribute = {"axis": ir.IntegerAttr.get(self._types.i64, axis)}
        return self._emitter.value("pypto.dim", [tensor], self._types.index, attribute)

    def _element(self, node: Node) -> None:
        position = next(k for k, operand in enumerate(node.operands) if operand in self._forms)
        form, indices = self._forms[node.operands[position]], node.operands[position + 1 :]
        one = self._emitter.index(1)
        # An index in another shape is not one of the tensor, which would otherwise be checked.
        indices = self._checked(node, form, indices, lambda k: one, all=form.shape is not None)
        moved = self._moved(form, range(len(form.offsets)), indices)
        if form.shape is not None:
            moved = self._unflatten(form, moved)
        new = self._emitter.emit(
            node.name,
            [*node.operands[:position], form.root, *moved],
            [result.type for result in node.results],
            dict(node.op.attributes.items()),
        )
        for old, result in zip(node.results, new.results, strict=True):
            self._replaced[old] = result
            old.replace_all_uses_with(result)
        self._erased.append(node.op)

    def _unflatten(self, form: _Form, offsets: list[ir.Value]) -> list[ir.Value]:
        """The indices in the tensor of an element of a view in another shape."""
        emit = self._emitter
        linear = emit.index(0)
        for offset, stride in zip(offsets, self._strides(form), strict=True):
            linear = emit.arith("addi", linear, emit.arith("muli", offset, emit.index(stride)))
        indices: list[ir.Value] = []
        for axis in reversed(range(self._types.tensor(form.root).rank)):
            if axis == 0:
                indices.insert(0, linear)
                break
            extent = self._extent(form.root, axis)
            indices.insert(0, emit.arith("remsi", linear, extent))
            linear = emit.arith("divsi", linear, extent)
        return indices

    def _dim(self, node: Node) -> None:
        form = self._forms[node.operands[0]]
        axis = form.axes[number(node.op, "axis") or 0]
        view = view_of(node.operands[0])
        assert view is not None
        if view.kind == "slice":
            extent = view.extents[view.axes[number(node.op, "axis") or 0]]
        else:
            extent = self._limit(form, axis)
        self._replaced[node.results[0]] = extent
        node.results[0].replace_all_uses_with(extent)
        self._erased.append(node.op)
