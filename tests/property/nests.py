"""Random nests of loops of both kinds and ifs that carry tiles: swapped, kept, replaced, read late, partly valid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from pypto_jit.dialects.types import DYNAMIC, TileType
from pypto_jit.dtypes import FP32
from pypto_jit.targets import Space
from tests.module_text import ModuleText, Value

SHAPE = (3, 8)
WHOLE = TileType(SHAPE, FP32, Space.VEC, SHAPE)
COLUMN = TileType((3, 1), FP32, Space.VEC, (3, 1))
RAGGED = TileType(SHAPE, FP32, Space.VEC, (DYNAMIC, 8))
OUTPUTS = 3
TURNS = 3


@dataclass
class Scope:
    """What is visible: tiles by type, and the loop indices."""

    tiles: list[Value]
    indices: list[Value] = field(default_factory=list)

    def of(self, kind: TileType) -> list[Value]:
        return [tile for tile in self.tiles if tile.type == kind]


class Nest:
    """Draws one kernel with an input and `OUTPUTS` outputs of each type."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.text = ModuleText()
        self.source = self.text.tensor((TURNS * 4, 8), FP32)
        self.outputs = [self.text.tensor(SHAPE, FP32) for _ in range(OUTPUTS)]
        self.columns = [self.text.tensor((3, 1), FP32) for _ in range(OUTPUTS)]

    def write(self) -> ModuleText:
        text = self.text
        first = text.load(self.source, [0, 0], SHAPE)
        second = text.load(self.source, [3, 0], SHAPE)
        scope = Scope([first, second, text.operator("row_max", first), self._ragged(text.constant(1))])
        self._statements(scope, 0)
        for k in range(OUTPUTS):
            whole = self.draw(st.sampled_from(scope.of(WHOLE) + scope.of(RAGGED)))
            text.store(whole, self.outputs[k], [0, 0])
            text.store(self.draw(st.sampled_from(scope.of(COLUMN))), self.columns[k], [0, 0])
        return text

    def _ragged(self, index: Value) -> Value:
        rows = self.text.arith("addi", index, self.text.constant(1))
        valid = self.text.arith("minsi", self.text.constant(3), rows)
        return self.text.load(self.source, [index, 0], SHAPE, [valid, 8])

    def _statements(self, scope: Scope, depth: int) -> None:
        for _ in range(self.draw(st.integers(1, 4))):
            kind = self.draw(st.sampled_from(["operator", "operator", "loop", "branch"] if depth < 2 else ["operator"]))
            if kind == "operator":
                scope.tiles.append(self._operator(scope))
            elif kind == "loop":
                self._loop(scope, depth)
            elif scope.indices:
                self._branch(scope, depth)

    def _operator(self, scope: Scope) -> Value:
        def pick(kind: TileType) -> Value:
            return self.draw(st.sampled_from(scope.of(kind)))

        name = self.draw(
            st.sampled_from(["add", "neg", "row_max", "row_expand_sub", "load", "ragged", "abs", "double"])
        )
        if name == "load":
            index = self.draw(st.sampled_from(scope.indices)) if scope.indices else 2
            return self.text.load(self.source, [index, 0], SHAPE)
        if name == "ragged":
            index = self.draw(st.sampled_from(scope.indices)) if scope.indices else self.text.constant(1)
            return self._ragged(index)
        if name == "double":
            tile = pick(self.draw(st.sampled_from([RAGGED, COLUMN])))
            return self.text.operator("add", tile, tile)
        if name == "row_max":
            return self.text.operator(name, pick(WHOLE))
        if name == "row_expand_sub":
            return self.text.operator(name, pick(WHOLE), pick(COLUMN))
        kind = self.draw(st.sampled_from([WHOLE, COLUMN, RAGGED] if name != "add" else [WHOLE, COLUMN]))
        return self.text.operator(name, *[pick(kind) for _ in range(1 + (name == "add"))])

    def _carried(self, scope: Scope) -> list[Value]:
        return [self.draw(st.sampled_from(scope.tiles)) for _ in range(self.draw(st.integers(1, 3)))]

    def _yields(self, scope: Scope, kinds: list[TileType]) -> list[Value]:
        return [self.draw(st.sampled_from(scope.of(kind))) for kind in kinds]

    def _loop(self, scope: Scope, depth: int) -> None:
        carried = self._carried(scope)
        turns = self.draw(st.integers(0, TURNS))
        stages = self.draw(st.sampled_from((0, 1, 2, 4)))
        loops = self.text
        with loops.loop(turns, carried=carried, stages=stages) if stages else loops.repeat(turns, carried) as loop:
            inner = Scope([*scope.tiles, *loop.carried], [*scope.indices, loop.index])
            self._statements(inner, depth + 1)
            # The newest are drawn more often: what a loop yields is mostly what it made.
            recent = Scope([*inner.tiles, *inner.tiles[-4:]])
            loop.yields = self._yields(recent, [value.type for value in carried])
        scope.tiles += loop.results

    def _branch(self, scope: Scope, depth: int) -> None:
        text = self.text
        kinds = [value.type for value in self._carried(scope)]
        index = self.draw(st.sampled_from(scope.indices))
        limit = text.constant(self.draw(st.integers(0, TURNS - 1)))
        text.count += 1
        condition, result = f"%c{text.count}", f"%b{text.count}"
        text.lines.append(f"{text.indent}{condition} = arith.cmpi sle, {index.name}, {limit.name} : index")
        types = ", ".join(map(str, kinds))
        text.lines.append(f"{text.indent}{result}:{len(kinds)} = scf.if {condition} -> ({types}) {{")
        outer = text.indent
        for arm in range(2):
            text.indent = outer + "  "
            inner = Scope(list(scope.tiles), list(scope.indices))
            self._statements(inner, depth + 1)
            names = ", ".join(value.name for value in self._yields(inner, kinds))
            text.lines.append(f"{text.indent}scf.yield {names} : {types}")
            text.lines.append(outer + ("} else {" if arm == 0 else "}"))
        text.indent = outer
        scope.tiles += [Value(f"{result}#{k}", kind) for k, kind in enumerate(kinds)]


@st.composite
def nests(draw: Any) -> ModuleText:
    """A kernel."""
    return Nest(draw).write()
