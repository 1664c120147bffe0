"""NumPy meanings of the operators that move or make data: load, store, full, ci, reshape, transpose, concat, move."""

from __future__ import annotations

from math import prod

import numpy

from pypto_jit.dialects.interpreter.arithmetic import scalar_array
from pypto_jit.dialects.interpreter.races import ADD, READ, WRITE
from pypto_jit.dialects.interpreter.rounding import convert, round_to_float
from pypto_jit.dialects.interpreter.tiles import Array, Call, Tile, embed, meaning
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.dtypes import DType
from pypto_jit.errors import BoundsError


def _box_of(tensor: Array, offsets: tuple[int, ...], extents: tuple[int, ...], call: Call, verb: str) -> Array:
    """The view of a tensor that a load or store touches; it may be empty.

    Raises:
        BoundsError: the box has a negative extent, or leaves the tensor, be it empty or not.
    """
    boxes = list(zip(offsets, extents, strict=True))
    inside = all(
        offset >= 0 and extent >= 0 and offset + extent <= size
        for (offset, extent), size in zip(boxes, tensor.shape, strict=True)
    )
    if not inside:
        raise BoundsError(
            f"the box of a {verb} leaves its tensor",
            span=call.span,
            found=f"offsets {list(offsets)}, extents {list(extents)}",
            expected=f"a box inside of shape {list(tensor.shape)}",
        )
    return tensor[tuple(slice(offset, offset + extent) for offset, extent in boxes)]


@meaning("load")
def _load(call: Call) -> Tile:
    tensor, *box = call.operands
    offsets, extents = tuple(box[: tensor.ndim]), tuple(box[tensor.ndim :])
    valid = extents
    if tensor.ndim != call.tile.rank:
        # Once legalized, a tile has two dimensions: all of the tensor's but the last are its rows.
        valid = (prod(extents[:-1]), extents[-1])
    if any(extent > size for extent, size in zip(valid, call.tile.shape, strict=True)):
        raise BoundsError(
            "the valid shape of a load is larger than its tile",
            span=call.span,
            found=list(extents),
            expected=f"within {list(call.tile.shape)}",
        )
    view = _box_of(tensor, offsets, extents, call, "load")
    call.touches(READ, view)
    return embed(view.reshape(valid), call.tile.shape, call.tile.dtype)


@meaning("store")
def _store(call: Call) -> None:
    tile, tensor, *offsets = call.operands
    box = tile.box()
    if "box" in call.attributes:
        # Once legalized, a tile has two dimensions, and its store remembers those it was traced with.
        remembered = call.attributes["box"]
        assert isinstance(remembered, tuple)
        dynamic = box.size // max(1, prod(extent for extent in remembered if extent != DYNAMIC))
        box = box.reshape([dynamic if extent == DYNAMIC else extent for extent in remembered])
    surplus = box.ndim - tensor.ndim
    box = box.reshape(box.shape[surplus:] if surplus > 0 else (1,) * -surplus + box.shape)
    view = _box_of(tensor, tuple(offsets), box.shape, call, "store")
    call.touches(ADD if call.attributes.get("atomic") == "add" else WRITE, view)
    target = call.types[1]
    assert target is not None
    values = box if tile.dtype == target.dtype else convert(box, tile.dtype, target.dtype, "rint")
    view[...] = _sum(view, values, target.dtype) if call.attributes.get("atomic") == "add" else values


def _sum(old: Array, new: Array, dtype: DType) -> Array:
    """Each element of two boxes added, and rounded once."""
    if not dtype.is_float:
        return old + new
    return round_to_float(old.astype(numpy.float64) + new.astype(numpy.float64), dtype)


@meaning("create_tile")
def _create_tile(call: Call) -> Tile:
    blank = embed(numpy.empty((0,) * call.tile.rank, call.tile.dtype.numpy), call.tile.shape, call.tile.dtype)
    return Tile(blank.array, blank.dtype, call.tile.valid)


@meaning("full")
def _full(call: Call) -> Tile:
    value = scalar_array(call.operands[0], call.tile.dtype)
    return embed(numpy.full(call.tile.valid, value, call.tile.dtype.numpy), call.tile.shape, call.tile.dtype)


@meaning("ci")
def _ci(call: Call) -> Tile:
    dtype = call.tile.dtype
    start = scalar_array(call.operands[0], dtype)
    numbers = (start + numpy.arange(call.tile.valid[-1])).astype(dtype.numpy)
    return embed(numbers.reshape(call.tile.valid), call.tile.shape, dtype)


@meaning("reshape")
def _reshape(call: Call) -> Tile:
    tile = call.operands[0]
    array = tile.array.reshape(call.tile.shape).copy()
    if call.tile.shape == tile.shape:
        return Tile(array, tile.dtype, tile.valid)
    if call.tile.shape == tile.shape[::-1] and 1 in tile.shape:
        return Tile(array, tile.dtype, tile.valid[::-1])
    # A partly valid tile that may be reshaped is a vector: one long axis takes all its valid elements.
    count = prod(tile.valid)
    valid = call.tile.shape
    if count != array.size:
        valid = tuple(count if extent != 1 else 1 for extent in call.tile.shape)
    return Tile(array, tile.dtype, valid)


@meaning("transpose", "transpose_view")
def _transpose(call: Call) -> Tile:
    tile = call.operands[0]
    return Tile(tile.array.T.copy(), tile.dtype, tile.valid[::-1])


@meaning("concat")
def _concat(call: Call) -> Tile:
    lhs, rhs = call.operands
    call.agree("rows", lhs.valid[:1], rhs.valid[:1])
    rows = lhs.valid[0]
    box = numpy.concatenate([lhs.box(), rhs.box((rows, rhs.valid[1]))], axis=1)
    return embed(box, call.tile.shape, call.tile.dtype)


@meaning("move")
def _move(call: Call) -> Tile:
    tile = call.operands[0]
    if tile.dtype == call.tile.dtype:
        return tile
    return embed(convert(tile.box(), tile.dtype, call.tile.dtype, "rint"), tile.shape, call.tile.dtype)
