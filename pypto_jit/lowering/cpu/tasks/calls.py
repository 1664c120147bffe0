"""Calls of kernels from a host function: what each kernel takes, and a task's record filled in with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import HOST, KERNEL, described_arguments, number, parameters, symbol, text
from pypto_jit.lowering.cpu.chains import Chain, Share, find_chains
from pypto_jit.lowering.cpu.emitter import Extent
from pypto_jit.lowering.cpu.runner import Part
from pypto_jit.lowering.cpu.tasks.boxes import box_bytes
from pypto_jit.lowering.cpu.tasks.emission import Emission
from pypto_jit.lowering.cpu.tasks.layout import ADD, READ, WRITE, Frame, Task
from pypto_jit.lowering.cpu.tasks.scheduler import TaskKernel
from pypto_jit.lowering.cpu.tasks.tensors import HostTensor
from pypto_jit.lowering.tree import functions

_KINDS = {"read": READ, "write": WRITE, "atomic": ADD}
_LLVM = {"!llvm.ptr": "ptr", "index": "i64", "f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}
# Where the number of blocks is not known, units beyond it find nothing to do.
_UNKNOWN_BLOCKS = 64
# The block index, the number of blocks, the arena and the status, behind a kernel's own arguments.
_TRAILING = 4


@dataclass(frozen=True)
class Argument:
    """What an argument of a planned kernel is.

    Attributes:
        kind: ``argument`` (a tensor's address), ``scalar``, ``dim``, ``stride`` or ``workspace``.
        name: of the parameter.
        number: the axis, or the bytes of the workspace.
        place: of the workspace among those of the kernel.
    """

    kind: str
    name: str = ""
    number: int = 0
    place: int = 0


@dataclass(frozen=True)
class Piece:
    """One of the functions that a kernel became, or several that run block by block.

    Attributes:
        number: of it among those that tasks run.
        parameters: names of the kernel's parameters, in the order of a call's arguments.
        arguments: what the functions take, in the order of a task's words.
        blocks: how many there are.
    """

    number: int
    parameters: tuple[str, ...]
    arguments: tuple[Argument, ...]
    blocks: int


def read_arguments(function: ir.Operation) -> tuple[Argument, ...]:
    """What the arguments of a planned function are."""
    found = []
    for attributes in described_arguments(function, len(function.regions[0].blocks[0].arguments)):
        known = {named.name.removeprefix("pypto."): named.attr for named in attributes}
        kind = next(k for k in ("argument", "scalar", "dim", "stride", "workspace") if k in known)
        if kind in ("argument", "scalar"):
            found.append(Argument(kind, ir.StringAttr(known[kind]).value))
        elif kind == "workspace":
            place = sum(argument.kind == "workspace" for argument in found)
            found.append(Argument(kind, number=ir.IntegerAttr(known[kind]).value, place=place))
        else:
            name, axis = ir.ArrayAttr(known[kind])
            found.append(Argument(kind, ir.StringAttr(name).value, ir.IntegerAttr(axis).value))
    return tuple(found)


class Kernels:
    """The kernels of a module with a host function, in order; read before they are lowered, finished after.

    Attributes:
        work: element operations of each piece, once they are lowered; -1 where unknown.
    """

    def __init__(self, module: ir.Operation) -> None:
        self.work: list[int] = []
        self._pieces: dict[str, list[Piece]] = defaultdict(list)
        self._chains: list[tuple[Chain, Piece, list[list[Argument | Share]]]] = []
        for chain in find_chains([function for function in functions(module) if HOST not in function.attributes]):
            first = chain.functions[0]
            taken = [_shared(read_arguments(function), chain) for function in chain.functions]
            words = dict.fromkeys(argument for given in taken for argument in given if isinstance(argument, Argument))
            blocks = number(first, "pypto.trips")
            piece = Piece(
                len(self._chains),
                tuple(parameters(first)),
                tuple(words),
                _UNKNOWN_BLOCKS if blocks is None or blocks < 0 else blocks,
            )
            self._chains.append((chain, piece, taken))
            self._pieces[text(first, KERNEL) or symbol(first)].append(piece)

    def pieces(self, callee: str) -> list[Piece]:
        """What a call of a kernel runs, in order."""
        return self._pieces[callee]

    @property
    def slots(self) -> int:
        """Arguments of a function, at most."""
        return max((len(piece.arguments) for pieces in self._pieces.values() for piece in pieces), default=0)

    @property
    def most_pieces(self) -> int:
        """Functions that one call runs, at most."""
        return max(map(len, self._pieces.values()), default=1)

    def lowered(self, module: ir.Operation, prefix: str) -> tuple[TaskKernel, ...]:
        """What the scheduler is told, from the lowered functions, whose names get a prefix."""
        found = []
        for chain, piece, taken in self._chains:
            self.work.append(_total(chain, "pypto.work"))
            words = {argument: Task.ARGUMENTS + 8 * k for k, argument in enumerate(piece.arguments)}
            parts = []
            for function, given in zip(chain.functions, taken, strict=True):
                name = prefix + symbol(function)
                function.attributes["sym_name"] = ir.StringAttr.get(name, context=function.context)
                arguments = list(function.regions[0].blocks[0].arguments)[:-_TRAILING]
                kinds = [_LLVM.get(str(a.type), str(a.type)) for a in arguments]
                places = [a if isinstance(a, Share) else words[a] for a in given]
                parts.append(Part(name, tuple(zip(kinds, places, strict=True))))
            arena = max(number(function, "pypto.arena") or 0 for function in chain.functions)
            found.append(TaskKernel(tuple(parts), arena, _total(chain, "pypto.block_work"), piece.blocks))
        return tuple(found)


def _shared(arguments: Sequence[Argument], chain: Chain) -> list[Argument | Share]:
    """What a function of a chain takes, with the shares that it has of workspaces."""
    return [chain.shares.get(a.place, a) if a.kind == "workspace" else a for a in arguments]


def _total(chain: Chain, name: str) -> int:
    """The sum of a number of each function, -1 where one is unknown."""
    found = [number(function, name) for function in chain.functions]
    known = [each for each in found if each is not None]
    return -1 if min(known) < 0 else sum(known)


@dataclass
class Call:
    """A call under construction.

    Attributes:
        task: the number of its task; None where there is none yet.
        accesses: the operations that say what it touches.
        arguments: of the kernel.
    """

    task: ir.Value | None = None
    accesses: list[ir.Operation] = field(default_factory=list)
    arguments: list[ir.Value] = field(default_factory=list)


def emit_call(m: Emission, call: Call, pieces: Sequence[Piece]) -> int:
    """Submit a task that runs the pieces of a kernel one after the other; how many accesses it is recorded with."""
    e = m.e
    task = call.task if call.task is not None else m.called("submit", m.frame)
    accesses = [a for a in call.accesses if m.tensors[a.operands[0]].root is not None]
    given = [_given(m, value) for value in call.arguments]
    # Numbers are made where they are defined, so that they are there for all branches.
    corners = [[m.number(value) for value in list(access.operands)[1:]] for access in accesses]

    def record(workspaces: Mapping[int, ir.Value]) -> None:
        for piece in pieces:
            place = m.called("record", m.frame, piece.number, piece.blocks)
            _store_arguments(m, place, piece, given, workspaces)
            m.effect("ready", m.frame, place)
        deferred = e.compare("eq", m.slot(Frame.IMMEDIATE), e.constant(0, "i64"))
        e.when(deferred, lambda: _commit(m, task, len(pieces), accesses, corners))

    e.when(m.sound(), lambda: _with_workspaces(m, pieces, record))
    return len(accesses)


def _given(m: Emission, value: ir.Value) -> HostTensor | ir.Value:
    """An argument as a record holds it."""
    tensor = m.tensors.get(value)
    if tensor is not None:
        return tensor
    kind = str(value.type)
    if kind == "index":
        return m.e.value(m.number(value))
    return m.e.cast("extui", value, "i8") if kind == "i1" else value


def _with_workspaces(m: Emission, pieces: Sequence[Piece], record: Callable[[Mapping[int, ir.Value]], None]) -> None:
    """Allocate what the pieces of a kernel hand each other: an address for the place of each workspace."""
    sizes = {a.place: a.number for piece in pieces for a in piece.arguments if a.kind == "workspace"}
    if not sizes:
        record({})
        return
    pointers = {place: m.called("allocate", m.frame, size) for place, size in sorted(sizes.items())}
    words = {place: m.e.op("llvm.ptrtoint", m.e.i64, pointer) for place, pointer in pointers.items()}
    m.e.when(m.sound(), lambda: record(words))
    for pointer in pointers.values():
        m.effect("release", m.frame, pointer)


def _store_arguments(
    m: Emission,
    task: ir.Value,
    piece: Piece,
    given: Sequence[HostTensor | ir.Value],
    workspaces: Mapping[int, ir.Value],
) -> None:
    named = dict(zip(piece.parameters, given, strict=False))
    for k, argument in enumerate(piece.arguments):
        whole = argument.kind == "workspace"
        value = workspaces[argument.place] if whole else _value(argument, named[argument.name])
        m.e.store(m.e.value(value), m.e.address(task, Task.ARGUMENTS + 8 * k))


def _value(argument: Argument, given: HostTensor | ir.Value) -> Extent:
    if isinstance(given, ir.Value):
        return given
    if argument.kind == "argument":
        return given.data
    return (given.extents if argument.kind == "dim" else given.strides)[argument.number]


def _commit(
    m: Emission, task: ir.Value, pieces: int, accesses: Sequence[ir.Operation], corners: Sequence[Sequence[Extent]]
) -> None:
    """Give the records their levels, from what the task touches."""
    e = m.e
    level: ir.Value = e.constant(0, "i64")
    for op, numbers in zip(accesses, corners, strict=True):
        tensor = m.tensors[op.operands[0]]
        assert tensor.root is not None
        rank = tensor.type.rank
        found = box_bytes(e, tensor, numbers[:rank], numbers[rank:])
        place = (found.low, found.high, found.pitch, found.width)
        after = m.called("access", m.frame, tensor.root, *place, _KINDS[text(op, "mode") or "write"])
        level = e.same("arith.maxsi", level, after)
    m.effect("commit", m.frame, task, pieces, level)
