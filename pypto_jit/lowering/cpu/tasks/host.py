"""Lowers a host function: what stood around tasks becomes native code that submits them to the scheduler.

`lowering.passes.outline` says what a host function holds. The lowered function takes addresses, scalars, extents and
strides in the order in which kernels do, and then the frame that `layout` describes.

Once something has failed, nothing more is submitted, written or allocated, reads give zero, and loops with a condition
end; so the function comes to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC, TensorType
from pypto_jit.errors import InternalError
from pypto_jit.lowering.attributes import parameters, set_arguments, symbol, text
from pypto_jit.lowering.cpu import convert
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.frame import Check
from pypto_jit.lowering.cpu.tasks.boxes import box_bytes
from pypto_jit.lowering.cpu.tasks.calls import Argument, Kernels, Piece, store_arguments
from pypto_jit.lowering.cpu.tasks.layout import ADD, LINE, READ, WRITE, Allocation, Frame, Root, Table
from pypto_jit.lowering.cpu.tasks.tensors import HostTensor, resolve, row_major
from pypto_jit.lowering.spans import span_of
from pypto_jit.lowering.tree import constant
from pypto_jit.lowering.types import TypeTable

_KINDS = {"read": READ, "write": WRITE, "atomic": ADD}
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
_WINDOW = 4096
_TABLE_BYTES = 4 << 20


@dataclass(frozen=True)
class HostCode:
    """A lowered host function.

    Attributes:
        symbol: its name.
        arguments: what it takes, up to the frame.
        table: the table of tasks that it needs.
    """

    symbol: str
    arguments: tuple[Argument, ...]
    table: Table


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
    return _Host(function, types, cpu, kernels, checks).lower(prefix)


class _Host:
    def __init__(
        self, function: ir.Operation, types: TypeTable, cpu: CpuDescription, kernels: Kernels, checks: list[Check]
    ) -> None:
        self._function = function
        self._types = types
        self._kernels = kernels
        self._checks = checks
        self._block = function.regions[0].blocks[0]
        self._first = self._block.operations[0].operation
        self._e = Emitter(function.context, self._block, cpu)
        self._tensors: dict[ir.Value, HostTensor] = {}
        self._numbers: dict[ir.Value, Extent] = {}
        self._erased: list[ir.Operation] = []
        self._accesses: list[ir.Operation] = []
        self._arguments: list[ir.Value] = []
        self._most_accesses = 0
        self._task: ir.Value | None = None
        self._written = self._find_written()
        self._lowered: dict[str, Callable[[ir.Operation], None]] = {
            "pypto.create_tensor": self._create,
            "pypto.dim": self._dim,
            "pypto.submit": self._submit,
            "pypto.access": self._access,
            "pypto.argument": self._argument,
            "pypto.call": self._call,
            "pypto.read": self._read,
            "pypto.write": self._write,
        }

    def lower(self, prefix: str) -> HostCode:
        name, old = prefix + symbol(self._function), len(self._block.arguments)
        with ir.InsertionPoint(self._first):
            arguments = self._take_arguments()
        self._lower_block(self._block)
        for op in reversed(self._erased):
            op.erase()
        for k in reversed(range(old)):
            self._block.erase_argument(k)
        attributes = self._function.attributes
        for key in list(attributes):
            if key.startswith(("pto.", "pypto.")):
                del attributes[key]
        attributes["sym_name"] = ir.StringAttr.get(name)
        set_arguments(self._function, [ir.DictAttr.get({})] * len(self._block.arguments))
        self._declare_runtime()
        accesses, slots, pieces = max(self._most_accesses, 1), self._kernels.slots, self._kernels.most_pieces
        bytes_each = Table(1024, slots, accesses, pieces).size // 1024
        window = min(_WINDOW, max(_TABLE_BYTES // bytes_each, 16 * pieces))
        return HostCode(name, arguments, Table(window, slots, accesses, pieces))

    def _find_written(self) -> set[ir.Value]:
        """The tensors that tasks write."""
        found: set[ir.Value] = set()

        def visit(op: ir.Operation) -> ir.WalkResult:
            if op.name == "pypto.access" and text(op, "mode") != "read":
                found.add(op.operands[0])
            return ir.WalkResult.ADVANCE

        self._function.walk(visit, ir.WalkOrder.PRE_ORDER)
        return found

    def _declare_runtime(self) -> None:
        e = self._e
        block = self._function.parent.regions[0].blocks[0]
        for name, (operands, result) in _RUNTIME.items():
            kind = ir.FunctionType.get([e.type(k) for k in operands], [e.type(result)] if result else [])
            ir.Operation.create(
                "func.func",
                regions=1,
                attributes={
                    "sym_name": ir.StringAttr.get(f"pypto.{name}"),
                    "sym_visibility": ir.StringAttr.get("private"),
                    "function_type": ir.TypeAttr.get(kind),
                },
                ip=ir.InsertionPoint.at_block_begin(block),
            )

    # Arguments

    def _take_arguments(self) -> tuple[Argument, ...]:
        """Give the function its new arguments, in the order in which planned kernels have them."""
        e, names = self._e, parameters(self._function)
        old = list(self._block.arguments)
        tensors = [
            (value, kind, name)
            for value, name in zip(old, names, strict=True)
            if isinstance(kind := self._types.of(value), TensorType)
        ]
        found: list[Argument] = []
        data: dict[ir.Value, ir.Value] = {}

        def take(argument: Argument, kind: ir.Type) -> ir.Value:
            found.append(argument)
            return self._block.add_argument(kind, self._function.location)

        for value, _, name in tensors:
            data[value] = take(Argument("argument", name), e.i64)
        for value, name in zip(old, names, strict=True):
            if value not in data:
                value.replace_all_uses_with(take(Argument("scalar", name), value.type))
        numbers: dict[tuple[ir.Value, str], list[Extent]] = {}
        for purpose in ("dim", "stride"):
            for value, kind, name in tensors:
                static = kind.shape if purpose == "dim" else kind.strides
                axes = [axis for axis, n in enumerate(static) if n == DYNAMIC]
                given = [take(Argument(purpose, name, axis), e.i64) for axis in axes]
                numbers[value, purpose] = list(resolve(static, given))
        self._frame = self._block.add_argument(e.pointer, self._function.location)
        for value, kind, _ in tensors:
            tensor = HostTensor(
                kind, data[value], tuple(numbers[value, "dim"]), tuple(numbers[value, "stride"]), None
            )
            if value in self._written:
                tensor.root = self._root(tensor)
            self._tensors[value] = tensor
        return tuple(found)

    def _root(self, tensor: HostTensor) -> ir.Value:
        """Lists of the accesses to a parameter."""
        e = self._e
        byte = e.attribute("byte", lambda: ir.TypeAttr.get(e.type("i8")))
        size = e.constant(Root.BYTES, "i64")
        root = e.op("llvm.alloca", e.pointer, size, elem_type=byte, alignment=e.number(LINE))
        low, high = tensor.range(e, [0] * tensor.type.rank, tensor.extents)
        for value, offset in ((0, Root.EPOCH), (low, Root.LOW), (high, Root.HIGH)):
            e.store(e.value(value), e.address(root, offset))
        return root

    # Values

    def _number(self, value: ir.Value) -> Extent:
        """An index as a 64-bit number."""
        known = constant(value)
        if known is not None:
            return known
        found = self._numbers.get(value)
        if found is None:
            owner = value.owner
            place = (
                ir.InsertionPoint.at_block_begin(owner)
                if isinstance(owner, ir.Block)
                else ir.InsertionPoint.after(owner)
            )
            with place:
                found = self._numbers[value] = self._e.op("arith.index_cast", self._e.i64, value)
        return found

    def _word(self, value: ir.Value) -> ir.Value:
        return self._e.value(self._number(value))

    def _replace(self, op: ir.Operation, number: Extent) -> None:
        """Let a 64-bit number stand for an operation's result, which is an index."""
        e = self._e
        index = e.op("arith.index_cast", e.type("index"), e.value(number))
        self._numbers[index] = number
        op.results[0].replace_all_uses_with(index)
        self._erased.append(op)

    def _runtime(self, name: str, *operands: Extent) -> ir.Value | None:
        e = self._e
        values = [e.value(operand) for operand in operands]
        _, result = _RUNTIME[name]
        callee = ir.FlatSymbolRefAttr.get(f"pypto.{name}")
        if result is None:
            e.effect("func.call", *values, callee=callee)
            return None
        return e.op("func.call", e.type(result), *values, callee=callee)

    def _called(self, name: str, *operands: Extent) -> ir.Value:
        result = self._runtime(name, *operands)
        assert result is not None
        return result

    def _slot(self, slot: Frame) -> ir.Value:
        return self._e.load(self._e.address(self._frame, slot.at), "i64")

    def _sound(self) -> ir.Value:
        """Whether nothing has failed."""
        return self._e.compare("eq", self._slot(Frame.STATUS), self._e.constant(0, "i64"))

    def _fail_unless(self, condition: ir.Value, op: ir.Operation, message: str) -> None:
        e = self._e
        self._checks.append((span_of(op), message))
        code = len(self._checks)
        failed = e.same("arith.xori", condition, e.constant(1, "i1"))
        e.when(failed, lambda: self._effect("fail", self._frame, code))

    def _effect(self, name: str, *operands: Extent) -> None:
        self._runtime(name, *operands)

    # Operations

    def _lower_block(self, block: ir.Block) -> None:
        created: list[ir.Value] = []
        for view in list(block.operations):
            op = view.operation
            if op.name.startswith("pypto."):
                if op.name not in self._lowered:
                    raise InternalError("no code for an operation around tasks", span=span_of(op), found=op.name)
                with ir.InsertionPoint(op):
                    self._lowered[op.name](op)
                if op.name == "pypto.create_tensor":
                    created.append(op.results[0])
                continue
            if op.name == "scf.condition":
                with ir.InsertionPoint(op):
                    op.operands[0] = self._e.same("arith.andi", op.operands[0], self._sound())
            for region in op.regions:
                for inner in region.blocks:
                    self._lower_block(inner)
        if block != self._block:
            with ir.InsertionPoint(list(block.operations)[-1]):
                for tensor in created:
                    self._effect("release", self._frame, self._pointer(self._tensors[tensor].data))

    def _pointer(self, address: Extent) -> ir.Value:
        return self._e.op("llvm.inttoptr", self._e.pointer, self._e.value(address))

    def _dim(self, op: ir.Operation) -> None:
        axis = ir.IntegerAttr(op.attributes["axis"]).value
        self._replace(op, self._tensors[op.operands[0]].extents[axis])

    def _create(self, op: ir.Operation) -> None:
        e, kind = self._e, self._types.tensor(op.results[0])
        given = [self._number(value) for value in op.operands]
        extents = resolve(kind.shape, given)
        dynamic = [extent for extent in extents if not isinstance(extent, int)]
        if dynamic:
            zero = e.constant(0, "i64")
            positive = [e.compare("sge", extent, zero) for extent in dynamic]
            self._fail_unless(self._every(positive), op, "a created tensor has a negative extent")
        size: Extent = kind.dtype.bytes
        for extent in extents:
            both = isinstance(size, int) and isinstance(extent, int)
            size = e.mul(size, extent) if both else self._called("product", size, extent)
        null = e.op("llvm.mlir.zero", e.pointer)
        pointer = self._when(self._sound(), lambda: self._called("allocate", self._frame, size), null)
        data = e.op("llvm.ptrtoint", e.i64, pointer)
        root = e.address(pointer, Allocation.ROOT_FROM_DATA)
        self._tensors[op.results[0]] = HostTensor(kind, data, extents, row_major(e, extents), root)
        if "initial" in op.attributes:
            there = e.same("arith.andi", self._sound(), e.compare("ugt", e.value(size), e.constant(0, "i64")))
            e.when(there, lambda: self._fill(op, kind, pointer, size))
        self._erased.append(op)

    def _fill(self, op: ir.Operation, kind: TensorType, pointer: ir.Value, size: Extent) -> None:
        import numpy

        e, dtype, attribute = self._e, kind.dtype, op.attributes["initial"]
        number = ir.FloatAttr(attribute).value if dtype.is_float else ir.IntegerAttr(attribute).value
        bits = int.from_bytes(numpy.array(number).astype(dtype.numpy).tobytes(), "little")
        e.store(e.constant(bits, f"i{dtype.bits}"), pointer)
        self._effect("fill", pointer, dtype.bytes, size)

    def _when(self, condition: ir.Value, make: Callable[[], ir.Value], otherwise: ir.Value) -> ir.Value:
        branch = ir.Operation.create("scf.if", results=[otherwise.type], operands=[condition], regions=2)
        for region, value in zip(branch.regions, (make, lambda: otherwise), strict=True):
            with ir.InsertionPoint(region.blocks.append()):
                ir.Operation.create("scf.yield", operands=[value()])
        return branch.result

    def _every(self, conditions: list[ir.Value]) -> ir.Value:
        result = conditions[0] if conditions else self._e.constant(1, "i1")
        for condition in conditions[1:]:
            result = self._e.same("arith.andi", result, condition)
        return result

    # Tasks

    def _submit(self, op: ir.Operation) -> None:
        task = self._called("submit", self._frame)
        for other in op.operands:
            self._effect("depend", self._frame, task, self._number(other))
        self._replace(op, task)
        self._task = None if "pypto.dummy" in op.attributes else task

    def _access(self, op: ir.Operation) -> None:
        self._accesses.append(op)
        self._erased.append(op)

    def _argument(self, op: ir.Operation) -> None:
        self._arguments.append(op.operands[0])
        self._erased.append(op)

    def _call(self, op: ir.Operation) -> None:
        callee = text(op, "callee")
        assert callee is not None
        task = self._task if self._task is not None else self._called("submit", self._frame)
        accesses = [a for a in self._accesses if self._tensors[a.operands[0]].root is not None]
        self._most_accesses = max(self._most_accesses, len(accesses))
        arguments = self._arguments
        self._accesses, self._arguments, self._task = [], [], None
        pieces = self._kernels.pieces(callee)
        given = [self._tensors.get(value, value) for value in arguments]
        # Emitted here, they are there for every branch below.
        words = {value: self._word(value) for value in arguments if str(value.type) == "index"}
        corners = [[self._number(value) for value in list(a.operands)[1:]] for a in accesses]

        def record(workspaces: list[dict[int, ir.Value]]) -> None:
            self._record(task, pieces, given, words, workspaces)
            deferred = self._e.compare("eq", self._slot(Frame.IMMEDIATE), self._e.constant(0, "i64"))
            self._e.when(deferred, lambda: self._commit(task, len(pieces), accesses, corners))

        self._e.when(self._sound(), lambda: self._with_workspaces(pieces, record))
        self._erased.append(op)

    def _with_workspaces(self, pieces: list[Piece], record: Callable[[list[dict[int, ir.Value]]], None]) -> None:
        """Allocate what the pieces of a kernel hand each other; as each takes the same, in the same order."""
        sizes = max(([a.number for a in p.arguments if a.kind == "workspace"] for p in pieces), key=len)
        if not sizes:
            record([{} for _ in pieces])
            return
        pointers = [self._called("allocate", self._frame, size) for size in sizes]
        by_piece = []
        for piece in pieces:
            places = [k for k, argument in enumerate(piece.arguments) if argument.kind == "workspace"]
            words = [self._e.op("llvm.ptrtoint", self._e.i64, pointer) for pointer in pointers]
            by_piece.append(dict(zip(places, words, strict=False)))
        self._e.when(self._sound(), lambda: record(by_piece))
        for pointer in pointers:
            self._effect("release", self._frame, pointer)

    def _record(
        self,
        task: ir.Value,
        pieces: list[Piece],
        given: list[HostTensor | ir.Value],
        words: dict[ir.Value, ir.Value],
        workspaces: list[dict[int, ir.Value]],
    ) -> None:
        for piece, own in zip(pieces, workspaces, strict=True):
            record = self._called("record", self._frame, piece.number, piece.blocks)
            store_arguments(self._e, record, piece, given, own, words.__getitem__)
            self._effect("ready", self._frame, record)

    def _commit(
        self, task: ir.Value, pieces: int, accesses: list[ir.Operation], corners: list[list[Extent]]
    ) -> None:
        e = self._e
        level: ir.Value = e.constant(0, "i64")
        for op, numbers in zip(accesses, corners, strict=True):
            tensor = self._tensors[op.operands[0]]
            assert tensor.root is not None
            rank = tensor.type.rank
            found = box_bytes(e, tensor, numbers[:rank], numbers[rank:])
            kind = _KINDS[text(op, "mode") or "write"]
            after = self._called(
                "access", self._frame, tensor.root, found.low, found.high, found.pitch, found.width, kind
            )
            level = e.same("arith.maxsi", level, after)
        self._effect("commit", self._frame, task, pieces, level)

    # Single elements

    def _place(self, op: ir.Operation, position: int) -> tuple[HostTensor, ir.Value, ir.Value]:
        """The tensor, the address of an element, and whether it is there; what was submitted has run."""
        e, tensor = self._e, self._tensors[op.operands[position]]
        indices = [self._number(value) for value in list(op.operands)[position + 1 :]]
        self._effect("flush", self._frame)
        inside = []
        for index, extent in zip(indices, tensor.extents, strict=True):
            inside.append(e.compare("sge", e.value(index), e.constant(0, "i64")))
            inside.append(e.compare("slt", e.value(index), e.value(extent)))
        self._fail_unless(self._every(inside), op, "an element outside of its tensor")
        return tensor, self._pointer(tensor.address(e, indices)), self._sound()

    def _read(self, op: ir.Operation) -> None:
        e = self._e
        tensor, address, sound = self._place(op, 0)
        value = e.load(e.select(sound, address, self._frame), convert.stored(tensor.type.dtype))
        value = e.select(sound, value, e.constant(0, *e.shape(value)))
        if str(op.results[0].type) == "bf16":
            value = e.cast("bitcast", value, "bf16")
        op.results[0].replace_all_uses_with(value)
        self._erased.append(op)

    def _write(self, op: ir.Operation) -> None:
        e, value = self._e, op.operands[0]
        _, address, sound = self._place(op, 1)
        if str(value.type) == "bf16":
            value = e.cast("bitcast", value, "i16")
        e.when(sound, lambda: e.store(value, address))
        self._erased.append(op)
