"""Loops over the columns of a row, a vector at a time: unrolled, with several partial results for a reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.emitter import Emitter, Extent

# Partial results of reductions, None before the first vector.
Sums = Sequence["ir.Value | None"]
# From the first columns of some vectors, an optional mask of their lanes, and the partial results of each so far to the
# next ones. The vectors do not depend on each other: emitted in step they hide each other's latencies.
Body = Callable[[list["Column"], "ir.Value | None", list[Sums]], list[list[ir.Value]]]
Combine = Callable[[ir.Value, ir.Value], ir.Value]

# A body of up to so many instructions per vector handles so many vectors at once. More would be a tenth faster for long
# bodies, and take as much longer to compile as there is more of it.
_UNROLL = ((8, 4), (48, 2))
# From here on a ragged row is better off as one masked loop than as a loop and a masked end: less code to compile.
_LARGE_BODY = 40


@dataclass(frozen=True)
class Column:
    """A column: ``offset`` columns after ``base``, the one at which an iteration of the loop starts."""

    base: Extent
    offset: int

    def address(self, e: Emitter, row: ir.Value, size: int, known: dict[object, ir.Value]) -> ir.Value:
        """The address of the column's element in a row of elements of a size in bytes.

        Args:
            known: addresses of this loop that were computed before, by row and base; grows.
        """
        if isinstance(self.base, int):
            return e.address(row, (self.base + self.offset) * size)
        start = known.get((row, self.base))
        if start is None:
            distance = known.get((size, self.base))
            if distance is None:
                distance = known[size, self.base] = e.value(e.mul(self.base, size))
            start = known[row, self.base] = e.address(row, distance)
        return e.address(start, self.offset * size)


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
        for first in range(whole, vectors, count):
            columns = [Column(vector * lanes, 0) for vector in range(first, min(first + count, vectors))]
            sums[: len(columns)] = body(columns, None, sums[: len(columns)])
        if rest:
            sums[:1] = body([Column(vectors * lanes, 0)], self.e.first_lanes(rest), sums[:1])
        return [[start if s is None else s for s, start in zip(group, neutral, strict=True)] for group in sums]

    def _ragged(self, cost: int, neutral: list[ir.Value], body: Body) -> list[ir.Value]:
        if cost > _LARGE_BODY:
            return self._masked(neutral, body)
        whole = self.e.round_down(self.extent, self.e.lanes)
        (sums,) = self._loop(0, whole, [neutral], body)
        return body([Column(whole, 0)], self.e.first_lanes(self.e.sub(self.extent, whole)), [sums])[0]

    def _masked(self, neutral: list[ir.Value], body: Body) -> list[ir.Value]:
        def step(column: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            return body([Column(column, 0)], self.e.first_lanes(self.e.sub(self.extent, column)), [sums])[0]

        return self.e.loop(0, self.extent, self.e.lanes, neutral, step)

    def _loop(self, lower: Extent, upper: Extent, sums: list[list[ir.Value]], body: Body) -> list[list[ir.Value]]:
        count, width, lanes = len(sums), len(sums[0]), self.e.lanes

        def step(column: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            columns = [Column(column, u * lanes) for u in range(count)]
            results = body(columns, None, [carried[u * width : (u + 1) * width] for u in range(count)])
            return [value for result in results for value in result]

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
