"""NumPy meanings of comparisons and of what chooses by their bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from pypto_jit.dialects.interpreter.arithmetic import scalar_array
from pypto_jit.dialects.interpreter.tiles import Array, Call, Tile, embed, meaning

COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": numpy.equal,
    "ne": numpy.not_equal,
    "lt": numpy.less,
    "le": numpy.less_equal,
    "gt": numpy.greater,
    "ge": numpy.greater_equal,
}


@meaning("cmp", "cmps")
def _compare(call: Call) -> Tile:
    left, right = call.operands
    if isinstance(right, Tile):
        call.agree("valid extents", left.valid, right.valid)
        other = right.box(left.valid)
    else:
        other = scalar_array(right, left.dtype)
    bits = COMPARE[str(call.attributes.get("mode", "eq"))](left.box(), other)
    # Bits that stand for no valid element are clear.
    whole = numpy.zeros((left.valid[0], 8 * call.tile.shape[1]), bool)
    whole[:, : left.valid[1]] = bits
    return embed(numpy.packbits(whole, axis=1, bitorder="little"), call.tile.shape, call.tile.dtype)


@meaning("sel", "sels")
def _select(call: Call) -> Tile:
    mask, left, right = call.operands
    call.agree("rows", mask.valid[:1], left.valid[:1])
    if isinstance(right, Tile):
        call.agree("valid extents", left.valid, right.valid)
    bits = numpy.unpackbits(mask.box(), axis=1, bitorder="little")[: left.valid[0], : left.valid[1]].astype(bool)
    other = right.box(left.valid) if isinstance(right, Tile) else scalar_array(right, left.dtype)
    return embed(numpy.where(bits, left.box(), other).astype(left.dtype.numpy), left.shape, left.dtype)
