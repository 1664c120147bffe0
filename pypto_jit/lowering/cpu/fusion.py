"""Consecutive instructions over the same rows and columns become one loop nest; this decides which, and in what passes.

A nest walks over rows, and within a row over columns once per *pass*: what needs a row's reduction waits for the next
pass. Values stay in registers within a pass. A tile's memory is written only where somebody reads it there: after the
group, or in a later pass of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pypto_jit._mlir import ir
from pypto_jit.dtypes import FP32
from pypto_jit.lowering.cpu.elements import ELEMENTS
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.planes import Plane, box_plane, tile_plane
from pypto_jit.lowering.cpu.program import Box, Instruction, Tile
from pypto_jit.targets import Space

_ELEMENT_RULES = frozenset({"elementwise", "cast", "full", "row_expand", "col_expand", "move"})
# Work on one scalar per row is done once per row if the row is long; else it is quicker as a vector of its own.
_LONG_ROW = 256
# A nest takes no more instructions, however many could join it.
MOST_STEPS = 64


class Role(Enum):
    """What a step does in the nest."""

    ELEMENT = "a value per element"
    REDUCE = "a value per row, from the row's elements"
    ROW = "a value per row, from values per row"
    LOAD = "elements from global memory"
    STORE = "elements to global memory"


@dataclass(frozen=True)
class FromStep:
    """The result of an earlier step of the group."""

    step: int


@dataclass(frozen=True)
class FromTile:
    """A tile's memory: per element (``matrix``), per row ``stride`` elements apart (``row``) or per ``column``."""

    tile: Tile
    kind: str
    stride: int = 1


@dataclass(frozen=True)
class FromScalar:
    """The same value everywhere."""

    value: ir.Value


Source = FromStep | FromTile | FromScalar


@dataclass(eq=False)
class Step:
    """One instruction of a group.

    Attributes:
        level: the pass it belongs to; a ROW step runs before the columns of its pass.
        stored: whether its tile's memory is written.
        plane: of the box, for LOAD and STORE.
    """

    instruction: Instruction
    role: Role
    sources: list[Source]
    level: int
    stored: bool = False
    plane: Plane | None = None

    @property
    def per_row(self) -> bool:
        """Whether it gives one value per row."""
        return self.role in (Role.REDUCE, Role.ROW)

    @property
    def cost(self) -> int:
        """Rough number of vector instructions."""
        if self.role is Role.ELEMENT or self.role is Role.ROW:
            name = self.instruction.row.name
            return 3 if name == "cast" else 0 if name == "move" else ELEMENTS[name].cost
        return 1


@dataclass(eq=False)
class Group:
    """Steps that become one nest over ``rows`` and ``columns``.

    Attributes:
        passes: for each pass the numbers of the steps it evaluates, in program order.
    """

    rows: Extent
    columns: Extent
    steps: list[Step] = field(default_factory=list)
    passes: list[list[int]] = field(default_factory=list)

    @property
    def has_store(self) -> bool:
        """Whether global memory is written."""
        return any(step.role is Role.STORE for step in self.steps)

    def recomputed(self, number: int) -> bool:
        """Whether a later pass computes the step's value anew rather than read it from memory."""
        step = self.steps[number]
        if step.role is Role.LOAD:
            return True
        # A value that is in memory is read there; it may also have taken the place of what it was computed from.
        if step.stored or step.role is not Role.ELEMENT or step.cost > 1 or step.instruction.result.dtype != FP32:
            return False
        return not any(isinstance(s, FromStep) and self.steps[s.step].role is Role.ELEMENT for s in step.sources)


def is_fusible(instruction: Instruction) -> bool:
    """Whether the instruction can be a step of a nest at all."""
    return _role(instruction) is not None


def _role(instruction: Instruction) -> Role | None:
    rule = instruction.row.rule
    if rule == "load":
        box = instruction.operands["partition"]
        assert isinstance(box, Box)
        return Role.LOAD if _direct(box, instruction.result) is not None else None
    if rule == "store":
        assert isinstance(instruction.destination, Box)
        tile = instruction.tile("src")
        plane = None if instruction.adds else _direct(instruction.destination, tile)
        same = tile.dtype == instruction.destination.view.dtype
        fits = plane is not None and (same or plane.column_stride == 1)
        return Role.STORE if fits else None
    if any(t.space in (Space.LEFT, Space.RIGHT) or not _row_major(t) for t in instruction.tiles):
        return None
    if rule == "row_reduction":
        return Role.REDUCE
    return Role.ELEMENT if rule in _ELEMENT_RULES else None


def _row_major(tile: Tile) -> bool:
    return tile.type.is_column_vector or tile.strides[1] == 1


def _direct(box: Box, tile: Tile) -> Plane | None:
    """The box as a plane, where a nest can read or write it: columns side by side, or found to be so at run time."""
    plane = box_plane(box, tile)
    if plane is None or not _row_major(tile) or plane.extents != tile_plane(tile).extents:
        return None
    return None if isinstance(plane.column_stride, int) and plane.column_stride != 1 else plane


def row_step(tile: Tile) -> int:
    """Elements between the values of neighbouring rows in a tile that holds one value per row."""
    return 1 if tile.type.is_column_vector or tile.type.shape[0] == 1 else tile.strides[0]


class GroupBuilder:
    """Collects instructions while they fit together."""

    def __init__(self) -> None:
        self.group: Group | None = None
        self._current: dict[int, int] = {}
        self._level = 0

    def add(self, instruction: Instruction) -> bool:
        """Append an instruction; False, and no change, where it does not fit."""
        step = self._step(instruction)
        if step is None:
            return False
        if self.group is None:
            self.group = Group(*self._domain(instruction))
        self._level = max(self._level, step.level)
        for buffer in instruction.writes:
            self._current[buffer] = len(self.group.steps)
        self.group.steps.append(step)
        return True

    def _domain(self, instruction: Instruction) -> tuple[Extent, Extent]:
        if instruction.row.rule in ("row_reduction", "store"):
            return tile_plane(instruction.tile("src")).extents
        return tile_plane(instruction.result).extents

    def _step(self, instruction: Instruction) -> Step | None:
        role = _role(instruction)
        if role is None:
            return None
        domain = self._domain(instruction)
        if self.group is not None:
            if len(self.group.steps) >= MOST_STEPS or (role is Role.LOAD and self.group.has_store):
                return None
            if domain != (self.group.rows, self.group.columns):
                if role is not Role.ELEMENT or not self._per_row(instruction, domain):
                    return None
                role = Role.ROW
        rows, columns = domain if self.group is None else (self.group.rows, self.group.columns)
        sources: list[Source] = []
        for name, operand in instruction.operands.items():
            if name == "tmp" or isinstance(operand, Box):
                continue
            source = self._source(operand, role, name, instruction.row.rule, (rows, columns))
            if source is None:
                return None
            sources.append(source)
        plane = None
        if role is Role.LOAD:
            box = instruction.operands["partition"]
            assert isinstance(box, Box)
            plane = box_plane(box, instruction.result)
        elif role is Role.STORE:
            assert isinstance(instruction.destination, Box)
            plane = box_plane(instruction.destination, instruction.tile("src"))
            narrowing = instruction.destination.view.dtype != instruction.tile("src").dtype
            if narrowing and self.group is not None and self.group.has_store:
                return None
        return Step(instruction, role, sources, self._earliest(sources), plane=plane)

    def _per_row(self, instruction: Instruction, domain: tuple[Extent, Extent]) -> bool:
        """Whether a step over ``[1, N]`` is a value for each of the group's N rows."""
        assert self.group is not None
        rows, columns = self.group.rows, self.group.columns
        if domain[0] != 1 or domain[1] != rows or instruction.row.rule in ("row_expand", "col_expand"):
            return False
        if isinstance(columns, int) and columns < _LONG_ROW:
            return False
        # Without a reduction before it, it is better off in a nest of its own.
        return any(step.role is Role.REDUCE for step in self.group.steps)

    def _source(
        self, operand: Tile | Box | ir.Value, role: Role, name: str, rule: str, domain: tuple[Extent, Extent]
    ) -> Source | None:
        if not isinstance(operand, Tile):
            assert isinstance(operand, ir.Value)
            return FromScalar(operand)
        kind, stride = "matrix", 1
        if role is Role.ROW:
            kind = "row"
        elif name == "vector":
            kind = "row" if rule == "row_expand" else "column"
            stride = row_step(operand)
        plane = tile_plane(operand)
        if kind == "matrix" and plane.extents != domain and self.group is not None:
            # The first step is taken in any case; `agreement` reports extents that differ while running.
            return None
        number = self._current.get(operand.buffer)
        if number is None:
            return FromTile(operand, kind, stride)
        assert self.group is not None
        producer = self.group.steps[number]
        made = producer.instruction.result
        same = made.address == operand.address and made.dtype == operand.dtype
        if kind == "matrix":
            fits = not producer.per_row and made.strides == operand.strides
        else:
            fits = producer.per_row if kind == "row" else not producer.per_row and domain[0] == 1
        return FromStep(number) if same and fits else None

    def _earliest(self, sources: list[Source]) -> int:
        level = self._level
        assert self.group is not None or level == 0
        for source in sources:
            if isinstance(source, FromStep) and self.group is not None:
                made = self.group.steps[source.step]
                level = max(level, made.level + (made.role is Role.REDUCE))
        return level
