"""Tensors that a kernel creates, and views: parts and other forms of a tensor, made without a copy.

What a view reads and writes, its tensor does. Shapes are static; a slice that reaches beyond its tensor has a smaller
valid shape, which loads of it take over.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from numbers import Integral
from typing import Any

from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.dtypes import ALL, DType
from pypto_jit.errors import BoundsError, DTypeError, ShapeError, TraceError
from pypto_jit.language.extents import Extent, Side
from pypto_jit.language.indices import indices, integer, static
from pypto_jit.language.scalars import Scalar, as_number, fold, is_number
from pypto_jit.language.signatures import checked
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import Tensor
from pypto_jit.signature import DynVar


@checked
def create_tensor(
    shape: Any, dtype: DType, layout: Any = None, manual_dep: bool = False, init_value: Any = None
) -> Tensor:
    """A new tensor in global memory, for what tasks hand on to each other. It lives as long as the call.

    Args:
        shape: one extent per dimension, known now or when the kernel runs.
        dtype: of the elements.
        layout: accepted where it is None: tensors are row-major.
        manual_dep: accepted and without effect: the data always orders the tasks.
        init_value: what it is filled with; else its contents are undefined.

    Raises:
        TraceError: inside of a task.
        DTypeError: the initial value is no number of this dtype.
    """
    trace = current("pl.create_tensor")
    if trace.task is not None:
        raise TraceError(
            "a tensor is created inside of a task",
            span=here(),
            found=f"pl.create_tensor inside of task '{trace.task.name}', which begins at {trace.task.span}",
            hint="create it before the task; on chip, pl.create_tile makes a tile",
        )
    if dtype not in ALL:
        listed = ", ".join(f"pl.{known}" for known in ALL)
        raise DTypeError("create_tensor takes a dtype", span=here(), found=dtype, expected=listed)
    if layout is not None and getattr(layout, "name", layout) != "ND":
        raise TraceError("a created tensor is row-major", span=here(), found=f"layout={layout!r}", hint="leave it out")
    extents = indices(shape, "the shape of create_tensor")
    if any(isinstance(extent, int) and extent < 0 for extent in extents):
        raise ShapeError("an extent of a created tensor is negative", span=here(), found=list(extents))
    return trace.create_tensor(extents, dtype, _initial(init_value, dtype))


def _initial(value: Any, dtype: DType) -> float | None:
    if value is None:
        return None
    if isinstance(value, Scalar) or not is_number(value):
        raise DTypeError("the init_value of create_tensor is a Python number", span=here(), found=value)
    number = as_number(value)
    if not dtype.is_float:
        low, high = dtype.limits
        if int(number) != number or not low <= number <= high:
            raise DTypeError(f"{value} does not fit {dtype}", span=here(), found=value, expected=f"{low} to {high}")
        return int(number)
    return float(number)


# Views


@checked
def slice_tensor(
    x: Tensor,
    shape: Any,
    offset: Any,
    valid_shape: Any = None,
    drop_dims: Any = None,
    pad_value: Any = None,
    clamp: bool = False,
) -> Tensor:
    """The view of a box of a tensor.

    Args:
        x: the tensor.
        shape: of the box, static, one extent per dimension.
        offset: of the box.
        valid_shape: how far the box lies in the tensor; loads of the view are valid as far.
        drop_dims: dimensions of extent 1 that the view does not have.
        pad_value: not taken: what lies outside of the valid shape is undefined.
        clamp: whether the valid shape ends where the tensor ends.

    Raises:
        BoundsError: the box is known to leave the tensor.
        ShapeError: the numbers of dimensions differ.
    """
    if pad_value is not None:
        raise TraceError(
            "a slice of a tensor is not padded", span=here(), found="pad_value", hint="load it, and pl.fillpad the tile"
        )
    extents = static(shape, "the shape of slice")
    starts = indices(offset, "the offset of slice")
    size = current("pl.slice").shape(x)
    if not len(extents) == len(starts) == len(size):
        raise ShapeError(
            "a slice has one extent and one offset for each dimension of the tensor",
            span=here(),
            found=f"{len(extents)} extents, {len(starts)} offsets",
            expected=f"{len(size)} of each",
        )
    dropped = [integer(axis, "drop_dims") % len(size) for axis in drop_dims or ()]
    if any(extents[axis] != 1 for axis in dropped):
        raise ShapeError("only a dimension of extent 1 is dropped", span=here(), found=f"{dropped} of {list(extents)}")
    axes = [axis for axis in range(len(size)) if axis not in dropped]
    valid = extents if valid_shape is None else indices(valid_shape, "the valid_shape of slice")
    if len(valid) != len(extents):
        raise ShapeError(
            "valid_shape has one extent per dimension", span=here(), found=len(valid), expected=len(extents)
        )
    if clamp:
        valid = tuple(remaining(x, axis, starts[axis], valid[axis]) for axis in range(len(size)))
    elif valid_shape is None:
        valid = inside(x, starts, extents)
    return box(x, starts, extents, valid, axes)


def box(x: Tensor, starts: Sequence[Any], shape: Sequence[int], valid: Sequence[Any], axes: Sequence[int]) -> Tensor:
    """The view of a box of a tensor.

    Args:
        x: the tensor.
        starts, shape, valid: of the box.
        axes: the dimensions that the view has; the others have extent 1.

    Raises:
        BoundsError: the box is known to leave the tensor.
    """
    trace = current("a slice")
    for axis, (start, extent, size) in enumerate(zip(starts, valid, trace.shape(x), strict=True)):
        below = isinstance(start, int) and start < 0
        beyond = size != DYNAMIC and isinstance(start, int) and isinstance(extent, int) and start + extent > size
        if below or beyond:
            raise BoundsError(
                f"a slice leaves {named(x)}",
                span=here(),
                found=f"elements {start} to {start + extent if isinstance(extent, int) else '?'} of dimension {axis}",
                expected=f"within {size if size != DYNAMIC else 'the extent of the tensor'}",
                hint="pl.slice(..., clamp=True) ends where the tensor ends" if beyond else None,
            )
        if isinstance(extent, int) and extent > shape[axis]:
            raise ShapeError(
                "a valid shape lies in its slice", span=here(), found=list(valid), expected=f"within {list(shape)}"
            )
    return trace.slice(x, starts, shape, valid, axes)


def named(x: Tensor) -> str:
    """A tensor as messages call it."""
    return f"'{x.name}'" if x.name.isidentifier() else x.name


def remaining(x: Tensor, axis: int, start: Any, extent: Any) -> Any:
    """An extent, cut off where the tensor ends."""
    trace = current("a slice")
    size = trace.shape(x)[axis] if x.valid is None else x.valid[axis]
    if isinstance(size, int) and size == DYNAMIC:
        size = trace.extent(x, axis)
    if trace.at_most(start + extent, size):
        return extent
    return fold("max", (0, fold("min", (extent, size - start))))


def inside(x: Tensor, starts: Sequence[Any], shape: Sequence[Any]) -> tuple[Any, ...]:
    """The valid extents of a box of a tensor: smaller than its shape where the tensor is a view that ends before."""
    if x.valid is None:
        return tuple(shape)
    return tuple(
        remaining(x, axis, start, extent) for axis, (start, extent) in enumerate(zip(starts, shape, strict=True))
    )


def reshape_tensor(x: Tensor, shape: Any) -> Tensor:
    """A tensor in another shape, of whose extents one may be -1: a view, or of elements that lie apart a copy.

    Raises:
        ShapeError: it has another number of elements.
    """
    from pypto_jit.language.expressions import contiguous, in_order

    trace = current("pl.reshape")
    sides = [trace.side(extent) for extent in indices((shape,) if is_index(shape) else shape, "the shape of reshape")]
    if any(isinstance(side, Extent) for side in sides[1:]):
        raise ShapeError(
            "only the first extent of reshape may be one that is only known at run time",
            span=here(),
            found=sides,
            hint="the others have to be numbers while compiling",
        )
    return trace.reshape(contiguous(in_order(x)), _worked_out(trace.extents(x), sides))


def is_index(entry: Any) -> bool:
    """Whether this is one number, known now or when the kernel runs."""
    return isinstance(entry, (Integral, Scalar)) and not isinstance(entry, bool)


def _worked_out(own: Sequence[Side], sides: Sequence[Side]) -> Sequence[Side]:
    """A shape without -1, which is what the other extents leave of a tensor."""
    numbers = [side for side in sides if isinstance(side, int)]
    if min(numbers, default=1) < -1:
        raise ShapeError("an extent is negative", span=here(), found=list(sides))
    if -1 not in numbers:
        return sides
    known = prod(number for number in numbers if number != -1)
    size = prod(side for side in own if isinstance(side, int))
    # What the others leave of an extent that is only known at run time is a multiple of that.
    unknown = [side for side in own if isinstance(side, Extent)]
    gone = [side for side in sides if isinstance(side, Extent)]
    left = [] if gone == unknown else unknown
    if (gone and left) or len(left) > 1 or numbers.count(-1) > 1 or known == 0 or size % known:
        raise ShapeError(
            "reshape works out one extent, which the others leave",
            span=here(),
            found=f"{list(own)} to {list(sides)}",
            expected="-1 once, and a product of the others that divides the number of elements",
        )
    rest: Side = size // known
    if left:
        rest = left[0] if rest == 1 else current("pl.reshape").side(left[0].make() * rest)
    return [rest if side == -1 else side for side in sides]


def transpose_tensor(x: Tensor, axis1: Any, axis2: Any) -> Tensor:
    """The view of a tensor with two dimensions swapped."""
    trace = current("pl.transpose")
    rank = len(trace.shape(x))
    first, second = (integer(axis, "the axes of transpose") for axis in (axis1, axis2))
    if not (-rank <= first < rank and -rank <= second < rank):
        raise ShapeError(
            "transpose swaps two dimensions of the tensor", span=here(), found=f"{first} and {second} of {rank}"
        )
    axes = list(range(rank))
    axes[first], axes[second] = axes[second], axes[first]
    from pypto_jit.language.expressions import permuted

    return permuted(x, axes)


@checked
def view(x: Tensor, shape: Any = None, valid_shape: Any = None, *, layout: Any = None) -> Tensor:
    """A tensor in another shape, or valid up to an extent only."""
    if not isinstance(x, Tensor):
        raise TraceError("pl.view takes a tensor", span=here(), found=x, hint="pl.reshape takes tiles too")
    if layout is not None and getattr(layout, "name", layout) != "ND":
        raise TraceError("a view keeps the layout", span=here(), found=f"layout={layout!r}", hint="use pl.transpose")
    if shape is not None:
        x = reshape_tensor(x, shape)
    if valid_shape is None:
        return x
    full = current("pl.view").shape(x)
    return slice_tensor(x, full, [0] * len(full), valid_shape)


@checked
def dim(x: Tensor, axis: Any) -> int | Scalar:
    """The extent of a dimension of a tensor: an int, or a traced scalar where it is only known at run time.

    Args:
        x: a tensor.
        axis: an int; negative ones count from the last dimension.

    Raises:
        ShapeError: the tensor has no such dimension.
    """
    return _tensor("dim", x).shape[_axis(x, axis, "the axis of dim")]


def _axis(x: Tensor, axis: Any, what: str) -> int:
    rank, number = x.ndim, integer(axis, what)
    if not -rank <= number < rank:
        raise ShapeError(f"{named(x)} has no dimension {number}", span=here(), found=number, expected=f"below {rank}")
    return number % rank


def bind_dynamic(x: Tensor, axis: Any, dim: Any) -> None:
    """As `Tensor.bind_dynamic`."""
    trace = current("bind_dynamic")
    if not isinstance(dim, DynVar):
        raise TraceError("bind_dynamic takes a name", span=here(), found=dim, expected='such as pl.dynamic("M")')
    if x.type is not None:
        trace.bind_dynamic(x, _axis(x, axis, "the axis of bind_dynamic"), dim)


@checked
def no_dep(x: Tensor) -> Tensor:
    """The tensor itself: what touches its data stays in order all the same."""
    return _tensor("no_dep", x)


@checked
def dump_tag(x: Tensor) -> Tensor:
    """The tensor itself. The mark that PyPTO's dumps select by changes nothing here."""
    return _tensor("dump_tag", x)


def _tensor(name: str, x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise TraceError(f"pl.{name} takes a tensor", span=here(), found=x)
    return x


__all__ = ["create_tensor", "dim", "dump_tag", "no_dep", "view"]
