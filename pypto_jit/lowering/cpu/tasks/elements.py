"""Single elements in a host function: of tensors, after the tasks that were submitted before, and of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.tasks.emission import Emission
from pypto_jit.lowering.cpu.tasks.tensors import HostTensor


def _inside(m: Emission, op: ir.Operation, what: str, indices: Sequence[Extent], extents: Sequence[Extent]) -> ir.Value:
    """Check that an element is there; whether it is, and nothing has failed."""
    e, conditions = m.e, []
    for index, extent in zip(indices, extents, strict=True):
        conditions.append(e.compare("sge", e.value(index), e.constant(0, "i64")))
        conditions.append(e.compare("slt", e.value(index), e.value(extent)))
    m.fail_unless(m.every(conditions), op, f"an element outside of its {what}")
    return m.sound()


def _place(m: Emission, op: ir.Operation, position: int) -> tuple[HostTensor, ir.Value, ir.Value]:
    """A tensor, the address of an element of it, and whether it is there."""
    tensor = m.tensors[op.operands[position]]
    indices = [m.number(value) for value in list(op.operands)[position + 1 :]]
    if tensor.root is not None or position:
        m.effect("flush", m.frame)
    sound = _inside(m, op, "tensor", indices, tensor.extents)
    return tensor, m.pointer(tensor.address(m.e, indices)), sound


def _read(m: Emission, op: ir.Operation) -> None:
    e = m.e
    tensor, address, sound = _place(m, op, 0)
    # What is not there is not read: the frame is memory in any case.
    value = e.load(e.select(sound, address, m.frame), convert.stored(tensor.type.dtype))
    value = e.select(sound, value, e.constant(0, *e.shape(value)))
    if str(op.results[0].type) == "bf16":
        value = e.cast("bitcast", value, "bf16")
    op.results[0].replace_all_uses_with(value)
    m.erased.append(op)


def _write(m: Emission, op: ir.Operation) -> None:
    e, value = m.e, op.operands[0]
    _, address, sound = _place(m, op, 1)
    if str(value.type) == "bf16":
        value = e.cast("bitcast", value, "i16")
    e.when(sound, lambda: e.store(value, address))
    m.erased.append(op)


LOWERED: dict[str, Callable[[Emission, ir.Operation], None]] = {"pypto.read": _read, "pypto.write": _write}
