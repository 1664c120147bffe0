"""The run-time valid extents of a result, from those of its operands, rule by rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.language.values import Tile, UnknownExtent


def valid_extents(
    row: Operator, operands: Sequence[Any], attributes: dict[str, Any], result: TileType
) -> tuple[Any, ...]:
    """One int or traced scalar per dimension of the result; `UnknownExtent` where no operand's is known.

    Extents that the result's type knows are taken from there.
    """
    if DYNAMIC not in result.valid:
        return result.valid
    sources = _sources(row.rule, operands, attributes, result)
    return tuple(source if extent == DYNAMIC else extent for extent, source in zip(result.valid, sources, strict=True))


def _sources(rule: str, operands: Sequence[Any], attributes: dict[str, Any], result: TileType) -> tuple[Any, ...]:
    if rule in ("load", "extract", "set_validshape"):
        return attributes["extents"]
    tiles = [operand.valid_extents for operand in operands if isinstance(operand, Tile)]
    first = tiles[0]
    if rule in ("row_reduction", "row_index"):
        return (*first[:-1], 1)
    if rule in ("column_reduction", "column_index"):
        return (1, first[1])
    if rule in ("transpose", "transpose_view"):
        return first[::-1]
    if rule in ("matmul", "matmul_bias"):
        return (first[0], tiles[1][1])
    if rule == "select":
        return tiles[1]
    if rule == "compare":
        return (first[0], result.shape[1])
    if rule == "concat":
        columns = tiles[1][1]
        return (first[0], columns if isinstance(columns, UnknownExtent) else columns + first[1])
    if rule == "reshape" and result.shape != operands[0].shape:
        # Only a vector keeps a partial extent under another shape: its one extent that is not an int.
        dynamic = next(extent for extent in first if not isinstance(extent, int))
        return (dynamic,) * len(result.shape)
    return first
