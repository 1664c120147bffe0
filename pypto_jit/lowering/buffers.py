"""Tile values become tile buffers: which values share one, and the handle through which each is read and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.types import DYNAMIC, TileBufType
from pypto_jit.dtypes import FP16, FP32, INT16, INT32
from pypto_jit.errors import LayoutError
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.layouts import as_row, buffer_type, transposed
from pypto_jit.lowering.liveness import Interference
from pypto_jit.lowering.padding import padded_alike
from pypto_jit.lowering.spans import span_of_location
from pypto_jit.lowering.tree import LOOPS, Body, Node, carried
from pypto_jit.targets import Space, Target

_MOVED_AS = {INT32: FP32, INT16: FP16}
Extents = tuple[ir.Value | None, ir.Value | None]
STATIC: Extents = (None, None)
_VIEWS = frozenset({"pypto.reshape", "pypto.transpose_view", "pypto.set_validshape"})


@dataclass(frozen=True)
class TileRef:
    """A handle on a buffer, its type, and its valid extents where they are only known at run time."""

    handle: ir.Value
    type: TileBufType
    extents: Extents = STATIC

    @property
    def turned(self) -> Extents:
        """The extents of the transpose."""
        rows, columns = self.extents
        return columns, rows


class Buffers:
    """The buffers of one function."""

    def __init__(self, body: Body, emitter: Emitter, target: Target) -> None:
        self._emitter = emitter
        self._types = emitter.types
        self._target = target
        self._refs: dict[ir.Value, TileRef] = {}
        self._bases: dict[ir.Value, TileRef] = {}
        self._physical = padded_alike(body, self._types, target)
        self._roots: dict[ir.Value, ir.Value] = {}
        self._undefined: set[ir.Value] = set()
        self._inspect(body)
        self._interference = Interference(body, self.is_tile, self._root, self._in_place)
        self._share(body)

    def is_tile(self, value: ir.Value) -> bool:
        """Whether a value is a tile."""
        return self._types.tile(value) is not None

    def physical(self, value: ir.Value) -> TileBufType:
        """The buffer type of a tile value."""
        found = self._physical.get(value)
        if found is None:
            tile = self._types.tile(value)
            assert tile is not None
            found = self._physical[value] = buffer_type(tile, self._target)
        return found

    def ref(self, value: ir.Value) -> TileRef:
        """The handle of a tile that is defined already."""
        return self._refs[value]

    def has(self, value: ir.Value) -> bool:
        """Whether a value is a tile with a handle."""
        return value in self._refs

    def bind(self, value: ir.Value, ref: TileRef) -> None:
        """Let a tile value be read through a handle."""
        self._refs[value] = ref

    def define(self, value: ir.Value, extents: Extents) -> TileRef:
        """The handle that the definition of a tile value writes; makes the buffer where it is the first."""
        kind = self.physical(value)
        name = self._interference.same_buffer(value)
        base = self._bases.get(name)
        if base is None:
            ref = self._bases[name] = self.allocate(kind, extents)
        else:
            ref = self.view(base, kind, extents)
        self._refs[value] = ref
        return ref

    def allocate(self, kind: TileBufType, extents: Extents = STATIC) -> TileRef:
        """A new buffer."""
        handle = self._emitter.value("pto.alloc_tile", [e for e in extents if e is not None], kind)
        return TileRef(handle, kind, extents)

    def view(self, base: TileRef, kind: TileBufType, extents: Extents = STATIC) -> TileRef:
        """Another handle on a buffer; the same one where type and extents agree."""
        if kind == base.type and extents == base.extents:
            return base
        operands = [base.handle, *(e for e in extents if e is not None)]
        return TileRef(self._emitter.value("pto.treshape", operands, kind), kind, extents)

    def prepare(self, value: ir.Value) -> None:
        """Make the buffer of a tile that is written inside a region, here before the region's operation."""
        name = self._interference.same_buffer(value)
        if name in self._bases:
            return
        kind = self.physical(value)
        if DYNAMIC in kind.valid:
            kind = replace(kind, valid=kind.shape)
        self._bases[name] = self.allocate(kind)

    def stored_as(self, value: ir.Value, extents: Extents) -> TileRef:
        """The handle of a tile whose buffer `prepare` made, with its extents."""
        ref = self.view(self._bases[self._interference.same_buffer(value)], self.physical(value), extents)
        self._refs[value] = ref
        return ref

    def share(self, a: ir.Value, b: ir.Value) -> bool:
        """Whether two tiles lie in one buffer."""
        return self._interference.same_buffer(a) == self._interference.same_buffer(b)

    def copy_all(self, pairs: list[tuple[ir.Value, ir.Value]]) -> None:
        """Copy tiles into the buffers of others, all at once: sources are read as they were before.

        Raises:
            LayoutError: a copy is needed in a memory that the machine cannot copy within.
        """
        name = self._interference.same_buffer
        pending = [
            (self._refs[source], name(source), name(goal))
            for source, goal in pairs
            if name(source) != name(goal) and self._root(source) not in self._undefined
        ]
        while pending:
            sources = {source for _, source, _ in pending}
            ready = next((copy for copy in pending if copy[2] not in sources), None)
            if ready is None:
                # Every goal is still to be read: set one source aside to break the ring.
                ref, source, _ = pending[0]
                aside = self.allocate(ref.type, ref.extents)
                self.copy(ref, aside)
                pending = [(aside, aside.handle, goal) if s == source else (r, s, goal) for r, s, goal in pending]
                continue
            pending.remove(ready)
            ref, _, goal = ready
            self.copy(ref, self.view(self._bases[goal], ref.type, ref.extents))

    def copy(self, source: TileRef, goal: TileRef) -> None:
        """Emit a move within Vec."""
        space = source.type.space
        if (space, space) not in self._target.moves:
            raise LayoutError(
                f"{self._target.name} cannot copy a tile within {space.name.capitalize()}",
                span=span_of_location(self._emitter.location),
                found=f"a tile of {list(source.type.shape)} that is needed again, or needed by two at once",
                hint="carry one tile through the loop and use its old value before the new one is made",
            )
        if source.type.is_column_vector:
            source, goal = self.rotated(source), self.rotated(goal)
        if source.type.shape == goal.type.shape:
            self._emitter.emit("pto.tmov", (source.handle, goal.handle))
        else:
            self._pad_anew(source, goal)

    def _pad_anew(self, source: TileRef, goal: TileRef) -> None:
        """Copy into a buffer with other padding, as a move cannot: the maximum of a tile and itself is the tile."""
        dtype = source.type.dtype
        row = BY_NAME["maximum"]
        if dtype not in row.dtypes[self._target.name]:
            raise LayoutError(
                f"a reshaped tile of {dtype} is converted or carried with rows of another length",
                span=span_of_location(self._emitter.location),
                found=f"rows of {source.type.shape[1]} and of {goal.type.shape[1]} elements",
                hint="convert it before the reshape",
            )
        assert row.instruction is not None
        self._emitter.emit(f"pto.{row.instruction.operation}", (source.handle, source.handle, goal.handle))

    def rotated(self, ref: TileRef) -> TileRef:
        """A column vector seen as a row."""
        return self.view(ref, as_row(ref.type), ref.turned)

    def as_floats(self, ref: TileRef) -> TileRef:
        """A tile of 16- or 32-bit integers seen as floats of as many bits, which what moves parts of tiles takes."""
        other = _MOVED_AS.get(ref.type.dtype)
        return ref if other is None else self.view(ref, replace(ref.type, dtype=other), ref.extents)

    def move_part(
        self,
        name: str,
        source: TileRef,
        place: tuple[ir.Value, ir.Value],
        goal: TileRef,
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> None:
        """Emit the move of a part of a tile, ``textract`` or ``tinsert``, which starts at a row and a column."""
        handles = [self.as_floats(ref).handle for ref in (source, goal)]
        self._emitter.emit(f"pto.{name}", (handles[0], *place, handles[1]), attributes=attributes)

    def moves_width(self, kind: TileBufType) -> bool:
        """Whether the machine moves parts of so many valid columns."""
        size, unit, columns = kind.dtype.bytes, self._target.part_unit, kind.valid[1]
        return size % unit == 0 or (columns != DYNAMIC and columns * size % unit == 0)

    def whole_rows(self, ref: TileRef) -> TileRef:
        """A tile with all columns of its buffer valid, where parts are not moved by single elements of its dtype."""
        if ref.type.dtype.bytes % self._target.part_unit == 0:
            return ref
        kind = replace(ref.type, valid=(ref.type.valid[0], ref.type.shape[1]))
        return self.view(ref, kind, (ref.extents[0], None))

    def _root(self, value: ir.Value) -> ir.Value:
        found = self._roots.get(value, value)
        return self._root(found) if found != value else value

    def _inspect(self, body: Body) -> None:
        for node in body.walk():
            if node.name in _VIEWS:
                self._roots[node.results[0]] = node.operands[0]
            elif node.name == "pypto.create_tile":
                self._undefined.add(node.results[0])
            elif node.name == "pypto.move":
                self._inspect_move(node)
        for node in body.walk():
            if node.name == "pypto.transpose_view":
                self._physical[node.results[0]] = transposed(self.physical(node.operands[0]))

    def _inspect_move(self, node: Node) -> None:
        result, source = self._types.tile(node.results[0]), self._types.tile(node.operands[0])
        assert result is not None
        assert source is not None
        if result.space is Space.BIAS and source.space is Space.MAT:
            self._physical[node.operands[0]] = buffer_type(source, self._target, feeds_bias=True)

    def _in_place(self, node: Node, operand: ir.Value) -> bool:
        instruction = node.row.instruction if node.row is not None else None
        if instruction is None:
            return True
        mine, theirs = self.physical(node.results[0]), self.physical(operand)
        if instruction.tied is not None or instruction.updates:
            return True
        return instruction.inplace and mine.shape == theirs.shape and mine.layout == theirs.layout

    def _share(self, body: Body) -> None:
        nodes = list(body.walk())
        loops = [phi for node in nodes if node.name in LOOPS for phi in carried(node) if self.is_tile(phi[1])]
        for _, argument, _, result in loops:
            self._interference.unite(argument, result)
        for node in nodes:
            if node.row is not None and node.row.instruction is not None and node.row.instruction.tied:
                self._tie(node)
        for node in nodes:
            if node.row is not None and node.row.instruction is not None and node.row.instruction.updates:
                self._try(node.operands[0], node.results[0])
        for _, argument, yielded, _ in loops:
            self._try(argument, yielded)
        for node in nodes:
            if node.name == "scf.if":
                for inner in node.bodies:
                    for yielded, result in zip(inner.terminator.operands, node.results, strict=True):
                        if self.is_tile(result):
                            self._try(result, yielded)
        for initial, argument, _, _ in loops:
            self._try(argument, initial)

    def _try(self, a: ir.Value, b: ir.Value) -> None:
        mine, theirs = self.physical(self._root(a)), self.physical(self._root(b))
        fits = mine.space == theirs.space and mine.bytes == theirs.bytes
        if fits and not self._interference.interfere(a, b):
            self._interference.unite(a, b)

    def _tie(self, node: Node) -> None:
        accumulator, result = node.operands[0], node.results[0]
        if self._interference.interfere(accumulator, result):
            raise LayoutError(
                f"the accumulator of {node.name[6:]} is needed again after it is added to",
                span=node.span,
                expected="an accumulator whose old value nothing uses: the machine adds in place",
                hint="store the old value first, or start a second accumulator with pl.matmul",
            )
        self._interference.unite(accumulator, result)
