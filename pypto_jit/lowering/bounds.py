"""Bounds of index values: what a value inside of a task can at most and at least be, in values known outside of it.

A bound covers every value that the operation can take when it runs; it need not be the tightest. Arithmetic on indices
is taken not to overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pypto_jit._mlir import ir
from pypto_jit.dialects.counters import counter_bounds
from pypto_jit.lowering.emitter import Emitter
from pypto_jit.lowering.tree import constant

# A number, a value, or an operation of ``arith`` on two of these.
Term = int | ir.Value | tuple[str, "Term", "Term"]

_FOLDED: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "minsi": min,
    "maxsi": max,
}
# Operations that grow with their first operand, and how their second must be.
_DIVISIONS = ("floordivsi", "ceildivsi", "divsi")
_NEUTRAL = {("addi", 0), ("subi", 0), ("muli", 1), ("floordivsi", 1), ("ceildivsi", 1), ("divsi", 1)}


class Interval(NamedTuple):
    """The least and the largest value, None where not known; equal for a value that is known outside."""

    low: Term | None
    high: Term | None


UNKNOWN = Interval(None, None)


def combine(name: str, left: Term | None, right: Term | None) -> Term | None:
    """An operation on two terms, folded where it can be; None where one is not known."""
    if left is None or right is None or (right == 0 and name in _DIVISIONS):
        # A loop over nothing may divide by zero: its body never runs.
        return None
    if isinstance(left, int) and isinstance(right, int) and name in _FOLDED:
        return _FOLDED[name](left, right)
    if isinstance(right, int) and (name, right) in _NEUTRAL:
        return left
    if isinstance(left, int) and ((name == "addi" and left == 0) or (name == "muli" and left == 1)):
        return right
    if name in ("minsi", "maxsi") and left == right:
        return left
    return (name, left, right)


class Bounds:
    """Finds the bounds of values.

    Args:
        is_outside: whether a value is known where the bounds are needed.
    """

    def __init__(self, is_outside: Callable[[ir.Value], bool]) -> None:
        self._is_outside = is_outside
        self._known: dict[ir.Value, Interval] = {}

    def of(self, value: ir.Value) -> Interval:
        """The bounds of a value."""
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._find(value)
        return known

    def _find(self, value: ir.Value) -> Interval:
        number = constant(value)
        if number is not None:
            return Interval(number, number)
        if self._is_outside(value):
            return Interval(value, value)
        owner = value.owner
        if isinstance(owner, ir.Block):
            return self._of_argument(value, owner)
        operation = owner.operation
        dialect, _, name = operation.name.partition(".")
        if dialect != "arith":
            return UNKNOWN
        operands = list(operation.operands)
        if name == "index_cast":
            return self.of(operands[0])
        if name == "select":
            return _either(self.of(operands[1]), self.of(operands[2]))
        if len(operands) != 2 or name.startswith("cmp"):
            return UNKNOWN
        if name == "subi":
            remainder = self._remainder(*operands)
            if remainder is not None:
                return remainder
        return _of_two(name, self.of(operands[0]), self.of(operands[1]))

    def _of_argument(self, value: ir.Value, block: ir.Block) -> Interval:
        counted = counter_bounds(value)
        if counted is None:
            return UNKNOWN
        first, end = self.of(counted[0]), self.of(counted[1])
        return Interval(first.low, combine("subi", end.high, 1))

    def _remainder(self, left: ir.Value, right: ir.Value) -> Interval | None:
        """Of ``x - x // c * c``, which lies between 0 and c."""
        product = _operation(right, "arith.muli")
        if product is None:
            return None
        for quotient, divisor in (product, product[::-1]):
            number, division = constant(divisor), _operation(quotient, "arith.floordivsi")
            if number is not None and number > 0 and division is not None and division == (left, divisor):
                return Interval(0, number - 1)
        return None


def _either(left: Interval, right: Interval) -> Interval:
    return Interval(combine("minsi", left.low, right.low), combine("maxsi", left.high, right.high))


def _of_two(name: str, left: Interval, right: Interval) -> Interval:
    low, high = combine(name, left.low, right.low), combine(name, left.high, right.high)
    if name == "addi":
        return Interval(low, high)
    if name == "minsi":
        # Either operand bounds a minimum above.
        return Interval(low, _one_of(high, left.high, right.high))
    if name == "maxsi":
        return Interval(_one_of(low, left.low, right.low), high)
    if name == "subi":
        return Interval(combine(name, left.low, right.high), combine(name, left.high, right.low))
    if name == "muli":
        is_factor = isinstance(left.low, int) and left.low == left.high
        return _product(right, left) if is_factor else _product(left, right)
    if name in _DIVISIONS and right.low == right.high and isinstance(right.low, int) and right.low > 0:
        # Truncation lies between the two roundings.
        down = "floordivsi" if name == "divsi" else name
        up = "ceildivsi" if name == "divsi" else name
        return Interval(combine(down, left.low, right.low), combine(up, left.high, right.low))
    return UNKNOWN


def _one_of(both: Term | None, left: Term | None, right: Term | None) -> Term | None:
    return both if both is not None else right if left is None else left


def _product(left: Interval, right: Interval) -> Interval:
    """Of a value and one that is known outside."""
    if right.low is None or right.low != right.high:
        return UNKNOWN
    one, other = combine("muli", left.low, right.low), combine("muli", left.high, right.low)
    if not isinstance(right.low, int):
        return Interval(combine("minsi", one, other), combine("maxsi", one, other))
    return Interval(one, other) if right.low >= 0 else Interval(other, one)


def _operation(value: ir.Value, name: str) -> tuple[ir.Value, ir.Value] | None:
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    operation = owner.operation
    return (operation.operands[0], operation.operands[1]) if operation.name == name else None


class TermWriter:
    """Makes values of terms, each term once."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self._made: dict[Term, ir.Value] = {}

    def write(self, term: Term) -> ir.Value:
        """The value of a term, at the emitter's place."""
        if isinstance(term, int):
            return self._emitter.index(term)
        if isinstance(term, ir.Value):
            value = term
            if value.type != self._emitter.types.index:
                value = self._emitter.value("arith.index_cast", [term], self._emitter.types.index)
            return value
        found = self._made.get(term)
        if found is None:
            name, left, right = term
            found = self._made[term] = self._emitter.arith(name, self.write(left), self.write(right))
        return found
