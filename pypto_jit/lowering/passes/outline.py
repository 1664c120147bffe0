"""``outline``: a function with tasks becomes a host function that submits calls of kernels.

A function that has neither tasks nor tensors of its own is one kernel, and stays as it is. In any other, every task
becomes a function of the tensors and scalars that it uses, and the original function keeps what is around: it is marked
``pypto.host`` and holds these operations and no others.

``arith.*``, ``scf.for``, ``scf.if``, ``scf.while``
    on scalars; loops and branches carry scalars only.
``%t = pypto.create_tensor(extents)``
    a new row-major tensor. The operands are the extents that its type does not know, in order. With the attribute
    ``initial``, a number of the element type, it is filled with it; else its contents are undefined. It lives until the
    host function returns: whatever was submitted may use it.
``pypto.dim``, ``pypto.read``, ``pypto.write``
    of parameters and created tensors. A read or write first waits for the tasks that touch what it touches.
``%id = pypto.submit(dependencies)``
    the TaskId of a new task that starts after these tasks; -1 stands for no task. What follows up to the call is that
    task's. With the attribute ``pypto.dummy`` there is no call: the task does nothing, and ends when its dependencies
    have ended.
``pypto.access(tensor, lower corner, upper corner) {mode}``
    what the task may touch: a box of a tensor, one index per dimension for each corner, the upper one left out. The
    mode is ``read``, ``write`` or ``atomic`` (a read and a write, in any order with other atomic ones). There may be
    several of one tensor, and a box may be empty or larger than the tensor: what it says beyond the tensor means
    nothing. Every access of the task lies in one of its boxes.
``pypto.argument(value)``, one after the other, then ``pypto.call {callee = "symbol", task = "name"}``
    runs a kernel with these arguments. ``callee`` is the name that the outlined function had: later passes may split
    that one into several functions, which run one after the other. Each function of the module that is no host function
    has the attribute ``pypto.kernel`` with the name it was outlined under. The function's first arguments are those of
    the call, in order; ``pypto.parameters`` names them, and a workspace that may follow belongs to one call. Submit,
    accesses, arguments and call of a task follow each other with only ``arith.*`` and ``pypto.dim`` between them.

A call of a kernel that comes as assembly is recorded like this from the start; the call has the text, and the pass
``externs`` adds its functions to the module.

A function without tasks that creates tensors, and operations on tiles between tasks, become kernels as well: operations
that follow each other join into one. The submit, the access and the call of a task with a predicate are in an
``scf.if`` whose other arm yields -1.
"""

from __future__ import annotations

from collections.abc import Iterator

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TensorType, TileType
from pypto_jit.errors import ControlFlowError, TraceError
from pypto_jit.lowering.attributes import HOST, parameters, symbol, text
from pypto_jit.lowering.boxes import Accesses
from pypto_jit.lowering.captures import Captures, every, is_copied
from pypto_jit.lowering.emitter import Emitter, anchor
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.passes.blocks import PARALLEL
from pypto_jit.lowering.tree import Body, Node, constant, functions

TASK = "pypto.task"
_SUBMIT = "pypto.submit"
_CREATE = "pypto.create_tensor"
_CALL = "pypto.call"
_SCALAR_ACCESS = ("pypto.read", "pypto.write")
_TERMINATORS = ("func.return", "scf.yield", "scf.condition")


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Outline the tasks of every function that has any, or that creates tensors; whether there was one.

    Raises:
        TraceError: a tile is used in another task than the one that made it.
        ControlFlowError: a loop or branch around tasks carries tiles.
    """
    symbols = {symbol(function) for function in functions(module)}
    changed = False
    for function, body in lowering.bodies(module):
        if any(_is_around_tasks(node) for node in body.nodes):
            _Outliner(function, body, lowering, symbols).run()
            changed = True
    return changed


def _is_around_tasks(node: Node) -> bool:
    """Whether an operation belongs to the host: it is, or holds, what no kernel can."""
    return any(each.name in (_SUBMIT, _CREATE) or TASK in each.op.attributes for each in every([node]))


class _Outliner:
    """Outlines one function."""

    def __init__(self, function: ir.Operation, body: Body, lowering: Lowering, symbols: set[str]) -> None:
        self._function = function
        self._body = body
        self._lowering = lowering
        self._types = lowering.types
        self._symbols = symbols
        anchor(body.block, lowering.types)
        self._emitter = Emitter(body.block, lowering.types)
        self._host = symbol(function)
        self._names = dict(zip(body.arguments, parameters(function), strict=False))
        # What operations on tiles made, outside of tasks.
        self._made: set[ir.Value] = set()

    def run(self) -> None:
        self._outline(self._body)
        self._function.attributes[HOST] = ir.UnitAttr.get()

    def _outline(self, body: Body) -> None:
        group: list[Node] = []
        for node in body.nodes:
            if node.name == "pypto.argument" and node.operands[0] in self._made:
                raise TraceError(
                    "assembly is given a number that was computed from tiles",
                    span=next((each.span for each in body.nodes[body.nodes.index(node) :] if each.name == _CALL), None),
                    found=str(node.operands[0].type),
                    hint="store it to a tensor in a task, and read it from there",
                )
            if self._is_work(node):
                group.append(node)
                self._made.update(node.results)
            elif self._is_apart(node):
                self._join(group, node)
                group = []
                self._part(node)

    def _is_work(self, node: Node) -> bool:
        """Whether an operation outside of tasks is for a kernel."""
        if _is_around_tasks(node) or node.name in _TERMINATORS:
            return False
        if any(operand in self._made for operand in node.operands):
            return True
        return any(self._touches_tiles(each) for each in every([node]))

    def _touches_tiles(self, node: Node) -> bool:
        if node.name in ("pypto.load", "pypto.store"):
            return True
        values = [*node.operands, *node.results]
        if any(isinstance(self._types.of(value), TileType) for value in values):
            return True
        # What else an operator may do with a tensor is for a kernel; single elements are the host's.
        tensors = any(isinstance(self._types.of(value), TensorType) for value in node.operands)
        return tensors and node.row is not None and node.name not in _SCALAR_ACCESS

    def _is_apart(self, node: Node) -> bool:
        """Whether work before an operation and work behind it must be in different kernels."""
        return not is_copied(node.op) and node.name != _CREATE

    def _part(self, node: Node) -> None:
        if TASK in node.op.attributes:
            self._task(node)
        elif _is_around_tasks(node):
            carried = next((r for r in node.results if isinstance(self._types.of(r), TileType)), None)
            if carried is not None:
                raise ControlFlowError(
                    "a loop or branch around tasks carries a tile",
                    span=node.span,
                    found=str(carried.type),
                    hint="keep what tasks hand on in a tensor, or put the whole loop into one task",
                )
            for body in node.bodies:
                self._outline(body)

    # Work

    def _join(self, group: list[Node], before: Node) -> None:
        """Make a kernel of operations that follow each other outside of tasks."""
        if not any(each.row is not None and not each.row.pure for each in every(group)):
            return
        captures = Captures("between tasks", group, self._lowering)
        self._emitter.before(before.op, group[0].op.location)
        self._emitter.emit(_SUBMIT, (), [self._types.index])
        self._call(group, captures, "work", group, None)

    def _task(self, loop: Node) -> None:
        body = loop.bodies[0]
        single = constant(loop.operands[1]) == 1
        nodes = body.nodes[:-1] if single else [loop]
        name = text(loop.op, TASK) or "task"
        captures = Captures(name, [loop], self._lowering)
        self._emitter.before(loop.op)
        self._call(nodes, captures, name, [loop], body.arguments[0] if single else None)
        if single:
            loop.op.erase()
        else:
            del loop.op.attributes[TASK]
            loop.op.attributes[PARALLEL] = ir.UnitAttr.get()

    def _call(
        self, nodes: list[Node], captures: Captures, name: str, around: list[Node], index: ir.Value | None
    ) -> None:
        """Put operations into a kernel, and a call of it at the emitter's place.

        Args:
            nodes: what goes into the kernel.
            captures: what it uses.
            name: of the task.
            around: the operations before the host lets go of them.
            index: the number of the block, where there is but one.
        """
        zero = [self._emitter.index(0)] if index is not None else []
        captures.collect(zero)
        accesses = Accesses(every(around), captures.inside, self._lowering)
        accesses.emit(self._emitter)
        symbol = self._symbol(name)
        attributes = {"callee": ir.StringAttr.get(symbol), "task": ir.StringAttr.get(name)}
        values = [*captures.tensors, *captures.scalars]
        for value in values:
            self._emitter.emit("pypto.argument", [value])
        self._emitter.emit(_CALL, (), (), attributes)
        kernel = captures.write(symbol, list(self._parameters(captures)), self._function, around[0].op.location)
        if index is not None:
            kernel.values[index] = kernel.values[zero[0]]
        kernel.take(nodes)

    def _symbol(self, name: str) -> str:
        cleaned = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
        base = candidate = f"{self._host}_{cleaned}"
        number = 1
        while candidate in self._symbols:
            number += 1
            candidate = f"{base}_{number}"
        self._symbols.add(candidate)
        return candidate

    def _parameters(self, captures: Captures) -> Iterator[str]:
        taken = set(self._names.values())
        for kind, values in (("tensor", captures.tensors), ("number", captures.scalars)):
            for k, value in enumerate(values):
                name = self._names.get(value)
                if name is None:
                    name = f"{kind}{k}"
                    while name in taken:
                        name += "_"
                    taken.add(name)
                yield name
