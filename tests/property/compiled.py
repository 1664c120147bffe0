"""Compiles a ``pypto`` module for the CPU and runs it below the runtime, with fences around all memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy

from pypto_jit._mlir import ir
from pypto_jit.errors import Span
from pypto_jit.lowering.cpu.codegen import emit_object
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.kernel import lower_to_cpu
from pypto_jit.lowering.pipeline import lower
from pypto_jit.lowering.tree import functions
from pypto_jit.targets import Target
from tests.native import NativeFunction

ALIGNMENT = 64
# Bytes around each array that a kernel must leave as they are, and what they hold: as a float it is no usual number.
FENCE = 256
TRAP = 0xFB


class Fenced:
    """A copy of an array between two fences."""

    def __init__(self, given: numpy.ndarray) -> None:
        self._memory = numpy.full(given.nbytes + 2 * FENCE + ALIGNMENT, TRAP, numpy.uint8)
        start = FENCE + -(self._memory.ctypes.data + FENCE) % ALIGNMENT
        self._inside = slice(start, start + given.nbytes)
        self.array = self._memory[self._inside].view(given.dtype).reshape(given.shape)
        self.array[...] = given

    def intact(self) -> bool:
        """Whether both fences still hold what they held."""
        start, stop = self._inside.start, self._inside.stop
        return bool((self._memory[:start] == TRAP).all() and (self._memory[stop:] == TRAP).all())


@dataclass(frozen=True)
class _Function:
    native: NativeFunction
    arena: int
    trips: int


class CompiledModule:
    """A module with static shapes as native code. A failed bounds check is kept in ``violation``.

    Args:
        module: as traced, in a borrowed context; consumed.
        target: the machine to lower for.
        blocks: how many blocks share the iterations of a parallel loop.
        planned: the module is in the ``pto`` dialect already, with addresses.
    """

    def __init__(self, module: ir.Module, target: Target, blocks: int = 3, *, planned: bool = False) -> None:
        if not planned:
            lower(module, target)
        self._workspaces: list[int] = []
        names = []
        for function in functions(module.operation):
            names.append(function.attributes["sym_name"].value)
            self._workspaces = max(self._workspaces, _workspaces(function), key=len)
        lowered = lower_to_cpu(module, host_cpu())
        self.checks: tuple[tuple[Span | None, str], ...] = tuple(lowered.checks)
        sizes = {
            function.attributes["sym_name"].value: (
                function.attributes["pypto.arena"].value,
                function.attributes["pypto.trips"].value,
            )
            for function in functions(module.operation)
            if function.attributes["sym_name"].value in names
        }
        code = emit_object(module, host_cpu()).objects
        self._functions = [_Function(NativeFunction(code, name), *sizes[name]) for name in names]
        self._blocks = blocks
        self.violation: tuple[Span | None, str] | None = None

    def __call__(self, arrays: Sequence[numpy.ndarray]) -> list[numpy.ndarray]:
        """The arrays after the kernel ran on copies of them."""
        fenced = [Fenced(given) for given in arrays]
        workspaces = [Fenced(numpy.full(size, TRAP, numpy.uint8)) for size in self._workspaces]
        status = numpy.zeros(1, numpy.int64)
        for function in self._functions:
            blocks = 1 if function.trips == 1 else self._blocks
            for block in range(blocks):
                arena = Fenced(numpy.full(function.arena, TRAP, numpy.uint8))
                pointers = [holder.array for holder in (*fenced, *workspaces)]
                function.native(*pointers, block, blocks, arena.array, status)
                assert arena.intact(), "the kernel wrote outside of its arena"
        assert all(holder.intact() for holder in (*fenced, *workspaces)), "the kernel wrote outside of a tensor"
        self.violation = self.checks[status[0] - 1] if status[0] else None
        return [holder.array for holder in fenced]


def _workspaces(function: ir.Operation) -> list[int]:
    sizes = []
    for attributes in function.attributes["arg_attrs"]:
        if "pypto.workspace" in attributes:
            sizes.append(attributes["pypto.workspace"].value)
    return sizes
