"""Extents of whole tensors, as far as a trace knows them: numbers, or what stands for one when the kernel runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.language.scalars import Scalar
from pypto_jit.signature import DynVar


@dataclass(frozen=True)
class Extent:
    """An extent that is only known when the kernel runs; known to equal another one where their keys are equal.

    Attributes:
        key: the dimension's name, or what tells the extent from others.
        make: gives it as a traced scalar, at the current place.
    """

    key: Hashable
    make: Callable[[], Scalar] = field(compare=False)

    def __repr__(self) -> str:
        return str(self.key) if hasattr(self.key, "name") else "?"


Side = int | Extent


def static_shape(sides: Iterable[Side]) -> tuple[int, ...]:
    """The shape with `DYNAMIC` for what is only known when the kernel runs."""
    return tuple(side if isinstance(side, int) else DYNAMIC for side in sides)


def elements(sides: Iterable[Side]) -> Hashable:
    """How many elements a shape has, as something that is equal where the numbers are known to be."""
    number, factors = 1, Counter[Hashable]()
    for side in sides:
        if isinstance(side, int):
            number *= side
        elif isinstance(side.key, DynVar) and not side.key.offset:
            number *= side.key.factor
            factors[side.key.name] += 1
        else:
            factors[side.key] += 1
    return (number, frozenset(factors.items())) if number else 0


def made(sides: Sequence[Side]) -> list[int | Scalar]:
    """Extents as numbers and traced scalars."""
    return [side if isinstance(side, int) else side.make() for side in sides]
