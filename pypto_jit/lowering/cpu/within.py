"""Offsets that are checked against a part of a tensor: those that boxes of slices start at."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import text
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.frame import Frame
from pypto_jit.lowering.cpu.parts import check_boxes
from pypto_jit.lowering.cpu.ranges import Ranges

_NAME = "pto.within"
# Stands for an offset that failed its check. Whatever is added to it, no box that starts there lies in a tensor, so
# that nothing moves; and times a stride it is a 64-bit number.
_NOWHERE = -(1 << 36)


def drop_certain(function: ir.Operation, ranges: Ranges) -> None:
    """Let the offset itself stand for every check that cannot fail."""
    certain: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == _NAME:
            offset, size, extent = op.operands
            if ranges.not_negative(offset) and ranges.not_negative(size) and ranges.ends_within(offset, size, extent):
                certain.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in certain:
        op.operation.results[0].replace_all_uses_with(op.operation.operands[0])
        op.operation.erase()


def check_offset(frame: Frame, op: ir.Operation, offset: Extent, size: Extent, extent: Extent) -> None:
    """Report an offset at which what is of that size does not lie in the extent, and put one outside in its place."""
    condition = check_boxes(frame, op, [(offset, size, extent)], text(op, "message") or "")
    given = op.operands[0]
    if condition is not None:
        index = given.type
        attribute = {"value": ir.IntegerAttr.get(index, _NOWHERE)}
        nowhere = ir.Operation.create("arith.constant", [index], attributes=attribute).result
        given = ir.Operation.create("arith.select", [index], [condition, given, nowhere]).result
    frame.replace(op, given)
