"""Workspaces: tensors in global memory through which the stages of a kernel hand tiles over."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TensorType
from pypto_jit.lowering.attributes import described_arguments, set_arguments
from pypto_jit.lowering.extents import Extent, Pair
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.slices import Insertion, Program, SliceWriter
from pypto_jit.lowering.stages import CannotStageError
from pypto_jit.lowering.tree import Node, constant, most_turns

WORKSPACE = "pypto.workspace"
# Slots are whole cache lines, so that the CPU can give each block a part of its own.
_SLOT_BYTES = 64


@dataclass(frozen=True)
class Handover:
    """A tile that an earlier stage leaves for later ones.

    Attributes:
        node: behind which it is left, and brought in.
        given: the tile in the earlier stage.
        taken: what it stands for in the later ones.
    """

    node: Node
    given: ir.Value
    taken: ir.Value


@dataclass(frozen=True)
class Workspace:
    """The tiles of one handover: a slot for each turn of the loops around it, one below the other."""

    number: int
    type: TensorType
    rows: int
    lowering: Lowering

    def store(self, handover: Handover, program: Program) -> Insertion:
        """What the stage that gives the tile does."""
        node = handover.node

        def insert(writer: SliceWriter, point: ir.InsertionPoint) -> None:
            emit = _Emit(self.lowering, node.op.location, point)
            tile = writer.values[handover.given]
            offsets = [self._row(node, program, writer, emit), emit.index(0)]
            emit.operation("pypto.store", [tile, writer.extra[self.number], *offsets], [])

        return insert

    def load(self, handover: Handover, program: Program, extents: Pair) -> Insertion:
        """What the stages that take the tile do."""
        node, taken = handover.node, handover.taken

        def insert(writer: SliceWriter, point: ir.InsertionPoint) -> None:
            emit = _Emit(self.lowering, node.op.location, point)
            offsets = [self._row(node, program, writer, emit), emit.index(0)]
            valid = [_extent(extent, writer, emit) for extent in extents]
            operands = [writer.extra[self.number], *offsets, *valid]
            writer.values[taken] = emit.operation("pypto.load", operands, [taken.type]).result

        return insert

    def _row(self, node: Node, program: Program, writer: SliceWriter, emit: _Emit) -> ir.Value:
        """The first row of the slot of this turn."""
        slot = emit.index(0)
        for loop in program.loops_around(node):
            trips = most_turns(loop)
            lower, step = loop.operands[0], constant(loop.operands[2])
            assert trips is not None
            assert step is not None
            start = constant(lower)
            first = writer.values[lower] if start is None else emit.index(start)
            turn = emit.arith("subi", writer.values[loop.bodies[0].arguments[0]], first)
            turn = emit.arith("divsi", turn, emit.index(step))
            slot = emit.arith("addi", emit.arith("muli", slot, emit.index(trips)), turn)
        return emit.arith("muli", slot, emit.index(self.rows))


def make_workspace(handover: Handover, program: Program, lowering: Lowering, number: int) -> Workspace:
    """The workspace of a handover.

    Raises:
        CannotStageError: the number of slots is not known.
    """
    tile = lowering.types.tile(handover.given)
    assert tile is not None
    counts = []
    for loop in program.loops_around(handover.node):
        trips = most_turns(loop)
        if trips is None:
            span = loop.span
            where = f" at line {span.line}" if span is not None else ""
            raise CannotStageError(
                f"the number of turns of the loop{where} is only known at run time, and each turn hands a tile to the "
                "other core"
            )
        counts.append(trips)
    rows, columns = tile.shape
    unit = _SLOT_BYTES // gcd(_SLOT_BYTES, columns * tile.dtype.bytes)
    rows = -(-rows // unit) * unit
    shape = (max(1, prod(counts)) * rows, columns)
    return Workspace(number, TensorType(shape, tile.dtype, (columns, 1)), rows, lowering)


def needed_by_store(handover: Handover, program: Program) -> list[ir.Value]:
    """What the stage that gives a tile computes for that."""
    return [handover.given, *(loop.bodies[0].arguments[0] for loop in program.loops_around(handover.node))]


def needed_by_load(node: Node, program: Program, extents: Pair) -> list[ir.Value]:
    """What a stage that takes a tile behind a node computes for that."""
    turns = [loop.bodies[0].arguments[0] for loop in program.loops_around(node)]
    return [*turns, *(factor for extent in extents for factor in extent.factors)]


def add_arguments(function: ir.Operation, workspaces: list[Workspace], lowering: Lowering) -> list[ir.Value]:
    """Give a function the workspaces as further arguments."""
    block = function.regions[0].blocks[0]
    count = len(block.arguments)
    described = described_arguments(function, count)
    mark = ir.DictAttr.get({WORKSPACE: ir.UnitAttr.get()})
    added: list[ir.Value] = [block.add_argument(lowering.types.build(w.type), function.location) for w in workspaces]
    set_arguments(function, [*described, *[mark] * len(added)])
    return added


def _extent(extent: Extent, writer: SliceWriter, emit: _Emit) -> ir.Value:
    if not extent.factors:
        return emit.index(extent.constant)
    value = writer.values[extent.factors[0]]
    for factor in extent.factors[1:]:
        value = emit.arith("muli", value, writer.values[factor])
    return emit.arith("addi", value, emit.index(extent.constant)) if extent.constant else value


class _Emit:
    def __init__(self, lowering: Lowering, location: ir.Location, point: ir.InsertionPoint) -> None:
        self._index = lowering.types.index
        self._location = location
        self._point = point

    def operation(
        self,
        name: str,
        operands: list[ir.Value],
        results: list[ir.Type],
        attributes: dict[str, Any] | None = None,
    ) -> ir.Operation:
        return ir.Operation.create(name, results, operands, attributes, loc=self._location, ip=self._point)

    def index(self, number: int) -> ir.Value:
        attribute = {"value": ir.IntegerAttr.get(self._index, number)}
        return self.operation("arith.constant", [], [self._index], attribute).result

    def arith(self, name: str, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        return self.operation(f"arith.{name}", [lhs, rhs], [self._index]).result
