"""Random kernels that mix matmuls with vector work, in loops and ifs, and that load what they stored before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from pypto_jit.dtypes import FP32
from tests.module_text import ModuleText, Value

EDGE = 16
TURNS = 2
ROWS = EDGE * TURNS
TENSORS = 3


@dataclass
class Scope:
    """The tiles that are visible, and the indices of the loops around."""

    tiles: list[Value]
    indices: list[Value] = field(default_factory=list)
    parallel: bool = False


class MixedKernel:
    """Draws one kernel on `TENSORS` tensors of ``[ROWS, EDGE]``, the first of which is only loaded."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.text = ModuleText()
        # Tensors of one type may be the same memory for all that staging knows; these have four types.
        self.tensors = [self.text.tensor((ROWS + k, EDGE), FP32) for k in range(TENSORS)]

    def write(self) -> ModuleText:
        scope = Scope([self._load(self.tensors[0], 0)])
        for _ in range(self.draw(st.integers(1, 3))):
            self._statements(scope, 0)
        self._store(scope, 0)
        return self.text

    def _load(self, tensor: Value, row: Value | int) -> Value:
        return self.text.load(tensor, [row, 0], (EDGE, EDGE))

    def _row(self, scope: Scope) -> Value | int:
        if not scope.indices:
            return self.draw(st.sampled_from([0, EDGE]))
        if scope.parallel:
            return scope.indices[0]
        return self.draw(st.sampled_from([0, *scope.indices]))

    def _pick(self, scope: Scope) -> Value:
        return self.draw(st.sampled_from([*scope.tiles, *scope.tiles[-2:]]))

    def _store(self, scope: Scope, row: Value | int) -> None:
        self.text.store(self._pick(scope), self.draw(st.sampled_from(self.tensors[1:])), [row, 0])

    def _statements(self, scope: Scope, depth: int) -> None:
        for _ in range(self.draw(st.integers(1, 3))):
            kind = self.draw(
                st.sampled_from(["matmul", "add", "relu", "load", "store"] + ["loop", "branch"] * (depth < 2))
            )
            if kind == "loop":
                self._loop(scope, depth)
            elif kind == "branch" and scope.indices:
                self._branch(scope, depth)
            elif kind == "store":
                self._store(scope, self._row(scope))
            elif kind == "load":
                scope.tiles.append(self._load(self.draw(st.sampled_from(self.tensors)), self._row(scope)))
            elif kind != "branch":
                scope.tiles.append(self._operator(kind, scope))

    def _operator(self, kind: str, scope: Scope) -> Value:
        text = self.text
        if kind == "relu":
            return text.operator("relu", text.operator("neg", self._pick(scope)))
        made = text.operator(kind, self._pick(scope), self._pick(scope))
        # Small integers stay exact in every order of addition.
        low = text.operator("maximums", made, text.constant("-3.0", "f32"))
        return text.operator("minimums", low, text.constant("3.0", "f32"))

    def _loop(self, scope: Scope, depth: int) -> None:
        parallel = depth == 0 and self.draw(st.booleans())
        carried = [] if parallel else [self._pick(scope) for _ in range(self.draw(st.integers(0, 2)))]
        stages = 1 if parallel else self.draw(st.sampled_from((1, 2, 3)))
        with self.text.loop(ROWS, EDGE, carried=carried, parallel=parallel, stages=stages) as loop:
            inner = Scope([*scope.tiles, *loop.carried], [*scope.indices, loop.index], scope.parallel or parallel)
            self._statements(inner, depth + 1)
            if parallel:
                self._store(inner, loop.index)
            loop.yields = [self._pick(inner) for _ in carried]
        scope.tiles += loop.results

    def _branch(self, scope: Scope, depth: int) -> None:
        text = self.text
        index = self.draw(st.sampled_from(scope.indices))
        zero = text.constant(0)
        text.count += 1
        condition, result = f"%c{text.count}", f"%b{text.count}"
        kind = scope.tiles[0].type
        text.lines.append(f"{text.indent}{condition} = arith.cmpi eq, {index.name}, {zero.name} : index")
        text.lines.append(f"{text.indent}{result} = scf.if {condition} -> ({kind}) {{")
        outer = text.indent
        for arm in range(2):
            text.indent = outer + "  "
            inner = Scope(list(scope.tiles), list(scope.indices), scope.parallel)
            self._statements(inner, depth + 1)
            text.lines.append(f"{text.indent}scf.yield {self._pick(inner).name} : {kind}")
            text.lines.append(outer + ("} else {" if arm == 0 else "}"))
        text.indent = outer
        scope.tiles.append(Value(result, kind))


@st.composite
def mixed_kernels(draw: Any) -> ModuleText:
    """A kernel."""
    return MixedKernel(draw).write()
