"""``tensors``: tensor-level work becomes loops over tiles.

A function with one kernel becomes that kernel, its blocks a parallel loop. Where there are several, each becomes a
task, and what one leaves for another lies in a workspace. Within a task the loops stay where they are, and there are no
workspaces: the tensors of a task are made before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.errors import TraceError
from pypto_jit.lowering.attributes import symbol, text
from pypto_jit.lowering.context import type_table
from pypto_jit.lowering.emitter import Emitter, anchor
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.passes.blocks import PARALLEL
from pypto_jit.lowering.passes.outline import TASK
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tensors.cost import KernelCost, cost_of
from pypto_jit.lowering.tensors.extents import index_of
from pypto_jit.lowering.tensors.graph import VALUES, Kernel, find_kernels, unused_views
from pypto_jit.lowering.tensors.reuse import taken_over
from pypto_jit.lowering.tensors.writer import TileWriter
from pypto_jit.lowering.tree import Node, read
from pypto_jit.targets import Target


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Lower the tensor-level work of every function; whether there was any.

    Raises:
        TraceError: a task computes a tensor that must lie in memory.
    """
    changed = False
    for function, body in lowering.bodies(module):
        nodes = [node for node in body.walk() if node.name in VALUES or node.name == "pypto.assign"]
        if not nodes:
            continue
        changed = True
        for node in unused_views(list(body.walk())):
            node.op.erase()
        body = read(function)
        nodes = [node for node in body.walk() if node.name in VALUES or node.name == "pypto.assign"]
        program = Program(function, body)
        _Function(program, lowering).write()
        for node in reversed(nodes):
            node.op.erase()
    return changed


def costs_of(module: ir.Module, target: Target) -> list[KernelCost]:
    """What the kernels cost that the tensor-level work of a module becomes; the module stays as it is."""
    lowering = Lowering(target, type_table(module.context))
    found: list[KernelCost] = []
    for function, body in lowering.bodies(module.operation):
        if any(node.name in VALUES or node.name == "pypto.assign" for node in body.walk()):
            work = _Function(Program(function, body), lowering)
            names = {kernel: name for name, kernel in work.named}
            for kernel, name in names.items():
                cost, made = cost_of(kernel, name, lowering.types), work.taken_over.get(kernel)
                found.append(cost if made is None else replace(cost, shares=names[made]))
    return found


class _Function:
    def __init__(self, program: Program, lowering: Lowering) -> None:
        self._program = program
        self._lowering = lowering
        self._kernels = find_kernels(program, lowering.types, lowering.target)
        self._name = symbol(program.function)
        tasks = any(node.name == "pypto.submit" for node in program.nodes)
        self._as_tasks = tasks or len(self._kernels) > 1
        self.taken_over = taken_over(self._kernels, program, lowering.types)
        self._memories: dict[Kernel, ir.Value] = {}

    @property
    def named(self) -> list[tuple[str, Kernel]]:
        """The kernels, each with its name."""
        names = [f"{self._name}_{number}" if self._as_tasks else self._name for number in range(len(self._kernels))]
        return list(zip(names, self._kernels, strict=True))

    def write(self) -> None:
        block, types = self._program.body.block, self._lowering.types
        anchor(block, types)
        writer = TileWriter(Emitter(block, types), self._lowering.target)
        for number, kernel in enumerate(self._kernels):
            writer.emitter.before(kernel.place.op)
            destination = kernel.destination
            if destination is None:
                destination = self._workspace(writer, kernel)
            with self._blocks(writer, kernel, number) as index:
                kernel.plan.write_block(writer, index, destination)

    def _workspace(self, writer: TileWriter, kernel: Kernel) -> ir.Value:
        """Memory for what a kernel computes; everything that uses it reads that."""
        kind = writer.types.tensor(kernel.value)
        task = _task_of(kernel.place)
        if task is not None:
            raise TraceError(
                "a task computes a tensor that cannot stay on chip",
                span=kernel.place.span,
                found=f"{kind.dtype.name} {list(kind.shape)} in task '{text(task.op, TASK)}'",
                expected="one product or reduction at a time, from tensors in memory",
                hint="create a tensor before the task and assign to it, or compute this outside of the task",
            )
        other = self.taken_over.get(kernel)
        if other is not None:
            return self._read_from(kernel, writer.part_of(self._memories[other], kind))
        sides = zip(kernel.extents, kind.shape, strict=True)
        extents = [writer.value(index_of(extent, writer)) for extent, side in sides if side == DYNAMIC]
        memory = self._memories[kernel] = writer.emitter.value("pypto.create_tensor", extents, kind)
        return self._read_from(kernel, memory)

    def _read_from(self, kernel: Kernel, memory: ir.Value) -> ir.Value:
        """Let everything that uses what a kernel computes read it from memory."""
        value = kernel.value
        for other in self._kernels:
            other.plan.place(value, memory)
        value.replace_all_uses_with(memory)
        return memory

    @contextmanager
    def _blocks(self, writer: TileWriter, kernel: Kernel, number: int) -> Iterator[ir.Value]:
        """The loop over a kernel's blocks."""
        attributes: dict[str, ir.Attribute] = {}
        blocks = kernel.plan.count_blocks(writer)
        if self._as_tasks and _task_of(kernel.place) is None:
            name = self.named[number][0]
            writer.emitter.emit("pypto.submit", (), [writer.types.index])
            attributes[TASK] = ir.StringAttr.get(name)
        elif kernel.place.body is self._program.body:
            attributes[PARALLEL] = ir.UnitAttr.get()
        with writer.loop(0, blocks, 1, attributes=attributes) as loop:
            yield loop.index


def _task_of(node: Node) -> Node | None:
    """The loop over the blocks of the task that an operation is in."""
    owner = node.body.owner
    while owner is not None and TASK not in owner.op.attributes:
        owner = owner.body.owner
    return owner
