"""The shape of an output that a call leaves out: how far the kernel's stores reach.

An extent is the largest ``offset + valid extent`` of all stores. Both are sums of loop variables and constants, and
minima of such sums, as in ``i + min(4, rows - i)``; anything else is not worked out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dialects.counters import counter_bounds
from pypto_jit.errors import ArgumentError, Span
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tile

Store = tuple[tuple[Any, ...], Tile, Span | None]


@dataclass
class Sum:
    """``constant`` + the sum of factor * value."""

    constant: int = 0
    factors: dict[ir.Value, int] = field(default_factory=dict)

    def plus(self, other: Sum, factor: int = 1) -> Sum:
        """self + factor * other."""
        factors = dict(self.factors)
        for value, times in other.factors.items():
            factors[value] = factors.get(value, 0) + factor * times
        kept = {value: times for value, times in factors.items() if times}
        return Sum(self.constant + factor * other.constant, kept)


Minimum = list[Sum]


class _NotDerivable(Exception):
    pass


class _NeverRuns(Exception):
    pass


def derive_shape(name: str, stores: list[Store]) -> tuple[int, ...]:
    """The extents that all stores of an output reach.

    Raises:
        ArgumentError: they are not known while tracing.
    """
    shape: list[int] = []
    for offsets, tile, span in stores:
        try:
            reached = _reach(offsets, tile)
        except _NeverRuns:
            continue
        except _NotDerivable:
            raise ArgumentError(
                f"the shape of '{name}', which the call leaves out, cannot be worked out from this store",
                span=span,
                hint=f"pass it, or annotate it: {name}: pl.Out[pl.Tensor[[rows, columns], pl.{tile.dtype}]]",
            ) from None
        shape = reached if not shape else [max(a, b) for a, b in zip(shape, reached, strict=True)]
    if not shape:
        raise ArgumentError(f"the shape of '{name}', which the call leaves out, is not known: no store to it runs")
    return tuple(shape)


def depended_on(values: Iterable[ir.Value]) -> set[ir.Value]:
    """All that values are computed from: operands of operations, and bounds of the loops that count in them."""
    found: set[ir.Value] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value in found:
            continue
        found.add(value)
        owner = value.owner
        if isinstance(owner, ir.Block):
            loop = owner.owner.operation if hasattr(owner.owner, "operation") else owner.owner
            pending += [] if loop.name == "func.func" else list(loop.operands)
        else:
            pending += list(owner.operands)
    return found


def at_most(left: int | Scalar, right: int | Scalar) -> bool:
    """Whether one index is known, from the loops around it, never to exceed another."""
    try:
        # A minimum stays below a value as soon as one of its terms does, and above it only where all of them do.
        return all(any(_largest(low.plus(high, -1)) <= 0 for low in _minimum(left)) for high in _minimum(right))
    except (_NotDerivable, _NeverRuns):
        return False


def distance(start: int | Scalar, end: int | Scalar) -> int | None:
    """``end - start`` where it is a constant, or the least constant among the parts of an end that is a minimum."""
    try:
        first = _minimum(start)
        parts = [part.plus(first[0], -1) for part in _minimum(end)] if len(first) == 1 else []
    except _NotDerivable:
        return None
    return min((part.constant for part in parts if not part.factors), default=None)


def sum_of(value: Scalar) -> Sum:
    """An index as a sum: of itself where it is none of others."""
    parts = _of_value(value.handle)
    return parts[0] if len(parts) == 1 else Sum(0, {value.handle: 1})


def _reach(offsets: tuple[Any, ...], tile: Tile) -> list[int]:
    valid = (1,) * max(0, len(offsets) - tile.ndim) + tile.valid_extents[max(0, tile.ndim - len(offsets)) :]
    reached = []
    for offset, extent in zip(offsets, valid, strict=True):
        ends = _add(_minimum(offset), _minimum(extent))
        bounds = [_largest(end) for end in ends]
        if sum(bool(end.factors) for end in ends) > 1:
            # The largest minimum of two varying sums need not be the minimum of the largest.
            raise _NotDerivable
        reached.append(min(bounds))
    return reached


def _add(left: Minimum, right: Minimum) -> Minimum:
    return [a.plus(b) for a in left for b in right]


def _minimum(value: Any) -> Minimum:
    if isinstance(value, int):
        return [Sum(value)]
    if not isinstance(value, Scalar):
        raise _NotDerivable
    return _of_value(value.handle)


def _of_value(value: ir.Value) -> Minimum:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return [Sum(0, {value: 1})]
    operation = owner.operation if hasattr(owner, "operation") else owner
    if operation.name == "arith.constant":
        return [Sum(ir.IntegerAttr(operation.attributes["value"]).value)]
    if operation.name == "arith.index_cast" and isinstance(value.type, ir.IndexType):
        # An INT32 position read from memory, and sums of it: what would wrap lies outside of every tensor.
        known = _of_value(operation.operands[0])
        return known if len(known) == 1 else [Sum(0, {value: 1})]
    if operation.name not in ("arith.addi", "arith.subi", "arith.muli", "arith.minsi"):
        return [Sum(0, {value: 1})]
    left, right = (_of_value(operand) for operand in operation.operands)
    if operation.name == "arith.minsi":
        return left + right
    if operation.name == "arith.addi":
        return _add(left, right)
    if operation.name == "arith.subi":
        return [a.plus(right[0], -1) for a in left] if len(right) == 1 else [Sum(0, {value: 1})]
    if len(left) == 1 and not left[0].factors:
        left, right = right, left
    if len(right) == 1 and not right[0].factors and right[0].constant >= 0:
        return [Sum().plus(a, right[0].constant) for a in left]
    return [Sum(0, {value: 1})]


def _largest(end: Sum) -> int:
    while end.factors:
        value, factor = next(reversed(end.factors.items()))
        rest = Sum(end.constant, {k: times for k, times in end.factors.items() if k != value})
        end = rest.plus(_extreme(value, factor > 0), factor)
    return end.constant


def _extreme(value: ir.Value, largest: bool) -> Sum:
    """The largest or smallest value of a loop variable."""
    counted = counter_bounds(value)
    if counted is None:
        raise _NotDerivable
    start, stop, step = (_of_value(operand) for operand in counted)
    if len(start) != 1 or len(stop) != 1 or len(step) != 1 or step[0].factors:
        raise _NotDerivable
    distance = stop[0].plus(start[0], -1)
    if not distance.factors:
        if distance.constant <= 0:
            raise _NeverRuns
        steps = (distance.constant - 1) // step[0].constant
        return start[0].plus(Sum(steps * step[0].constant)) if largest else start[0]
    if not largest:
        return start[0]
    if step[0].constant != 1:
        raise _NotDerivable
    return stop[0].plus(Sum(-1))
