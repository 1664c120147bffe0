"""From the tile its author sees to the buffer the machine needs: padded shape and layout."""

from __future__ import annotations

from pypto_jit.dialects.types import TileBufType, TileType
from pypto_jit.dtypes import FP32, INT32, DType
from pypto_jit.targets import COLUMN_VECTOR, FRACTAL_EDGE, ROW_ALIGNMENT, ROW_MAJOR, Layout, Space, Target


def round_up(value: int, multiple: int) -> int:
    """The smallest multiple that is not less than the value."""
    return -(-value // multiple) * multiple


def cube_edge(dtype: DType, space: Space) -> int:
    """What the extents of a cube tile are multiples of.

    One edge of a fractal is 16 elements, the other 32 bytes; both edges are brought to the larger so that the operands
    and the result of a matmul agree. INT32 accumulators hold products of INT8 tiles, whose edge is 32.
    """
    if space in (Space.ACC, Space.BIAS):
        return 32 if dtype == INT32 else FRACTAL_EDGE
    return max(FRACTAL_EDGE, ROW_ALIGNMENT // dtype.bytes)


def is_column(tile: TileType) -> bool:
    """Whether the tile is an ``[N, 1]`` vector in Vec, which lies as N consecutive elements."""
    return tile.space is Space.VEC and tile.shape[1] == 1 and tile.shape[0] > 1


def buffer_type(tile: TileType, target: Target, *, feeds_bias: bool = False, unit: int | None = None) -> TileBufType:
    """The buffer of a two-dimensional tile.

    Args:
        tile: the tile; its shape becomes the valid region, its own valid region stays.
        target: whose layouts hold.
        feeds_bias: a one-row Mat tile that only moves to Bias lies as a plain row.
        unit: elements that the rows of a Vec tile are padded to a multiple of; by default 32 bytes of them.
    """
    rows, columns = tile.shape
    valid = (tile.valid[0], tile.valid[1])
    if tile.space is Space.VEC:
        return _vector_buffer(tile.dtype, rows, columns, valid, unit or ROW_ALIGNMENT // tile.dtype.bytes)
    if tile.space is Space.BIAS or feeds_bias:
        edge = cube_edge(tile.dtype, Space.BIAS)
        return TileBufType(tile.space, tile.dtype, (1, round_up(columns, edge)), valid, ROW_MAJOR)
    edge = cube_edge(tile.dtype, tile.space)
    shape = (round_up(rows, edge), round_up(columns, edge))
    return TileBufType(tile.space, tile.dtype, shape, valid, target.layouts[tile.space])


def _vector_buffer(dtype: DType, rows: int, columns: int, valid: tuple[int, int], unit: int) -> TileBufType:
    if columns == 1 and rows > 1:
        return TileBufType(Space.VEC, dtype, (round_up(rows, unit), 1), valid, COLUMN_VECTOR)
    return TileBufType(Space.VEC, dtype, (rows, round_up(columns, unit)), valid, ROW_MAJOR)


def as_row(buffer: TileBufType) -> TileBufType:
    """A column vector seen as a row: the same consecutive elements."""
    return _turned(buffer, ROW_MAJOR)


def as_column(buffer: TileBufType) -> TileBufType:
    """A one-row tile seen as a column vector: the same consecutive elements."""
    return _turned(buffer, COLUMN_VECTOR)


def transposed(buffer: TileBufType) -> TileBufType:
    """A boxed tile seen as its transpose: both orders swap and no element moves (NZ becomes ZN)."""
    flip = {"row_major": "col_major", "col_major": "row_major"}
    layout = Layout(flip[buffer.layout.blayout], flip[buffer.layout.slayout], buffer.layout.fractal)
    return _turned(buffer, layout)


def _turned(buffer: TileBufType, layout: Layout) -> TileBufType:
    (rows, columns), (valid_rows, valid_columns) = buffer.shape, buffer.valid
    return TileBufType(buffer.space, buffer.dtype, (columns, rows), (valid_columns, valid_rows), layout)


def transpose_scratch(source: TileBufType, goal: TileBufType, target: Target) -> TileBufType:
    """What a transpose within Vec needs besides its operands: the blocks that it turns, or a place that is not used.

    A block is 16 rows, of single bytes 32, of 32 bytes; the transpose has that many columns. Rows of another length
    than whole blocks are not turned by blocks.
    """
    unit, edge = ROW_ALIGNMENT // source.dtype.bytes, ROW_ALIGNMENT if source.dtype.bytes == 1 else FRACTAL_EDGE
    shape = (1, unit)
    if target.turns_blocks and goal.shape[1] % edge == 0:
        shape = (round_up(source.shape[1], unit), round_up(source.shape[0], edge))
    return TileBufType(Space.VEC, source.dtype, shape, shape, ROW_MAJOR)


def counting_scratch(goal: TileBufType) -> TileBufType:
    """What numbers in order are made in: 768 bytes of floats, of 16-bit numbers 1,792 (ptoas v0.59, ``tci``)."""
    shape = (1, 448 if goal.dtype.bytes == 2 else 192)
    return TileBufType(Space.VEC, FP32, shape, shape, ROW_MAJOR)


def lies_consecutively(buffer: TileBufType, columns: int) -> bool:
    """Whether the elements of a Vec tile of so many columns follow each other in row-major order without gaps."""
    return buffer.is_column_vector or buffer.shape[0] == 1 or buffer.shape[1] == columns
