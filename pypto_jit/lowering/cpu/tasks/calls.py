"""Calls of kernels from a host function: what each kernel takes, and a task's record filled in with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import HOST, KERNEL, described_arguments, number, parameters, symbol, text
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.tasks.layout import Task
from pypto_jit.lowering.cpu.tasks.scheduler import TaskKernel
from pypto_jit.lowering.cpu.tasks.tensors import HostTensor
from pypto_jit.lowering.tree import functions

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
    """

    kind: str
    name: str = ""
    number: int = 0


@dataclass(frozen=True)
class Piece:
    """One of the functions that a kernel became.

    Attributes:
        number: of the function among those that tasks run.
        parameters: names of the kernel's parameters, in the order of a call's arguments.
        arguments: what the function takes, up to the block index.
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
            found.append(Argument(kind, number=ir.IntegerAttr(known[kind]).value))
        else:
            name, axis = ir.ArrayAttr(known[kind])
            found.append(Argument(kind, ir.StringAttr(name).value, ir.IntegerAttr(axis).value))
    return tuple(found)


class Kernels:
    """The kernels of a module with a host function, in order; read before they are lowered, finished after."""

    def __init__(self, module: ir.Operation) -> None:
        self._symbols: list[str] = []
        self._pieces: dict[str, list[Piece]] = defaultdict(list)
        for function in functions(module):
            if HOST in function.attributes:
                continue
            blocks = number(function, "pypto.trips")
            piece = Piece(
                len(self._symbols),
                tuple(parameters(function)),
                read_arguments(function),
                _UNKNOWN_BLOCKS if blocks is None or blocks < 0 else blocks,
            )
            self._symbols.append(symbol(function))
            self._pieces[text(function, KERNEL) or symbol(function)].append(piece)

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
        by_name = {symbol(function): function for function in functions(module)}
        found = []
        for name in self._symbols:
            function = by_name[name]
            arguments = list(function.regions[0].blocks[0].arguments)[:-_TRAILING]
            kinds = tuple(_LLVM.get(str(a.type), str(a.type)) for a in arguments)
            arena, work = number(function, "pypto.arena"), number(function, "pypto.block_work")
            assert arena is not None
            assert work is not None
            function.attributes["sym_name"] = ir.StringAttr.get(prefix + name, context=function.context)
            found.append(TaskKernel(prefix + name, kinds, arena, work))
        return tuple(found)


def store_arguments(
    e: Emitter,
    task: ir.Value,
    piece: Piece,
    given: Sequence[HostTensor | ir.Value],
    workspaces: Mapping[int, ir.Value],
    word: Callable[[ir.Value], ir.Value],
) -> None:
    """Fill in a record's arguments.

    Args:
        task: address of the record.
        given: the call's arguments.
        workspaces: address of each workspace, by the place of its argument.
        word: an index as a 64-bit number.
    """
    named = dict(zip(piece.parameters, given, strict=False))
    for k, argument in enumerate(piece.arguments):
        value = workspaces[k] if argument.kind == "workspace" else _value(e, argument, named[argument.name], word)
        e.store(e.value(value), e.address(task, Task.ARGUMENTS + 8 * k))


def _value(
    e: Emitter, argument: Argument, given: HostTensor | ir.Value, word: Callable[[ir.Value], ir.Value]
) -> Extent:
    if isinstance(given, ir.Value):
        if str(given.type) == "index":
            return word(given)
        if str(given.type) == "i1":
            return e.cast("extui", given, "i8")
        return given
    if argument.kind == "argument":
        return given.data
    return (given.extents if argument.kind == "dim" else given.strides)[argument.number]
