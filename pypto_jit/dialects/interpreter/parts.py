"""NumPy meanings of the operators on valid regions and on parts of tiles."""

from __future__ import annotations

import numpy

from pypto_jit.dialects.interpreter.rounding import convert
from pypto_jit.dialects.interpreter.tiles import Array, Call, Tile, embed, meaning
from pypto_jit.dtypes import DType
from pypto_jit.errors import BoundsError


@meaning("set_validshape")
def _set_validshape(call: Call) -> Tile:
    tile, *extents = call.operands
    if any(not 0 <= extent <= size for extent, size in zip(extents, tile.shape, strict=True)):
        raise BoundsError(
            "the valid shape does not lie in its tile",
            span=call.span,
            found=list(extents),
            expected=f"within {list(tile.shape)}",
        )
    return Tile(tile.array, tile.dtype, tuple(extents))


def _padding(pad: object, dtype: DType) -> Array:
    if pad == "zero":
        value: float = 0
    elif dtype.is_float:
        value = numpy.inf if pad == "max" else -numpy.inf
    else:
        limits = numpy.iinfo(dtype.numpy)
        value = limits.max if pad == "max" else limits.min
    return numpy.array(value).astype(dtype.numpy)


@meaning("fillpad")
def _fillpad(call: Call) -> Tile:
    tile = call.operands[0]
    array = numpy.full(call.tile.shape, _padding(call.attributes.get("pad", "zero"), tile.dtype), tile.dtype.numpy)
    box = tile.box()
    array[tuple(slice(extent) for extent in box.shape)] = box
    return Tile(array, tile.dtype, call.tile.shape)


def _check(call: Call, offsets: tuple[int, ...], extents: tuple[int, ...], valid: tuple[int, ...], what: str) -> None:
    boxes = zip(offsets, extents, valid, strict=True)
    if any(offset < 0 or extent < 0 or offset + extent > size for offset, extent, size in boxes):
        raise BoundsError(
            what,
            span=call.span,
            found=f"offsets {list(offsets)}, extents {list(extents)}",
            expected=f"a box inside of {list(valid)}",
        )


@meaning("extract")
def _extract(call: Call) -> Tile:
    tile, *box = call.operands
    offsets, extents = tuple(box[:2]), tuple(box[2:])
    _check(call, offsets, extents, tile.valid, "a part of a tile leaves its valid region")
    if any(extent > size for extent, size in zip(extents, call.tile.shape, strict=True)):
        raise BoundsError(
            "the valid shape of a part of a tile is larger than it",
            span=call.span,
            found=list(extents),
            expected=f"within {list(call.tile.shape)}",
        )
    part = tile.array[tuple(slice(o, o + e) for o, e in zip(offsets, extents, strict=True))]
    return embed(part, call.tile.shape, call.tile.dtype)


@meaning("insert")
def _insert(call: Call) -> Tile:
    target, part, *offsets = call.operands
    box = part.box()
    _check(call, tuple(offsets), box.shape, target.valid, "a tile is written outside of the valid region of another")
    array = target.array.copy()
    if part.dtype != target.dtype:
        box = convert(box, part.dtype, target.dtype, "rint")
    array[tuple(slice(o, o + e) for o, e in zip(offsets, box.shape, strict=True))] = box
    return Tile(array, target.dtype, target.valid)
