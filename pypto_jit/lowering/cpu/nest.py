"""A fused group as code: a loop over rows, and in each row one loop over columns per pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from pypto_jit._mlir import ir
from pypto_jit.dtypes import DType
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.access import Access, open_accesses
from pypto_jit.lowering.cpu.columns import Column, Columns, Sums
from pypto_jit.lowering.cpu.elements import ELEMENTS, FOLDS, Fold, start, unsigned_zero
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.frame import Frame, Held, scalar
from pypto_jit.lowering.cpu.fusion import FromScalar, FromStep, FromTile, Group, Role, Source, Step, row_step
from pypto_jit.lowering.cpu.planes import tile_plane
from pypto_jit.lowering.cpu.program import Box, Tile
from pypto_jit.lowering.cpu.schedule import from_memory

# Rows shorter than this are run as one where they lie one after another.
_SHORT_ROW = 1024


def emit_group(frame: Frame, group: Group) -> None:
    """Emit a scheduled group at the current place."""
    _Nest(frame, group).emit()


@dataclass
class _Row:
    """What is at hand in one row: addresses of what is walked along, and values per row by step or tile."""

    pointers: dict[object, ir.Value]
    values: dict[object, Held]


class _Nest:
    def __init__(self, frame: Frame, group: Group) -> None:
        self.frame = frame
        self.e = frame.e
        self.group = group
        self.scalars: dict[ir.Value, Held] = {}
        self.splats: dict[ir.Value, Held] = {}
        self.streams: dict[object, Access] = {}

    def emit(self) -> None:
        """Emit the nest."""
        e = self.e
        rows, columns = self._extents()
        accesses = open_accesses(self.frame, self.group, rows, columns)
        self.streams.update(accesses.by_step)
        self._open_tiles()
        self._open_scalars()
        self.columns = Columns(e, columns)
        if isinstance(columns, int) and columns < _SHORT_ROW and rows != 1 and self._is_flat(columns):
            self.columns = Columns(e, e.mul(rows, columns), columns)
            rows = 1

        def body(row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            self._row(row)
            return carried

        if isinstance(rows, int) and rows == 1:
            self._row(0)
        else:
            e.loop(0, rows, 1, [], body)
        accesses.finish()

    # -- before the loops

    def _extents(self) -> tuple[Extent, Extent]:
        """Rows and columns as numbers that no tile of the group is smaller than."""
        rows, columns = 1 << 31, 1 << 31
        for step in self.group.steps:
            for tile in step.instruction.tiles:
                if tile_plane(tile).extents == (self.group.rows, self.group.columns):
                    shape = tile.type.shape[::-1] if tile.type.is_column_vector else tile.type.shape
                    rows, columns = min(rows, shape[0]), min(columns, shape[1])
        return self.frame.bounded(self.group.rows, rows), self.frame.bounded(self.group.columns, columns)

    def _is_flat(self, columns: int) -> bool:
        """Whether all rows lie one after another and nothing differs from row to row."""
        steps = self.group.steps
        for step in steps:
            if step.per_row:
                return False
            for source in step.sources:
                if isinstance(source, FromTile) and source.kind != "matrix":
                    return False
                if isinstance(source, FromStep) and steps[source.step].per_row:
                    return False
            if step.plane is not None and (step.plane.row_stride, step.plane.column_stride) != (columns, 1):
                return False
        through_tiles = [s.instruction.result for s in steps if s.role is Role.LOAD]
        through_tiles += [s.instruction.tile("src") for s in steps if s.role is Role.STORE]
        return all(tile.strides == (columns, 1) for tile in (*self._walked(), *through_tiles))

    def _walked(self) -> list[Tile]:
        """The tiles whose memory is walked along, each once."""
        found: dict[Tile, None] = {}
        for level, numbers in enumerate(self.group.passes):
            for number in numbers:
                step = self.group.steps[number]
                for source in step.sources:
                    if isinstance(source, FromTile) and source.kind != "row":
                        found[source.tile] = None
                    elif isinstance(source, FromStep) and from_memory(self.group, source, level):
                        found[self.group.steps[source.step].instruction.result] = None
                if step.stored and not step.per_row:
                    found[step.instruction.result] = None
        return list(found)

    def _open_tiles(self) -> None:
        sources = [s for step in self.group.steps for s in step.sources if isinstance(s, FromTile)]
        columns = {s.tile for s in sources if s.kind == "column"}
        for tile in self._walked():
            stride = 0 if tile in columns else tile_plane(tile).row_stride
            self.streams[tile] = Access(self.frame.address(tile), self.e.mul(stride, tile.dtype.bytes))

    def _open_scalars(self) -> None:
        e = self.e
        for step in self.group.steps:
            for source in step.sources:
                if isinstance(source, FromScalar) and source.value not in self.scalars:
                    held = scalar(e, source.value, _dtype(step))
                    self.scalars[source.value] = held
                    stored, computed = held.stored(e), held.computed(e)
                    wide = e.splat(computed, e.lanes)
                    same = stored is computed
                    self.splats[source.value] = Held(held.dtype, wide if same else e.splat(stored, e.lanes), wide)

    # -- one row

    def _row(self, row: Extent) -> None:
        e = self.e
        state = _Row({}, {})
        for key, stream in self.streams.items():
            state.pointers[key] = e.address(stream.address, e.mul(row, stream.row_bytes))
        for key in self._fetched_ahead(row):
            state.pointers["next", key] = e.address(state.pointers[key], self.streams[key].row_bytes)
        for level in range(len(self.group.passes)):
            for number, step in enumerate(self.group.steps):
                if step.role is Role.ROW and step.level == level:
                    held = self.apply(step, [self._per_row(source, row, state) for source in step.sources])
                    self._keep(number, step, held, row, state)
            self._spread(level, row, state)
            if self.group.passes[level]:
                self._pass(level, row, state)

    def _fetched_ahead(self, row: Extent) -> list[int]:
        """Loads whose next row the last pass asks for, so that memory works while the passes compute."""
        extent = self.columns.extent
        short = isinstance(extent, int) and extent < _SHORT_ROW
        if short or isinstance(row, int) or len(self.group.passes) == 1:
            return []
        return [k for k in self.group.passes[0] if self.group.steps[k].role is Role.LOAD]

    def _keep(self, number: int, step: Step, held: Held, row: Extent, state: _Row) -> None:
        """Note a value per row, and write it to its tile where somebody reads it there."""
        state.values[number] = held
        if step.stored:
            tile = step.instruction.result
            offset = self.e.mul(row, row_step(tile) * tile.dtype.bytes)
            self.e.store(held.stored(self.e), self.frame.address(tile, offset))

    def _per_row(self, source: Source, row: Extent, state: _Row) -> Held:
        """The value of a row, as a scalar."""
        if isinstance(source, FromScalar):
            return self.scalars[source.value]
        if isinstance(source, FromStep):
            return state.values[source.step]
        tile = source.tile
        offset = self.e.mul(row, source.stride * tile.dtype.bytes)
        loaded = self.e.load(self.frame.address(tile, offset), convert.stored(tile.dtype))
        return Held(tile.dtype, stored_form=loaded)

    def _spread(self, level: int, row: Extent, state: _Row) -> None:
        """Spread the values per row that a pass uses over vectors."""
        for number in self.group.passes[level]:
            for source in self.group.steps[number].sources:
                key = self.row_key(source)
                if key is not None and key not in state.values:
                    held = self._per_row(source, row, state)
                    wide = self.e.splat(held.computed(self.e), self.e.lanes)
                    state.values[key] = Held(held.dtype, computed_form=wide)

    def row_key(self, source: Source) -> object:
        """Where `_spread` keeps the value of a source that has one value per row; None for any other source."""
        if isinstance(source, FromStep) and self.group.steps[source.step].per_row:
            return "spread", source.step
        if isinstance(source, FromTile) and source.kind == "row":
            return "spread", source.tile
        return None

    # -- one pass over the columns of a row

    def _pass(self, level: int, row: Extent, state: _Row) -> None:
        e, steps = self.e, self.group.steps
        numbers = self.group.passes[level]
        reductions = [k for k in numbers if steps[k].role is Role.REDUCE]
        neutral, combine = [], []
        for k in reductions:
            dtype = steps[k].instruction.result.dtype
            neutral.append(e.constant(start(_fold_name(steps[k]), dtype), convert.computed(dtype), e.lanes))
            combine.append(partial(_combine, self.frame, _fold(steps[k]), dtype))

        known: dict[object, ir.Value] = {}

        def body(columns: list[Column], mask: ir.Value | None, sums: list[Sums]) -> list[list[ir.Value]]:
            vectors = [
                _Vector(self, level, state, column, mask, known, before)
                for column, before in zip(columns, sums, strict=True)
            ]
            for number in numbers:
                for vector in vectors:
                    vector.evaluate(number)
            for vector in vectors:
                vector.fetch_ahead()
            return [vector.following for vector in vectors]

        cost = sum(steps[k].cost for k in numbers)
        totals = self.columns.run(cost, neutral, combine, body)
        for number, total in zip(reductions, totals, strict=True):
            step = steps[number]
            dtype = step.instruction.result.dtype
            across = unsigned_zero(e, _fold_name(step), dtype, _fold(step).across(e, dtype, total), self.columns.extent)
            self._keep(number, step, Held.rounded(e, across, dtype), row, state)

    def apply(self, step: Step, arguments: list[Held]) -> Held:
        """The result of an elementwise instruction."""
        e, instruction = self.e, step.instruction
        target = instruction.result.dtype
        if instruction.row.name in ("move", "full"):
            if arguments[0].dtype == target:
                return arguments[0]
            return Held.rounded(e, arguments[0].computed(e), target)
        values = [argument.computed(e) for argument in arguments]
        if instruction.row.rule == "cast":
            value = convert.cast(e, values[0], arguments[0].dtype, target, instruction.mode)
            return Held(target, computed_form=value)
        return Held.rounded(e, ELEMENTS[instruction.row.name].function(e, _dtype(step), values), target)


class _Vector:
    """One vector of one pass."""

    def __init__(
        self,
        nest: _Nest,
        level: int,
        state: _Row,
        column: Column,
        mask: ir.Value | None,
        known: dict[object, ir.Value],
        sums: Sums,
    ) -> None:
        self.nest = nest
        self.e = nest.e
        self.level = level
        self.state = state
        self.column = column
        self.mask = mask
        self.known = known
        self.sums = sums
        self.following: list[ir.Value] = []
        self.held: dict[object, Held] = {}

    def evaluate(self, number: int) -> None:
        """Emit a step of the pass; a reduction adds to `following`, the next partial results."""
        step = self.nest.group.steps[number]
        if step.role is Role.REDUCE:
            self.following.append(self._reduce(step, self.sums[len(self.following)]))
        elif step.role is Role.STORE:
            self._write(number, self._source(step.sources[0]), _stored_dtype(step))
        elif step.role is Role.LOAD:
            self.held[number] = self._read(number, step.instruction.result.dtype)
        else:
            self.held[number] = self.nest.apply(step, [self._source(s) for s in step.sources])
        if step.stored and step.level == self.level and step.role in (Role.LOAD, Role.ELEMENT):
            self._write(step.instruction.result, self.held[number], step.instruction.result.dtype)

    def fetch_ahead(self) -> None:
        """Emit, in the last pass, the prefetches of the next row."""
        if self.level < len(self.nest.group.passes) - 1:
            return
        for number, step in enumerate(self.nest.group.steps):
            if ("next", number) in self.state.pointers:
                self.e.prefetch(self._place(("next", number), step.instruction.result.dtype))

    def _reduce(self, step: Step, total: ir.Value | None) -> ir.Value:
        e, dtype = self.e, step.instruction.result.dtype
        value = self._source(step.sources[0]).computed(e)
        if self.mask is not None:
            value = e.select(self.mask, value, e.constant(start(_fold_name(step), dtype), *e.shape(value)))
        return value if total is None else _fold(step).combine(e, dtype, [value, total])

    def _source(self, source: Source) -> Held:
        nest = self.nest
        # Forms that are made here are not at hand elsewhere: values from outside of the loop are copied.
        if isinstance(source, FromScalar):
            return replace(nest.splats[source.value])
        key = nest.row_key(source)
        if key is not None:
            return replace(self.state.values[key])
        if isinstance(source, FromStep):
            if not from_memory(nest.group, source, self.level):
                return self.held[source.step]
            tile = nest.group.steps[source.step].instruction.result
        else:
            tile = source.tile
        if tile not in self.held:
            self.held[tile] = self._read(tile, tile.dtype)
        return self.held[tile]

    def _place(self, key: object, dtype: DType) -> ir.Value:
        return self.column.address(self.e, self.state.pointers[key], dtype.bytes, self.known)

    def _read(self, key: object, dtype: DType) -> Held:
        loaded = self.e.load(self._place(key, dtype), convert.stored(dtype), self.e.lanes, self.mask)
        return Held(dtype, stored_form=loaded)

    def _write(self, key: object, held: Held, dtype: DType) -> None:
        e = self.e
        if held.dtype != dtype:
            held = Held.rounded(e, held.computed(e), dtype)
        self.e.store(held.stored(e), self._place(key, dtype), self.mask)


def _dtype(step: Step) -> DType:
    """The dtype an instruction computes in."""
    return step.instruction.tiles[0].dtype


def _stored_dtype(step: Step) -> DType:
    box = step.instruction.destination
    assert isinstance(box, Box)
    return box.view.dtype


def _fold_name(step: Step) -> str:
    return step.instruction.row.name.partition("_")[2]


def _fold(step: Step) -> Fold:
    return FOLDS[_fold_name(step)]


def _combine(frame: Frame, fold: Fold, dtype: DType, a: ir.Value, b: ir.Value) -> ir.Value:
    return fold.combine(frame.e, dtype, [a, b])
