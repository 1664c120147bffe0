"""The meaning of what is around tasks: tensors that a kernel creates, views of tensors, and TaskIds.

A task has run when the next operation begins, so its TaskId is a number that nothing waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter.tiles import Array, poison
from pypto_jit.dialects.locations import span_of
from pypto_jit.dialects.types import DYNAMIC, TensorType, parse_type
from pypto_jit.errors import BoundsError, Span

_Values = list[Any]
_Step = Callable[[_Values], None]


def _dim(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    axis = ir.IntegerAttr(operation.attributes["axis"]).value
    (tensor,), (result,) = operands, results

    def run(values: _Values) -> None:
        values[result] = values[tensor].shape[axis]

    return run


def _create(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    kind = parse_type(str(operation.results[0].type))
    assert isinstance(kind, TensorType)
    span, dtype = span_of(operation.location), kind.dtype
    attributes = operation.attributes
    contents: Any = poison(dtype)
    if "initial" in attributes:
        attribute = attributes["initial"]
        number = ir.FloatAttr(attribute) if dtype.is_float else ir.IntegerAttr(attribute)
        contents = numpy.array(number.value).astype(dtype.numpy)
    shape, (result,) = kind.shape, results

    def run(values: _Values) -> None:
        extents = iter([values[slot] for slot in operands])
        actual = tuple(next(extents) if extent == DYNAMIC else extent for extent in shape)
        if min(actual, default=0) < 0:
            raise BoundsError("a created tensor has a negative extent", span=span, found=list(actual))
        values[result] = numpy.full(actual, contents, dtype.numpy)

    return run


def _view(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    attributes = operation.attributes
    kind = ir.StringAttr(attributes["kind"]).value
    axes = tuple(ir.DenseI64ArrayAttr(attributes["axes"]))
    type_ = parse_type(str(operation.results[0].type))
    assert isinstance(type_, TensorType)
    span, shape = span_of(operation.location), type_.shape
    (tensor, *numbers), (result,) = operands, results

    def run(values: _Values) -> None:
        source = values[tensor]
        if kind == "slice":
            box = [values[slot] for slot in numbers]
            values[result] = _box(source, box[: source.ndim], box[source.ndim :], axes, span)
        elif kind == "transpose":
            values[result] = source.transpose(axes)
        elif kind == "strided":
            values[result] = _strided(source, type_, axes)
        else:
            # Assigning the shape is refused where it would take a copy, which a store would not reach.
            view = source.view()
            view.shape = shape
            values[result] = view

    return run


def _box(source: Array, offsets: list[int], extents: list[int], axes: tuple[int, ...], span: Span | None) -> Array:
    sides = list(zip(offsets, extents, source.shape, strict=True))
    if any(offset < 0 or extent < 0 or offset + extent > size for offset, extent, size in sides):
        raise BoundsError(
            "a slice leaves its tensor",
            span=span,
            found=f"offsets {offsets}, extents {extents}",
            expected=f"a box inside of shape {list(source.shape)}",
        )
    box = source[tuple(slice(offset, offset + extent) for offset, extent, _ in sides)]
    return box[tuple(slice(None) if axis in axes else 0 for axis in range(source.ndim))]


def _within(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    message = ir.StringAttr(operation.attributes["message"]).value
    span, (result,) = span_of(operation.location), results

    def run(values: _Values) -> None:
        offset, size, extent = (values[slot] for slot in operands)
        if offset < 0 or size < 0 or offset + size > extent:
            raise BoundsError(message, span=span, found=f"offset {offset}, size {size}", expected=f"within {extent}")
        values[result] = offset

    return run


def _strided(source: Array, kind: TensorType, axes: tuple[int, ...]) -> Array:
    item = source.itemsize
    shape, strides = [], []
    for extent, stride, axis in zip(kind.shape, kind.strides, axes, strict=True):
        known = source.size if extent == DYNAMIC else extent
        shape.append(source.shape[axis] if axis >= 0 else known)
        strides.append(source.strides[axis] if axis >= 0 else stride * item)
    return numpy.lib.stride_tricks.as_strided(source, shape, strides)


def _submit(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    numbers, (result,) = count(), results

    def run(values: _Values) -> None:
        values[result] = next(numbers)

    return run


def _nothing(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    return lambda values: None


# Operation -> what decodes one: given the slots of its operands and results, the step that runs it.
STEPS: dict[str, Callable[[ir.Operation, list[int], list[int]], _Step]] = {
    "pypto.dim": _dim,
    "pypto.create_tensor": _create,
    "pypto.view": _view,
    "pypto.within": _within,
    "pypto.submit": _submit,
    "pypto.access": _nothing,
}
