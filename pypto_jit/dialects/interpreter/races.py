"""Finds iterations of a declared-parallel loop that touch the same elements, and outputs that stay partly unwritten.

The interpreter runs iterations in order, so what it computes is right; a `Watch` beside it remembers which iteration
of each parallel loop read and wrote each element of memory, and says when two of them depend on their order. Blocks of
``pl.spmd`` are iterations, too. Atomic additions may meet each other, but no plain read or write.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy
from numpy.lib.stride_tricks import as_strided

from pypto_jit.dialects.interpreter.tiles import Array
from pypto_jit.errors import DirectionError, RaceError, Span

READ, WRITE, ADD = "reads", "writes", "atomically adds to"
_CONFLICTS = {READ: (WRITE, ADD), WRITE: (WRITE, READ, ADD), ADD: (WRITE, READ)}


class _Memory:
    """A stretch of memory, in grains that are as long as the shortest elements in it."""

    def __init__(self, low: int, high: int, grain: int) -> None:
        self.low = low
        self.high = high
        self.grain = grain

    def blank(self, dtype: Any) -> Array:
        """One zero for each grain."""
        return numpy.zeros(max(1, (self.high - self.low) // self.grain), dtype)

    def select(self, shadow: Array, view: Array) -> Array:
        """The part of a blank that stands for a view of the memory."""
        start = (_address(view) - self.low) // self.grain
        parts = view.itemsize // self.grain
        strides = tuple(stride // self.grain * shadow.itemsize for stride in view.strides)
        return as_strided(shadow[start:], (*view.shape, parts), (*strides, shadow.itemsize))


class _Trail:
    """Who did one kind of thing to each grain of a memory: the first iteration, and another one; 0 for none."""

    def __init__(self, memory: _Memory) -> None:
        self.memory = memory
        self.iterations = (memory.blank(numpy.int32), memory.blank(numpy.int32))
        self.places = (memory.blank(numpy.int32), memory.blank(numpy.int32))

    def other(self, view: Array, iteration: int) -> tuple[Array, int, int] | None:
        """Where an iteration was preceded by another one: a mask over the view; and by which, at which place."""
        for iterations, places in zip(self.iterations, self.places, strict=True):
            found = self.memory.select(iterations, view)
            mask = (found != 0) & (found != iteration)
            if mask.any():
                first = tuple(numpy.argwhere(mask)[0])
                other = found[first]
                return (mask & (found == other)).any(-1), int(other), int(self.memory.select(places, view)[first])
        return None

    def note(self, view: Array, iteration: int, place: int) -> None:
        """Remember that an iteration touched a view."""
        (first, second), (at, again) = (
            tuple(self.memory.select(shadow, view) for shadow in pair) for pair in (self.iterations, self.places)
        )
        later = (first != 0) & (first != iteration) & (second == 0)
        second[later], again[later] = iteration, place
        new = first == 0
        first[new], at[new] = iteration, place


@dataclass
class _Loop:
    """A parallel loop that is running. Iterations count from 1."""

    name: str
    span: Span | None
    values: list[int] = field(default_factory=list)
    trails: dict[tuple[int, str], _Trail] = field(default_factory=dict)
    memories: list[_Memory] = field(default_factory=list)

    def show(self, iteration: int) -> str:
        return f"{'block' if self.name == 'pl.spmd' else 'iteration'} {self.values[iteration - 1]}"

    def trail(self, memory: _Memory, kind: str) -> _Trail:
        trail = self.trails.get((id(memory), kind))
        if trail is None:
            trail = self.trails[id(memory), kind] = _Trail(memory)
            self.memories.append(memory)
        return trail


class Argument(NamedTuple):
    """A tensor argument.

    Attributes:
        name: of the parameter.
        direction: ``in``, ``out`` or ``inout``.
        array: what the kernel runs on.
    """

    name: str
    direction: str
    array: Array


class Watch:
    """What one run of a kernel does to memory.

    Args:
        arguments: its tensors.
    """

    def __init__(self, arguments: Sequence[Argument]) -> None:
        self._arguments = arguments
        self._memories = _memories([argument.array for argument in arguments])
        self._written = [(memory, memory.blank(numpy.bool_)) for memory in self._memories]
        self._created: dict[int, tuple[weakref.ref[Array], _Memory]] = {}
        self._loops: list[_Loop] = []
        self._places: dict[Span | None, int] = {}

    # Loops

    def enter(self, name: str, span: Span | None) -> _Loop:
        """A parallel loop begins; each of its iterations appends its index to ``values`` of what this gives."""
        loop = _Loop(name, span)
        self._loops.append(loop)
        return loop

    def leave(self) -> None:
        """The innermost parallel loop has ended."""
        self._loops.pop()

    # Accesses

    def access(self, kind: str, view: Array, span: Span | None) -> None:
        """A view of a tensor is read, written or added to.

        Raises:
            RaceError: another iteration of a parallel loop did what must not meet this.
        """
        if not view.size:
            return
        memory = self._memory(view)
        if kind != READ:
            for known, written in self._written:
                if known is memory:
                    memory.select(written, view)[...] = True
        place = self._places.setdefault(span, len(self._places))
        for loop in self._loops:
            if not loop.values:
                continue
            iteration = len(loop.values)
            for other in _CONFLICTS[kind]:
                trail = loop.trails.get((id(memory), other))
                found = None if trail is None else trail.other(view, iteration)
                if found is not None:
                    raise self._race(loop, kind, view, span, other, *found)
            loop.trail(memory, kind).note(view, iteration, place)

    def _memory(self, view: Array) -> _Memory:
        address = _address(view)
        for memory in self._memories:
            if memory.low <= address < memory.high:
                return memory
        owner = view
        while isinstance(owner.base, numpy.ndarray):
            owner = owner.base
        known = self._created.get(id(owner))
        # Another tensor may have come to lie where one was.
        if known is None or known[0]() is not owner:
            low, high = _bounds(owner)
            known = self._created[id(owner)] = (weakref.ref(owner), _Memory(low, high, owner.itemsize))
        return known[1]

    def _race(
        self, loop: _Loop, kind: str, view: Array, span: Span | None, other: str, mask: Array, before: int, place: int
    ) -> RaceError:
        at = next(span for span, known in self._places.items() if known == place)
        name, region = self._region(view, mask)
        now, earlier = loop.show(len(loop.values)), loop.show(before)
        return RaceError(
            f"the iterations of {loop.name} are not independent: {earlier} {other} what {now} {kind}",
            span=span,
            found=region,
            expected="iterations that touch different elements, unless they only read them",
            hint=_hint(kind, other, name),
            notes=(
                f"{earlier} {other} it at {at}",
                f"{now} {kind} it at {span}",
                f"the loop is at {loop.span}",
            ),
        )

    def _region(self, view: Array, mask: Array) -> tuple[str, str]:
        """The name of the tensor, and the box around the marked elements of a view of it."""
        corners = numpy.argwhere(mask)
        first, last = corners.min(0), corners.max(0)
        for argument in self._arguments:
            low, high = _bounds(argument.array)
            if low <= _address(view) < high:
                ends = [_index(argument.array, _address(view, tuple(corner))) for corner in (first, last)]
                return argument.name, f"{_box(*ends)} of '{argument.name}'"
        return "the tensor", f"{_box(list(first), list(last))} of a part of a tensor that the kernel creates"

    # What is left

    def check_written(self, definition: Span | None) -> None:
        """Raise a DirectionError if an output has elements that nothing has written."""
        for argument in self._arguments:
            if argument.direction != "out" or not argument.array.size:
                continue
            for memory, written in self._written:
                if memory is self._memory(argument.array):
                    missing = numpy.logical_not(memory.select(written, argument.array).all(-1))
                    if missing.any():
                        raise _unwritten(argument, missing, definition)


def _unwritten(argument: Argument, missing: Array, definition: Span | None) -> DirectionError:
    places = numpy.argwhere(missing)
    first, last = ([int(k) for k in corner] for corner in (places.min(0), places.max(0)))
    count, total = len(places), prod(argument.array.shape)
    box = "all of them" if count == prod(b - a + 1 for a, b in zip(first, last, strict=True)) else "some of them"
    return DirectionError(
        f"the kernel leaves a part of its output '{argument.name}' unwritten",
        span=definition,
        found=f"{count} of {total} elements unwritten, the first at {[int(k) for k in places[0]]}",
        expected=f"a store to every element of '{argument.name}', shape {list(argument.array.shape)}",
        notes=(f"they lie within {_box(first, last)}: {box}",),
        hint=f"write the rest too; or declare it {argument.name}: pl.InOut[pl.Tensor], which keeps what it held",
    )


def _hint(kind: str, other: str, name: str) -> str:
    if kind == other == WRITE:
        return f"store to different offsets of {name} in each iteration, add atomically, or use pl.range"
    if ADD in (kind, other):
        return "add atomically in every iteration, or use pl.range"
    return "use pl.range, whose iterations run in order; or write to a tensor that no iteration reads"


def _memories(arrays: Sequence[Array]) -> list[_Memory]:
    """The memory of arrays; of those that overlap, one."""
    found: list[_Memory] = []
    for array in sorted((array for array in arrays if array.size), key=lambda array: _bounds(array)[0]):
        low, high = _bounds(array)
        if found and low < found[-1].high:
            found[-1].high = max(found[-1].high, high)
            found[-1].grain = min(found[-1].grain, array.itemsize)
        else:
            found.append(_Memory(low, high, array.itemsize))
    return found


def _address(array: Array, index: tuple[int, ...] = ()) -> int:
    start = array.__array_interface__["data"][0]
    return start + sum(int(k) * stride for k, stride in zip(index, array.strides, strict=False))


def _bounds(array: Array) -> tuple[int, int]:
    low = _address(array)
    reach = sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True))
    return low, low + reach + array.itemsize


def _index(array: Array, address: int) -> list[int]:
    """The index of the element at an address."""
    rest, index = address - _address(array), [0] * array.ndim
    for axis in sorted(range(array.ndim), key=lambda axis: -array.strides[axis]):
        if array.strides[axis]:
            index[axis] = min(rest // array.strides[axis], array.shape[axis] - 1)
            rest -= index[axis] * array.strides[axis]
    return index


def _box(first: Sequence[int], last: Sequence[int]) -> str:
    first, last = [int(k) for k in first], [int(k) for k in last]
    return f"element {first}" if first == last else f"elements {first} to {last}"
