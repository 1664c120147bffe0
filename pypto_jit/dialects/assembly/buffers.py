"""Which handles share a buffer, for text that does not say.

The compiler numbers its buffers, and a buffer is only read through handles of its number. Text made elsewhere has
addresses only. Handles on the very same bytes are taken as one buffer. Handles on bytes that overlap otherwise are
taken as buffers that reuse memory one after the other, which is checked: what is read must have been written to these
very bytes, and to no others in between. Text that reads a part of a buffer through another handle is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import forms
from pypto_jit.dialects.locations import span_of
from pypto_jit.dialects.operators import ELEMENT_ROWS, INSTRUCTIONS, Operator
from pypto_jit.dialects.types import TileBufType, parse_type
from pypto_jit.errors import AssemblyError
from pypto_jit.targets import Space

_ALLOCATION = "pto.alloc_tile"


class _Bytes(NamedTuple):
    space: Space
    start: int
    end: int

    def overlaps(self, other: _Bytes) -> bool:
        return self.space is other.space and self.start < other.end and other.start < self.end


# The buffers whose contents were overwritten through others, each with the operation that did it.
_Lost = dict[_Bytes, ir.Operation]


def number_buffers(function: ir.Operation) -> None:
    """Give each allocation of a function the number of its buffer, unless all have one already.

    Raises:
        AssemblyError: a tile is read after other bytes were written that overlap it in part.
    """
    block = function.regions[0].blocks[0]
    allocations = _allocations(block)
    if all("buffer" in operation.attributes for operation in allocations):
        return
    places: dict[ir.Value, _Bytes] = {operation.results[0]: _bytes_of(operation) for operation in allocations}
    _Overlaps(places).walk(block, {})
    numbers = {place: number for number, place in enumerate(dict.fromkeys(places.values()))}
    number_type = ir.IntegerType.get_signless(64, function.context)
    for operation in allocations:
        number = numbers[places[operation.results[0]]]
        operation.attributes["buffer"] = ir.IntegerAttr.get(number_type, number)


def _allocations(block: ir.Block) -> list[ir.Operation]:
    found = []
    for view in block.operations:
        operation = view.operation
        if operation.name == _ALLOCATION:
            found.append(operation)
        for region in operation.regions:
            for inner in region.blocks:
                found.extend(_allocations(inner))
    return found


def _bytes_of(operation: ir.Operation) -> _Bytes:
    kind = parse_type(str(operation.results[0].type))
    assert isinstance(kind, TileBufType)
    start = ir.IntegerAttr(operation.attributes["addr"]).value
    return _Bytes(kind.space, start, start + kind.bytes)


class _Overlaps:
    def __init__(self, places: dict[ir.Value, _Bytes]) -> None:
        self._places = places
        distinct = set(places.values())
        self._others = {a: [b for b in distinct if a != b and a.overlaps(b)] for a in distinct}

    def walk(self, block: ir.Block, lost: _Lost) -> _Lost:
        """What is lost after a block, given what is lost before it."""
        for view in block.operations:
            operation = view.operation
            if operation.name == forms.FOR:
                lost = self._loop(operation, lost)
            elif operation.name == forms.IF:
                branches = [self.walk(b, dict(lost)) for region in operation.regions for b in region.blocks]
                lost = {key: value for after in (lost, *branches) for key, value in after.items()}
            elif operation.name.startswith("pto.t"):
                self._instruction(operation, lost)
        return lost

    def _loop(self, operation: ir.Operation, lost: _Lost) -> _Lost:
        while True:
            after = lost | self.walk(operation.regions[0].blocks[0], dict(lost))
            if after.keys() == lost.keys():
                return after
            lost = after

    def _instruction(self, operation: ir.Operation, lost: _Lost) -> None:
        row = _row(operation)
        assert row.instruction is not None
        if row.instruction.form == "element":
            inputs, destination = list(operation.operands), None
        else:
            *inputs, destination = operation.operands
            if row.instruction.updates:
                # It keeps what it does not write, so that its write is a read too.
                inputs.append(destination)
        scratch = [v for name, v in zip(row.instruction.inputs, inputs, strict=False) if name == "tmp"]
        read = [self._places[v] for v in inputs if v in self._places and v not in scratch]
        written = [self._places[v] for v in (*scratch, destination) if v is not None and v in self._places]
        for place in read:
            if place in lost:
                raise _partial(
                    operation, place, f"written over by {lost[place].name} at {span_of(lost[place].location)}"
                )
            for other in written:
                if other != place and other.overlaps(place):
                    raise _partial(operation, place, f"and writes bytes {other.start} to {other.end}")
        for place in written:
            lost.pop(place, None)
            for other in self._others[place]:
                lost[other] = operation


def _row(operation: ir.Operation) -> Operator:
    name = operation.name.removeprefix("pto.")
    return ELEMENT_ROWS[name] if name in ELEMENT_ROWS else INSTRUCTIONS[name][0]


def _partial(operation: ir.Operation, place: _Bytes, what: str) -> AssemblyError:
    return AssemblyError(
        "tile buffers overlap in part while both are in use",
        span=span_of(operation.location),
        found=f"{operation.name} reads bytes {place.start} to {place.end} of {place.space.value}, {what}",
        expected="handles on the very same bytes",
    )
