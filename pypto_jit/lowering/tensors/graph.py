"""Which tensor-level values must lie in memory, and the kernels that compute them.

What is written to a tensor in memory, and what cannot be computed again where it is used, is the root of a kernel; all
that only the kernel uses is fused into it. A value is read from memory when its kernel runs, so that values whose
sources are written in between go to memory before.
"""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.errors import InternalError
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tensors.elementwise import RowKernel
from pypto_jit.lowering.tensors.products import ProductKernel
from pypto_jit.lowering.tensors.reductions import ColumnKernel
from pypto_jit.lowering.tensors.terms import CannotFuseError, Layout, lay_out
from pypto_jit.lowering.tree import Node
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Target

Plan = RowKernel | ColumnKernel | ProductKernel
# Operations whose results are values, not memory.
VALUES = frozenset({"pypto.map", "pypto.select", "pypto.reduce", "pypto.product", "pypto.fill", "pypto.rearrange"})
# Elementwise operations that are rather computed twice than kept.
_CHEAP = 4


@dataclass(eq=False)
class Kernel:
    """One kernel to be.

    Attributes:
        place: the operation before which it runs.
        value: what it computes.
        layout: what it computes.
        plan: how.
        destination: the tensor in memory that it writes; None where one has to be made for its root's value.
    """

    place: Node
    value: ir.Value
    layout: Layout
    plan: Plan
    destination: ir.Value | None


def find_kernels(program: Program, types: TypeTable, target: Target) -> list[Kernel]:
    """The kernels of a function, in the order that they run in."""
    return _Search(program, types, target).kernels()


def _plan(layout: Layout, types: TypeTable, target: Target) -> Plan:
    products = layout.of_kind("product")
    if products and layout.reduced:
        raise CannotFuseError(products[0].value)
    if products:
        return ProductKernel(layout, types, target)
    return ColumnKernel(layout, target) if layout.reduced else RowKernel(layout, target)


class _Search:
    def __init__(self, program: Program, types: TypeTable, target: Target) -> None:
        self._program = program
        self._types = types
        self._target = target
        self._assigns = [node for node in program.nodes if node.name == "pypto.assign"]
        # What is viewed, or read element by element or tile by tile, is memory.
        self._in_memory = {
            operand
            for node in program.nodes
            if node.name not in VALUES and node.name != "pypto.assign"
            for operand in node.operands
            if self._is_value(operand)
        }

    def _is_value(self, value: ir.Value) -> bool:
        node = self._program.maker.get(value)
        return node is not None and node.name in VALUES

    def kernels(self) -> list[Kernel]:
        while True:
            try:
                kernels = self._lay_out()
            except CannotFuseError as error:
                if error.value in self._in_memory:
                    raise InternalError("a tensor cannot be computed", found=str(error.value)) from None
                self._in_memory.add(error.value)
                continue
            again = self._used_twice(kernels) or self._overwritten(kernels)
            if not again:
                return sorted(kernels, key=lambda kernel: kernel.place.position)
            self._in_memory |= again

    def _maker(self, value: ir.Value) -> Node | None:
        return self._program.maker[value] if self._is_value(value) and value not in self._in_memory else None

    def _lay_out(self) -> list[Kernel]:
        kernels = []
        for node in self._assigns:
            value, destination = node.operands
            kernels.append(self._kernel(node, value, destination))
        for value in list(self._in_memory):
            place = self._program.maker[value]
            kernels.append(self._kernel(place, value, None))
        return kernels

    def _kernel(self, place: Node, value: ir.Value, destination: ir.Value | None) -> Kernel:
        def maker(inner: ir.Value) -> Node | None:
            own = inner == value and self._is_value(inner)
            return self._program.maker[inner] if own else self._maker(inner)

        shape = self._types.tensor(value if destination is None else destination).shape
        layout = lay_out(value, shape, maker, self._types)
        return Kernel(place, value, layout, _plan(layout, self._types, self._target), destination)

    def _used_twice(self, kernels: list[Kernel]) -> set[ir.Value]:
        """Values that several kernels would compute, and that cost more than to keep them."""
        users: dict[ir.Value, int] = {}
        for kernel in kernels:
            for value in {term.value for term in kernel.layout.terms if term.node is not None}:
                users[value] = users.get(value, 0) + 1
        shared = {value for value, count in users.items() if count > 1 and self._cost(value) > _CHEAP}
        # Those that others of them are computed from come by themselves.
        return {value for value in shared if not any(self._feeds(value, other) for other in shared)}

    def _cost(self, value: ir.Value) -> int:
        node = self._maker(value)
        if node is None:
            return 0
        own = (
            1
            if node.name in ("pypto.map", "pypto.select")
            else 0
            if node.name in ("pypto.fill", "pypto.rearrange")
            else 100
        )
        return own + sum(self._cost(operand) for operand in node.operands)

    def _feeds(self, value: ir.Value, other: ir.Value) -> bool:
        node = self._maker(other)
        return node is not None and any(operand == value or self._feeds(value, operand) for operand in node.operands)

    def _overwritten(self, kernels: list[Kernel]) -> set[ir.Value]:
        """Values whose kernel would read memory that is written after the value is made."""
        found: set[ir.Value] = set()
        for kernel in kernels:
            for term in kernel.layout.terms:
                if term.node is None or kernel.value == term.value:
                    continue
                sources = {self._root(operand.value) for operand in term.terms if operand.node is None}
                sources |= {self._root(v) for v in term.node.operands if term.kind == "product"}
                if any(self._written(s, term.node.position, kernel.place.position) for s in sources):
                    found.add(term.value)
        return found

    def _root(self, value: ir.Value) -> ir.Value:
        node = self._program.maker.get(value)
        while node is not None and node.name == "pypto.view":
            value = node.operands[0]
            node = self._program.maker.get(value)
        return value

    def _written(self, tensor: ir.Value, first: int, last: int) -> bool:
        return any(
            first < node.position < last and self._root(node.operands[1]) == tensor
            for node in self._program.nodes
            if node.name in ("pypto.assign", "pypto.store", "pypto.write")
        )
