"""``plan``: every tile buffer gets an address within its memory, reused as soon as its tile is not needed any more."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from pypto_jit._mlir import ir
from pypto_jit.dialects.operators import INSTRUCTIONS
from pypto_jit.dialects.types import TileBufType
from pypto_jit.errors import CapacityError
from pypto_jit.lowering.attributes import STAGES, number, symbol
from pypto_jit.lowering.context import type_table
from pypto_jit.lowering.layouts import round_up
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.passes.rotation import BRINGS
from pypto_jit.lowering.spans import span_of
from pypto_jit.lowering.tree import LOOPS, Body, Node
from pypto_jit.targets import KIB, Space, Target

# Whole cache lines for the CPU, where there is room for it.
COMFORTABLE = 64
LISTED = 5


@dataclass(eq=False)
class Buffer:
    """One buffer: ``start`` and ``end`` are the positions of its first and last access.

    It may be filled by one turn of the loop ``turned_in`` while another turn of the same body still computes.
    """

    number: int
    node: Node
    type: TileBufType
    loops: tuple[Node, ...]
    start: int = -1
    end: int = -1
    first: Node | None = None
    handles: list[Node] = field(default_factory=list)
    address: int = -1
    turned_in: Node | None = None
    heir_of: Buffer | None = None

    def touch(self, node: Node, loops: tuple[Node, ...]) -> None:
        """Take an access into account; inside a loop that the buffer outlives it lasts for the whole loop."""
        start, end = node.position, node.position
        for loop in loops[len(self.loops) :]:
            start, end = min(start, loop.position), max(end, loop.end)
        if self.start < 0:
            self.start, self.first = start, node
            if node.name in BRINGS:
                self.turned_in = next((loop for loop in self.loops if STAGES in loop.op.attributes), None)
        self.start, self.end = min(self.start, start), max(self.end, end)

    def overlaps(self, other: Buffer) -> bool:
        """Whether both are needed at one moment."""
        return self.start <= other.end and other.start <= self.end


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Set ``addr`` and ``buffer`` of every handle of every function.

    Raises:
        CapacityError: the tiles alive at one moment do not fit their memory.
    """
    for _, body in lowering.bodies(module):
        buffers = _lifetimes(body, lowering)
        _inherit(buffers)
        for space in Space:
            mine = [b for b in buffers if b.type.space is space and b.start >= 0]
            if mine:
                _place(mine, space, lowering.target)
        _write(buffers, lowering)
    return True


def _lifetimes(body: Body, lowering: Lowering) -> list[Buffer]:
    buffers: list[Buffer] = []
    of: dict[ir.Value, Buffer] = {}

    def visit(body: Body, loops: tuple[Node, ...]) -> None:
        for node in body.nodes:
            if node.name == "pto.alloc_tile":
                buffer = Buffer(len(buffers), node, lowering.types.buffer(node.results[0]), loops)
                buffer.handles.append(node)
                buffers.append(buffer)
                of[node.results[0]] = buffer
            elif node.name == "pto.treshape":
                buffer = of[node.results[0]] = of[node.operands[0]]
                buffer.handles.append(node)
            elif node.name.startswith("pto."):
                for value in node.operands:
                    if value in of:
                        of[value].touch(node, loops)
            for inner in node.bodies:
                visit(inner, (*loops, node) if node.name in LOOPS else loops)

    visit(body, ())
    _find_heirs(body, of)
    return buffers


def _find_heirs(body: Body, of: dict[ir.Value, Buffer]) -> None:
    """Note for each buffer which dying input of its first instruction it may take the place of."""
    for node in body.walk():
        rows = INSTRUCTIONS.get(node.name[4:]) if node.name.startswith("pto.") else None
        if rows is None or rows[0].instruction is None or not rows[0].instruction.inplace:
            continue
        result = of.get(node.operands[-1])
        if result is None or result.first is not node or result.start != node.position:
            continue
        for value in node.operands[:-1]:
            source = of.get(value)
            if source is None or source is result or source.end != node.position:
                continue
            if (
                source.type.shape == result.type.shape
                and source.type.layout == result.type.layout
                and _same_size(source, result)
            ):
                result.heir_of = source
                break


def _same_size(a: Buffer, b: Buffer) -> bool:
    return a.type.space is b.type.space and a.type.dtype.bits == b.type.dtype.bits


def _inherit(buffers: list[Buffer]) -> None:
    """Each buffer has at most one heir: the first that asked."""
    taken: set[int] = set()
    for buffer in sorted(buffers, key=lambda b: b.start):
        if buffer.heir_of is not None:
            if buffer.heir_of.number in taken:
                buffer.heir_of = None
            else:
                taken.add(buffer.heir_of.number)


def _place(buffers: list[Buffer], space: Space, target: Target) -> None:
    alignment = target.alignment[space]
    limit = target.capacity[space]
    comfortable = max(COMFORTABLE, alignment)
    if any(b.turned_in for b in buffers) and _pack_apart(buffers, comfortable, limit):
        return
    attempts = (
        (comfortable, lambda b: (b.start, b.number)),
        (alignment, lambda b: (b.start, b.number)),
        (alignment, lambda b: (-b.type.bytes, b.start)),
    )
    for align, order in attempts:
        if _pack(sorted(buffers, key=order), align, limit):
            return
    raise _overflow(buffers, space, target, alignment)


def _pack_apart(buffers: list[Buffer], alignment: int, limit: int) -> bool:
    """Place all, with what a pipelined loop brings kept apart for the whole of a turn; False where it does not fit."""
    lives = [(b.start, b.end) for b in buffers]
    for buffer in buffers:
        if buffer.turned_in is not None:
            buffer.start, buffer.end = buffer.turned_in.position, buffer.turned_in.end
    fits = _pack(sorted(buffers, key=lambda b: (b.start, b.number)), alignment, limit)
    for buffer, (start, end) in zip(buffers, lives, strict=True):
        buffer.start, buffer.end = start, end
    return fits


def _pack(buffers: list[Buffer], alignment: int, limit: int) -> bool:
    """First fit in the given order; False where something does not fit."""
    placed: list[Buffer] = []
    by_start = all(a.start <= b.start for a, b in pairwise(buffers))
    for buffer in buffers:
        if by_start:
            placed = [other for other in placed if other.end >= buffer.start]
        busy = sorted((b.address, b.address + b.type.bytes, b.number) for b in placed if b.overlaps(buffer))
        address = _inherited(buffer, placed, busy)
        if address is None:
            address = 0
            for start, end, _ in busy:
                if address + buffer.type.bytes <= start:
                    break
                address = max(address, round_up(end, alignment))
        if address + buffer.type.bytes > limit:
            return False
        buffer.address = address
        placed.append(buffer)
    return True


def _inherited(buffer: Buffer, placed: list[Buffer], busy: list[tuple[int, int, int]]) -> int | None:
    source = buffer.heir_of
    if source is None or source not in placed:
        return None
    start, end = source.address, source.address + source.type.bytes
    if any(a < end and start < b and number != source.number for a, b, number in busy):
        return None
    return start


def _overflow(buffers: list[Buffer], space: Space, target: Target, alignment: int) -> CapacityError:
    def alive(position: int) -> list[Buffer]:
        heirs = {b.heir_of.number for b in buffers if b.heir_of is not None and b.start == position}
        return [b for b in buffers if b.start <= position <= b.end and b.number not in heirs]

    def total(group: list[Buffer]) -> int:
        return sum(round_up(b.type.bytes, alignment) for b in group)

    worst = max((alive(b.start) for b in buffers), key=total)
    largest = sorted(worst, key=lambda b: -b.type.bytes)
    notes = []
    for buffer in largest[:LISTED]:
        span = span_of(buffer.node.op)
        shape = "x".join(map(str, buffer.type.shape))
        notes.append(f"{buffer.type.bytes} bytes: {shape} {buffer.type.dtype}" + (f" made at {span}" if span else ""))
    if len(largest) > LISTED:
        notes.append(f"and {len(largest) - LISTED} smaller ones")
    used, limit = total(worst), target.capacity[space]
    fragmented = "" if used > limit else " in pieces that do not fit together"
    return CapacityError(
        f"the tiles alive at one moment do not fit the {space.name.capitalize()} memory of {target.name}",
        span=span_of(largest[0].node.op),
        found=f"{used} bytes{fragmented}",
        expected=f"at most {limit} bytes ({limit // KIB} KiB)",
        hint="work on smaller tiles, or on fewer at once",
        notes=tuple(notes),
    )


def _write(buffers: list[Buffer], lowering: Lowering) -> None:
    i64 = lowering.types.i64
    number = 0
    for buffer in buffers:
        if buffer.start < 0:
            # Nothing reads or writes it: a handle without an instruction.
            for handle in reversed(buffer.handles):
                handle.op.erase()
            continue
        attributes = {
            "addr": ir.IntegerAttr.get(i64, buffer.address),
            "buffer": ir.IntegerAttr.get(i64, number),
        }
        number += 1
        for handle in buffer.handles:
            _address(handle, attributes)


def _address(handle: Node, attributes: dict[str, ir.IntegerAttr]) -> None:
    if handle.name == "pto.alloc_tile":
        for name, attribute in attributes.items():
            handle.op.attributes[name] = attribute
        return
    kept = {name: attribute for name, attribute in handle.op.attributes.items() if name.startswith("pypto.")}
    new = ir.Operation.create(
        "pto.alloc_tile",
        results=[handle.results[0].type],
        operands=handle.operands[1:],
        attributes={**attributes, **kept},
        loc=handle.op.location,
        ip=ir.InsertionPoint(handle.op),
    )
    handle.results[0].replace_all_uses_with(new.result)
    handle.op.erase()


def planned_bytes(module: ir.Module, target: Target) -> dict[str, dict[Space, int]]:
    """Of a planned module, by the name of each function, the bytes of each memory up to its last buffer."""
    lowering = Lowering(target, type_table(module.context))
    found: dict[str, dict[Space, int]] = {}
    for function, body in lowering.bodies(module.operation):
        spaces = found.setdefault(symbol(function), {})
        for node in body.walk():
            kind = lowering.types.of(node.results[0]) if node.name == "pto.alloc_tile" else None
            if isinstance(kind, TileBufType):
                end = (number(node.op, "addr") or 0) + kind.bytes
                spaces[kind.space] = max(spaces.get(kind.space, 0), end)
    return found
