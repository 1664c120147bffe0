"""Lowers a host function: what stood around tasks becomes native code that submits them to the scheduler.

`lowering.passes.outline` says what a host function holds. The lowered function takes addresses, scalars, extents and
strides in the order in which kernels do, and then the frame that `layout` describes.

Once something has failed, nothing more is submitted, written or allocated, reads give zero, and loops with a condition
end; so the function comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TensorType
from pypto_jit.errors import InternalError
from pypto_jit.lowering.attributes import parameters, set_arguments, symbol, text
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.frame import Check
from pypto_jit.lowering.cpu.tasks import elements
from pypto_jit.lowering.cpu.tasks.calls import Argument, Call, Kernels, emit_call
from pypto_jit.lowering.cpu.tasks.emission import Emission
from pypto_jit.lowering.cpu.tasks.layout import LINE, Allocation, Root, Table
from pypto_jit.lowering.cpu.tasks.tensors import HostTensor, resolve, row_major
from pypto_jit.lowering.spans import span_of
from pypto_jit.lowering.tree import constant
from pypto_jit.lowering.types import TypeTable

# Tasks that a table holds at most, and bytes that it takes at most where that leaves it some tasks.
_WINDOW = 4096
_TABLE_BYTES = 4 << 20


@dataclass(frozen=True)
class HostCode:
    """A lowered host function.

    Attributes:
        symbol: its name.
        arguments: what it takes, up to the frame.
        table: the table of tasks that it needs.
        calls: each kernel that it calls, and how often at most; None where that is not known.
    """

    symbol: str
    arguments: tuple[Argument, ...]
    table: Table
    calls: tuple[tuple[str, int | None], ...]


def lower_host(
    function: ir.Operation,
    types: TypeTable,
    cpu: CpuDescription,
    kernels: Kernels,
    checks: list[Check],
    prefix: str = "",
) -> HostCode:
    """Lower a host function, in place, to func, scf, arith and llvm operations.

    Args:
        kernels: of the module.
        checks: those of the module so far; the function's are added.
        prefix: put before its name.

    Raises:
        InternalError: the function holds what a host function does not.
    """
    name = prefix + symbol(function)
    host = _Host(function, types, cpu, kernels, checks)
    host.lower()
    host.finish(name)
    accesses, slots, pieces = max(host.most_accesses, 1), kernels.slots, kernels.most_pieces
    bytes_each = Table(1024, slots, accesses, pieces).size // 1024
    window = min(_WINDOW, max(_TABLE_BYTES // bytes_each, 16 * pieces))
    counts = [None if count is None else count * len(kernels.pieces(callee)) for callee, count in host.calls]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        # A task may be submitted where there is room for the largest.
        window = min(window, sum(known) + pieces)
    return HostCode(name, tuple(host.arguments), Table(window, slots, accesses, pieces), tuple(host.calls))


class _Host:
    def __init__(
        self, function: ir.Operation, types: TypeTable, cpu: CpuDescription, kernels: Kernels, checks: list[Check]
    ) -> None:
        self._function = function
        self._types = types
        self._kernels = kernels
        self._block = function.regions[0].blocks[0]
        self._old = list(self._block.arguments)
        self._written = self._find_written()
        self._call = Call()
        self.arguments: list[Argument] = []
        self.most_accesses = 0
        self.calls: list[tuple[str, int | None]] = []
        # How often what is being lowered runs.
        self._times: int | None = 1
        first = self._block.operations[0].operation
        emitter = Emitter(function.context, self._block, cpu)
        with ir.InsertionPoint(first):
            self._m = self._take_arguments(emitter, checks)
        self._lowered: dict[str, Callable[[ir.Operation], None]] = {
            "pypto.create_tensor": self._create,
            "pypto.dim": self._dim,
            "pypto.within": self._within,
            "pypto.submit": self._submit,
            "pypto.access": self._access,
            "pypto.argument": self._argument,
            "pypto.call": self._end_call,
        }

    def lower(self) -> None:
        self._lower_block(self._block)

    def finish(self, name: str) -> None:
        for op in reversed(self._m.erased):
            op.erase()
        for k in reversed(range(len(self._old))):
            self._block.erase_argument(k)
        attributes = self._function.attributes
        for key in list(attributes):
            if key.startswith(("pto.", "pypto.")):
                del attributes[key]
        attributes["sym_name"] = ir.StringAttr.get(name)
        set_arguments(self._function, [ir.DictAttr.get({})] * len(self._block.arguments))
        module = self._function.parent
        assert module is not None
        self._m.declare_runtime(module.operation)

    def _find_written(self) -> set[ir.Value]:
        """The tensors that tasks write."""
        found: set[ir.Value] = set()

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "pypto.access" and text(op, "mode") != "read":
                found.add(op.operands[0])
            return ir.WalkResult.ADVANCE

        self._function.walk(visit, ir.WalkOrder.PRE_ORDER)
        return found

    # Arguments

    def _take(self, argument: Argument, kind: ir.Type) -> ir.Value:
        self.arguments.append(argument)
        return self._block.add_argument(kind, self._function.location)

    def _take_arguments(self, e: Emitter, checks: list[Check]) -> Emission:
        """Give the function its new arguments, in the order in which planned kernels have them."""
        names = parameters(self._function)
        tensors = [
            (value, kind, name)
            for value, name in zip(self._old, names, strict=True)
            if isinstance(kind := self._types.of(value), TensorType)
        ]
        data = {value: self._take(Argument("argument", name), e.i64) for value, _, name in tensors}
        for value, name in zip(self._old, names, strict=True):
            if value not in data:
                value.replace_all_uses_with(self._take(Argument("scalar", name), value.type))
        numbers: dict[tuple[ir.Value, str], tuple[Extent, ...]] = {}
        for purpose in ("dim", "stride"):
            for value, kind, name in tensors:
                static = kind.shape if purpose == "dim" else kind.strides
                axes = [axis for axis, n in enumerate(static) if n == DYNAMIC]
                given = [self._take(Argument(purpose, name, axis), e.i64) for axis in axes]
                numbers[value, purpose] = resolve(static, given)
        m = Emission(e, self._block.add_argument(e.pointer, self._function.location), checks)
        for value, kind, _ in tensors:
            tensor = HostTensor(kind, data[value], numbers[value, "dim"], numbers[value, "stride"], None)
            if value in self._written:
                tensor.root = _root(e, tensor)
            m.tensors[value] = tensor
        return m

    # Operations

    def _lower_block(self, block: ir.Block) -> None:
        m, created = self._m, []
        for view in list(block.operations):
            op = view.operation
            if op.name.startswith("pypto."):
                with ir.InsertionPoint(op):
                    self._lower(op)
                if op.name == "pypto.create_tensor":
                    created.append(op.results[0])
                continue
            if op.name == "scf.condition":
                with ir.InsertionPoint(op):
                    op.operands[0] = m.e.same("arith.andi", op.operands[0], m.sound())
            times = self._times
            self._times = _times(op, times)
            for region in op.regions:
                for inner in region.blocks:
                    self._lower_block(inner)
            self._times = times
        if block == self._block:
            return
        with ir.InsertionPoint(list(block.operations)[-1]):
            for tensor in created:
                m.effect("release", m.frame, m.pointer(m.tensors[tensor].data))

    def _lower(self, op: ir.Operation) -> None:
        if op.name in elements.LOWERED:
            elements.LOWERED[op.name](self._m, op)
        elif op.name in self._lowered:
            self._lowered[op.name](op)
        else:
            raise InternalError("no code for an operation around tasks", span=span_of(op), found=op.name)

    def _dim(self, op: ir.Operation) -> None:
        axis = ir.IntegerAttr(op.attributes["axis"]).value
        self._m.replace(op, self._m.tensors[op.operands[0]].extents[axis])

    def _within(self, op: ir.Operation) -> None:
        m, e = self._m, self._m.e
        offset, size, extent = (e.value(m.number(value)) for value in op.operands)
        zero, end = e.constant(0, "i64"), e.value(e.sub(extent, size))
        conditions = [e.compare("sge", offset, zero), e.compare("sge", size, zero), e.compare("sle", offset, end)]
        m.fail_unless(m.every(conditions), op, text(op, "message") or "")
        m.replace(op, offset)

    def _create(self, op: ir.Operation) -> None:
        m, e, kind = self._m, self._m.e, self._types.tensor(op.results[0])
        extents = resolve(kind.shape, [m.number(value) for value in op.operands])
        dynamic = [extent for extent in extents if not isinstance(extent, int)]
        if dynamic:
            zero = e.constant(0, "i64")
            positive = [e.compare("sge", extent, zero) for extent in dynamic]
            m.fail_unless(m.every(positive), op, "a created tensor has a negative extent")
        size: Extent = kind.dtype.bytes
        for extent in extents:
            both = isinstance(size, int) and isinstance(extent, int)
            size = e.mul(size, extent) if both else m.called("product", size, extent)
        null = e.op("llvm.mlir.zero", e.pointer)
        pointer = m.choose(m.sound(), lambda: m.called("allocate", m.frame, size), null)
        data = e.op("llvm.ptrtoint", e.i64, pointer)
        root = e.address(pointer, Allocation.ROOT_FROM_DATA)
        m.tensors[op.results[0]] = HostTensor(kind, data, extents, row_major(e, extents), root)
        if "initial" in op.attributes:
            there = e.same("arith.andi", m.sound(), e.compare("ugt", e.value(size), e.constant(0, "i64")))
            e.when(there, lambda: self._fill(op, kind, pointer, size))
        m.erased.append(op)

    def _fill(self, op: ir.Operation, kind: TensorType, pointer: ir.Value, size: Extent) -> None:
        e, dtype, attribute = self._m.e, kind.dtype, op.attributes["initial"]
        number = ir.FloatAttr(attribute).value if dtype.is_float else ir.IntegerAttr(attribute).value
        bits = int.from_bytes(numpy.array(number).astype(dtype.numpy).tobytes(), "little")
        e.store(e.constant(bits, f"i{dtype.bits}"), pointer)
        self._m.effect("fill", pointer, dtype.bytes, size)

    # Tasks

    def _submit(self, op: ir.Operation) -> None:
        m = self._m
        task = m.called("submit", m.frame)
        for other in op.operands:
            m.effect("depend", m.frame, task, m.number(other))
        m.replace(op, task)
        if "pypto.dummy" not in op.attributes:
            self._call.task = task

    def _access(self, op: ir.Operation) -> None:
        self._call.accesses.append(op)
        self._m.erased.append(op)

    def _argument(self, op: ir.Operation) -> None:
        self._call.arguments.append(op.operands[0])
        self._m.erased.append(op)

    def _end_call(self, op: ir.Operation) -> None:
        callee = text(op, "callee")
        assert callee is not None
        recorded = emit_call(self._m, self._call, self._kernels.pieces(callee))
        self.calls.append((callee, self._times))
        self.most_accesses = max(self.most_accesses, recorded)
        self._call = Call()
        self._m.erased.append(op)


def _times(op: ir.Operation, outside: int | None) -> int | None:
    """How often the regions of an operation run at most, from how often the operation does."""
    if op.name == "scf.if" or not len(op.regions) or outside is None:
        return outside
    lower, upper, step = (constant(value) for value in list(op.operands)[:3]) if op.name == "scf.for" else [None] * 3
    if lower is None or upper is None or step is None or step <= 0:
        return None
    return outside * max(0, -((lower - upper) // step))


def _root(e: Emitter, tensor: HostTensor) -> ir.Value:
    """Lists of the accesses to a parameter."""
    byte = e.attribute("byte", lambda: ir.TypeAttr.get(e.type("i8")))
    size = e.constant(Root.BYTES, "i64")
    root = e.op("llvm.alloca", e.pointer, size, elem_type=byte, alignment=e.number(LINE))
    low, high = tensor.range(e, [0] * tensor.type.rank, tensor.extents)
    for value, offset in ((0, Root.EPOCH), (low, Root.LOW), (high, Root.HIGH)):
        e.store(e.value(value), e.address(root, offset))
    return root
