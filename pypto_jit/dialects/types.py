"""The types of both dialects as Python values, and their MLIR text.

IRDL types have no Python accessors, so a type travels between MLIR and Python as its text; parsing is memoised. Extents
that are only known at run time are `DYNAMIC`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pypto_jit.dtypes import BY_MLIR, SCALARS_BY_MLIR, DType
from pypto_jit.targets import Layout, Space

DYNAMIC = -1
# On a traced function: of each argument, the name of each extent; equal names are equal extents. "" has none.
DIMS = "pypto.dims"


def _array(values: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


@dataclass(frozen=True)
class TensorType:
    """``!pypto.tensor``: a tensor in global memory. Strides are in elements; `DYNAMIC` where read at run time."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __str__(self) -> str:
        return f"!pypto.tensor<{_array(self.shape)}, {self.dtype.mlir}, {_array(self.strides)}>"


@dataclass(frozen=True)
class TileType:
    """``!pypto.tile``: a tile as its author sees it. ``valid`` is the meaningful prefix box of ``shape``."""

    shape: tuple[int, ...]
    dtype: DType
    space: Space
    valid: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def __str__(self) -> str:
        return f'!pypto.tile<{_array(self.shape)}, {self.dtype.mlir}, "{self.space.value}", {_array(self.valid)}>'

    def describe(self) -> str:
        """The type in the user's words, for error messages."""
        valid = "" if self.valid == self.shape else f", valid_shape={list(self.valid)}".replace("-1", "?")
        return f"Tile[{list(self.shape)}, {self.dtype}, {self.space.name.capitalize()}{valid}]"


@dataclass(frozen=True)
class ArrayType:
    """``!pypto.array``, and ``!pto.local_array`` where it is declared: a few scalars on the core, in ``dialect``."""

    size: int
    dtype: DType
    dialect: str = "pypto"

    def __str__(self) -> str:
        name = "array" if self.dialect == "pypto" else "local_array"
        return f"!{self.dialect}.{name}<[{self.size}], {self.dtype.mlir}>"


@dataclass(frozen=True)
class PointerType:
    """``!pto.ptr``: the address of a tensor's first element in global memory."""

    dtype: DType

    def __str__(self) -> str:
        return f"!pto.ptr<{self.dtype.mlir}>"


@dataclass(frozen=True)
class TensorViewType:
    """``!pto.tensor_view``: a pointer with shape and strides."""

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"!pto.tensor_view<{_array(self.shape)}, {self.dtype.mlir}>"


@dataclass(frozen=True)
class PartitionType:
    """``!pto.partition_tensor_view``: the box of a tensor view that a load or store moves."""

    shape: tuple[int, ...]
    dtype: DType

    def __str__(self) -> str:
        return f"!pto.partition_tensor_view<{_array(self.shape)}, {self.dtype.mlir}>"


@dataclass(frozen=True)
class TileBufType:
    """``!pto.tile_buf``: a tile buffer. ``shape`` is physical and static; ``valid`` may be `DYNAMIC`."""

    space: Space
    dtype: DType
    shape: tuple[int, int]
    valid: tuple[int, int]
    layout: Layout
    pad: int = 0

    @property
    def bytes(self) -> int:
        """Bytes the buffer takes in its space."""
        return self.shape[0] * self.shape[1] * self.dtype.bytes

    @property
    def is_column_vector(self) -> bool:
        """Whether this is a ``[N, 1]`` column-major vector: N consecutive elements."""
        return self.layout.slayout == "none_box" and self.layout.blayout == "col_major"

    def __str__(self) -> str:
        layout = f'["{self.layout.blayout}", "{self.layout.slayout}"]'
        return (
            f'!pto.tile_buf<"{self.space.value}", {self.dtype.mlir}, {_array(self.shape)}, {_array(self.valid)}, '
            f"{layout}, [{self.layout.fractal}, {self.pad}]>"
        )


Type = TensorType | TileType | ArrayType | PointerType | TensorViewType | PartitionType | TileBufType

_INTS = r"\[([-\d, ]*)\]"
_PATTERNS = {
    "!pypto.tensor": re.compile(rf"!pypto\.tensor<{_INTS}, (\w+), {_INTS}>"),
    "!pypto.tile": re.compile(rf'!pypto\.tile<{_INTS}, (\w+), "(\w+)", {_INTS}>'),
    "!pypto.array": re.compile(rf"!pypto\.array<{_INTS}, (\w+)>"),
    "!pto.local_array": re.compile(rf"!pto\.local_array<{_INTS}, (\w+)>"),
    "!pto.ptr": re.compile(r"!pto\.ptr<(\w+)>"),
    "!pto.tensor_view": re.compile(rf"!pto\.tensor_view<{_INTS}, (\w+)>"),
    "!pto.partition_tensor_view": re.compile(rf"!pto\.partition_tensor_view<{_INTS}, (\w+)>"),
    "!pto.tile_buf": re.compile(rf'!pto\.tile_buf<"(\w+)", (\w+), {_INTS}, {_INTS}, \["(\w+)", "(\w+)"\], {_INTS}>'),
}


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",")) if text.strip() else ()


@lru_cache(maxsize=4096)
def parse_type(text: str) -> Type | None:
    """The type whose MLIR text this is; None for a type that is not of our dialects (``f32``, ``index``, ...)."""
    head = text.partition("<")[0]
    pattern = _PATTERNS.get(head)
    match = pattern.fullmatch(text) if pattern else None
    if match is None:
        return None
    groups = match.groups()
    if head == "!pypto.tensor":
        return TensorType(_ints(groups[0]), BY_MLIR[groups[1]], _ints(groups[2]))
    if head == "!pypto.tile":
        return TileType(_ints(groups[0]), BY_MLIR[groups[1]], Space(groups[2]), _ints(groups[3]))
    if head in ("!pypto.array", "!pto.local_array"):
        return ArrayType(_ints(groups[0])[0], SCALARS_BY_MLIR[groups[1]], head[1:].partition(".")[0])
    if head == "!pto.ptr":
        return PointerType(BY_MLIR[groups[0]])
    if head == "!pto.tensor_view":
        return TensorViewType(_ints(groups[0]), BY_MLIR[groups[1]])
    if head == "!pto.partition_tensor_view":
        return PartitionType(_ints(groups[0]), BY_MLIR[groups[1]])
    fractal, pad = _ints(groups[6])
    rows, columns = _ints(groups[2])
    valid_rows, valid_columns = _ints(groups[3])
    return TileBufType(
        Space(groups[0]),
        BY_MLIR[groups[1]],
        (rows, columns),
        (valid_rows, valid_columns),
        Layout(groups[4], groups[5], fractal),
        pad,
    )


def row_major_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor; `DYNAMIC` left of a dynamic extent."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step = DYNAMIC if DYNAMIC in (step, extent) else step * extent
    return tuple(reversed(strides))


def is_contiguous(kind: TensorType) -> bool:
    """Whether the elements of a tensor lie one after another, as far as is known."""
    expected = row_major_strides(kind.shape)
    return all(a == b or extent == 1 for a, b, extent in zip(kind.strides, expected, kind.shape, strict=True))
