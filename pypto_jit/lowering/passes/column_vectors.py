"""``column-vectors``: work on ``[N, 1]`` tiles is done on ``[1, N]``.

A column vector lies as N consecutive elements, and so does a row: one is the other under another shape. The machine's
elementwise instructions take rows; only the vector operand of a row expansion and the result of a row reduction are
columns. Where a column of global memory is not consecutive either, it passes through a tile of one padded row per
element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rows.families import EXPANDED
from pypto_jit.dialects.types import TensorType, TileType
from pypto_jit.dtypes import DType
from pypto_jit.errors import LayoutError, ShapeError
from pypto_jit.lowering.attributes import numbers
from pypto_jit.lowering.layouts import is_column
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.tree import Body, Node, constant
from pypto_jit.targets import ROW_ALIGNMENT


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Rewrite the column vectors of every function; whether there were any.

    Raises:
        ShapeError: a strided column whose only column may be empty.
        LayoutError: a column in global memory that cannot be gathered or scattered in its dtype.
    """
    changed = False
    for _, body in lowering.bodies(module):
        changed |= _Columns(lowering).rewrite(body)
    return changed


class _Columns:
    def __init__(self, lowering: Lowering) -> None:
        self._types = lowering.types
        self._target = lowering.target
        self._rows: dict[ir.Value, ir.Value] = {}
        self._rewrites: dict[str, Callable[[Node], None]] = {
            "elementwise": self._elementwise,
            "cast": self._elementwise,
            "full": self._elementwise,
            "row_reduction": self._row_reduction,
            "column_reduction": self._column_reduction,
            "row_index": self._row_index,
            "column_index": self._column_reduction,
            "row_expand": self._row_expand,
            "col_expand": self._col_expand,
            "transpose": self._transpose,
            "reshape": self._reshape,
            "concat": self._concat,
            "fillpad": self._fillpad,
            "extract": self._extract,
            "insert": self._insert,
            "load": self._load,
            "store": self._store,
        }

    def rewrite(self, body: Body) -> bool:
        nodes = list(body.walk())
        if not any(self._concerns(node) for node in nodes):
            return False
        for node in nodes:
            rewrite = self._rewrites.get(node.row.rule) if node.row is not None else None
            if rewrite is not None:
                rewrite(node)
        return True

    def _concerns(self, node: Node) -> bool:
        values = (*node.operands, *node.results)
        return node.row is not None and (node.row.rule == "reshape" or any(self._is_column(v) for v in values))

    # Values

    def _is_column(self, value: ir.Value) -> bool:
        tile = self._types.tile(value)
        return tile is not None and is_column(tile)

    def _tile(self, value: ir.Value) -> TileType:
        tile = self._types.tile(value)
        assert tile is not None
        return tile

    def _row_type(self, tile: TileType) -> TileType:
        return replace(tile, shape=tile.shape[::-1], valid=tile.valid[::-1])

    def _row(self, value: ir.Value, node: Node) -> ir.Value:
        """The row that a column is; every other tile is itself."""
        if not self._is_column(value):
            return value
        row = self._rows.get(value)
        if row is None:
            owner = value.owner
            inside = isinstance(owner, ir.Block)
            point = ir.InsertionPoint.at_block_begin(owner) if inside else ir.InsertionPoint.after(owner)
            kind = self._types.build(self._row_type(self._tile(value)))
            row = self._rows[value] = ir.Operation.create(
                "pypto.reshape", [kind], [value], loc=node.op.location, ip=point
            ).result
        return row

    def _create(self, name: str, operands: list[ir.Value], kind: TileType, node: Node) -> ir.Value:
        """An operation in the place of a node."""
        return ir.Operation.create(
            f"pypto.{name}",
            results=[self._types.build(kind)],
            operands=operands,
            loc=node.op.location,
            ip=ir.InsertionPoint(node.op),
        ).result

    def _replace(self, node: Node, value: ir.Value) -> None:
        node.results[0].replace_all_uses_with(value)
        node.op.erase()

    def _replace_by_row(self, node: Node, row: ir.Value) -> None:
        """The node's column result is the given row."""
        column = self._create("reshape", [row], self._tile(node.results[0]), node)
        self._rows[column] = row
        self._replace(node, column)

    # Operators

    def _elementwise(self, node: Node) -> None:
        result = node.results[0]
        if not self._is_column(result):
            return
        column = self._tile(result)
        for k, value in enumerate(list(node.op.operands)):
            row = self._row(value, node)
            if row is not value:
                node.op.operands[k] = row
        back = ir.Operation.create(
            "pypto.reshape",
            [self._types.build(column)],
            [result],
            loc=node.op.location,
            ip=ir.InsertionPoint.after(node.op),
        )
        result.replace_all_uses_except(back.result, [back])
        result.set_type(self._types.build(self._row_type(column)))
        self._rows[back.result] = result

    def _row_reduction(self, node: Node) -> None:
        source = node.op.operands[0]
        if not self._is_column(source):
            return
        if self._tile(source).valid[1] == 1:
            # One element in each row: its sum, maximum and minimum are the element.
            self._replace(node, source)
        else:
            node.op.operands[0] = self._spread(source, node, node.name[6:])

    def _row_index(self, node: Node) -> None:
        source = node.op.operands[0]
        if self._is_column(source):
            node.op.operands[0] = self._spread(source, node, node.name[6:])

    def _column_reduction(self, node: Node) -> None:
        source = node.op.operands[0]
        if self._is_column(source):
            name = node.name[6:].replace("col_", "row_")
            kind = self._tile(node.results[0])
            reduced = self._reduced(name, self._row(source, node), self._row_type(kind), node)
            turned = kind.valid != kind.valid[::-1]
            self._replace(node, self._create("reshape", [reduced], kind, node) if turned else reduced)

    def _reduced(self, name: str, row: ir.Value, kind: TileType, node: Node) -> ir.Value:
        """A row reduced; columns are reduced in dtypes that rows are not, by way of a wider one."""
        allowed, casts = BY_NAME[name].dtypes[self._target.name], self._target.casts
        if self._tile(row).dtype in allowed:
            return self._create(name, [row], kind, node)
        ways = [d for d in allowed if d in casts.get(kind.dtype, ()) and kind.dtype in casts.get(d, ())]
        wide = max(ways, key=lambda dtype: dtype.bits)
        widened = self._create("cast", [row], replace(self._tile(row), dtype=wide), node)
        reduced = self._create(name, [widened], replace(kind, dtype=wide), node)
        return self._create("cast", [reduced], kind, node)

    def _row_expand(self, node: Node) -> None:
        if not self._is_column(node.results[0]):
            return
        source, vector = list(node.op.operands)
        operator = node.name[6:].removeprefix("row_expand").lstrip("_")
        if not operator and vector.type == node.results[0].type:
            self._replace(node, vector)
            return
        rows = [self._row(source, node), self._row(vector, node)]
        name = EXPANDED.get(operator, operator) or "col_expand"
        self._replace_by_row(node, self._create(name, rows, self._tile(rows[0]), node))

    def _col_expand(self, node: Node) -> None:
        if not self._is_column(node.results[0]):
            return
        source, vector = list(node.op.operands)
        row = self._row(source, node)
        name = node.name[6:].replace("col_", "row_")
        self._replace_by_row(node, self._create(name, [row, vector], self._tile(row), node))

    def _transpose(self, node: Node) -> None:
        source, result = node.op.operands[0], node.results[0]
        if self._is_column(source):
            self._replace(node, self._row(source, node))
        elif self._is_column(result):
            self._replace_by_row(node, source)
        elif source.type == result.type and self._tile(source).shape == (1, 1):
            self._replace(node, source)

    def _reshape(self, node: Node) -> None:
        source, result = node.op.operands[0], node.results[0]
        if source.type == result.type:
            self._replace(node, source)
        elif self._is_column(source) and self._tile(result).shape[0] == 1:
            self._replace(node, self._row(source, node))
        elif self._is_column(result) and self._tile(source).shape[0] == 1:
            self._rows[result] = source

    def _concat(self, node: Node) -> None:
        for k, value in enumerate(list(node.op.operands)):
            if self._is_column(value):
                node.op.operands[k] = self._spread(value, node, "concat")

    def _fillpad(self, node: Node) -> None:
        source = node.op.operands[0]
        if self._is_column(node.results[0]):
            self._elementwise(node)
        elif self._is_column(source):
            node.op.operands[0] = self._spread(source, node, "fillpad")

    def _extract(self, node: Node) -> None:
        source, result = node.op.operands[0], node.results[0]
        if self._is_column(source):
            self._turn_indices(node, 1)
            if self._is_column(result):
                self._elementwise(node)
            else:
                node.op.operands[0] = self._row(source, node)
        elif self._is_column(result):
            self._narrow(node, "a part of")

    def _insert(self, node: Node) -> None:
        target, source = list(node.op.operands)[:2]
        if self._is_column(target):
            self._turn_indices(node, 2)
            self._elementwise(node)
        elif self._is_column(source):
            node.op.operands[1] = self._spread(source, node, "assemble")

    def _turn_indices(self, node: Node, first: int) -> None:
        """Swap rows and columns of the indices from an operand on."""
        indices = list(node.op.operands)[first:]
        for k in range(0, len(indices), 2):
            node.op.operands[first + k], node.op.operands[first + k + 1] = indices[k + 1], indices[k]

    # Global memory

    def _wide(self, column: TileType) -> TileType:
        return replace(column, shape=(column.shape[0], ROW_ALIGNMENT // column.dtype.bytes))

    def _check_dtype(self, name: str, dtype: DType, node: Node, what: str) -> None:
        if dtype not in BY_NAME[name].dtypes[self._target.name]:
            raise LayoutError(
                f"{what} a column of {dtype} needs its elements next to each other",
                span=node.span,
                found=dtype,
                expected=", ".join(sorted(d.name for d in BY_NAME[name].dtypes[self._target.name])),
                hint="cast to one of these dtypes first, or use rows",
            )

    def _spread(self, column: ir.Value, node: Node, what: str) -> ir.Value:
        """A column as the first of each row's elements."""
        tile = self._tile(column)
        self._check_dtype("row_expand", tile.dtype, node, what)
        target = self._create("create_tile", [], self._wide(tile), node)
        return self._create("row_expand", [target, column], self._wide(tile), node)

    def _load(self, node: Node) -> None:
        result = node.results[0]
        if not self._is_column(result) or self._is_consecutive(node.op.operands[0], self._load_box(node)):
            return
        column = self._tile(result)
        if column.valid[1] != 1:
            raise ShapeError(
                "the only column of a tile cannot be partly valid where it is loaded from a strided tensor",
                span=node.span,
                found=column.describe(),
                expected="a last valid extent of 1",
            )
        self._narrow(node, "load of")

    def _narrow(self, node: Node, what: str) -> None:
        """Let a node give a column as the first of each row's elements, and bring those together behind it."""
        result, column = node.results[0], self._tile(node.results[0])
        self._check_dtype("row_max", column.dtype, node, what)
        wide = ir.Operation.create(
            "pypto.row_max",
            [self._types.build(column)],
            [result],
            loc=node.op.location,
            ip=ir.InsertionPoint.after(node.op),
        )
        result.replace_all_uses_except(wide.result, [wide])
        result.set_type(self._types.build(self._wide(column)))

    def _store(self, node: Node) -> None:
        value, tensor = node.op.operands[0], node.op.operands[1]
        if self._is_column(value) and not self._is_consecutive(tensor, self._store_box(node)):
            node.op.operands[0] = self._spread(value, node, "store of")

    def _load_box(self, node: Node) -> list[int | None]:
        operands = node.operands[1:]
        return [constant(v) for v in operands[len(operands) // 2 :]]

    def _store_box(self, node: Node) -> list[int | None]:
        return list(numbers(node.op, "box") or ())

    def _is_consecutive(self, tensor: ir.Value, box: list[int | None]) -> bool:
        """Whether a column of the tensor lies in one piece; ``box`` is right-aligned to the tensor's dimensions."""
        kind = self._types.of(tensor)
        assert isinstance(kind, TensorType)
        if kind.rank < 2 or kind.strides[-2] != 1:
            return False
        outer = list(zip(reversed(box), reversed(kind.shape), strict=False))[2:]
        return all(1 in (extent, whole) for extent, whole in outer)
