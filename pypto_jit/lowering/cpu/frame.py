"""What emission of one function needs at hand: the emitter, the arena, and the checks made so far."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dtypes import DType
from pypto_jit.errors import Span
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.program import Program, Tile
from pypto_jit.lowering.cpu.ranges import Ranges
from pypto_jit.lowering.spans import span_of

Check = tuple[Span | None, str]


class Frame:
    """One function under emission.

    Args:
        arena, status: the function's arguments; the arena is never empty.
        checks: shared by the functions of a module; a failed check stores its 1-based place in here.
    """

    def __init__(
        self,
        emitter: Emitter,
        program: Program,
        ranges: Ranges,
        arena: ir.Value,
        status: ir.Value,
        checks: list[Check],
    ) -> None:
        self.e = emitter
        self.program = program
        self.ranges = ranges
        self.arena = arena
        self._status = status
        self._checks = checks
        self._numbers: dict[ir.Value, ir.Value] = {}
        self._replaced: dict[ir.Value, ir.Value] = {}
        self._lent: dict[int, ir.Value] = {}

    def number(self, extent: Extent) -> Extent:
        """An index value as a 64-bit value, converted once, where it is defined."""
        if isinstance(extent, int):
            return extent
        known = self._numbers.get(extent)
        if known is None:
            owner = extent.owner
            if isinstance(owner, ir.Block):
                place = ir.InsertionPoint.at_block_begin(owner)
            else:
                place = ir.InsertionPoint.after(owner)
            with place:
                known = self._numbers[extent] = self.e.op("arith.index_cast", self.e.i64, extent)
        return known

    def bounded(self, extent: Extent, limit: int) -> Extent:
        """An extent as a number that is certainly not above a limit."""
        number = self.number(extent)
        if isinstance(number, int):
            return min(number, limit)
        if self.ranges.at_most(extent, limit):
            return number
        return self.e.same("arith.minsi", number, self.e.constant(limit, "i64"))

    def address(self, tile: Tile, offset: Extent = 0) -> ir.Value:
        """The address some bytes into a tile."""
        if tile.buffer in self._lent:
            return self.e.address(self._lent[tile.buffer], offset)
        position = self.program.position(tile)
        return self.e.address(self.arena, self.e.add(offset, position))

    def lend(self, tile: Tile, address: ir.Value) -> None:
        """Let all that follows find a tile's elements elsewhere, which nothing writes there."""
        self._lent[tile.buffer] = address

    def replace(self, op: ir.Operation, value: ir.Value) -> None:
        """Let a value stand for the result of an operation, from `finish` on: until then others refer to the result."""
        self._replaced[op.results[0]] = value

    def replaced(self, result: ir.Value) -> ir.Value:
        """What stands for a result that was replaced."""
        return self._replaced[result]

    def finish(self) -> None:
        """Erase the operations whose results were replaced."""
        for result, value in reversed(self._replaced.items()):
            if result.type == value.type:
                result.replace_all_uses_with(value)
            result.owner.erase()

    def fail_unless(self, condition: ir.Value, op: ir.Operation, message: str) -> None:
        """Report a failed check where the condition does not hold, unless an earlier one failed, which may be why."""
        self._checks.append((span_of(op), message))
        e, code = self.e, len(self._checks)

        def report() -> None:
            before = e.load(self._status, "i64")
            first = e.compare("eq", before, e.constant(0, "i64"))
            e.store(e.select(first, e.constant(code, "i64"), before), self._status)

        e.when(e.same("arith.xori", condition, e.constant(1, "i1")), report)


@dataclass(eq=False)
class Held:
    """A value in registers, in stored and computed form (`convert`); each is made when first asked for."""

    dtype: DType
    stored_form: ir.Value | None = None
    computed_form: ir.Value | None = None

    def stored(self, e: Emitter) -> ir.Value:
        """As memory holds it."""
        known = self.stored_form
        if known is None:
            assert self.computed_form is not None
            known = self.stored_form = convert.narrow(e, self.computed_form, self.dtype)
        return known

    def computed(self, e: Emitter) -> ir.Value:
        """As arithmetic takes it."""
        known = self.computed_form
        if known is None:
            assert self.stored_form is not None
            known = self.computed_form = convert.widen(e, self.stored_form, self.dtype)
        return known

    @staticmethod
    def rounded(e: Emitter, value: ir.Value, dtype: DType) -> Held:
        """A computed result, rounded to its dtype."""
        if dtype.is_float and dtype.bits < 32:
            return Held(dtype, stored_form=convert.narrow(e, value, dtype))
        return Held(dtype, value, value)


def scalar(e: Emitter, value: ir.Value, dtype: DType) -> Held:
    """A scalar operand of an instruction."""
    if e.shape(value)[0] == "bf16":
        value = e.cast("bitcast", value, "i16")
    return Held(dtype, stored_form=value)
