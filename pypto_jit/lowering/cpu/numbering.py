"""Numbers in order: what the columns of a row count."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.columns import Column, Columns, Sums
from pypto_jit.lowering.cpu.frame import Frame, scalar
from pypto_jit.lowering.cpu.program import Instruction


def emit_numbers(frame: Frame, instruction: Instruction) -> None:
    """The columns of the only row become the operand, one more, and so on."""
    e, result = frame.e, instruction.result
    element = result.dtype.signless
    operand = instruction.operands["scalar"]
    assert isinstance(operand, ir.Value)
    start = e.splat(scalar(e, operand, result.dtype).stored(e), e.lanes)
    address = frame.address(result)
    columns = frame.bounded(result.valid[1], result.type.shape[1])

    def numbers(places: list[Column], mask: ir.Value | None, sums: list[Sums]) -> list[list[ir.Value]]:
        for column in places:
            first = e.value(e.add(column.base, column.offset))
            counted = e.same("arith.addi", e.lane_numbers(e.lanes), e.splat(e.cast("trunci", first, "i32"), e.lanes))
            counted = counted if element == "i32" else e.cast("trunci", counted, element)
            place = column.address(e, address, result.dtype.bytes, {})
            e.store(e.same("arith.addi", counted, start), place, mask)
        return [[] for _ in places]

    Columns(e, columns).run(1, [], [], numbers)
