"""What is certain of index values while compiling: enough to drop most bounds checks.

A value is a linear form over *atoms* (loop counters, minima, arguments, ...). An atom has an interval and a congruence;
a minimum, a maximum and a loop counter can also be replaced by what bounds them, which proves
``i + min(4, n - i) <= n`` whatever ``n`` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import gcd

from pypto_jit._mlir import ir
from pypto_jit.dialects.counters import Bounds, counter_bounds
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.tree import constant

Choose = Callable[[list[int]], int]

_DEPTH = 8
_QUOTIENTS = ("arith.divsi", "arith.divui", "arith.floordivsi")
_MINIMA = ("arith.minsi", "arith.minui")
_MAXIMA = ("arith.maxsi", "arith.maxui")


@dataclass(frozen=True)
class Range:
    """``lowest <= value <= highest`` (None: unknown), and ``value % modulus == remainder``."""

    lowest: int | None = None
    highest: int | None = None
    modulus: int = 1
    remainder: int = 0


@dataclass(frozen=True)
class Linear:
    """``constant`` plus the sum of coefficient times atom."""

    constant: int
    terms: tuple[tuple[ir.Value, int], ...] = ()

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """``self + factor * other``."""
        terms = dict(self.terms)
        for atom, coefficient in other.terms:
            terms[atom] = terms.get(atom, 0) + factor * coefficient
        kept = tuple((atom, c) for atom, c in terms.items() if c)
        return Linear(self.constant + factor * other.constant, kept)

    def times(self, factor: int) -> Linear:
        """``factor * self``."""
        return Linear(0).plus(self, factor)


class Ranges:
    """Proofs about the index values of one function; what is found out is remembered.

    Args:
        extents: values that are never negative, such as the extents of tensors.
    """

    def __init__(self, extents: Iterable[ir.Value] = ()) -> None:
        self._ranges: dict[ir.Value, Range] = {value: Range(0) for value in extents}
        self._linear: dict[ir.Value, Linear] = {}

    def not_negative(self, value: Extent) -> bool:
        """Whether ``value >= 0`` is certain."""
        return self._proved(self.linear(value), _DEPTH)

    def at_most(self, value: Extent, limit: Extent) -> bool:
        """Whether ``value <= limit`` is certain."""
        return self._proved(self.linear(limit).plus(self.linear(value), -1), _DEPTH)

    def ends_within(self, offset: Extent, size: Extent, extent: Extent) -> bool:
        """Whether ``offset + size <= extent`` is certain."""
        rest = self.linear(extent).plus(self.linear(offset), -1).plus(self.linear(size), -1)
        return self._proved(rest, _DEPTH)

    def linear(self, value: Extent) -> Linear:
        """A value as a linear form."""
        if isinstance(value, int):
            return Linear(value)
        known = self._linear.get(value)
        if known is None:
            known = self._linear[value] = self._make_linear(value)
        return known

    def _make_linear(self, value: ir.Value) -> Linear:
        number = constant(value)
        if number is not None:
            return Linear(number)
        op = _defining(value)
        if op is not None:
            if op.name == "arith.index_cast":
                return self.linear(op.operands[0])
            if op.name in ("arith.addi", "arith.subi"):
                a, b = (self.linear(v) for v in op.operands)
                return a.plus(b, 1 if op.name == "arith.addi" else -1)
            if op.name == "arith.muli":
                a, b = (self.linear(v) for v in op.operands)
                for x, y in ((a, b), (b, a)):
                    if not x.terms:
                        return y.times(x.constant)
        return Linear(0, ((value, 1),))

    def _proved(self, form: Linear, depth: int) -> bool:
        """Whether the form is certainly not negative."""
        lowest = self._lowest(form)
        if lowest is not None and lowest >= 0:
            return True
        if depth == 0:
            return False
        for atom, coefficient in form.terms:
            choices, every = self._bounds(atom, coefficient)
            if not choices:
                continue
            rest = form.plus(Linear(0, ((atom, 1),)), -coefficient)
            outcomes = (self._proved(rest.plus(choice, coefficient), depth - 1) for choice in choices)
            if all(outcomes) if every else any(outcomes):
                return True
        return False

    def _bounds(self, atom: ir.Value, coefficient: int) -> tuple[list[Linear], bool]:
        """What may stand for an atom in a lower bound: any one of the choices, or (True) each in turn."""
        counted = counter_bounds(atom)
        if counted is not None:
            if coefficient > 0:
                return [self.linear(counted[0])], False
            return [self.linear(counted[1]).plus(Linear(-1))], False
        op = _defining(atom)
        if op is None or op.name not in (*_MINIMA, *_MAXIMA):
            return [], False
        choices = [self.linear(v) for v in op.operands]
        if op.name.endswith("ui") and not all(self._proved(c, 2) for c in choices):
            return [], False
        return choices, (op.name in _MINIMA) == (coefficient > 0)

    def _lowest(self, form: Linear) -> int | None:
        total = form.constant
        for atom, coefficient in form.terms:
            known = self.range(atom)
            bound = known.lowest if coefficient > 0 else known.highest
            if bound is None:
                return None
            total += coefficient * bound
        return total

    def range(self, atom: ir.Value) -> Range:
        """Interval and congruence of an atom."""
        known = self._ranges.get(atom)
        if known is None:
            self._ranges[atom] = Range()  # while its own definition is looked at
            known = self._ranges[atom] = self._make_range(atom)
        return known

    def _make_range(self, atom: ir.Value) -> Range:
        counted = counter_bounds(atom)
        if counted is not None:
            return self._counter(counted)
        op = _defining(atom)
        if op is None:
            return Range()
        if op.name == "pto.get_block_idx":
            return Range(0)
        if op.name == "pto.get_block_num":
            return Range(1)
        if op.name in _QUOTIENTS:
            return self._quotient(op)
        if op.name in _MINIMA or op.name in _MAXIMA:
            highest, lowest = [], []
            for operand in op.operands:
                form = self.linear(operand)
                lowest.append(self._lowest(form))
                opposite = self._lowest(form.times(-1))
                highest.append(None if opposite is None else -opposite)
            if op.name == "arith.minsi":
                return Range(_all(min, lowest), _some(min, highest))
            if op.name == "arith.maxsi":
                return Range(_some(max, lowest), _all(max, highest))
        return Range()

    def _quotient(self, op: ir.Operation) -> Range:
        """A division of what is not negative by a positive constant."""
        divisor = constant(op.operands[1])
        form = self.linear(op.operands[0])
        lowest = self._lowest(form)
        if divisor is None or divisor <= 0 or lowest is None or lowest < 0:
            return Range()
        highest = self._lowest(form.times(-1))
        return Range(lowest // divisor, None if highest is None else -highest // divisor)

    def _counter(self, bounds: Bounds) -> Range:
        start, stop, step = (self.linear(v) for v in bounds)
        modulus, remainder = self._congruence(start)
        stride, stride_rest = self._congruence(step)
        modulus = gcd(modulus, stride, stride_rest)
        last = self._lowest(stop.times(-1))
        highest = None if last is None else -last - 1
        if modulus:
            remainder %= modulus
            if highest is not None:
                highest -= (highest - remainder) % modulus
        return Range(self._lowest(start), highest, modulus, remainder)

    def _congruence(self, form: Linear) -> tuple[int, int]:
        """Modulus and remainder of a linear form; modulus 0 where it is a constant."""
        modulus, remainder = 0, form.constant
        for atom, coefficient in form.terms:
            known = self.range(atom)
            modulus = gcd(modulus, coefficient * known.modulus)
            remainder += coefficient * known.remainder
        return modulus, remainder % modulus if modulus else remainder


def _defining(value: ir.Value) -> ir.Operation | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _all(choose: Choose, bounds: list[int | None]) -> int | None:
    known = [b for b in bounds if b is not None]
    return choose(known) if len(known) == len(bounds) else None


def _some(choose: Choose, bounds: list[int | None]) -> int | None:
    known = [b for b in bounds if b is not None]
    return choose(known) if known else None
