"""``x[...]`` of a tensor: integers, slices with steps, ``...`` and ``None``, as NumPy takes them.

What is known while tracing counts from the end where it is negative, and slices end where the tensor does. What is only
known when the kernel runs counts from the start and is checked then. Where all steps are positive, a part is a view; a
part that runs backwards is a computed tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.errors import BoundsError, ShapeError, TraceError
from pypto_jit.language.indices import index, integer
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.tensors import box, is_index, named, remaining
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import Tensor, Tile, read, write


@dataclass(frozen=True)
class _Side:
    """What a subscript takes of one dimension.

    Attributes:
        start: of the first element taken, counted upwards.
        extent: how many elements; `DYNAMIC` where that is only known when the kernel runs.
        valid: how many of them lie in the tensor.
        step: from one to the next, positive.
        kept: whether the result has the dimension.
        flipped: whether they are taken from the last one on.
        whole: whether it is all of the dimension.
    """

    start: Any
    extent: int
    valid: Any
    step: int = 1
    kept: bool = True
    flipped: bool = False
    whole: bool = False


def subscript(x: Tensor, subscripts: Any) -> Any:
    """A part of a tensor: an integer drops its dimension; with an integer for every dimension, one element."""
    entries = _entries(x, subscripts)
    if _is_element(x, entries):
        return read(x, _element(x, entries))
    sides, order = _resolved(x, entries)
    part = _view(x, sides, order)
    if not any(sides[axis].flipped for axis in order if axis is not None):
        return part
    from pypto_jit.language.expressions import flip, rearrange

    flipped = _flipped(sides, order)
    # Of one element or none there is nothing to turn around, but it is a copy as others are.
    return flip(part, flipped) if flipped else rearrange(part, range(len(order)))


def assign(x: Tensor, subscripts: Any, value: Any) -> None:
    """``x[a:b, :] = tile``: a store; of a tensor or a number, tensor-level work. ``x[i, j] = scalar``: one element."""
    entries = _entries(x, subscripts)
    if all(isinstance(entry, slice) and entry == slice(None) for entry in entries) and not isinstance(value, Tile):
        from pypto_jit.language.assignment import assign as assign_values

        # All of it is the tensor itself, whose shape may not be known yet.
        assign_values(x, value)
        return
    if _is_element(x, entries):
        write(x, _element(x, entries), value)
        return
    sides, order = _resolved(x, entries)
    part, flipped = _view(x, sides, order), _flipped(sides, order)
    if isinstance(value, Tile):
        _store(value, part, flipped)
        return
    from pypto_jit.language.assignment import assign as assign_values
    from pypto_jit.language.expressions import flip

    if flipped and isinstance(value, Tensor):
        surplus = part.ndim - value.ndim
        value = flip(value, [dim - surplus for dim in flipped if dim >= surplus])
    assign_values(part, value)


def _store(tile: Tile, part: Tensor, flipped: Sequence[int]) -> None:
    from pypto_jit.language.operators import FUNCTIONS

    assert part.type is not None
    shape = part.type.shape
    if flipped:
        raise TraceError(
            "a tile is not written backwards", span=here(), found=tile, hint="store it to a tensor, and assign that"
        )
    leading = tile.shape[: max(0, tile.ndim - len(shape))]
    padded = (1,) * (len(shape) - tile.ndim) + tile.shape[len(leading) :]
    if padded != shape or any(extent != 1 for extent in leading):
        raise ShapeError("a tile is assigned to a part of another shape", span=here(), found=tile, expected=list(shape))
    FUNCTIONS["store"](tile, [0] * len(shape), part)


# What is asked for


def _entries(x: Tensor, subscripts: Any) -> list[Any]:
    """One subscript for each dimension, and None for new ones; ``...`` and what is left out are all of a dimension.

    Raises:
        ShapeError: there are more than dimensions.
        TraceError: one is no integer, slice, ``...`` or None.
    """
    entries = list(subscripts) if isinstance(subscripts, tuple) else [subscripts]
    if entries == [slice(None)]:
        return entries
    for entry in entries:
        if not (entry is None or entry is Ellipsis or isinstance(entry, slice) or is_index(entry)):
            raise TraceError(
                "a tensor is subscripted with integers, slices, ... and None",
                span=here(),
                found=repr(entry),
                expected="such as x[i, a:b]",
                hint="pl.where(mask, x, y) chooses by a mask" if isinstance(entry, Tensor) else None,
            )
    rank = len(current("a subscript").shape(x))
    given = sum(entry is not None and entry is not Ellipsis for entry in entries)
    dots = [place for place, entry in enumerate(entries) if entry is Ellipsis]
    if len(dots) > 1:
        raise TraceError("a subscript has one ... at most", span=here(), found=f"{len(dots)} of them")
    if given > rank:
        raise ShapeError("more subscripts than dimensions", span=here(), found=f"{given} of a tensor with {rank}")
    rest = [slice(None)] * (rank - given)
    place = dots[0] if dots else len(entries)
    return [*entries[:place], *rest, *entries[place + 1 :]]


def _is_element(x: Tensor, entries: Sequence[Any]) -> bool:
    return len(entries) == len(current("a subscript").shape(x)) and all(map(is_index, entries))


def _element(x: Tensor, entries: Sequence[Any]) -> list[Any]:
    return [_index(x, axis, entry) for axis, entry in enumerate(entries)]


def _resolved(x: Tensor, entries: Sequence[Any]) -> tuple[list[_Side], list[int | None]]:
    """What is taken of each dimension, and which of them each dimension of the result is, None for a new one."""
    sides: list[_Side] = []
    order: list[int | None] = []
    for entry in entries:
        axis = len(sides)
        if entry is None:
            order.append(None)
        elif is_index(entry):
            sides.append(_Side(_index(x, axis, entry), 1, 1, kept=False))
        else:
            sides.append(_slice(x, axis, entry))
            order.append(axis)
    return sides, order


def _index(x: Tensor, axis: int, entry: Any) -> Any:
    """A subscript counted from the start; what is only known when the kernel runs as it is.

    Raises:
        BoundsError: it lies outside of the tensor.
    """
    found, size = index(entry, "a subscript"), current("a subscript").shape(x)[axis]
    if not isinstance(found, int):
        return found
    if size == DYNAMIC:
        return found if found >= 0 else current("a subscript").extent(x, axis) + found
    if not -size <= found < size:
        raise BoundsError(
            f"a subscript leaves {named(x)}",
            span=here(),
            found=f"{found} in dimension {axis}",
            expected=f"{-size} to {size - 1}",
        )
    return found % size


def _slice(x: Tensor, axis: int, entry: slice) -> _Side:
    size = current("a subscript").shape(x)[axis]
    step = 1 if entry.step is None else integer(entry.step, "the step of a slice")
    if step == 0:
        raise TraceError("the step of a slice is zero", span=here(), found=f"{entry.start}:{entry.stop}:0")
    start, stop = (None if bound is None else index(bound, "a slice") for bound in (entry.start, entry.stop))
    if size != DYNAMIC and not isinstance(start, Scalar) and not isinstance(stop, Scalar):
        taken = range(*slice(start, stop, step).indices(size))
        first, count = (taken[0] if step > 0 else taken[-1]) if taken else 0, len(taken)
        whole = stop is None and step == 1 and x.valid is not None
        valid = remaining(x, axis, first, count) if whole else count
        return _Side(first, count, valid, abs(step), flipped=step < 0, whole=(count, step) == (size, 1))
    return _running(x, axis, entry, step)


def _running(x: Tensor, axis: int, entry: slice, step: int) -> _Side:
    """A slice whose bounds are only known when the kernel runs."""
    trace = current("a subscript")
    size = trace.shape(x)[axis]
    size = trace.extent(x, axis) if size == DYNAMIC else size
    bounds = [None if bound is None else index(bound, "a slice") for bound in (entry.start, entry.stop)]
    bounds = [size + bound if isinstance(bound, int) and bound < 0 else bound for bound in bounds]
    if step > 0:
        low, high = 0 if bounds[0] is None else bounds[0], size if bounds[1] is None else bounds[1]
    else:
        low, high = 0 if bounds[1] is None else bounds[1] + 1, size if bounds[0] is None else bounds[0] + 1
    extent = trace.distance(low, high)
    if extent is None:
        if step == 1:
            return _Side(low, DYNAMIC, high - low, whole=entry == slice(None))
        raise ShapeError(
            "a slice with a step has an extent that is known when the kernel is compiled",
            span=here(),
            found=f"a step of {step}",
            hint="pl.slice(x, shape, offset, valid_shape=...) takes the largest extent and the run-time one",
        )
    count = max(0, -(-extent // abs(step)))
    if step == 1:
        if entry.stop is None and x.valid is not None:
            return _Side(low, count, remaining(x, axis, low, count))
        # The end may be a minimum, of which one part gives the extent.
        return _Side(low, count, count if trace.at_most(low + count, high) else high - low)
    if not trace.at_most(low + extent, high):
        raise ShapeError(
            "a slice with a step lies inside of its tensor", span=here(), found=f"a step of {step}, up to {high!r}"
        )
    first = low if step > 0 else high - 1 - (count - 1) * -step
    return _Side(first, count, count, abs(step), flipped=step < 0)


def _flipped(sides: Sequence[_Side], order: Sequence[int | None]) -> list[int]:
    """The dimensions of the result that run backwards."""
    return [k for k, axis in enumerate(order) if axis is not None and sides[axis].flipped and sides[axis].extent > 1]


# Views


def _view(x: Tensor, sides: Sequence[_Side], order: Sequence[int | None]) -> Tensor:
    """The view of what is taken, upwards."""
    shape = [_span(side.extent, side.step) for side in sides]
    valid = [side.valid if side.step == 1 else span for side, span in zip(sides, shape, strict=True)]
    kept = [axis for axis, side in enumerate(sides) if side.kept]
    steps = [sides[axis].step for axis in kept]
    part = x if _is_all(x, sides) else box(x, [side.start for side in sides], shape, valid, kept)
    if None not in order and all(step == 1 for step in steps):
        return part
    trace = current("a subscript")
    dims = [-1 if axis is None else kept.index(axis) for axis in order]
    unit = all(step == 1 for step in steps)
    trace.shape(part)
    assert part.type is not None
    if part.valid is not None or DYNAMIC in part.type.shape or DYNAMIC in part.type.strides:
        if unit:
            from pypto_jit.language.expressions import rearrange

            return rearrange(part, dims)
        raise ShapeError(
            "a slice with a step needs the extents and strides of its tensor when the kernel is compiled",
            span=here(),
            found=part,
        )
    extents = [1 if axis is None else sides[axis].extent for axis in order]
    strides = [1 if dim < 0 else part.type.strides[dim] * steps[dim] for dim in dims]
    return trace.restride(part, extents, strides, dims if unit else None)


def _span(extent: int, step: int) -> int:
    """How far elements reach."""
    return (extent - 1) * step + 1 if extent > 0 else extent


def _is_all(x: Tensor, sides: Sequence[_Side]) -> bool:
    """Whether each dimension is taken whole."""
    return x.valid is None and all(side.kept and side.whole for side in sides)


__all__ = ["assign", "subscript"]
