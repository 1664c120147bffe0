"""Traced tensors and tiles, and what Python's operators do with tiles."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, NoReturn

from pypto_jit.dialects.operators import BY_NAME, Operator
from pypto_jit.dialects.rows.families import WITH_SCALAR
from pypto_jit.dialects.types import DYNAMIC, TensorType, TileType
from pypto_jit.dtypes import DType
from pypto_jit.errors import ControlFlowError, DTypeError, PyptoError, Span, TraceError
from pypto_jit.language.annotations import TensorAnnotation, TileAnnotation, tensor_annotation, tile_annotation
from pypto_jit.language.attributes import Attributed
from pypto_jit.language.indices import element
from pypto_jit.language.needs import need
from pypto_jit.language.scalars import Scalar, as_number, binary, cast, is_number
from pypto_jit.language.tensor_operators import TensorOperators
from pypto_jit.language.tracing import current, here
from pypto_jit.targets import Space


class Tensor(TensorOperators):
    """A tensor in global memory, as the kernel sees it. ``pl.load`` reads a box of it, ``pl.store`` writes one.

    ``pl.Tensor`` annotates an input, ``pl.Tensor[[16, 32], pl.FP32]`` one of exactly this shape and dtype.

    Attributes:
        name: of the parameter; of a view, that of the tensor it shows.
        type: shape, dtype and strides; None for an omitted output whose type is not known yet.
        root: the tensor that a view shows a part or another form of; None where it is no view.
        valid: the extents up to which a view lies in its tensor, ints or traced scalars; None where it lies inside.
    """

    __slots__ = ("handle", "name", "region", "root", "type", "valid")
    _called = "a tensor"

    is_tensor_annotation = True

    def __init__(
        self, handle: Any, name: str, type: TensorType | None, region: Any, root: Tensor | None = None
    ) -> None:
        self.handle = handle
        self.name = name
        self.type = type
        self.region = region
        self.root = root
        self.valid: tuple[Any, ...] | None = None

    def __class_getitem__(cls, item: Any) -> TensorAnnotation:
        return tensor_annotation(item)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents: plain ints; traced scalars where an extent is only known at run time."""
        trace = current("the shape of a tensor")
        extents = trace.shape(self)
        return tuple(trace.extent(self, k) if extent == DYNAMIC else extent for k, extent in enumerate(extents))

    @property
    def dtype(self) -> DType:
        """The element type."""
        current("the dtype of a tensor").shape(self)
        assert self.type is not None
        return self.type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(current("the rank of a tensor").shape(self))

    rank = ndim

    def bind_dynamic(self, axis: Any, dim: Any) -> None:
        """Have an extent be known only when the kernel runs, under a name: ``x.bind_dynamic(0, pl.dynamic("M"))``.

        Raises:
            TraceError: it is no name, or the dimension has another one.
            ShapeError: there is no such dimension.
        """
        from pypto_jit.language.tensors import bind_dynamic

        bind_dynamic(self, axis, dim)

    def __repr__(self) -> str:
        return f"Tensor '{self.name}'" if self.type is None else f"Tensor[{list(self.type.shape)}, {self.type.dtype}]"

    def __getitem__(self, subscripts: Any) -> Any:
        from pypto_jit.language.subscripts import subscript

        return subscript(self, subscripts)

    def __setitem__(self, subscripts: Any, value: Any) -> None:
        from pypto_jit.language.subscripts import assign

        assign(self, subscripts, value)

    def __iter__(self) -> NoReturn:
        raise _no_operator("a tensor is not iterated over", "for i in pl.range(...), and pl.load")

    def __len__(self) -> Any:
        return self.shape[0]

    def __bool__(self) -> NoReturn:
        raise _no_truth("tensor")


class UnknownExtent:
    """A valid extent that is only known where it was made: that of a tile which a loop or branch carries."""


class Tile(Attributed):
    """A tile on chip. Operators take tiles and give new ones; no tile is ever changed.

    ``pl.Tile[[16, 32], pl.FP32]`` documents a local variable.

    Attributes:
        type: shape, dtype, memory and static valid shape.
        valid_extents: one int, traced scalar or `UnknownExtent` per dimension.
        span: the user's line that made it.
    """

    __slots__ = ("handle", "region", "span", "type", "valid_extents")
    _called = "a tile"

    # NumPy scalars and arrays must leave their operators to ours.
    __array_ufunc__ = None

    def __init__(
        self, handle: Any, type: TileType, valid_extents: tuple[Any, ...], span: Span | None, region: Any
    ) -> None:
        self.handle = handle
        self.type = type
        self.valid_extents = valid_extents
        self.span = span
        self.region = region

    def __class_getitem__(cls, item: Any) -> TileAnnotation:
        return tile_annotation(item)

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents: plain ints."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def space(self) -> Space:
        """The memory it lies in."""
        return self.type.space

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.type.shape)

    rank = ndim

    @property
    def valid_shape(self) -> tuple[Any, ...]:
        """The meaningful part: ints where known, else traced scalars."""
        if any(isinstance(extent, UnknownExtent) for extent in self.valid_extents):
            raise TraceError(
                "the valid shape of this tile is not known here",
                span=here(),
                found=self.type.describe(),
                hint="a tile carried around a loop has the valid shape of its first value: compute it again from there",
            )
        return self.valid_extents

    def __repr__(self) -> str:
        return self.type.describe()

    def __add__(self, other: Any) -> Any:
        return arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return arithmetic("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return arithmetic("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return arithmetic("div", other, self)

    def __matmul__(self, other: Any) -> Any:
        return emit("matmul", (self, other))

    def __neg__(self) -> Any:
        return emit("neg", (self,))

    def __pos__(self) -> Tile:
        return self

    def __abs__(self) -> Any:
        return emit("abs", (self,))

    def __bool__(self) -> NoReturn:
        raise _no_truth("tile")

    def __iter__(self) -> NoReturn:
        raise _no_operator("a tile is not iterated over", "operators on whole tiles, or pl.load of smaller ones")

    def __getitem__(self, index: Any) -> Any:
        if not _is_element(index):
            raise _no_operator("a part of a tile is not subscripted", "pl.load with the offsets of the part you need")
        return read(self, index)

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise _no_operator("a tile is never changed", "tile = pl.write(tile, indices, value), which gives a new tile")

    __hash__ = object.__hash__


def _refuse(symbol: str, instead: str) -> Callable[[Tile, object], NoReturn]:
    def method(self: Tile, other: object) -> NoReturn:
        raise _no_operator(f"tiles have no '{symbol}'", instead)

    return method


for _names, _symbol, _instead in (
    (("__lt__",), "<", "pl.cmp and pl.sel, or pl.maximum and pl.minimum"),
    (("__le__",), "<=", "pl.cmp and pl.sel, or pl.maximum and pl.minimum"),
    (("__gt__",), ">", "pl.cmp and pl.sel, or pl.maximum and pl.minimum"),
    (("__ge__",), ">=", "pl.cmp and pl.sel, or pl.maximum and pl.minimum"),
    (("__eq__",), "==", "`is` to compare identity"),
    (("__ne__",), "!=", "`is not` to compare identity"),
    (("__pow__", "__rpow__"), "**", "t * t, or pl.exp and pl.log"),
    (("__floordiv__", "__rfloordiv__"), "//", "/ and pl.cast(..., mode='floor')"),
    (("__mod__", "__rmod__"), "%", "a - pl.cast(a / b, ..., mode='floor') * b"),
):
    for _name in _names:
        setattr(Tile, _name, _refuse(_symbol, _instead))
for _method, _row in (("and", "and_"), ("or", "or_"), ("xor", "xor"), ("lshift", "shl"), ("rshift", "shr")):
    setattr(Tile, f"__{_method}__", lambda self, other, _row=_row: arithmetic(_row, self, other))
    setattr(Tile, f"__r{_method}__", lambda self, other, _row=_row: arithmetic(_row, other, self))
Tile.__invert__ = lambda self: emit("not_", (self,))  # type: ignore[attr-defined]
# Assigning __eq__ outside of the class body leaves __hash__ alone; comparison by identity keeps tiles usable as keys.


def _no_operator(message: str, instead: str) -> TraceError:
    return TraceError(message, span=here(), hint=f"use {instead}")


def _no_truth(kind: str) -> ControlFlowError:
    return ControlFlowError(
        f"a {kind} has no truth value",
        span=here(),
        expected="a condition on scalars",
        hint="elements cannot steer control flow; choose between values with pl.maximum / pl.minimum",
    )


def _is_element(index: Any) -> bool:
    """Whether a subscript is made of integers only."""
    entries = index if isinstance(index, tuple) else (index,)
    return all(isinstance(entry, (int, Integral, Scalar)) for entry in entries)


def _as_index(index: Any) -> Any:
    return index if isinstance(index, (tuple, list)) else (index,)


def read(x: Any, index: Any) -> Any:
    """One element of a tensor or tile, as a traced scalar of its dtype."""
    trace = current("pl.read")
    if isinstance(x, Tile):
        return emit("read_tile", (x,), None, element(_as_index(index), x.type.valid, "a tile's valid region"))
    if not isinstance(x, Tensor):
        raise _wrong_operand(BY_NAME["read"], "x", "tensor or tile", x)
    return emit("read", (x,), None, element(_as_index(index), trace.shape(x), f"tensor '{x.name}'"))


def write(x: Any, index: Any, value: Any) -> Any:
    """One element becomes a scalar: of a tensor, which is returned, or of a tile, which gives a new one."""
    trace = current("pl.write")
    if isinstance(x, Tile):
        place = element(_as_index(index), x.type.valid, "a tile's valid region")
        return emit("write_tile", (x, tile_scalar("write", value, x.dtype)), None, place)
    if not isinstance(x, Tensor):
        raise _wrong_operand(BY_NAME["write"], "x", "tensor or tile", x)
    place = element(_as_index(index), trace.shape(x), f"tensor '{x.name}'")
    emit("write", (tile_scalar("write", value, x.dtype), x), None, place)
    return x


def emit(name: str, operands: tuple[Any, ...], attributes: dict[str, Any] | None = None, indices: Any = ()) -> Any:
    """Record the row of this name. Operands that are no traced values are refused with the user's line."""
    row = BY_NAME[name]
    trace = current(f"pl.{name}")
    if all(operand.kind in ("tile", "scalar") for operand in row.operands) and _whole_tensors(operands):
        from pypto_jit.language.expressions import of_row

        return of_row(name, operands, attributes or {})
    named = [operand for operand in row.operands if operand.kind != "indices"]
    for operand, value in zip(named, operands, strict=True):
        expected = {"tile": Tile, "tensor": Tensor, "scalar": Scalar}.get(operand.kind, object)
        if not isinstance(value, expected):
            raise _wrong_operand(row, operand.name, operand.kind, value)
    return trace.emit(row, operands, attributes or {}, indices)


def _whole_tensors(operands: tuple[Any, ...]) -> bool:
    """Whether an operator is given tensors instead of tiles."""
    return any(isinstance(value, Tensor) for value in operands) and not any(isinstance(v, Tile) for v in operands)


def _wrong_operand(row: Operator, name: str, kind: str, value: object) -> PyptoError:
    hint = None
    if kind == "tile" and isinstance(value, Tensor):
        hint = f"load it first: pl.load({value.name}, offsets, shape)"
    elif kind == "tensor" and isinstance(value, Tile):
        hint = "a tensor is a parameter of the kernel; tiles need no load"
    found = value if isinstance(value, (Tensor, Tile, Scalar)) else f"{type(value).__name__} {value!r}"
    return TraceError(
        f"{row.name} takes a {kind} as '{name}'", span=here(), found=found, expected=f"a {kind}", hint=hint
    )


def tile_scalar(name: str, value: Any, dtype: DType) -> Scalar:
    """A scalar operand in a tile's dtype: a constant, or a traced scalar converted.

    Raises:
        DTypeError: a fraction for a tile of integers, a constant out of range, or a traced float for integers.
        TraceError: no scalar at all.
    """
    trace = current(f"pl.{name}")
    if isinstance(value, Scalar):
        if value.dtype.is_float and not dtype.is_float:
            need(value, f"a scalar of {name} on a {dtype} tile")
            raise DTypeError(
                f"{name} of a {dtype} tile takes an integer scalar",
                span=here(),
                found=value,
                hint=f"convert it with pl.cast(scalar, pl.{dtype.name})",
            )
        return cast(value, dtype)
    if not is_number(value):
        raise TraceError(f"{name} takes a tile or a scalar", span=here(), found=f"{type(value).__name__} {value!r}")
    number = as_number(value)
    if not dtype.is_float:
        if isinstance(number, float) and not number.is_integer():
            raise DTypeError(
                f"{name} of a {dtype} tile takes an integer",
                span=here(),
                found=value,
                hint="cast the tile to a float dtype first: pl.cast(tile, pl.FP32)",
            )
        low, high = (
            (0, 2**dtype.bits - 1) if dtype.kind == "uint" else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
        )
        if not low <= number <= high:
            raise DTypeError(f"{value} does not fit {dtype}", span=here(), found=value, expected=f"{low} to {high}")
    return trace.constant(float(number) if dtype.is_float else int(number), dtype)


_OF_SCALARS = {"maximum": "max", "minimum": "min", "and_": "and", "or_": "or", "xor": "xor"}


def arithmetic(name: str, lhs: Any, rhs: Any) -> Any:
    """A row of two tiles on two tiles, a tile and a scalar, a scalar and a tile, or two scalars."""
    if _whole_tensors((lhs, rhs)):
        return emit(name, (lhs, rhs))
    if isinstance(lhs, Tile):
        if isinstance(rhs, (Tile, Tensor)):
            return emit(name, (lhs, rhs))
        row = WITH_SCALAR[name][0]
        return emit(row, (lhs, tile_scalar(row, rhs, lhs.dtype)))
    if isinstance(rhs, Tile):
        if isinstance(lhs, Tensor):
            return emit(name, (lhs, rhs))
        row = WITH_SCALAR[name][1]
        if row is None and name != "sub":
            raise _wrong_operand(BY_NAME[name], "lhs", "tile", lhs)
        if row is None:
            # No instruction subtracts a tile from a scalar; s + (-t) rounds as s - t does.
            scalar = tile_scalar(name, lhs, rhs.dtype)
            return emit("adds", (emit("neg", (rhs,)), scalar))
        return emit(row, (rhs, tile_scalar(row, lhs, rhs.dtype)))
    if isinstance(lhs, Scalar) or isinstance(rhs, Scalar):
        result = binary(_OF_SCALARS.get(name, name), lhs, rhs)
        if result is not NotImplemented:
            return result
    current(f"pl.{name}")
    wrong = ("lhs", lhs) if not isinstance(lhs, Scalar) else ("rhs", rhs)
    raise _wrong_operand(BY_NAME[name], wrong[0], "tile", wrong[1])


__all__ = ["Scalar", "Tensor", "Tile", "UnknownExtent", "arithmetic", "emit", "read", "tile_scalar", "write"]
