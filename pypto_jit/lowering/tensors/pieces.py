"""The pieces that the keys of attention are taken in: all of them, or those that some queries of a block see."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit.lowering.tensors.bands import Band
from pypto_jit.lowering.tensors.evaluation import Place
from pypto_jit.lowering.tensors.tiling import Tiling
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.targets import FRACTAL_EDGE


@dataclass(frozen=True)
class Pieces:
    """Pieces of the keys of one extent, from ``start`` to ``stop``.

    Attributes:
        columns: of their tiles, and from one piece to the next.
        extent: of each.
        masked: whether a query may not see all of their keys.
        most: as many as there are at most, where that is not known from the bounds.
    """

    start: Index
    stop: Index
    columns: int
    extent: int
    masked: bool = False
    most: int | None = None

    @property
    def count(self) -> int | None:
        """How many pieces there are, or may be; None where neither is known."""
        if isinstance(self.start, int) and isinstance(self.stop, int):
            return max(0, -(-(self.stop - self.start) // self.columns)) if self.extent > 0 else 0
        return self.most if self.extent > 0 else 0


def seen(writer: TileWriter, band: Band, queries: Place, tiling: Tiling, keys: int) -> list[Pieces]:
    """The pieces that some of the queries see: wide ones of what all of them see between narrow ones of what not."""
    wide, rows = tiling.columns, tiling.rows
    narrow = narrow_columns(rows, wide)
    first, behind = queries.offset, writer.add(queries.offset, queries.extent)
    whole = keys // narrow * narrow

    def pieces(size: int, extent: Index) -> Index:
        """The extent in whole pieces of a size; none where it is negative."""
        return writer.multiply(writer.divide(writer.greatest(extent, 0), size), size)

    # Some see the keys from `start` to `stop`, all those from `inner` on, and `middle` in whole pieces.
    start: Index = 0
    inner: Index = 0
    stop: Index = keys
    if band.lowest is not None:
        start = pieces(narrow, writer.add(first, band.lowest))
        inner = pieces(narrow, writer.add(behind, band.lowest - 1 + narrow - 1))
    if band.highest is not None:
        stop = writer.least(keys, writer.greatest(writer.add(behind, band.highest), 0))
    seen = keys if band.highest is None else writer.least(keys, writer.add(first, band.highest + 1))
    middle = writer.add(inner, pieces(wide, writer.subtract(seen, inner)))
    end = writer.least(stop, whole)
    edge = -(-(rows + wide) // narrow) + 1
    before = Pieces(start, writer.least(inner, end), narrow, narrow, True, -(-(rows + narrow) // narrow) + 1)
    return [
        *([before] if band.lowest is not None else []),
        Pieces(inner, middle, wide, wide, False, keys // wide),
        Pieces(middle, end, narrow, narrow, True, min(edge, keys // narrow)),
        Pieces(whole, stop, narrow, keys - whole, True, 1),
    ]


def narrow_columns(rows: int, columns: int) -> int:
    """Columns of the pieces that are masked, of other pieces' columns: few, so that little is computed in vain."""
    fits = [n for n in range(FRACTAL_EDGE, columns + 1, FRACTAL_EDGE) if columns % n == 0]
    return max((n for n in fits if n <= max(rows, FRACTAL_EDGE)), default=columns)
