"""Computes the terms of a kernel on the tiles of one block: loads, operators on tiles, vectors spread where needed."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rows.families import EXPANSION_OF, WITH_SCALAR
from pypto_jit.dialects.types import TileType
from pypto_jit.dtypes import FP16, FP32, INT32, DType
from pypto_jit.lowering.attributes import text
from pypto_jit.lowering.tensors.extents import index_of
from pypto_jit.lowering.tensors.selection import Bits, along_rows, as_number, choose, compare, is_set
from pypto_jit.lowering.tensors.terms import Axes, Layout, Term
from pypto_jit.lowering.tensors.tiling import Tiling
from pypto_jit.lowering.tensors.writer import Index, TileWriter
from pypto_jit.targets import ROW_ALIGNMENT, Space

_COMMUTES = frozenset({"add", "mul", "maximum", "minimum"})


def computing_dtype(dtype: DType) -> DType:
    """What a tensor-level dtype is computed in on tiles: floats in FP32, rounded when they go to memory."""
    return FP32 if dtype.is_float else dtype


def is_comparison(term: Term) -> bool:
    """Whether a term compares its operands."""
    return term.kind == "map" and term.node is not None and text(term.node.op, "row") == "cmp"


@dataclass(frozen=True)
class Form:
    """Whether a tile has the rows and the columns of its kernel, or one of them."""

    rows: bool
    columns: bool

    def __or__(self, other: Form) -> Form:
        return Form(self.rows or other.rows, self.columns or other.columns)


@dataclass(frozen=True)
class Place:
    """The part of an iteration axis that a block works on."""

    offset: Index
    extent: Index


class Evaluation:
    """The tiles of one block.

    Args:
        writer: where operations go.
        layout, tiling: of the kernel.
        places: the part of each axis.
        rows, columns: valid extents of full tiles.
        known: tiles computed before, outside of a loop that the block is in.
    """

    def __init__(
        self,
        writer: TileWriter,
        layout: Layout,
        tiling: Tiling,
        places: dict[int, Place],
        rows: Index,
        columns: Index,
        known: dict[Term, ir.Value] | None = None,
    ) -> None:
        self._writer = writer
        self._layout = layout
        self._tiling = tiling
        self._places = places
        self._valid = (rows, columns)
        self.known: dict[Term, ir.Value] = dict(known or {})

    def form(self, axes: Axes) -> Form:
        """The form of a term of these axes."""
        return Form(any(axis in self._tiling.group for axis in axes), self._layout.has_columns(axes))

    def _shape(self, form: Form) -> tuple[int, int]:
        return (self._tiling.rows if form.rows else 1, self._tiling.columns if form.columns else 1)

    def _extents(self, form: Form) -> tuple[Index, Index]:
        return (self._valid[0] if form.rows else 1, self._valid[1] if form.columns else 1)

    def tile(self, term: Term) -> ir.Value:
        """The tile of a term, computed once."""
        if term not in self.known:
            needed = self._needed(term)
            # In order, so that what each takes is there: graphs are deeper than Python's stack.
            for each in self._layout.terms:
                if each in needed and each not in self.known:
                    self.known[each] = getattr(self, f"_{each.kind}")(each)
        return self.known[term]

    def _needed(self, term: Term) -> set[Term]:
        """A term, and what has to be computed for it."""
        needed: set[Term] = set()
        waiting = [term]
        while waiting:
            each = waiting.pop()
            if each in needed or each in self.known:
                continue
            needed.add(each)
            waiting += self._taken(each)
        return needed

    def _taken(self, term: Term) -> list[Term]:
        """The terms whose tiles a term takes: a number needs none, nor a comparison that only selects."""
        taken: list[Term] = []
        for k, operand in enumerate(term.terms):
            if operand.kind == "fill" and term.kind == "map":
                continue
            chooses = term.kind == "select" and k == 0 and is_comparison(operand) and operand not in self.known
            taken += operand.terms if chooses else [operand]
        return taken

    # Memory

    def box(self, axes: Axes, flipped: frozenset[int] = frozenset()) -> tuple[list[Index], list[Index]]:
        """Offsets and extents of the part of a tensor whose dimensions run along these axes, some of them backwards."""
        places = [
            Place(0, 1) if axis is None else self._mirrored(axis) if axis in flipped else self._places[axis]
            for axis in axes
        ]
        return [place.offset for place in places], [place.extent for place in places]

    def _mirrored(self, axis: int) -> Place:
        """The part of an axis, of one element, counted from its end."""
        writer = self._writer
        last = writer.subtract(index_of(self._layout.extents[axis], writer), 1)
        return Place(writer.subtract(last, self._places[axis].offset), 1)

    def _memory(self, term: Term) -> ir.Value:
        writer, form = self._writer, self.form(term.axes)
        tensor, axes = self._without_units(term.value, term.axes)
        offsets, extents = self.box(axes, term.flipped)
        (rows, columns), valid = self._shape(form), self._extents(form)
        last = axes[-1] if axes else None
        if form.columns and last != self._layout.column:
            turned = writer.load(tensor, offsets, extents, (columns, rows), (valid[1], valid[0]))
            return writer.operator("transpose", self._converted(turned, term))
        if form.rows and not form.columns and last in self._tiling.group:
            line = writer.load(tensor, offsets, extents, (1, rows), (1, valid[0]))
            return writer.operator("reshape", self._converted(line, term), shape=(rows, 1))
        if self._is_column(form):
            return self._column(term, tensor, offsets, extents)
        tile = writer.load(tensor, offsets, extents, (rows, columns), valid)
        # What is only copied is not computed with.
        copied = term is self._layout.root and form == self.form(self._layout.axes)
        return tile if copied else self._converted(tile, term)

    def _is_column(self, form: Form) -> bool:
        """Whether a tile has one column. An axis that is read backwards is taken element by element."""
        return form.rows and (not form.columns or self._layout.column in self._layout.flipped)

    def _column(self, term: Term, tensor: ir.Value, offsets: list[Index], extents: list[Index]) -> ir.Value:
        """An ``[N, 1]`` tile from memory where its elements need not lie next to each other."""
        writer, dtype = self._writer, term.type.dtype
        rows, valid = self._tiling.rows, self._valid[0]
        if dtype in BY_NAME["row_max"].dtypes[writer.target.name]:
            return self._converted(writer.load(tensor, offsets, extents, (rows, 1), (valid, 1)), term)
        # The machine brings elements together in other dtypes only.
        wide = writer.load(tensor, offsets, extents, (rows, ROW_ALIGNMENT // dtype.bytes), (valid, 1))
        computed = writer.convert(wide, FP32 if dtype.is_float else FP16)
        return writer.convert(writer.operator("row_max", computed), computing_dtype(dtype))

    def _without_units(self, tensor: ir.Value, axes: Axes) -> tuple[ir.Value, Axes]:
        """A tensor whose elements come before dimensions of extent 1, without those; a number as one element."""
        if not axes:
            return self._writer.one_element(tensor), (None,)
        if axes[-1] is not None or not (self._layout.has_columns(axes) or self._is_line(tensor, axes)):
            return tensor, axes
        return self._writer.drop(tensor, axes), tuple(axis for axis in axes if axis is not None)

    def _is_line(self, tensor: ir.Value, axes: Axes) -> bool:
        """Whether what lies along the rows of a tile lies in one piece."""
        present = [dim for dim, axis in enumerate(axes) if axis is not None]
        alone = len(present) == 1 and (axes[present[0]],) == self._tiling.group
        return alone and self._writer.types.tensor(tensor).strides[present[0]] == 1

    def _converted(self, tile: ir.Value, term: Term) -> ir.Value:
        return self._writer.convert(tile, computing_dtype(term.type.dtype))

    def write(self, destination: ir.Value) -> None:
        """Compute the root, and write it to its part of a tensor."""
        self.store(self.tile(self._layout.root), self._layout.axes, destination)

    def store(self, tile: ir.Value, axes: Axes, tensor: ir.Value) -> None:
        """Write a tile to the part of a tensor whose dimensions run along these axes, in the tensor's dtype."""
        writer, form = self._writer, self.form(axes)
        tensor, axes = self._without_units(tensor, axes)
        offsets, extents = self.box(axes)
        if self._form_of(tile) != self.whole(axes):
            tile = self.spread(as_number(writer, tile), self.whole(axes))
        kind, dtype = writer.tile(tile), writer.types.tensor(tensor).dtype
        last = axes[-1] if axes else None
        column = self._is_column(form) and self._tiling.rows != 1 and last not in self._tiling.group
        expanded = BY_NAME["row_expand"].dtypes[writer.target.name]
        if column and dtype not in expanded and kind.space is Space.VEC:
            # As the first of each row's elements, which are converted where the machine spreads them.
            tile = as_number(writer, writer.convert(tile, FP32) if kind.dtype.is_float else tile)
            shape = (kind.shape[0], ROW_ALIGNMENT // dtype.bytes)
            blank = self._blank(shape, (self._valid[0], 1), writer.tile(tile).dtype)
            tile = writer.operator("row_expand", blank, tile)
        tile = writer.convert(tile, dtype) if kind.space is Space.VEC else tile
        if form.rows and not form.columns and last in self._tiling.group:
            tile = writer.operator("reshape", tile, shape=(1, self._shape(form)[0]))
        writer.store(tile, tensor, offsets, extents)

    # Operators

    def _fill(self, term: Term) -> ir.Value:
        assert term.node is not None
        form = self.form(term.axes)
        dtype = computing_dtype(term.type.dtype)
        tile = self._writer.operator("full", term.node.operands[0], shape=self._shape(form), dtype=dtype)
        return self._writer.limited(tile, self._extents(form))

    def _count(self, term: Term) -> ir.Value:
        writer, form, (axis,) = self._writer, self.form(term.axes), term.axes
        place = Place(0, 1) if axis is None else self._places[axis]
        along = max(self._shape(form))
        if along == 1:
            return writer.operator("full", writer.as_number(place.offset), shape=(1, 1), dtype=INT32)
        line = writer.operator("ci", writer.as_number(place.offset), shape=(1, along), dtype=INT32)
        line = writer.limited(line, (1, max(self._extents(form), key=lambda extent: extent != 1)))
        return writer.operator("reshape", line, shape=(along, 1)) if form.rows else line

    def _reduce(self, term: Term) -> ir.Value:
        assert term.node is not None
        source = term.terms[0]
        tile = self.tile(source)
        if self._layout.column not in term.reduced:
            return tile
        # What is the same in all columns may be a tile of one.
        whole = Form(self._form_of(tile).rows, self._tiling.columns != 1)
        tile = self.spread(tile, whole) if self._form_of(tile) != whole else tile
        tile = self._writer.convert(tile, computing_dtype(source.type.dtype))
        return self._writer.operator(f"row_{text(term.node.op, 'row')}", tile)

    def _map(self, term: Term) -> ir.Value:
        assert term.node is not None
        name = text(term.node.op, "row")
        assert name is not None
        dtype = computing_dtype(term.type.dtype)
        operands = [self._operand(operand, dtype, name == "cast") for operand in term.operands]
        if name == "cast":
            return self._cast(operands[0], term)
        if name == "cmp":
            whole, (left, right) = self._whole_of(operands, dtype)
            bits = compare(self._writer, text(term.node.op, "mode") or "eq", (left, right))
            return self._chosen(bits, [self._writer.number(n, dtype) for n in (1, 0)], whole, dtype)
        if len(operands) == 1:
            return self._writer.operator(name, self._as_tile(operands[0], dtype))
        return self._binary(name, operands, term)

    def _select(self, term: Term) -> ir.Value:
        dtype = computing_dtype(term.type.dtype)
        condition, *values = term.operands
        assert isinstance(condition, Term)
        chosen = [self._operand(value, dtype, False) for value in values]
        if condition.node is None or not is_comparison(condition) or condition in self.known:
            whole, (mask, *chosen) = self._whole_of([as_number(self._writer, self.tile(condition)), *chosen], dtype)
            return self._chosen(is_set(self._writer, mask), chosen, whole, dtype)
        # What is only compared to choose needs no numbers for true and false.
        of = computing_dtype(term.terms[0].type.dtype)
        operands = [self._operand(operand, of, False) for operand in term.terms[0].operands]
        whole, (left, right, *chosen) = self._whole_of([*operands, *chosen], of)
        bits = compare(self._writer, text(condition.node.op, "mode") or "eq", (left, right))
        return self._chosen(bits, chosen, whole, dtype)

    def _whole_of(self, operands: list[ir.Value], dtype: DType) -> tuple[Form, list[ir.Value]]:
        """Operands spread to the form that all of them have together, along rows; scalars as they are.

        Of the first two at least one becomes a tile, of this dtype.
        """
        writer = self._writer
        tiles = [operand for operand in operands if writer.types.tile(operand) is not None]
        whole = Form(False, False)
        for tile in tiles:
            whole = whole | self._form_of(tile)
        result = [
            along_rows(writer, self.spread(operand, whole)) if operand in tiles else operand for operand in operands
        ]
        if all(writer.types.tile(operand) is None for operand in result[:2]):
            result[0] = self._full(result[0], whole, dtype)
        return whole, result

    def _full(self, scalar: ir.Value, whole: Form, dtype: DType) -> ir.Value:
        """A tile of one number, along rows."""
        tile = self._writer.operator("full", scalar, shape=self._shape(whole), dtype=dtype)
        return along_rows(self._writer, self._writer.limited(tile, self._extents(whole)))

    def _chosen(self, bits: Bits, values: list[ir.Value], whole: Form, dtype: DType) -> ir.Value:
        writer = self._writer
        first = 1 if bits.opposite else 0
        if writer.types.tile(values[first]) is None:
            values[first] = self._full(values[first], whole, dtype)
        tile = choose(writer, bits, *values)
        shape = self._shape(whole)
        return tile if writer.tile(tile).shape == shape else writer.operator("reshape", tile, shape=shape)

    def _operand(self, operand: Term | ir.Value, dtype: DType, as_it_is: bool) -> ir.Value:
        if isinstance(operand, ir.Value):
            return operand
        if operand.kind == "fill" and computing_dtype(operand.type.dtype) == dtype and not as_it_is:
            assert operand.node is not None
            return operand.node.operands[0]
        tile = self.tile(operand)
        return tile if as_it_is else self._writer.convert(tile, dtype)

    def _cast(self, tile: ir.Value, term: Term) -> ir.Value:
        assert term.node is not None
        mode = text(term.node.op, "mode") or "rint"
        # Whoever computes with a narrow float widens it; memory takes it as it is.
        return self._writer.convert(tile, term.type.dtype, mode)

    def _binary(self, name: str, operands: list[ir.Value], term: Term) -> ir.Value:
        writer = self._writer
        scalars = [k for k, operand in enumerate(operands) if writer.types.tile(operand) is None]
        if len(scalars) == 2:
            operands[0] = self._as_tile(operands[0], computing_dtype(term.type.dtype))
            scalars = [1]
        if scalars:
            row = WITH_SCALAR[name][1 - scalars[0]]
            tile, scalar = operands[1 - scalars[0]], operands[scalars[0]]
            if row is None and name == "sub":
                return writer.operator("adds", writer.operator("neg", tile), scalar)
            if row is not None and writer.tile(tile).dtype in BY_NAME[row].dtypes[writer.target.name]:
                return writer.operator(row, tile, scalar)
            # The machine only has the operator of two tiles.
            kind = writer.tile(tile)
            full = writer.operator("full", scalar, shape=kind.shape, dtype=kind.dtype)
            operands[scalars[0]] = self._writer.limited(full, self._extents(self._form_of(tile)))
        left, right = operands
        forms = [self._form_of(tile) for tile in operands]
        whole = forms[0] | forms[1]
        if forms[0] != whole and forms[1] == whole and name in _COMMUTES:
            left, right, forms = right, left, forms[::-1]
        if forms[0] != whole:
            left = self.spread(left, whole, right if forms[1] == whole else None)
        expands = whole == Form(True, True) and name in EXPANSION_OF
        if forms[1] != whole and expands and forms[1] != Form(False, False):
            axis = "row" if forms[1].rows else "col"
            return writer.operator(f"{axis}_expand_{EXPANSION_OF[name]}", left, right)
        return writer.operator(name, left, self.spread(right, whole, left))

    def _as_tile(self, operand: ir.Value, dtype: DType) -> ir.Value:
        """A tile as it is, a scalar as a tile of one element."""
        if self._writer.types.tile(operand) is not None:
            return operand
        return self._writer.operator("full", operand, shape=(1, 1), dtype=dtype)

    def _form_of(self, tile: ir.Value) -> Form:
        rows, columns = self._writer.tile(tile).shape
        shape = (self._tiling.rows, self._tiling.columns)
        return Form(rows == shape[0] and shape[0] != 1, columns == shape[1] and shape[1] != 1)

    def spread(self, tile: ir.Value, whole: Form, like: ir.Value | None = None) -> ir.Value:
        """A vector or a single element as a tile of another form; ``like`` is a tile of that form, if there is one."""
        writer, form = self._writer, self._form_of(tile)
        dtype = writer.tile(tile).dtype
        expanded = BY_NAME["row_expand"].dtypes[writer.target.name]
        if form != whole and dtype not in expanded:
            # The widest way there and back is exact.
            wide = max(expanded & writer.target.casts[dtype], key=lambda each: (each.bits, each.name))
            return writer.convert(self.spread(writer.convert(tile, wide), whole), dtype)
        if whole.rows and not whole.columns and not form.rows:
            line = writer.operator("row_expand", self._blank((1, self._tiling.rows), (1, self._valid[0]), dtype), tile)
            return writer.operator("reshape", line, shape=(self._tiling.rows, 1))
        if whole.columns and not form.columns:
            step = Form(form.rows, True)
            target = like if step == whole and like is not None else self._blank_of(step, dtype)
            tile, form = writer.operator("row_expand", target, tile), step
        if whole.rows and not form.rows:
            tile = writer.operator("col_expand", self._blank_of(whole, dtype) if like is None else like, tile)
        return tile

    def whole(self, axes: Axes) -> Form:
        """The form of a tensor of these axes, as its tiles show it."""
        form = self.form(axes)
        return Form(form.rows and self._tiling.rows != 1, form.columns and self._tiling.columns != 1)

    def _blank_of(self, form: Form, dtype: DType) -> ir.Value:
        return self._blank(self._shape(form), self._extents(form), dtype)

    def _blank(self, shape: tuple[int, int], extents: tuple[Index, Index], dtype: DType) -> ir.Value:
        """A tile whose contents do not matter."""
        blank = self._writer.emitter.value("pypto.create_tile", (), TileType(shape, dtype, Space.VEC, shape))
        return self._writer.limited(blank, extents)

    def zeros(self, tile: ir.Value, dtype: DType) -> ir.Value:
        """Zeros in the form of another tile."""
        writer, form = self._writer, self._form_of(tile)
        filled = writer.operator("full", writer.number(0, dtype), shape=writer.tile(tile).shape, dtype=dtype)
        return self._writer.limited(filled, self._extents(form))
