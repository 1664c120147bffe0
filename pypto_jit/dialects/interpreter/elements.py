"""NumPy meanings of the operators on single elements: of tensors, tiles, and arrays on the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pypto_jit.dialects.interpreter.races import READ, WRITE
from pypto_jit.dialects.interpreter.scalars import INDEX_BITS, wrap
from pypto_jit.dialects.interpreter.tiles import Array, Call, Tile, meaning
from pypto_jit.dialects.types import ArrayType
from pypto_jit.dtypes import DType
from pypto_jit.errors import BoundsError


def _check(call: Call, what: str, indices: tuple[int, ...], extents: tuple[int, ...]) -> None:
    inside = len(indices) == len(extents) and all(0 <= i < extent for i, extent in zip(indices, extents, strict=True))
    if not inside:
        raise BoundsError(
            f"an element outside of its {what}",
            span=call.span,
            found=f"index {list(indices)}",
            expected=f"within {list(extents)}",
        )


def _scalar(element: Any, dtype: DType) -> Any:
    """An element as the value of a scalar: a NumPy float, or an int in the signed form that arithmetic uses."""
    return element if dtype.is_float else wrap(int(element), 1 if dtype.kind == "bool" else dtype.bits)


def _element(value: Any, array: Array) -> Any:
    return numpy.asarray(value).astype(array.dtype)


def _view(tensor: Array, indices: Sequence[int]) -> Array:
    """One element as a view."""
    return tensor[tuple(slice(index, index + 1) for index in indices)]


@meaning("read")
def _read(call: Call) -> Any:
    tensor, *indices = call.operands
    _check(call, "tensor", tuple(indices), tensor.shape)
    call.touches(READ, _view(tensor, indices))
    kind = call.types[0]
    assert kind is not None
    return _scalar(tensor[tuple(indices)], kind.dtype)


@meaning("write")
def _write(call: Call) -> None:
    value, tensor, *indices = call.operands
    _check(call, "tensor", tuple(indices), tensor.shape)
    call.touches(WRITE, _view(tensor, indices))
    tensor[tuple(indices)] = _element(value, tensor)


def _place(call: Call, tile: Tile, indices: tuple[int, ...]) -> tuple[int, ...]:
    """Where in a tile's array an element is."""
    box = call.attributes.get("box")
    if isinstance(box, tuple):
        # Once legalized, a tile has two dimensions, and the operator remembers those it was traced with.
        _check(call, "tile", indices, box)
        row = 0
        for index, extent in zip(indices[:-1], box[:-1], strict=True):
            row = row * extent + index
        indices = (row, indices[-1])
    _check(call, "tile's valid region", indices, tile.valid)
    return indices


@meaning("read_tile")
def _read_tile(call: Call) -> Any:
    tile, *indices = call.operands
    return _scalar(tile.array[_place(call, tile, tuple(indices))], tile.dtype)


@meaning("write_tile")
def _write_tile(call: Call) -> Tile:
    tile, value, *indices = call.operands
    array = tile.array.copy()
    array[_place(call, tile, tuple(indices))] = _element(value, array)
    return Tile(array, tile.dtype, tile.valid)


@meaning("array_create")
def _array_create(call: Call) -> list[int]:
    assert isinstance(call.result, ArrayType)
    return [int(str(call.attributes.get("fill", "0")))] * call.result.size


@meaning("array_get")
def _array_get(call: Call) -> int:
    array, index = call.operands
    _check(call, "array", (index,), (len(array),))
    return array[index]


@meaning("array_set")
def _array_set(call: Call) -> None:
    value, array, index = call.operands
    _check(call, "array", (index,), (len(array),))
    kind = call.types[1]
    assert kind is not None
    array[index] = wrap(int(value), 1 if kind.dtype.kind == "bool" else min(kind.dtype.bits, INDEX_BITS))
