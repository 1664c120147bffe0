"""``legalize-2d``: tiles of any rank become two-dimensional, all dimensions but the last flattened into rows.

A one-dimensional tile becomes one row. Loads keep one offset and one valid extent per dimension of the tensor; a store
of a tile that was not two-dimensional remembers the tile's own valid shape as ``box``, from which its box in global
memory is made.
"""

from __future__ import annotations

from math import prod

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.errors import ShapeError
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.spans import span_of_location
from pypto_jit.lowering.tree import Body, Node
from pypto_jit.lowering.types import TypeTable


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Flatten the tiles of every function; whether there were any to flatten.

    Raises:
        ShapeError: a tile whose valid region is no prefix of its rows any more once they are flattened.
    """
    changed = False
    for _, body in lowering.bodies(module):
        values = [v for v in _values(body) if _needs(v, lowering.types)]
        if not values:
            continue
        changed = True
        nodes = list(body.walk())
        for node in nodes:
            if node.name == "pypto.store":
                _remember_box(node, lowering.types)
            elif node.name in ("pypto.read_tile", "pypto.write_tile"):
                _remember_shape(node, lowering.types)
        for value in values:
            tile = lowering.types.tile(value)
            assert tile is not None
            value.set_type(lowering.types.build(_flatten_at(tile, value.location)))
        for node in nodes:
            if node.name == "pypto.reshape" and node.results[0].type == node.op.operands[0].type:
                node.results[0].replace_all_uses_with(node.op.operands[0])
                node.op.erase()
    return changed


def _values(body: Body) -> list[ir.Value]:
    found = list(body.arguments)
    for node in body.nodes:
        found += node.results
        if node.name == "scf.while":
            # The arguments of the first region have the types of what it passes on.
            found += node.op.regions[0].blocks[0].arguments
        for inner in node.bodies:
            found += _values(inner)
    return found


def _needs(value: ir.Value, types: TypeTable) -> bool:
    tile = types.tile(value)
    return tile is not None and tile.rank != 2


def _remember_box(node: Node, types: TypeTable) -> None:
    tile = types.tile(node.operands[0])
    if tile is not None and tile.rank != 2:
        node.op.attributes["box"] = ir.DenseI64ArrayAttr.get(list(tile.valid))


def _remember_shape(node: Node, types: TypeTable) -> None:
    tile = types.tile(node.operands[0])
    if tile is not None and tile.rank != 2:
        node.op.attributes["box"] = ir.DenseI64ArrayAttr.get(list(tile.shape))


def _flatten_at(tile: TileType, location: ir.Location) -> TileType:
    try:
        return flatten(tile)
    except ShapeError as error:
        error.span = span_of_location(location)
        raise


def flatten(tile: TileType) -> TileType:
    """The two-dimensional tile that holds the same elements in the same order.

    Raises:
        ShapeError: the valid region would not be a box of the flattened tile.
    """
    if tile.rank == 1:
        return TileType((1, *tile.shape), tile.dtype, tile.space, (1, *tile.valid))
    leading, valid = tile.shape[:-1], tile.valid[:-1]
    long = [k for k, extent in enumerate(leading) if extent != 1]
    while long and valid[long[0]] == 1:
        long.pop(0)
    partial = [k for k in long[1:] if valid[k] != leading[k]]
    if partial:
        raise ShapeError(
            "only the outermost dimension of a tile, or its last one, can be partly valid",
            found=tile.describe(),
            expected=f"a valid extent of {leading[partial[0]]} in dimension {partial[0]}",
            hint="load smaller tiles in a loop over the outer dimensions",
        )
    if sum(v == DYNAMIC for v in valid) > 1:
        raise ShapeError(
            "only one leading extent of a tile may be known at run time alone",
            found=tile.describe(),
            hint="give the others as Python numbers",
        )
    rows = DYNAMIC if DYNAMIC in valid else prod(valid)
    return TileType((prod(leading), tile.shape[-1]), tile.dtype, tile.space, (rows, tile.valid[-1]))
