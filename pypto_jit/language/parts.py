"""Operators on valid shapes and on parts of tiles, beyond what the rows of the operator table spell out."""

from __future__ import annotations

import enum
from typing import Any

from pypto_jit.dialects.operators import PAD_VALUES
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.errors import BoundsError, LayoutError, ShapeError, TraceError
from pypto_jit.language.indices import index, indices, static
from pypto_jit.language.scalars import Scalar, fold
from pypto_jit.language.signatures import checked
from pypto_jit.language.tensors import slice_tensor
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import Tensor, Tile, emit
from pypto_jit.targets import FRACTAL_EDGE, Space


class PadValue(enum.Enum):
    """What ``pl.fillpad`` fills with: zero, or the largest or smallest value of the dtype (of floats: infinity)."""

    null = "null"
    zero = "zero"
    max = "max"
    min = "min"


def _pad(name: str, value: Any) -> str:
    text = value.value if isinstance(value, PadValue) else value
    if text not in PAD_VALUES:
        listed = ", ".join(f"pl.PadValue.{known}" for known in PAD_VALUES)
        raise TraceError(f"{name} takes a pad value", span=here(), found=value, expected=listed)
    return text


def _tile(name: str, value: Any, what: str = "x") -> Tile:
    current(f"pl.{name}")
    if not isinstance(value, Tile):
        hint = f"load it first: pl.load({value.name}, offsets, shape)" if isinstance(value, Tensor) else None
        raise TraceError(f"{name} takes a tile as '{what}'", span=here(), found=value, expected="a tile", hint=hint)
    return value


def _known(extents: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(DYNAMIC if isinstance(extent, Scalar) else extent for extent in extents)


def set_validshape(x: Any, rows: Any, cols: Any) -> Any:
    tile = _tile("set_validshape", x)
    extents = (index(rows, "the valid shape"), index(cols, "the valid shape"))
    return emit("set_validshape", (tile,), {"valid": _known(extents), "extents": extents}, extents)


def fillpad(x: Any, pad_value: Any = PadValue.zero) -> Any:
    return emit("fillpad", (_tile("fillpad", x),), {"pad": _pad("fillpad", pad_value)})


@checked
def fillpad_inplace(x: Any, pad_value: Any = PadValue.zero) -> Any:
    """As `fillpad`; tiles are values, so that the compiler decides what is done in place."""
    return emit("fillpad", (_tile("fillpad_inplace", x),), {"pad": _pad("fillpad_inplace", pad_value)})


@checked
def fillpad_expand(x: Any, shape: Any, pad_value: Any = PadValue.zero) -> Any:
    """As `fillpad`, into a larger tile: what is beyond the valid region of ``x`` is filled.

    Args:
        x: a tile.
        shape: extents, no smaller than the tile's.
        pad_value: ``pl.PadValue.zero``, ``max`` or ``min``.
    """
    attributes = {"shape": static(shape, "the shape of fillpad_expand"), "pad": _pad("fillpad_expand", pad_value)}
    return emit("fillpad", (_tile("fillpad_expand", x),), attributes)


def clamped(limit: Any, offset: Any, extent: Any) -> Any:
    """How much of ``extent`` elements from an offset on lies below a limit."""
    return fold("max", (fold("min", (extent, limit - offset)), 0))


def _box(
    name: str, tile: Tile, shape: tuple[int, ...], offsets: tuple[Any, ...], valid_shape: Any, clamp: bool
) -> tuple[Any, ...]:
    """The valid extents of a part of a tile."""
    for what, values in (("offset", offsets), ("shape", shape)):
        if len(values) != tile.ndim:
            raise ShapeError(
                f"the {what} of {name} has one entry per dimension of the tile",
                span=here(),
                found=f"{len(values)} entries",
                expected=f"{tile.ndim}",
            )
    extents = shape if valid_shape is None else indices(valid_shape, f"the valid_shape of {name}")
    if len(extents) != tile.ndim:
        raise ShapeError(f"the valid_shape of {name} has one entry per dimension", span=here(), found=len(extents))
    partial = valid_shape is None and tile.type.valid != tile.shape
    if clamp or partial:
        whole = tile.valid_shape
        extents = tuple(map(clamped, whole, offsets, extents))
    for offset, extent, limit in zip(offsets, extents, tile.type.valid, strict=True):
        low = isinstance(offset, int) and offset < 0
        high = isinstance(offset, int) and isinstance(extent, int) and limit != DYNAMIC and offset + extent > limit
        if low or high:
            raise BoundsError(
                f"the box of {name} leaves the valid region of its tile",
                span=here(),
                found=f"offset {offset}, extent {extent}",
                expected=f"within {tile!r}",
                hint=None if low else "give a smaller valid_shape, or clamp=True",
            )
    return extents


@checked
def slice(
    x: Any,
    shape: Any,
    offset: Any,
    valid_shape: Any = None,
    drop_dims: Any = None,
    pad_value: Any = None,
    clamp: bool = False,
) -> Any:
    """A box of a tile as a tile of its own, or of a tensor as a view: see `pypto_jit.language.tensors.slice_tensor`.

    Args:
        x: a two-dimensional tile in Vec or Mat, or a tensor.
        shape: extents of the result, known while tracing.
        offset: row and column at which it starts.
        valid_shape: the valid part of the result; by default what is valid in ``x``.
        drop_dims: not for tiles.
        pad_value: what fills the rest of the result; by default it is not valid.
        clamp: cut the valid shape off where the valid region of ``x`` ends.
    """
    if isinstance(x, Tensor):
        return slice_tensor(x, shape, offset, valid_shape, drop_dims, pad_value, clamp)
    tile = _tile("slice", x)
    if drop_dims:
        raise TraceError(
            "slice drops no dimensions of a tile", span=here(), found=f"drop_dims={drop_dims}", hint="use pl.reshape"
        )
    space = tile.space if tile.space is Space.MAT else Space.VEC
    part = _part("slice", tile, static(shape, "the shape of slice"), offset, valid_shape, clamp, space)
    return part if pad_value in (None, PadValue.null) else fillpad(part, pad_value)


def _part(
    name: str, tile: Tile, shape: tuple[int, ...], offset: Any, valid_shape: Any, clamp: bool, space: Space
) -> Any:
    starts = indices(offset, f"the offset of {name}")
    extents = _box(name, tile, shape, starts, valid_shape, clamp)
    if tile.space is Space.MAT:
        _check_fractals(name, starts)
    attributes = {"shape": shape, "valid": _known(extents), "space": space, "extents": extents}
    return emit("extract", (tile,), attributes, (*starts, *extents))


def _check_fractals(name: str, starts: tuple[Any, ...]) -> None:
    if any(isinstance(start, int) and start % FRACTAL_EDGE for start in starts):
        raise LayoutError(
            f"the offset of {name} of a tile in Mat is a multiple of {FRACTAL_EDGE}", span=here(), found=list(starts)
        )


def extract(src: Any, row: Any, col: Any, shape: Any, target_memory: Space | None = None) -> Any:
    tile = _tile("extract", src, "src")
    space = target_memory or (tile.space if tile.space is Space.MAT else Space.VEC)
    if not isinstance(space, Space):
        raise LayoutError("extract takes a memory", span=here(), found=target_memory, expected="such as pl.Mem.Left")
    return _part("extract", tile, static(shape, "the shape of extract"), (row, col), None, False, space)


@checked
def assemble(target: Any, source: Any, offset: Any, atomic: Any = "none") -> Any:
    """A tile with another one written into it; or a tensor, of which a box is written in place.

    Args:
        target: a tile in Vec or Mat, itself unchanged; or a tensor.
        source: a tile of its dtype, in Vec or Acc, whose valid region is written; into a tensor also a tensor.
        offset: where in the target it starts, one entry per dimension.
        atomic: ``pl.AtomicType.Add`` adds a tile to what the tensor holds.

    Returns:
        A new tile, or the tensor.
    """
    if isinstance(target, Tensor):
        return _assemble_tensor(target, source, offset, atomic)
    if getattr(atomic, "value", atomic) != "none":
        raise TraceError(
            "assemble adds in global memory only", span=here(), found=atomic, expected="a tensor as target"
        )
    whole, part = _tile("assemble", target, "target"), _tile("assemble", source, "source")
    starts = indices(offset, "the offset of assemble")
    if len(starts) != whole.ndim:
        raise ShapeError("the offset of assemble has one entry per dimension", span=here(), found=len(starts))
    for start, extent, limit in zip(starts, part.type.valid, whole.type.valid, strict=False):
        known = isinstance(start, int) and DYNAMIC not in (extent, limit)
        if isinstance(start, int) and (start < 0 or (known and start + extent > limit)):
            raise BoundsError(
                "assemble writes outside of the valid region of its target",
                span=here(),
                found=f"{part!r} at {[k if isinstance(k, int) else '?' for k in starts]}",
                expected=f"within {whole!r}",
            )
    if whole.space is Space.MAT:
        _check_fractals("assemble", starts)
    return emit("insert", (whole, part), None, starts)


def _assemble_tensor(target: Tensor, source: Any, offset: Any, atomic: Any) -> Tensor:
    if isinstance(source, Tile):
        from pypto_jit.language.operators import FUNCTIONS

        return FUNCTIONS["store"](source, offset, target, atomic=atomic)
    if not isinstance(source, Tensor):
        raise TraceError("assemble writes a tile or a tensor", span=here(), found=source, expected="a tile")
    if getattr(atomic, "value", atomic) != "none":
        raise TraceError(
            "assemble adds tiles, not tensors", span=here(), found=source, hint="add the tile that was to be stored"
        )
    from pypto_jit.language.assignment import assign

    assign(slice_tensor(target, source.shape, offset, None, None, None, False), source)
    return target


__all__ = ["PadValue", "assemble", "fillpad_expand", "fillpad_inplace", "slice"]
