"""NumPy meanings of what finds the largest or smallest element."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from pypto_jit.dialects.interpreter.tiles import Array, Call, Tile, embed, meaning

_Function = Callable[..., Array]

# Both give the first of equal elements, and the first NaN where there is one.
POSITIONS: dict[str, _Function] = {"argmax": numpy.argmax, "argmin": numpy.argmin}


def position(name: str, box: Array, axis: int) -> Array:
    """Where the extreme of each line along an axis is, the axis kept with extent 1; 0 of a line without elements."""
    kept = tuple(1 if k == axis % box.ndim else extent for k, extent in enumerate(box.shape))
    if 0 in box.shape:
        return numpy.zeros(kept, numpy.int32)
    return POSITIONS[name](box, axis=axis, keepdims=True).astype(numpy.int32)


def _along(name: str, axis: int) -> Callable[[Call], Tile]:
    return lambda call: embed(position(name, call.operands[0].box(), axis), call.tile.shape, call.tile.dtype)


for _name in POSITIONS:
    meaning(f"row_{_name}")(_along(_name, -1))
    meaning(f"col_{_name}")(_along(_name, -2))
