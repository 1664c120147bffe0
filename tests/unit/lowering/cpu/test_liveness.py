"""Which buffers are read again, in straight lines, loops and branches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.types import TileBufType
from pypto_jit.dtypes import FP32
from pypto_jit.lowering.cpu.liveness import live_after
from pypto_jit.lowering.cpu.program import Block, Instruction, Nested, Tile
from pypto_jit.targets import ROW_MAJOR, Space


@dataclass
class Named:
    """Stands for an operation where only its name counts."""

    name: str


def tile(buffer: int) -> Tile:
    return Tile(TileBufType(Space.VEC, FP32, (1, 8), (1, 8), ROW_MAJOR), buffer, 32 * buffer, (1, 8))


def step(goal: int, *sources: int) -> Instruction:
    nothing: Any = None
    names = ("lhs", "rhs")
    operands: Any = {name: tile(source) for name, source in zip(names, sources, strict=False)}
    return Instruction(nothing, BY_NAME["add"], operands, tile(goal))


def loop(*items) -> Nested:
    named: Any = Named("scf.for")
    return Nested(named, [Block(list(items))])


def branch(*blocks) -> Nested:
    named: Any = Named("scf.if")
    return Nested(named, [Block(list(block)) for block in blocks])


def test_a_straight_line():
    first, second, third = step(1, 0, 0), step(2, 1, 0), step(3, 2, 2)
    live = live_after(Block([first, second, third]))
    assert live[first] == {0, 1}
    assert live[second] == {2}
    assert live[third] == set()


def test_a_new_definition_ends_a_life():
    first, second, third = step(1, 0, 0), step(1, 0, 0), step(2, 1, 1)
    live = live_after(Block([first, second, third]))
    assert live[first] == {0}
    assert live[second] == {1}


def test_a_loop_reads_in_its_next_iteration():
    use, define = step(2, 1, 0), step(1, 0, 0)
    live = live_after(Block([step(1, 0, 0), loop(use, define)]))
    assert live[define] == {0, 1}
    assert live[use] == {0}


def test_a_loop_may_not_run():
    before, inside, after = step(1, 0, 0), step(1, 0, 0), step(2, 1, 1)
    live = live_after(Block([before, loop(inside), after]))
    assert live[before] == {0, 1}
    assert live[inside] == {0, 1}


def test_nested_loops():
    inner, outer = step(2, 1, 2), step(1, 3, 3)
    live = live_after(Block([loop(loop(inner), outer)]))
    assert live[inner] == {1, 2, 3}
    assert live[outer] == {1, 2, 3}


def test_either_side_of_a_branch():
    before, left, right, after = step(1, 0, 0), step(2, 1, 1), step(2, 0, 0), step(3, 2, 2)
    live = live_after(Block([before, branch([left], [right]), after]))
    assert live[before] >= {0, 1}
    assert live[left] == {2}
    assert live[right] == {2}
