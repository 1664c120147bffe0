"""Loops over the columns of a row, a vector at a time: unrolled, with several partial results for a reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.emitter import Emitter, Extent

# Partial results of reductions, None before the first vector.
Sums = Sequence["ir.Value | None"]
# From a column, with an optional mask of lanes, and the partial results so far to the next ones.
Body = Callable[[Extent, "ir.Value | None", Sums], list[ir.Value]]
Combine = Callable[[ir.Value, ir.Value], ir.Value]

# A body of up to so many instructions per vector handles so many vectors at once.
_UNROLL = ((8, 4), (24, 2))
# From here on a ragged row is better off as one masked loop than as a loop and a masked end: less code to compile.
_LARGE_BODY = 40


@dataclass(frozen=True)
class Columns:
    """``extent`` columns, known to be a multiple of ``multiple``."""

    e: Emitter
    extent: Extent
    multiple: int = 1

    def run(self, cost: int, neutral: list[ir.Value], combine: list[Combine], body: Body) -> list[ir.Value]:
        """Emit the loop.

        Args:
            cost: rough number of instructions of the body.
            neutral: vectors that reductions start from, one for each.
            combine: how two partial results of each reduction become one.
            body: emits one vector.

        Returns:
            One vector for each reduction, whose lanes are still to be combined.
        """
        if isinstance(self.extent, int):
            sums = self._static(self.extent, cost, neutral, body)
        elif self.multiple % self.e.lanes == 0:
            count = self._unrolling(cost, self.multiple // self.e.lanes)
            while self.multiple % (count * self.e.lanes):
                count //= 2
            sums = self._loop(0, self.extent, [neutral] * count, body)
        else:
            sums = [self._ragged(cost, neutral, body)]
        return _merged(sums, combine)

    def _unrolling(self, cost: int, vectors: int) -> int:
        most = next((count for limit, count in _UNROLL if cost <= limit), 1)
        if vectors <= most:
            return max(1, vectors)
        return next((c for c in (most, most // 2) if c and vectors % c == 0), most)

    def _static(self, extent: int, cost: int, neutral: list[ir.Value], body: Body) -> list[list[ir.Value]]:
        lanes = self.e.lanes
        vectors, rest = divmod(extent, lanes)
        if rest and vectors and cost > _LARGE_BODY:
            return [self._masked(neutral, body)]
        count = self._unrolling(cost, vectors)
        whole = vectors // count * count
        sums: list[Sums] = [[None] * len(neutral) for _ in range(count)]
        if whole > count:
            sums = [*self._loop(0, whole * lanes, [neutral] * count, body)]
        else:
            whole = 0
        for vector in range(whole, vectors):
            slot = (vector - whole) % count
            sums[slot] = body(vector * lanes, None, sums[slot])
        if rest:
            sums[0] = body(vectors * lanes, self.e.first_lanes(rest), sums[0])
        return [[start if s is None else s for s, start in zip(group, neutral, strict=True)] for group in sums]

    def _ragged(self, cost: int, neutral: list[ir.Value], body: Body) -> list[ir.Value]:
        if cost > _LARGE_BODY:
            return self._masked(neutral, body)
        whole = self.e.round_down(self.extent, self.e.lanes)
        (sums,) = self._loop(0, whole, [neutral], body)
        return body(whole, self.e.first_lanes(self.e.sub(self.extent, whole)), sums)

    def _masked(self, neutral: list[ir.Value], body: Body) -> list[ir.Value]:
        def step(column: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            return body(column, self.e.first_lanes(self.e.sub(self.extent, column)), sums)

        return self.e.loop(0, self.extent, self.e.lanes, neutral, step)

    def _loop(self, lower: Extent, upper: Extent, sums: list[list[ir.Value]], body: Body) -> list[list[ir.Value]]:
        count, width, lanes = len(sums), len(sums[0]), self.e.lanes

        def step(column: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            result: list[ir.Value] = []
            for u in range(count):
                result += body(self.e.add(column, u * lanes), None, carried[u * width : (u + 1) * width])
            return result

        flat = [value for group in sums for value in group]
        results = self.e.loop(lower, upper, count * lanes, flat, step)
        return [results[u * width : (u + 1) * width] for u in range(count)]


def _merged(sums: list[list[ir.Value]], combine: list[Combine]) -> list[ir.Value]:
    while len(sums) > 1:
        half = (len(sums) + 1) // 2
        for u in range(len(sums) - half):
            sums[u] = [f(a, b) for f, a, b in zip(combine, sums[u], sums[u + half], strict=True)]
        sums = sums[:half]
    return sums[0]
