"""Tiles and boxes of tensors as planes: rows and columns a fixed number of elements apart."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.program import Box, Tile


@dataclass(frozen=True)
class Plane:
    """Extents, and strides in elements."""

    rows: Extent
    columns: Extent
    row_stride: Extent
    column_stride: Extent

    @property
    def extents(self) -> tuple[Extent, Extent]:
        """Rows and columns."""
        return self.rows, self.columns


def tile_plane(tile: Tile) -> Plane:
    """The valid region of a tile. A column vector and a tile of one row are both one row."""
    row_stride, column_stride = tile.strides
    if tile.type.is_column_vector:
        return Plane(1, tile.valid[0], 0, 1)
    if tile.type.shape[0] == 1 and column_stride == 1:
        # Its one row may still be invalid.
        return Plane(tile.valid[0], tile.valid[1], 0, 1)
    return Plane(tile.valid[0], tile.valid[1], row_stride, column_stride)


def box_plane(box: Box, tile: Tile) -> Plane | None:
    """A box as the plane that a tile takes from or gives to it; None where its rows are not evenly spaced.

    Leading dimensions are rows. The one column of a column vector's box is turned into a row.
    """
    leading = _collapsed(list(zip(box.sizes[:-1], box.view.strides[:-1], strict=True)))
    if len(leading) > 1:
        return None
    rows, row_stride = leading[0] if leading else (1, 0)
    if not tile.type.is_column_vector:
        return Plane(rows, box.sizes[-1], row_stride, box.view.strides[-1])
    if box.sizes[-1] != 1:
        return None
    return Plane(1, rows, 0, row_stride)


def _collapsed(dimensions: list[tuple[Extent, Extent]]) -> list[tuple[Extent, Extent]]:
    """Dimensions (size, stride) without those of size one, neighbours merged where they are one run."""
    found: list[tuple[Extent, Extent]] = []
    for size, stride in dimensions:
        if isinstance(size, int) and size == 1:
            continue
        if found:
            outer_size, outer_stride = found[-1]
            known = isinstance(size, int) and isinstance(stride, int) and isinstance(outer_stride, int)
            if known and outer_stride == size * stride and isinstance(outer_size, int):
                found[-1] = (outer_size * size, stride)
                continue
        found.append((size, stride))
    return found
