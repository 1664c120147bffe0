"""Tensor-level work: operators on whole tensors, which record what is to be computed; the compiler makes kernels of it.

A computed tensor lies nowhere until the compiler decides so. It may be returned, written to a tensor with
``out[:] = value``, or loaded from as any other.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Sequence
from typing import Any

from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rows.families import EXPANDED, WITH_SCALAR
from pypto_jit.dialects.rows.sets import ROUND_MODES
from pypto_jit.dialects.rules.tensors import broadcast, map_type, reduce_type, tensor_type
from pypto_jit.dialects.types import DYNAMIC, TensorType, is_contiguous
from pypto_jit.dtypes import FP32, INT32, DType
from pypto_jit.errors import DTypeError, PyptoError, ShapeError, TraceError
from pypto_jit.language.extents import Extent, Side, made, static_shape
from pypto_jit.language.indices import indices
from pypto_jit.language.scalars import Scalar, as_number, cast, is_number
from pypto_jit.language.tracing import current, here
from pypto_jit.language.values import Tensor, Tile


class Expression(Tensor):
    """A computed tensor."""

    __slots__ = ()

    def __repr__(self) -> str:
        assert self.type is not None
        return f"Tensor[{list(self.type.shape)}, {self.type.dtype}] (computed)"


def source(name: str, value: Any) -> Tensor:
    """An operand that must be a tensor of a known shape.

    Raises:
        TraceError: it is none.
        ShapeError: an extent is only known at run time, or part of it lies outside of its tensor.
    """
    if not isinstance(value, Tensor):
        found = value if isinstance(value, (Tile, Scalar)) else f"{type(value).__name__} {value!r}"
        hint = "store the tile to a tensor first, or load the tensor" if isinstance(value, Tile) else None
        raise TraceError(f"{name} takes a tensor", span=here(), found=found, expected="a tensor", hint=hint)
    shape = current(f"pl.{name}").shape(value)
    if DYNAMIC in shape or value.valid is not None:
        raise ShapeError(
            f"{name} of whole tensors needs their extents when the kernel is compiled",
            span=here(),
            found=repr(value),
            hint="work on tiles: pl.load with valid_shape, and pl.store",
        )
    return value


def operand_of(name: str, value: Any) -> Tensor:
    """As `source`, of any extents."""
    if isinstance(value, Tensor):
        current(f"pl.{name}").shape(value)
        return value
    return source(name, value)


def sides_of(tensor: Tensor) -> tuple[Side, ...]:
    """The extents of a tensor."""
    return current("a tensor").extents(tensor)


def in_order(tensor: Tensor) -> Tensor:
    """A view with another order of dimensions as the computed tensor, which tiles can transpose; any other as it is."""
    found = None if isinstance(tensor, Expression) else current("a tensor").permutation(tensor)
    return tensor if found is None else rearrange(found[0], found[1])


def contiguous(tensor: Tensor) -> Tensor:
    """A tensor whose elements lie one after another: itself, or a computed one."""
    kind = tensor.type
    if kind is None or tensor.valid is not None or is_contiguous(kind):
        return tensor
    return rearrange(tensor, range(kind.rank))


def type_of(tensor: Tensor) -> TensorType:
    """The type of a tensor, which is known; of a view that ends before its shape does, of what lies within it."""
    assert tensor.type is not None
    if tensor.valid is None:
        return tensor.type
    return TensorType(static_shape(sides_of(tensor)), tensor.type.dtype, tensor.type.strides)


def record(
    operation: str,
    operands: Sequence[Tensor | Scalar],
    attributes: dict[str, str | int | tuple[int, ...]],
    result: TensorType,
    sides: Sequence[Side] | None = None,
) -> Expression:
    """Record a tensor-level operation; ``sides`` are the result's extents where they are not all in its type."""
    trace = current(f"pl.{operation}")
    if operation != "rearrange":
        operands = [in_order(operand) if isinstance(operand, Tensor) else operand for operand in operands]
    return trace.express(operation, operands, attributes, result, sides if DYNAMIC in result.shape else None)


def broadcast_sides(name: str, operands: Sequence[Any]) -> tuple[Side, ...]:
    """The extents that the tensors among the operands broadcast to."""
    with at_the_line():
        return broadcast(name, [sides_of(operand) for operand in operands if isinstance(operand, Tensor)])


class at_the_line:
    """Gives an error of a rule the user's line."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, PyptoError):
            error.span = error.span or here()


def elementwise(name: str, *operands: Any) -> Tensor:
    """A row of the operator table, element by element; shapes broadcast, and one operand may be a scalar.

    Raises:
        ShapeError, DTypeError, TraceError: the operands do not fit.
    """
    from pypto_jit.language.integers import SUBSTITUTES, WIDER, narrowed, widened

    kinds = kinds_of(name, operands)
    with at_the_line():
        result = map_type(BY_NAME[name], kinds)
        if result.dtype in WIDER:
            return narrowed(name, elementwise(name, *widened(operands, result.dtype)), result.dtype)
        if name in SUBSTITUTES and not result.dtype.is_float and not has_row(name, result.dtype):
            return SUBSTITUTES[name](*operands)
        check_row(name, result.dtype)
    values = [operand if isinstance(operand, Tensor) else scalar_of(operand, result.dtype) for operand in operands]
    return record("map", values, {"row": name}, result, broadcast_sides(name, operands))


def kinds_of(name: str, operands: Sequence[Any]) -> list[TensorType | DType]:
    """The types of tensors, and the dtypes of scalars and numbers."""
    kinds: list[TensorType | DType] = []
    for operand in operands:
        if isinstance(operand, Scalar):
            kinds.append(operand.dtype)
        elif is_number(operand):
            kinds.append(_number_dtype(operand))
        else:
            kinds.append(type_of(operand_of(name, operand)))
    return kinds


def _number_dtype(value: Any) -> DType:
    return FP32 if isinstance(as_number(value), float) else INT32


def scalar_of(value: Any, dtype: DType) -> Scalar:
    """A scalar operand in what the result is computed in."""
    computed = FP32 if dtype.is_float else dtype
    if isinstance(value, Scalar):
        return cast(value, computed)
    if not is_number(value):
        found = repr(value) if isinstance(value, Tensor) else f"{type(value).__name__} {value!r}"
        raise TraceError("a tensor is filled with a number", span=here(), found=found, expected="a number")
    number = as_number(value)
    return current("a scalar").constant(float(number) if computed.is_float else int(number), computed)


def has_row(name: str, dtype: DType) -> bool:
    """Whether the machine has a row for a dtype; floats are computed in FP32."""
    return (FP32 if dtype.is_float else dtype) in BY_NAME[name].dtypes[current(f"pl.{name}").target.name]


def check_row(name: str, dtype: DType) -> None:
    """Raise a DTypeError where the machine has no such operator."""
    if has_row(name, dtype):
        return
    target = current(f"pl.{name}").target
    hint = f"convert first: pl.cast(tensor, pl.INT32), or pl.{name} of floats"
    if dtype.is_float:
        hint = "of comparisons: a * b for both, pl.maximum(a, b) for either, 1 - a for not"
    raise DTypeError(
        f"{name} does not take {dtype} on {target.name}",
        found=dtype,
        expected=", ".join(sorted(known.name for known in BY_NAME[name].dtypes[target.name])),
        hint=hint,
    )


def convert(tensor: Any, dtype: DType, mode: str) -> Tensor:
    """The tensor in another dtype."""
    if mode not in ROUND_MODES:
        raise TraceError("unknown rounding mode", span=here(), found=mode, expected=", ".join(ROUND_MODES))
    kind = type_of(operand_of("cast", tensor))
    if kind.dtype == dtype:
        return tensor
    result = tensor_type(kind.shape, dtype)
    return record("map", [tensor], {"row": "cast", "mode": mode}, result, sides_of(tensor))


def axes_of(name: str, tensor: Tensor, axis: Any) -> tuple[int, ...]:
    """The axes that an ``axis`` argument names: an integer, several, or all."""
    rank = type_of(tensor).rank
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    try:
        numbers = [python_operator.index(each) for each in given]
    except TypeError:
        raise TraceError(f"the axis of {name} is an integer, or a tuple of them", span=here(), found=axis) from None
    return tuple(number + rank if -rank <= number < 0 else number for number in numbers)


# Rows that are reduced on their own before the dimensions around them.
_LONG_ROW = 64
# What reductions are of no elements.
_OF_NOTHING = {"sum": 0, "prod": 1}


def _kept(rank: int, axes: Sequence[int]) -> list[int]:
    """The dimensions that put reduced axes back, with extent 1."""
    numbers = iter(range(rank))
    return [-1 if axis in axes else next(numbers) for axis in range(rank)]


def reduce(name: str, tensor: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """``sum``, ``max``, ``min`` or ``prod`` over some axes; over all of them where none is given."""
    from pypto_jit.language.integers import WIDER, narrowed, widened

    kind = type_of(operand_of(name, tensor))
    axes = axes_of(name, tensor, axis)
    if kind.dtype in WIDER:
        (wide,) = widened([tensor], kind.dtype)
        return narrowed(name, reduce(name, wide, axis, keepdims), kind.dtype)
    with at_the_line():
        result = reduce_type(name, kind, axes, bool(keepdims))
        check_row(f"row_{name}", kind.dtype)
    if not axes:
        return tensor
    sides: list[Side] = [
        1 if k in axes else side for k, side in enumerate(sides_of(tensor)) if keepdims or k not in axes
    ]
    if name in _OF_NOTHING and any(kind.shape[axis] == 0 for axis in axes):
        return filled(sides, kind.dtype, _OF_NOTHING[name])
    if len(axes) > 1 and kind.rank - 1 in axes and (kind.shape[-1] >= _LONG_ROW or kind.shape[-1] == DYNAMIC):
        # Rows first: they are many, and so many blocks.
        outer = tuple(axis for axis in axes if axis != kind.rank - 1)
        reduced = reduce(name, reduce(name, tensor, -1), outer)
        return rearrange(reduced, _kept(kind.rank, axes)) if keepdims else reduced
    return record("reduce", [tensor], {"row": name, "axes": tuple(sorted(axes))}, result, sides)


def mean_of(tensor: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over some axes; over all of them where none is given."""
    kind = type_of(operand_of("mean", tensor))
    if not kind.dtype.is_float:
        tensor = convert(tensor, FP32, "rint")
    total = reduce("sum", tensor, axis, keepdims)
    count: Any = 1
    for extent in made([sides_of(tensor)[dim] for dim in axes_of("mean", tensor, axis)]):
        count = count * extent
    if isinstance(count, Scalar):
        return elementwise("div", total, cast(count, FP32))
    return elementwise("mul", total, 1.0 / count if count else float("nan"))


def rearrange(tensor: Any, dims: Sequence[int], shape: Sequence[Side] | None = None) -> Tensor:
    """A tensor with its dimensions in another order.

    Args:
        tensor: which.
        dims: for each dimension of the result the tensor's, or -1 for a new one; left out are those of extent 1.
        shape: of the result; new dimensions have extent 1 where it is not given.
    """
    kind, own = type_of(operand_of("transpose", tensor)), sides_of(tensor)
    sides = [1 if dim < 0 else own[dim] for dim in dims] if shape is None else list(shape)
    new = [s.make() for dim, s in zip(dims, sides, strict=True) if dim < 0 and isinstance(s, Extent)]
    result = tensor_type(static_shape(sides), kind.dtype)
    return record("rearrange", [tensor, *new], {"dims": tuple(dims)}, result, sides)


def flip(tensor: Any, dims: Sequence[int]) -> Tensor:
    """A tensor with these dimensions from their last element to their first."""
    kind, sides = type_of(operand_of("flip", tensor)), sides_of(tensor)
    dims = tuple(dim for dim in dims if sides[dim] not in (0, 1))
    if not dims:
        return tensor
    result = tensor_type(kind.shape, kind.dtype)
    return record("rearrange", [tensor], {"dims": tuple(range(kind.rank)), "flipped": dims}, result, sides)


def expand(tensor: Any, shape: Sequence[Any]) -> Tensor:
    """A tensor broadcast to a shape.

    Raises:
        ShapeError: it does not broadcast to it.
    """
    kind, own = type_of(operand_of("expand", tensor)), sides_of(tensor)
    goal = tuple(current("pl.expand").side(extent) for extent in indices(shape, "the shape of expand"))
    with at_the_line():
        if len(goal) < kind.rank or broadcast("expand", [own, goal]) != goal:
            raise ShapeError("a tensor does not broadcast to this shape", found=list(own), expected=list(goal))
    aligned = [None] * (len(goal) - kind.rank) + list(range(kind.rank))
    dims = [-1 if dim is None or kind.shape[dim] == 1 else dim for dim in aligned]
    return rearrange(tensor, dims, goal)


def filled(shape: Sequence[Side], dtype: DType, value: Any) -> Tensor:
    """A tensor of one value."""
    from pypto_jit.language.integers import WIDER, narrowed

    if dtype in WIDER:
        return narrowed("add", filled(shape, WIDER[dtype], value), dtype)
    scalar, extents = scalar_of(value, dtype), [side.make() for side in shape if isinstance(side, Extent)]
    return record("fill", [scalar, *extents], {}, tensor_type(static_shape(shape), dtype), shape)


# Row of a tile and a scalar -> the row of two tiles.
_OF_SCALAR = {row: name for name, (row, _) in WITH_SCALAR.items()}


# Rows that are no elementwise work, and which whole tensors take as well.
_OTHERS = frozenset({"cast", "cmp", "sel", "concat", "row_expand", "col_expand", "reshape", "transpose", "matmul"})
_REDUCTIONS = ("sum", "max", "min", "prod")


def takes_tensors(name: str) -> bool:
    """Whether the function of a row of the operator table takes whole tensors."""
    kind, _, rest = name.partition("_")
    spread = kind in ("row", "col") and (rest in _REDUCTIONS or rest.startswith("expand_"))
    return spread or name in _OTHERS or BY_NAME[name].rule == "elementwise"


def of_row(name: str, operands: Sequence[Any], attributes: dict[str, Any]) -> Tensor:
    """What a row of the operator table does with whole tensors.

    Raises:
        TraceError: it is for tiles only.
    """
    kind, _, rest = name.partition("_")
    if name == "cast":
        return convert(operands[0], attributes["dtype"], attributes["mode"])
    if name in ("cmp", "cmps"):
        from pypto_jit.language.selection import compared

        return compared(attributes["mode"], *operands)
    if name in ("sel", "sels"):
        from pypto_jit.language.selection import where

        return where(*operands)
    if name == "concat":
        from pypto_jit.language.joining import concatenated

        return concatenated(operands, attributes.get("axis", -1))
    if name in ("matmul_acc", "matmul_bias"):
        from pypto_jit.language import products

        return (products.accumulated if name == "matmul_acc" else products.biased)(*operands)
    if name == "rdivs":
        return elementwise("div", operands[1], operands[0])
    if name in ("row_expand", "col_expand"):
        return expand(operands[1], made(sides_of(operand_of(name, operands[0]))))
    if rest.startswith("expand_"):
        spread = rest.removeprefix("expand_")
        return elementwise(EXPANDED[spread], *operands)
    if kind in ("row", "col") and rest in _REDUCTIONS:
        return reduce(rest, operands[0], -1 if kind == "row" else -2, True)
    if rest in ("argmax", "argmin"):
        from pypto_jit.language.extremes import place

        return place(rest, operands[0], -1 if kind == "row" else -2, True)
    if BY_NAME[name].rule == "elementwise":
        return elementwise(_OF_SCALAR.get(name, name), *operands)
    tensor = next(operand for operand in operands if isinstance(operand, Tensor))
    raise TraceError(
        f"{name} takes tiles",
        span=here(),
        found=repr(tensor),
        expected="a tile",
        hint=f"load it first: pl.load({'x' if isinstance(tensor, Expression) else tensor.name}, offsets, shape)",
    )


def transposed(tensor: Any) -> Tensor:
    """A tensor with its last two dimensions exchanged; one of a single dimension as it is."""
    rank = type_of(operand_of("transpose", tensor)).rank
    return tensor if rank < 2 else permuted(tensor, [*range(rank - 2), rank - 1, rank - 2])


def permuted(tensor: Tensor, axes: Sequence[int]) -> Tensor:
    """A tensor with its dimensions in another order: a view, or of what is computed another computed one."""
    return rearrange(tensor, axes) if isinstance(tensor, Expression) else current("pl.transpose").permute(tensor, axes)
