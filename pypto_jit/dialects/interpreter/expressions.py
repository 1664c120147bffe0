"""The meaning of tensor-level operations: whole arrays at once, each operation rounded to its dtype."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter.arithmetic import ELEMENTWISE, REDUCTIONS, computed, narrowed, scalar_array
from pypto_jit.dialects.interpreter.positions import POSITIONS, position
from pypto_jit.dialects.interpreter.predicates import COMPARE
from pypto_jit.dialects.interpreter.rounding import convert
from pypto_jit.dialects.interpreter.tiles import Array
from pypto_jit.dialects.types import DYNAMIC, TensorType, parse_type
from pypto_jit.dtypes import DType

_Values = list[Any]
_Step = Callable[[_Values], None]


def _result(operation: ir.Operation) -> TensorType:
    kind = parse_type(str(operation.results[0].type))
    assert isinstance(kind, TensorType)
    return kind


def _dtype(value: ir.Value) -> DType | None:
    """The dtype of a tensor; None of a scalar."""
    kind = parse_type(str(value.type)) if str(value.type).startswith("!") else None
    return kind.dtype if isinstance(kind, TensorType) else None


def _text(operation: ir.Operation, name: str, default: str = "") -> str:
    attributes = operation.attributes
    return ir.StringAttr(attributes[name]).value if name in attributes else default


def _map(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    row, dtype = _text(operation, "row"), _result(operation).dtype
    dtypes = [_dtype(value) for value in operation.operands]
    mode = _text(operation, "mode", "round")

    def run(values: _Values) -> None:
        given = [values[slot] for slot in operands]
        if row == "cast":
            source = dtypes[0]
            assert source is not None
            values[results[0]] = convert(given[0], source, dtype, mode)
            return
        arrays = [
            scalar_array(value, dtype) if known is None else convert(value, known, dtype, "rint")
            for value, known in zip(given, dtypes, strict=True)
        ]
        if row == "cmp":
            values[results[0]] = COMPARE[mode](*arrays).astype(dtype.numpy)
            return
        values[results[0]] = computed(ELEMENTWISE[row], dtype, *numpy.broadcast_arrays(*arrays))

    return run


def _select(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    kind = _result(operation)
    dtypes = [_dtype(value) for value in operation.operands]
    mask_dtype = dtypes[0]
    assert mask_dtype is not None

    def run(values: _Values) -> None:
        mask, *given = (values[slot] for slot in operands)
        chosen = [
            scalar_array(value, kind.dtype) if known is None else convert(value, known, kind.dtype, "rint")
            for value, known in zip(given, dtypes[1:], strict=True)
        ]
        selected = numpy.where(mask != mask_dtype.numpy.type(0), *chosen)
        values[results[0]] = numpy.array(selected).astype(kind.dtype.numpy)

    return run


def _reduce(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    kind, row = _result(operation), _text(operation, "row")
    axes = tuple(ir.DenseI64ArrayAttr(operation.attributes["axes"]))
    if row in POSITIONS:

        def find(values: _Values) -> None:
            values[results[0]] = position(row, values[operands[0]], axes[0]).reshape(kind.shape)

        return find
    function = REDUCTIONS[row]
    source_kind = parse_type(str(operation.operands[0].type))
    keeps = isinstance(source_kind, TensorType) and source_kind.rank == kind.rank

    def run(values: _Values) -> None:
        source = values[operands[0]]
        kept = [1 if k in axes else extent for k, extent in enumerate(source.shape) if keeps or k not in axes]
        values[results[0]] = narrowed(function(source, axes), kind.dtype).reshape(kept)

    return run


def _cumulate(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    kind, axis = _result(operation), ir.IntegerAttr(operation.attributes["axis"]).value
    wide = numpy.float64 if kind.dtype.is_float else numpy.int64

    def run(values: _Values) -> None:
        values[results[0]] = narrowed(numpy.cumsum(values[operands[0]].astype(wide), axis=axis), kind.dtype)

    return run


def _product(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    kind = _result(operation)
    turned = ["a_trans" in operation.attributes, "b_trans" in operation.attributes]
    wide = numpy.float64 if kind.dtype.is_float else numpy.int64

    def run(values: _Values) -> None:
        matrices: list[Array] = []
        for slot, turn in zip(operands, turned, strict=True):
            matrix = values[slot].astype(wide)
            matrices.append(numpy.swapaxes(matrix, -1, -2) if turn else matrix)
        values[results[0]] = narrowed(matrices[0] @ matrices[1], kind.dtype)

    return run


def _fill(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    kind = _result(operation)

    scalar, *extents = operands

    def run(values: _Values) -> None:
        shape = _filled_in(kind.shape, [values[slot] for slot in extents])
        values[results[0]] = numpy.full(shape, scalar_array(values[scalar], kind.dtype))

    return run


def _count(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    kind = _result(operation)

    def run(values: _Values) -> None:
        values[results[0]] = numpy.arange(kind.shape[0]).astype(kind.dtype.numpy)

    return run


def _rearrange(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    sides = _result(operation).shape
    dims = tuple(ir.DenseI64ArrayAttr(operation.attributes["dims"]))
    of, *extents = operands
    flipped = tuple(ir.DenseI64ArrayAttr(operation.attributes["flipped"])) if "flipped" in operation.attributes else ()

    def run(values: _Values) -> None:
        source = values[of]
        new = iter(_filled_in([s for s, d in zip(sides, dims, strict=True) if d < 0], [values[k] for k in extents]))
        shape = [next(new) if dim < 0 else source.shape[dim] for dim in dims]
        kept = [dim for dim in dims if dim >= 0]
        dropped = [dim for dim in range(source.ndim) if dim not in kept]
        array = source.transpose(kept + dropped).reshape([source.shape[dim] for dim in kept])
        places = tuple(k for k, dim in enumerate(dims) if dim < 0)
        # A computed tensor is contiguous: it may be seen in another shape.
        values[results[0]] = numpy.flip(numpy.broadcast_to(numpy.expand_dims(array, places), shape), flipped).copy()

    return run


def _filled_in(sides: Iterable[int], extents: Iterable[int]) -> list[int]:
    """A shape whose unknown extents are given in order."""
    given = iter(extents)
    return [next(given) if side == DYNAMIC else side for side in sides]


def _assign(operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
    source, goal = (_dtype(value) for value in operation.operands)
    assert source is not None
    assert goal is not None

    def run(values: _Values) -> None:
        value, memory = (values[slot] for slot in operands)
        # What is written may be computed from what it overwrites.
        memory[...] = convert(numpy.array(value), source, goal, "rint")

    return run


# Operation -> what decodes one: given the slots of its operands and results, the step that runs it.
EXPRESSION_STEPS: dict[str, Callable[[ir.Operation, list[int], list[int]], _Step]] = {
    "pypto.map": _map,
    "pypto.select": _select,
    "pypto.reduce": _reduce,
    "pypto.cumulate": _cumulate,
    "pypto.product": _product,
    "pypto.fill": _fill,
    "pypto.count": _count,
    "pypto.rearrange": _rearrange,
    "pypto.assign": _assign,
}
