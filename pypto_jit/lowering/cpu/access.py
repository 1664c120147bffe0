"""How a nest reaches global memory: directly, or through the tile's own memory where that would be wrong.

Loads of a nest read while its stores already write. That is as good as loading everything first if the two boxes do
not overlap, or are one and the same; where pointers decide, this is tested while running, and a load that fails the
test is copied into its tile before the nest starts. Boxes whose columns turn out not to lie side by side, and stores
that overlap an earlier store, go through their tiles as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.fusion import Group, Role, Step
from pypto_jit.lowering.cpu.planes import Plane, tile_plane
from pypto_jit.lowering.cpu.program import Box, Tile
from pypto_jit.lowering.cpu.transfer import Area, box_address, check_box, copy_rows


@dataclass(frozen=True)
class Access:
    """Memory that a nest walks along: address of the first element, bytes between rows."""

    address: ir.Value
    row_bytes: Extent


@dataclass(eq=False)
class _Opened:
    """A box of one step of the group."""

    number: int
    step: Step
    box: Box
    tile: Tile
    plane: Plane
    address: ir.Value
    row_bytes: Extent
    inside: ir.Value | None
    direct: list[ir.Value] = field(default_factory=list)


@dataclass(eq=False)
class Accesses:
    """The boxes of a group, opened: by number of the step."""

    frame: Frame
    extents: tuple[Extent, Extent]
    by_step: dict[object, Access] = field(default_factory=dict)
    _pending: list[tuple[_Opened, ir.Value]] = field(default_factory=list)

    def finish(self) -> None:
        """Emit, after the nest, the stores that went through their tiles."""
        for opened, indirect in self._pending:
            self.frame.e.when(indirect, lambda opened=opened: self._copy(opened, store=True))

    def enter(self, opened: _Opened) -> None:
        """Emit the choice between the box and the tile, and for a load the copy."""
        e = self.frame.e
        condition = _every(self.frame, opened.direct)
        if opened.inside is not None:
            direct = opened.inside if condition is None else e.same("arith.andi", opened.inside, condition)
        elif condition is None:
            self.by_step[opened.number] = Access(opened.address, opened.row_bytes)
            return
        else:
            direct = condition
        tile_bytes = e.mul(tile_plane(opened.tile).row_stride, opened.tile.dtype.bytes)
        address = e.select(direct, opened.address, self.frame.address(opened.tile))
        row_bytes = opened.row_bytes
        if row_bytes != tile_bytes and self.extents[0] != 1:
            row_bytes = e.select(direct, e.value(row_bytes), e.value(tile_bytes))
        self.by_step[opened.number] = Access(address, row_bytes)
        if condition is None:
            return
        indirect = e.same("arith.xori", condition, e.constant(1, "i1"))
        if opened.inside is not None:
            indirect = e.same("arith.andi", opened.inside, indirect)
        if opened.step.role is Role.LOAD:
            e.when(indirect, lambda: self._copy(opened, store=False))
        else:
            self._pending.append((opened, indirect))

    def _copy(self, opened: _Opened, *, store: bool) -> None:
        number, tile = self.frame.number, opened.tile
        plane = tile_plane(tile)
        inside = Area(self.frame.address(tile), tile.dtype, plane.row_stride, plane.column_stride)
        outside = Area(
            opened.address, opened.box.view.dtype, number(opened.plane.row_stride), number(opened.plane.column_stride)
        )
        source, target = (inside, outside) if store else (outside, inside)
        copy_rows(self.frame, source, target, *self.extents)


def open_accesses(frame: Frame, group: Group, rows: Extent, columns: Extent) -> Accesses:
    """Open the boxes of a group: check them, and decide how each is reached."""
    accesses = Accesses(frame, (rows, columns))
    opened = [_open(frame, k, s) for k, s in enumerate(group.steps) if s.role in (Role.LOAD, Role.STORE)]
    stores = [o for o in opened if o.step.role is Role.STORE]
    for number, one in enumerate(opened):
        stride = one.plane.column_stride
        if not isinstance(stride, int):
            one.direct.append(frame.e.compare("eq", frame.e.value(frame.number(stride)), frame.e.value(1)))
        if one.step.role is Role.LOAD:
            others = stores
        else:
            others = [o for o in opened[:number] if o.step.role is Role.STORE]
        for other in others:
            condition = _compatible(frame, group, one, other, (rows, columns))
            if condition is not None:
                one.direct.append(condition)
    for one in opened:
        accesses.enter(one)
    return accesses


def _open(frame: Frame, number: int, step: Step) -> _Opened:
    instruction = step.instruction
    loads = step.role is Role.LOAD
    box = instruction.operands["partition"] if loads else instruction.destination
    tile = instruction.result if loads else instruction.tile("src")
    assert isinstance(box, Box)
    assert step.plane is not None
    inside = check_box(frame, instruction, box, tile)
    row_bytes = frame.e.mul(frame.number(step.plane.row_stride), box.view.dtype.bytes)
    return _Opened(number, step, box, tile, step.plane, box_address(frame, box), row_bytes, inside)


def _every(frame: Frame, conditions: list[ir.Value]) -> ir.Value | None:
    result = None
    for condition in conditions:
        result = condition if result is None else frame.e.same("arith.andi", result, condition)
    return result


def _compatible(
    frame: Frame, group: Group, one: _Opened, store: _Opened, extents: tuple[Extent, Extent]
) -> ir.Value | None:
    """Whether a load, or a later store, may go on in the same nest as a store; None where it is certain."""
    e = frame.e
    size = one.box.view.dtype.bytes
    in_step = one.step.role is Role.LOAD and size == store.box.view.dtype.bytes and _read_before(group, one, store)
    if in_step and one.box.view is store.box.view and one.box.offsets == store.box.offsets:
        return None
    first, second = _range(frame, one, extents), _range(frame, store, extents)
    result = e.same("arith.ori", e.compare("ule", first[1], second[0]), e.compare("ule", second[1], first[0]))
    if in_step:
        same = e.compare("eq", first[0], second[0])
        if extents[0] != 1 and one.row_bytes != store.row_bytes:
            same = e.same("arith.andi", same, e.compare("eq", e.value(one.row_bytes), e.value(store.row_bytes)))
        result = e.same("arith.ori", result, same)
    return result


def _read_before(group: Group, load: _Opened, store: _Opened) -> bool:
    """Whether no pass reads the load's elements after the store has written a row's."""
    passes = [level for level, numbers in enumerate(group.passes) if load.number in numbers]
    return max(passes, default=0) <= store.step.level


def _range(frame: Frame, opened: _Opened, extents: tuple[Extent, Extent]) -> tuple[ir.Value, ir.Value]:
    """First byte and end of a box whose columns lie side by side; its rows may run backwards."""
    e = frame.e
    start = e.op("llvm.ptrtoint", e.i64, opened.address)
    last = e.mul(e.sub(extents[0], 1), opened.row_bytes)
    length = e.mul(extents[1], opened.box.view.dtype.bytes)
    if isinstance(opened.row_bytes, int):
        return start, e.value(e.add(e.add(start, last), length))
    zero = e.constant(0, "i64")
    first = e.add(start, e.same("arith.minsi", e.value(last), zero))
    end = e.add(e.add(start, e.same("arith.maxsi", e.value(last), zero)), length)
    return e.value(first), e.value(end)
