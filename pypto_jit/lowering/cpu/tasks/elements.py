"""Single elements in a host function: of tensors, after the tasks that were submitted before, and of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import ArrayType, parse_type
from pypto_jit.dtypes import BOOL, INDEX
from pypto_jit.lowering.attributes import text
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


# Arrays


def _kind(array: ir.Value) -> ArrayType:
    kind = parse_type(str(array.type))
    assert isinstance(kind, ArrayType)
    return kind


def _create(m: Emission, op: ir.Operation) -> None:
    e, kind = m.e, _kind(op.results[0])
    size = kind.dtype.bytes
    array = m.arrays[op.results[0]] = e.reserve(kind.size * size)
    fill = e.constant(int(text(op, "fill") or 0), f"i{8 * size}")

    def put(index: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        e.store(fill, e.address(array, e.mul(index, size)))
        return carried

    e.loop(0, kind.size, 1, [], put)
    m.erased.append(op)


def _element(m: Emission, op: ir.Operation, position: int) -> tuple[ArrayType, ir.Value, ir.Value]:
    """An array's type, the address of an element of it, and whether it is there."""
    array, kind = op.operands[position], _kind(op.operands[position])
    index = m.number(op.operands[position + 1])
    sound = _inside(m, op, "array", [index], [kind.size])
    return kind, m.e.address(m.arrays[array], m.e.mul(index, kind.dtype.bytes)), sound


def _get(m: Emission, op: ir.Operation) -> None:
    e = m.e
    kind, address, sound = _element(m, op, 0)
    value = e.load(e.select(sound, address, m.frame), f"i{8 * kind.dtype.bytes}")
    value = e.select(sound, value, e.constant(0, *e.shape(value)))
    if kind.dtype == INDEX:
        m.replace(op, value)
        return
    if kind.dtype == BOOL:
        value = e.cast("trunci", value, "i1")
    op.results[0].replace_all_uses_with(value)
    m.erased.append(op)


def _set(m: Emission, op: ir.Operation) -> None:
    e, value = m.e, op.operands[0]
    kind, address, sound = _element(m, op, 1)
    if kind.dtype == INDEX:
        value = e.value(m.number(value))
    elif kind.dtype == BOOL:
        value = e.cast("extui", value, "i8")
    e.when(sound, lambda: e.store(value, address))
    m.erased.append(op)


LOWERED: dict[str, Callable[[Emission, ir.Operation], None]] = {
    "pypto.read": _read,
    "pypto.write": _write,
    "pypto.array_create": _create,
    "pypto.array_get": _get,
    "pypto.array_set": _set,
}
