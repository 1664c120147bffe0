"""What a tile is while the interpreter runs, and what it hands to an operator's meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from numpy.typing import NDArray

from pypto_jit.dialects.types import DYNAMIC, ArrayType, TensorType, TileType
from pypto_jit.dtypes import DType
from pypto_jit.errors import BoundsError, Span

if TYPE_CHECKING:
    from pypto_jit.dialects.interpreter.races import Watch

Array = NDArray


@dataclass(frozen=True)
class Tile:
    """A tile: its whole array, of which only the ``valid`` prefix box means something.

    Everything outside the valid region holds `poison`, so that a kernel which reads padding gets numbers that show.
    """

    array: Array
    dtype: DType
    valid: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the whole tile, as its author sees it."""
        return self.array.shape

    def box(self, extents: tuple[int, ...] | None = None) -> Array:
        """The prefix box of these extents; the valid region where none are given."""
        return self.array[tuple(slice(extent) for extent in (self.valid if extents is None else extents))]


def poison(dtype: DType) -> Array:
    """What fills elements without a meaning: NaN, or the bytes 0xA5."""
    if dtype.is_float:
        return numpy.array(numpy.nan, dtype.numpy)
    return numpy.frombuffer(b"\xa5" * dtype.bytes, dtype.numpy)[0]


def embed(box: Array, shape: tuple[int, ...], dtype: DType) -> Tile:
    """A tile whose valid region is this box, poisoned elsewhere."""
    array = numpy.full(shape, poison(dtype), dtype.numpy)
    array[tuple(slice(extent) for extent in box.shape)] = box
    return Tile(array, dtype, box.shape)


@dataclass(frozen=True)
class Call:
    """One operation about to run.

    Attributes:
        operands: `Tile`, NumPy array (a tensor in global memory), or scalar, in the order of the table's row.
        types: types of the operands; None for a scalar or an index.
        result: type of the result; None where there is none, or where it is a scalar.
        attributes: the row's attributes.
        span: the user's line.
        watch: takes note of what is read and written of tensors; None where nobody does.
    """

    operands: tuple
    types: tuple[TensorType | TileType | ArrayType | None, ...]
    result: TileType | ArrayType | None
    attributes: Mapping[str, object]
    span: Span | None
    watch: Watch | None = None

    @property
    def tile(self) -> TileType:
        """Type of the result of an operation that gives a tile."""
        assert isinstance(self.result, TileType)
        return self.result

    def valid(self, source: Tile) -> tuple[int, ...]:
        """Valid extents of the result: from its type where static, else those of the first operand."""
        pairs = zip(self.tile.valid, source.valid, strict=True)
        return tuple(extent if static == DYNAMIC else static for static, extent in pairs)

    def touches(self, kind: str, view: Array) -> None:
        """Let the watch know what is done to a view of a tensor."""
        if self.watch is not None:
            self.watch.access(kind, view, self.span)

    def agree(self, what: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
        """Raise a BoundsError unless two operands have equal valid extents; an undefined tile agrees with any."""
        if any(a != b and DYNAMIC not in (a, b) for a, b in zip(left, right, strict=True)):
            raise BoundsError(
                f"the operands have different valid shapes: their {what} differ",
                span=self.span,
                found=f"{list(left)} and {list(right)}",
            )


# What an operator gives: a tile, a scalar, an array, or None.
Meaning = Callable[[Call], Any]
MEANINGS: dict[str, Meaning] = {}


def meaning(*names: str) -> Callable[[Meaning], Meaning]:
    """Register a function as the NumPy meaning of the table's rows of these names."""

    def register(function: Meaning) -> Meaning:
        for name in names:
            # Infinities and NaN are results here, not accidents.
            MEANINGS[name] = numpy.errstate(all="ignore")(function)
        return function

    return register
