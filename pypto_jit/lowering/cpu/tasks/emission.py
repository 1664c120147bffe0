"""What emission of a host function needs at hand: the emitter, the frame, the tensors, and calls of the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.frame import Check
from pypto_jit.lowering.cpu.tasks.layout import Frame
from pypto_jit.lowering.cpu.tasks.tensors import HostTensor
from pypto_jit.lowering.spans import span_of
from pypto_jit.lowering.tree import constant

# What the scheduler is called by: types of the arguments, and of the result.
_RUNTIME: dict[str, tuple[tuple[str, ...], str | None]] = {
    "submit": (("ptr",), "i64"),
    "depend": (("ptr", "i64", "i64"), None),
    "record": (("ptr", "i64", "i64"), "ptr"),
    "ready": (("ptr", "ptr"), None),
    "access": (("ptr", "ptr", "i64", "i64", "i64", "i64", "i64"), "i64"),
    "commit": (("ptr", "i64", "i64", "i64"), None),
    "flush": (("ptr",), None),
    "allocate": (("ptr", "i64"), "ptr"),
    "product": (("i64", "i64"), "i64"),
    "fill": (("ptr", "i64", "i64"), None),
    "release": (("ptr", "ptr"), None),
    "fail": (("ptr", "i64"), None),
}


class Emission:
    """One host function under emission.

    Args:
        e: the emitter.
        frame: address of the scheduler's frame.
        checks: of the module; a failed check leaves its 1-based place in here in the frame.

    Attributes:
        tensors: the tensors by their values.
        arrays: addresses of the arrays, by their values.
        erased: operations that are lowered, in order; they are erased at the end.
    """

    def __init__(self, e: Emitter, frame: ir.Value, checks: list[Check]) -> None:
        self.e = e
        self.frame = frame
        self.tensors: dict[ir.Value, HostTensor] = {}
        self.arrays: dict[ir.Value, ir.Value] = {}
        self.erased: list[ir.Operation] = []
        self._checks = checks
        self._numbers: dict[ir.Value, Extent] = {}

    # Numbers

    def number(self, value: ir.Value) -> Extent:
        """An index as a 64-bit number, converted once, where it is defined."""
        known = constant(value)
        if known is not None:
            return known
        found = self._numbers.get(value)
        if found is None:
            owner = value.owner
            if isinstance(owner, ir.Block):
                place = ir.InsertionPoint.at_block_begin(owner)
            else:
                place = ir.InsertionPoint.after(owner)
            with place:
                found = self._numbers[value] = self.e.op("arith.index_cast", self.e.i64, value)
        return found

    def replace(self, op: ir.Operation, number: Extent) -> None:
        """Let a 64-bit number stand for an operation's result, which is an index."""
        index = self.e.op("arith.index_cast", self.e.type("index"), self.e.value(number))
        self._numbers[index] = number
        op.results[0].replace_all_uses_with(index)
        self.erased.append(op)

    def pointer(self, address: Extent) -> ir.Value:
        """An address as a pointer."""
        return self.e.op("llvm.inttoptr", self.e.pointer, self.e.value(address))

    # The scheduler

    def effect(self, name: str, *operands: Extent) -> None:
        """Call a function of the scheduler that gives nothing."""
        self.e.effect("func.call", *map(self.e.value, operands), callee=ir.FlatSymbolRefAttr.get(f"pypto.{name}"))

    def called(self, name: str, *operands: Extent) -> ir.Value:
        """The result of a function of the scheduler."""
        result = _RUNTIME[name][1]
        assert result is not None
        callee = ir.FlatSymbolRefAttr.get(f"pypto.{name}")
        return self.e.op("func.call", self.e.type(result), *map(self.e.value, operands), callee=callee)

    def slot(self, slot: Frame) -> ir.Value:
        """A word of the frame."""
        return self.e.load(self.e.address(self.frame, slot.at), "i64")

    def declare_runtime(self, module: ir.Operation) -> None:
        """Declare the functions of the scheduler."""
        for name, (operands, result) in _RUNTIME.items():
            results = [self.e.type(result)] if result else []
            kind = ir.FunctionType.get([self.e.type(operand) for operand in operands], results)
            ir.Operation.create(
                "func.func",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get(f"pypto.{name}"),
                    "sym_visibility": ir.StringAttr.get("private"),
                    "function_type": ir.TypeAttr.get(kind),
                },
                ip=ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]),
            )

    # Checks

    def sound(self) -> ir.Value:
        """Whether nothing has failed."""
        return self.e.compare("eq", self.slot(Frame.STATUS), self.e.constant(0, "i64"))

    def fail_unless(self, condition: ir.Value, op: ir.Operation, message: str) -> None:
        """Report a failed check where the condition does not hold, after the tasks that were submitted before."""
        self._checks.append((span_of(op), message))
        code = len(self._checks)
        failed = self.e.same("arith.xori", condition, self.e.constant(1, "i1"))
        self.e.when(failed, lambda: self.effect("fail", self.frame, code))

    def every(self, conditions: Sequence[ir.Value]) -> ir.Value:
        """Whether all conditions hold."""
        result = conditions[0] if conditions else self.e.constant(1, "i1")
        for condition in conditions[1:]:
            result = self.e.same("arith.andi", result, condition)
        return result

    def choose(self, condition: ir.Value, make: Callable[[], ir.Value], otherwise: ir.Value) -> ir.Value:
        """What is made where the condition holds, else another value."""
        branch = ir.Operation.create("scf.if", results=[otherwise.type], operands=[condition], regions=2)
        for region, value in zip(branch.regions, (make, lambda: otherwise), strict=True):
            with ir.InsertionPoint(region.blocks.append()):
                ir.Operation.create("scf.yield", operands=[value()])
        return branch.result
