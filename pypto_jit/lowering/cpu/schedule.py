"""What a fused group evaluates in each pass, which tiles it writes to memory, and whether sharing memory allows it.

Buffers reuse addresses once a tile is dead. A nest interleaves instructions, row by row and column by column, so an
instruction may only write where another of the group reads or writes if both go over the memory in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from pypto_jit.lowering.cpu.fusion import FromStep, FromTile, Group, GroupBuilder, Role, row_step
from pypto_jit.lowering.cpu.liveness import Live
from pypto_jit.lowering.cpu.planes import tile_plane
from pypto_jit.lowering.cpu.program import Instruction, Program, Tile

_LATE = 1 << 20


@dataclass(frozen=True)
class Access:
    """One step's use of a tile's memory.

    Attributes:
        time: pass and place within the pass of the access as emitted.
        order: number of the step in program order.
        mapping: accesses of equal mapping touch the same bytes at the same place of the nest.
    """

    time: tuple[float, int]
    order: int
    start: int
    end: int
    mapping: tuple[object, ...]
    writes: bool


def longest_group(program: Program, instructions: list[Instruction], live: dict[Instruction, Live]) -> Group:
    """The longest prefix of fusible instructions that can be one nest, scheduled."""
    builder = GroupBuilder()
    count = 0
    for instruction in instructions:
        if not builder.add(instruction):
            break
        count += 1
    while True:
        assert builder.group is not None
        conflict = _schedule(program, builder.group, live[instructions[count - 1]])
        if conflict is None or count == 1:
            return builder.group
        count = max(1, conflict)
        builder = GroupBuilder()
        for instruction in instructions[:count]:
            builder.add(instruction)


def _schedule(program: Program, group: Group, live: Live) -> int | None:
    """Fill in ``stored`` and ``passes``; the step that cannot be part of the group, if there is one."""
    last: dict[int, int] = {}
    for number, step in enumerate(group.steps):
        for buffer in step.instruction.writes:
            last[buffer] = number
    for buffer, number in last.items():
        group.steps[number].stored = buffer in live
    for step in group.steps:
        for source in step.sources:
            if isinstance(source, FromStep):
                made = group.steps[source.step]
                later = not made.per_row and made.level < step.level
                if later and not group.recomputed(source.step):
                    made.stored = True
    levels = 1 + max(step.level for step in group.steps)
    group.passes = [_evaluated(group, level) for level in range(levels)]
    return _conflict(_accesses(program, group))


def _evaluated(group: Group, level: int) -> list[int]:
    needed: set[int] = set()

    def need(number: int) -> None:
        if number in needed:
            return
        needed.add(number)
        for source in group.steps[number].sources:
            if isinstance(source, FromStep) and in_columns(group, source, level):
                need(source.step)

    for number, step in enumerate(group.steps):
        effect = step.stored or step.role in (Role.REDUCE, Role.STORE)
        if step.level == level and effect and step.role is not Role.ROW:
            need(number)
    return sorted(needed)


def in_columns(group: Group, source: FromStep, level: int) -> bool:
    """Whether a pass computes the source itself, rather than read it from memory or have it per row."""
    made = group.steps[source.step]
    return not made.per_row and (made.level == level or group.recomputed(source.step))


def can_be_indirect(group: Group, number: int) -> bool:
    """Whether a load or store may have to go through its tile's memory, decided while running."""
    step = group.steps[number]
    assert step.plane is not None
    if step.plane.column_stride != 1:
        return True
    if step.role is Role.LOAD:
        return group.has_store
    return any(other.role is Role.STORE for other in group.steps[:number])


def _accesses(program: Program, group: Group) -> list[Access]:
    found: list[Access] = []
    for level, numbers in enumerate(group.passes):
        for number in numbers:
            _column_accesses(program, group, level, number, found)
    for number, step in enumerate(group.steps):
        if step.role is Role.ROW:
            time = (step.level, number - _LATE)
            for source in step.sources:
                if isinstance(source, FromTile):
                    found.append(_access(program, source.tile, time, number, "row", False))
            if step.stored:
                found.append(_access(program, step.instruction.result, time, number, "row", True))
        elif step.role is Role.REDUCE and step.stored:
            time = (step.level, number + _LATE)
            found.append(_access(program, step.instruction.result, time, number, "row", True))
        elif step.role is Role.LOAD and can_be_indirect(group, number):
            found.append(_access(program, step.instruction.result, (-1, number), number, "matrix", True))
        elif step.role is Role.STORE and can_be_indirect(group, number):
            tile = step.instruction.tile("src")
            found.append(_access(program, tile, (step.level, number), number, "matrix", True))
            found.append(_access(program, tile, (inf, number), number, "matrix", False))
    return found


def _column_accesses(program: Program, group: Group, level: int, number: int, found: list[Access]) -> None:
    step = group.steps[number]
    time = (level, number)
    if step.role is Role.LOAD and can_be_indirect(group, number):
        found.append(_access(program, step.instruction.result, time, number, "matrix", False))
    for source in step.sources:
        if isinstance(source, FromTile):
            found.append(_access(program, source.tile, time, number, source.kind, False))
        elif isinstance(source, FromStep) and from_memory(group, source, level):
            tile = group.steps[source.step].instruction.result
            found.append(_access(program, tile, time, number, "matrix", False))
    if step.stored and step.level == level and step.role is not Role.REDUCE:
        found.append(_access(program, step.instruction.result, time, number, "matrix", True))


def from_memory(group: Group, source: FromStep, level: int) -> bool:
    """Whether a pass reads the source where an earlier pass has put it: in its tile."""
    return not group.steps[source.step].per_row and not in_columns(group, source, level)


def _access(program: Program, tile: Tile, time: tuple[float, int], order: int, kind: str, writes: bool) -> Access:
    start = program.position(tile)
    stride = row_step(tile) if kind == "row" else tile_plane(tile).row_stride
    return Access(time, order, start, start + tile.bytes, (kind, start, stride, tile.dtype.bytes), writes)


def _conflict(accesses: list[Access]) -> int | None:
    """The earliest step that may not follow an earlier one in a nest."""
    worst: int | None = None
    ordered = sorted(accesses, key=lambda a: a.order)
    for k, second in enumerate(ordered):
        for first in ordered[:k]:
            if not (first.writes or second.writes) or first.end <= second.start or second.end <= first.start:
                continue
            in_step = first.mapping == second.mapping and (first.time <= second.time or first.order == second.order)
            if not in_step and first.order != second.order and (worst is None or second.order < worst):
                worst = second.order
    return worst
