"""What a parameter's annotation says: evaluated Python objects, so that aliases work."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from pypto_jit.dtypes import ALL, BOOL, INDEX, DType
from pypto_jit.errors import DecoratorError
from pypto_jit.signature import Dimension, DynVar, known_extents
from pypto_jit.targets import Space


@dataclass(frozen=True)
class TensorAnnotation:
    """``pl.Tensor[[d0, d1], dtype]``: a tensor of exactly this shape and dtype (None: the argument's)."""

    shape: tuple[Dimension, ...] | None = None
    dtype: DType | None = None

    def __repr__(self) -> str:
        return "pl.Tensor" if self.shape is None else f"pl.Tensor[{list(self.shape)}, pl.{self.dtype}]"


@dataclass(frozen=True)
class TileAnnotation:
    """``pl.Tile[[rows, columns], dtype]``: documents a local variable; no parameter of a kernel is a tile."""

    shape: tuple[int, ...]
    dtype: DType
    space: Space | None = None


@dataclass(frozen=True)
class ArrayAnnotation:
    """``pl.Array[size, dtype]``: documents a local variable; no parameter of a kernel is an array."""

    size: int
    dtype: DType


@dataclass(frozen=True)
class ScalarAnnotation:
    """``pl.Scalar[dtype]``: a number."""

    dtype: DType


@dataclass(frozen=True)
class Constexpr:
    """``pl.constexpr``: a Python value that the kernel is specialized on, by type and value."""

    def __repr__(self) -> str:
        return "pl.constexpr"


@dataclass(frozen=True)
class DirectionAnnotation:
    """``pl.Out[pl.Tensor]`` (``out``) or ``pl.InOut[pl.Tensor]`` (``inout``)."""

    direction: str
    tensor: TensorAnnotation


constexpr = Constexpr()


def dynamic(name: str) -> DynVar:
    """A dimension that is only known when the kernel is called: ``M = pl.dynamic("M")``.

    In annotations, ``pl.Tensor[[M, 64], pl.FP32]``, and in ``x.bind_dynamic(axis, M)``. One compiled kernel serves all
    extents; one name in several tensors means equal extents, which every call checks. ``M * 2`` and ``M + 1`` are
    dimensions as well.

    Raises:
        DecoratorError: it is no name.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise DecoratorError("pl.dynamic(...) takes a name", found=repr(name), expected='such as pl.dynamic("M")')
    return DynVar(name)


def parse_item(name: str, item: Any, dynamic: bool = False) -> tuple[tuple[Dimension, ...], DType, tuple[Any, ...]]:
    """What stands in the brackets of ``pl.Tensor[...]`` or ``pl.Tile[...]``: shape, dtype, and the rest.

    Args:
        name: Tensor or Tile.
        item: what stands there.
        dynamic: whether extents may be names.

    Raises:
        DecoratorError: it is not a list of extents followed by a dtype.
    """
    expected = f"pl.{name}[[rows, columns], pl.FP32]"
    if not isinstance(item, tuple) or len(item) < 2:
        raise DecoratorError(f"pl.{name}[...] takes a shape and a dtype", found=item, expected=expected)
    shape, dtype, *rest = item
    if not isinstance(shape, (list, tuple)):
        raise DecoratorError(f"the shape of pl.{name}[...] is a list of extents", found=shape, expected=expected)
    if not dynamic and any(isinstance(extent, DynVar) for extent in shape):
        raise DecoratorError(
            f"the shape of pl.{name}[...] is known while compiling",
            found=list(shape),
            hint="a tile has a fixed shape, and a valid_shape that may vary",
        )
    try:
        extents = tuple(e if isinstance(e, DynVar) else operator.index(e) for e in shape)
    except TypeError:
        raise DecoratorError(f"the extents of pl.{name}[...] are integers", found=shape, expected=expected) from None
    if any(isinstance(extent, int) and extent < 0 for extent in extents):
        raise DecoratorError(f"an extent of pl.{name}[...] is negative", found=list(extents))
    if dtype not in ALL:
        listed = ", ".join(f"pl.{known}" for known in ALL)
        raise DecoratorError(f"pl.{name}[...] has an unknown dtype", found=dtype, expected=listed)
    return extents, dtype, tuple(rest)


def tensor_annotation(item: Any) -> TensorAnnotation:
    """The value of ``pl.Tensor[item]``."""
    shape, dtype, rest = parse_item("Tensor", item, dynamic=True)
    if rest:
        raise DecoratorError("pl.Tensor[...] takes a shape and a dtype", found=rest, hint="layouts are the compiler's")
    return TensorAnnotation(shape, dtype)


def tile_annotation(item: Any) -> TileAnnotation:
    """The value of ``pl.Tile[item]``."""
    shape, dtype, rest = parse_item("Tile", item)
    if len(rest) > 1 or (rest and not isinstance(rest[0], Space)):
        raise DecoratorError("pl.Tile[...] takes a shape, a dtype and a memory", found=rest, expected="pl.Mem.Vec")
    return TileAnnotation(known_extents(shape), dtype, rest[0] if rest else None)


def scalar_annotation(dtype: Any) -> ScalarAnnotation:
    """The value of ``pl.Scalar[dtype]``."""
    if dtype not in (*ALL, INDEX, BOOL):
        raise DecoratorError("pl.Scalar[...] takes a dtype", found=dtype, expected="such as pl.FP32")
    return ScalarAnnotation(dtype)


class Out:
    """``pl.Out[pl.Tensor]``: an output. The kernel writes it and does not read it; a call may leave it out."""

    direction = "out"

    def __class_getitem__(cls, item: Any) -> DirectionAnnotation:
        tensor = plain_tensor(item)
        if tensor is None:
            raise DecoratorError(
                f"pl.{cls.__name__}[...] takes a tensor", found=item, expected=f"pl.{cls.__name__}[pl.Tensor]"
            )
        return DirectionAnnotation(cls.direction, tensor)


class InOut(Out):
    """``pl.InOut[pl.Tensor]``: a tensor that the kernel reads and writes."""

    direction = "inout"


def plain_tensor(annotation: Any) -> TensorAnnotation | None:
    """The annotation of a tensor without a direction; None if it is another one."""
    if isinstance(annotation, TensorAnnotation):
        return annotation
    return TensorAnnotation() if getattr(annotation, "is_tensor_annotation", False) is True else None
