"""Writes the entry of a compiled kernel: the TVM-FFI function that checks its arguments and launches the kernel.

The entry is LLVM IR text, set after the kernel's own LLVM IR before both are compiled together. It checks natively all
that a specialization assumes of its arguments (`entry_guards`), reports a mismatch as an integer result, and then runs
the kernels in launch order, over torch's own OpenMP threads where that pays. `pypto_jit.abi` describes the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pypto_jit import abi
from pypto_jit.abi import Binding
from pypto_jit.lowering.cpu.chains import Share
from pypto_jit.lowering.cpu.door import DOOR_TEXT
from pypto_jit.lowering.cpu.entry_extents import check_names
from pypto_jit.lowering.cpu.entry_guards import CheckedTensor, EntryTensor, TensorGuards, overlaps
from pypto_jit.lowering.cpu.entry_scalars import check_scalar
from pypto_jit.lowering.cpu.llvm_text import LlvmText
from pypto_jit.lowering.cpu.runner import ARENA_ALIGNMENT, Part, emit_runner
from pypto_jit.lowering.cpu.tasks.layout import Table
from pypto_jit.lowering.cpu.tasks.scheduler import TaskKernel, call_host, emit_scheduler
from pypto_jit.signature import ScalarSpec

# Below this many element operations a kernel runs on the calling thread: waking the others costs some microseconds.
SERIAL_WORK = 32 * 1024
# LLVM spends most of a small kernel's compile on the entry if it optimizes it, and the entry runs hardly faster for it.
_ATTRIBUTES = "optnone noinline"


@dataclass(frozen=True)
class Operand:
    """What a kernel's argument is: ``data``, ``extent`` or ``stride`` of a tensor, a ``scalar``, or a ``workspace``.

    Attributes:
        kind: which of them.
        index: of the tensor, of the scalar, or of the workspace.
        axis: of the extent or stride.
        type: in LLVM IR, of a scalar.
        share: of a workspace that a thread needs only a block's part of.
    """

    kind: str
    index: int
    axis: int = 0
    type: str = ""
    share: Share | None = None

    @property
    def llvm(self) -> str:
        """Its type in LLVM IR."""
        return self.type or ("i64" if self.kind in ("extent", "stride") else "ptr")


@dataclass(frozen=True)
class Launch:
    """One kernel, in launch order.

    Attributes:
        symbol: name of its LLVM function.
        operands: its arguments, up to the block index.
        arena: bytes of scratch each block needs.
        trips: independent blocks; -1 where only known at run time.
        work: element operations in all; -1 where unknown.
        following: symbols and operands of functions of which a block runs right after that of those before.
    """

    symbol: str
    operands: tuple[Operand, ...]
    arena: int
    trips: int
    work: int
    following: tuple[tuple[str, tuple[Operand, ...]], ...] = ()

    @property
    def parts(self) -> tuple[tuple[str, tuple[Operand, ...]], ...]:
        """Symbol and operands of each function of it."""
        return ((self.symbol, self.operands), *self.following)

    @property
    def parallel(self) -> bool:
        """Whether the kernel is worth more than one thread."""
        return self.trips not in (0, 1) and (self.work < 0 or self.work >= SERIAL_WORK)


@dataclass(frozen=True)
class Host:
    """A function that submits tasks, which runs instead of launches.

    Attributes:
        symbol: name of its LLVM function, which takes addresses as 64-bit words, and the scheduler's frame.
        operands: its arguments, up to the frame.
        kernels: what the tasks run, in the order of their numbers.
        table: the table of tasks.
    """

    symbol: str
    operands: tuple[Operand, ...]
    kernels: tuple[TaskKernel, ...]
    table: Table


def is_parallel(launches: Sequence[Launch]) -> bool:
    """Whether the entry uses a thread count at all."""
    return any(launch.parallel for launch in launches)


class _Frame:
    """Where the entry keeps what the workers read: one 8-byte slot for each operand, then the status pointer."""

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.slots: dict[Operand, int] = {}
        for launch in launches:
            for operand in (operand for _, operands in launch.parts for operand in operands if not operand.share):
                self.slots.setdefault(operand, len(self.slots))

    @property
    def status(self) -> int:
        return len(self.slots)

    @property
    def size(self) -> int:
        return len(self.slots) + 1


def _worker(text: LlvmText, number: int, launch: Launch, frame: _Frame) -> None:
    """The functions that run one kernel: one block of so many, and all that one OpenMP thread has to do."""
    parts = [
        Part(symbol, tuple((operand.llvm, operand.share or 8 * frame.slots[operand]) for operand in operands))
        for symbol, operands in launch.parts
    ]
    emit_runner(text, f"pypto_run{number}", parts, launch.arena, launch.trips, _ATTRIBUTES)
    if not launch.parallel:
        return
    text.raw(f"define internal void @pypto_worker{number}(ptr %frame) {_ATTRIBUTES} {{")
    thread = text.value(f"call i32 {text.binding(Binding.THREAD_NUM, 'ptr')}()")
    team = text.value(f"call i32 {text.binding(Binding.NUM_THREADS, 'ptr')}()")
    index, count = text.value(f"zext i32 {thread} to i64"), text.value(f"zext i32 {team} to i64")
    status = text.load("ptr", "%frame", 8 * frame.status)
    text.raw(f"  call void @pypto_run{number}(ptr %frame, i64 {index}, i64 {count}, ptr {status})")
    text.raw("  ret void\n}\n")


def _launch(text: LlvmText, number: int, launch: Launch, threads: str) -> None:
    if not launch.parallel:
        text.raw(f"  call void @pypto_run{number}(ptr %frame, i64 0, i64 1, ptr %status)")
        return
    useful = threads
    if launch.trips > 0:
        useful = text.least(threads, str(launch.trips))
    function = text.binding(Binding.PARALLEL, "ptr")
    several = text.value(f"icmp sgt i64 {useful}, 1")
    available = text.value(f"icmp ne ptr {function}, null")
    spread, alone, after = text.fresh("b"), text.fresh("b"), text.fresh("b")
    text.branch(text.every([several, available]), spread, alone)
    text.label(spread)
    count = text.value(f"trunc i64 {useful} to i32")
    text.raw(f"  call void {function}(ptr @pypto_worker{number}, ptr %frame, i32 {count}, i32 0)")
    text.jump(after)
    text.label(alone)
    text.raw(f"  call void @pypto_run{number}(ptr %frame, i64 0, i64 1, ptr %status)")
    text.jump(after)
    text.label(after)


def _integer_arguments(text: LlvmText, arguments: int) -> tuple[str, str]:
    """The optional thread count and flags that follow the tensors and scalars."""
    results = []
    for position, default in ((arguments, 1), (arguments + 1, 0)):
        present, joined = text.fresh("b"), text.fresh("b")
        # The block this branch leaves from needs a name for the phi.
        origin = text.fresh("b")
        text.jump(origin)
        text.label(origin)
        text.branch(text.value(f"icmp sgt i32 %given, {position}"), present, joined)
        text.label(present)
        slot = text.address("%args", position * abi.ARGUMENT_BYTES)
        given = text.load("i64", slot, 8)
        kind = text.load("i32", slot)
        checked = text.fresh("b")
        text.branch(text.value(f"icmp eq i32 {kind}, {abi.TYPE_INT}"), checked, "arity")
        text.label(checked)
        text.jump(joined)
        text.label(joined)
        results.append(text.value(f"phi i64 [ {default}, %{origin} ], [ {given}, %{checked} ]"))
    return results[0], results[1]


def _operand_value(
    operand: Operand, loaded: Sequence[CheckedTensor], scalars: Sequence[str], workspaces: Sequence[str]
) -> tuple[str, str]:
    if operand.kind == "scalar":
        return operand.llvm, scalars[operand.index]
    if operand.kind == "workspace":
        return "ptr", workspaces[operand.index]
    tensor = loaded[operand.index]
    if operand.kind == "data":
        return "i64", tensor.data
    return "i64", (tensor.extents if operand.kind == "extent" else tensor.strides)[operand.axis]


def _workspaces(text: LlvmText, sizes: Sequence[int]) -> list[str]:
    pointers: list[str] = []
    for size in sizes:
        if size == 0:
            pointers.append("null")
            continue
        rounded = -(-size // ARENA_ALIGNMENT) * ARENA_ALIGNMENT
        allocate = text.binding(Binding.ALLOCATE, "ptr")
        pointers.append(text.value(f"call ptr {allocate}(i64 {ARENA_ALIGNMENT}, i64 {rounded})"))
    return pointers


def _body(
    text: LlvmText,
    tensors: Sequence[EntryTensor],
    scalars: Sequence[ScalarSpec],
    launches: Sequence[Launch],
    frame: _Frame,
    workspaces: Sequence[int],
    host: Host | None,
) -> None:
    count = len(tensors) + len(scalars)
    few = text.value(f"icmp sge i32 %given, {count}")
    many = text.value(f"icmp sle i32 %given, {count + 2}")
    text.require(text.every([few, many]), "arity")
    threads, flags = _integer_arguments(text, count)
    guards = TensorGuards(text)
    loaded = [guards.tensor(index, tensor) for index, tensor in enumerate(tensors)]
    check_names(text, [tensor.spec for tensor in tensors], [tensor.extents for tensor in loaded])
    numbers = [check_scalar(text, index, spec) for index, spec in enumerate(scalars, len(tensors))]
    resolved = text.value(f"and i64 {flags}, {abi.OVERLAP_RESOLVED}")
    unresolved = text.value(f"icmp eq i64 {resolved}, 0")
    clash = text.value(f"and i1 {unresolved}, {overlaps(text, tensors, loaded)}")
    text.require(text.value(f"xor i1 {clash}, true"), "overlap")
    calls = f"getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(Binding.CALLS)})"
    text.value(f"atomicrmw add ptr {calls}, i64 1 monotonic")
    written = [k for k, tensor in enumerate(tensors) if tensor.written]
    if all(0 in tensors[k].spec.shape for k in written):
        text.raw("  ret i32 0")
        return
    empty = [loaded[k].empty for k in written if loaded[k].empty]
    if len(empty) == len(written):
        text.require(text.value(f"xor i1 {text.every(empty)}, true"), "done")
    pointers = _workspaces(text, workspaces)
    for operand, slot in frame.slots.items():
        kind, value = _operand_value(operand, loaded, numbers, pointers)
        text.raw(f"  store {kind} {value}, ptr {text.address('%frame', 8 * slot)}")
    text.raw("  store i64 0, ptr %status")
    text.raw(f"  store ptr %status, ptr {text.address('%frame', 8 * frame.status)}")
    pointers = [pointer for pointer in pointers if pointer != "null"]
    missing = [text.value(f"icmp eq ptr {pointer}, null") for pointer in pointers]
    with text.only_if(text.any(missing)):
        text.raw(f"  store i64 {-abi.OUT_OF_MEMORY}, ptr %status")
    for number, launch in enumerate(launches):
        # A kernel after a failed one would work on what the failed one did not write.
        sound = text.value(f"icmp eq i64 {text.load('i64', '%status')}, 0")
        with text.only_if(sound):
            _launch(text, number, launch, threads)
    if host is not None:
        values = [" ".join(_operand_value(operand, loaded, numbers, pointers)) for operand in host.operands]
        call_host(text, host.symbol, values, host.table, threads, flags)
    for pointer in pointers:
        text.raw(f"  call void {text.binding(Binding.FREE, 'ptr')}(ptr {pointer})")
    failed = text.load("i64", "%status")
    text.require(text.value(f"icmp ne i64 {failed}, 0"), "done")
    negative = text.value(f"sub i64 0, {failed}")
    text.raw(f"  call void @pypto_answer(ptr %result, i64 {negative})")
    text.raw("  ret i32 0")


def entry_text(
    tensors: Sequence[EntryTensor],
    launches: Sequence[Launch],
    workspaces: Sequence[int] = (),
    host: Host | None = None,
    scalars: Sequence[ScalarSpec] = (),
) -> str:
    """The entry, its helpers and its door as LLVM IR, to be set after the LLVM IR that defines the kernels.

    Args:
        tensors: the tensor parameters in order.
        launches: the kernels, in launch order.
        workspaces: bytes of each workspace, which lives as long as one call; 0 where no launch takes it as a whole.
        host: what submits tasks, after the launches.
        scalars: the scalar parameters in order.

    The text does not declare the kernels: it is only whole together with their definitions.
    """
    text = LlvmText()
    frame = _Frame(launches)
    text.raw(f"@{abi.BINDING_SYMBOL} = global [{len(Binding)} x i64] zeroinitializer\n")
    text.raw(f"""\
define internal void @pypto_answer(ptr %result, i64 %value) {_ATTRIBUTES} {{
  store i32 {abi.TYPE_INT}, ptr %result
  %value.at = getelementptr i8, ptr %result, i64 8
  store i64 %value, ptr %value.at
  ret void
}}
""")
    for number, launch in enumerate(launches):
        _worker(text, number, launch, frame)
    if host is not None:
        emit_scheduler(text, host.kernels, host.table)
    arguments = "ptr %handle, ptr %args, i32 %given, ptr %result"
    text.raw(f"define i32 @{abi.ENTRY_SYMBOL}({arguments}) {_ATTRIBUTES} {{")
    text.raw(f"  %frame = alloca [{frame.size} x i64], align 8")
    text.raw("  %status = alloca i64, align 8")
    if host is not None:
        text.raw(f"  %tasks = alloca i8, i64 {host.table.frame}, align {ARENA_ALIGNMENT}")
    _body(text, tensors, scalars, launches, frame, workspaces, host)
    failures = [(f"fail{k + 1}", k + 1) for k in range(len(tensors) + len(scalars))]
    for label, code in [*failures, ("overlap", abi.OVERLAP), ("arity", abi.ARITY)]:
        text.label(label)
        text.raw(f"  call void @pypto_answer(ptr %result, i64 {code})")
        text.raw("  ret i32 0")
    text.label("done")
    text.raw("  ret i32 0\n}\n")
    text.raw(DOOR_TEXT)
    return "\n".join(text.lines) + "\n"
