"""Which tensor-level values must lie in memory, and the kernels that compute them.

What is written to a tensor in memory, and what cannot be computed again where it is used, is the root of a kernel; all
that only the kernel uses is fused into it. A value is read from memory when its kernel runs, so that values whose
sources are written in between go to memory before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.errors import InternalError
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tensors.attention import AttentionKernel, choose_scores, find_attention
from pypto_jit.lowering.tensors.cumulative import CumulativeKernel
from pypto_jit.lowering.tensors.elementwise import RowKernel
from pypto_jit.lowering.tensors.extents import Extent, Extents
from pypto_jit.lowering.tensors.products import ProductKernel
from pypto_jit.lowering.tensors.reductions import ColumnKernel
from pypto_jit.lowering.tensors.terms import CannotFuseError, Layout, lay_out
from pypto_jit.lowering.tensors.tiling import turned_axis
from pypto_jit.lowering.tree import Node
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Target

Plan = RowKernel | ColumnKernel | CumulativeKernel | ProductKernel | AttentionKernel
# Operations whose results are values, not memory.
VALUES = frozenset(
    {
        *("pypto.map", "pypto.select", "pypto.reduce", "pypto.cumulate", "pypto.product"),
        *("pypto.fill", "pypto.count", "pypto.rearrange"),
    }
)
# Operations that write, or say what a task may write, and which operand that is.
_WRITTEN = {"pypto.assign": 1, "pypto.store": 1, "pypto.write": 1, "pypto.access": 0}
# Elementwise operations that are rather computed twice than kept; other operations are kept.
_CHEAP = 4
_COSTS = {"pypto.map": 1, "pypto.select": 1, "pypto.fill": 0, "pypto.count": 0, "pypto.rearrange": 0}


_KINDS = {
    "product": "matrix product",
    "reduce": "reduction",
    "cumulate": "running totals",
    "rearrange": "transposition",
}


@dataclass(eq=False)
class Kernel:
    """One kernel to be.

    Attributes:
        place: the operation before which it runs.
        value: what it computes.
        layout: what it computes.
        plan: how.
        destination: the tensor in memory that it writes; None where one has to be made for its root's value.
        extents: of the value.
        why: why what it computes lies in memory, where one has to be made.
    """

    place: Node
    value: ir.Value
    layout: Layout
    plan: Plan
    destination: ir.Value | None
    extents: tuple[Extent, ...]
    why: str = ""


def find_kernels(program: Program, types: TypeTable, target: Target) -> list[Kernel]:
    """The kernels of a function, in the order that they run in."""
    return _Search(program, types, target).kernels()


def unused_views(nodes: Sequence[Node]) -> list[Node]:
    """The views that nothing reads or writes through, the last one first."""
    found: dict[ir.Operation, Node] = {}
    for node in reversed(nodes):
        if node.name == "pypto.view" and all(use.owner.operation in found for use in node.results[0].uses):
            found[node.op] = node
    return list(found.values())


def _plan(layout: Layout, types: TypeTable, extents: Extents, target: Target) -> Plan:
    products = layout.of_kind("product")
    for term in layout.terms:
        # Backwards a tile of a kernel has one element along the axis: where that is along rows, only to copy.
        copies = term is layout.root or layout.column not in term.flipped
        one_by_one = not products and not layout.reduced and layout.cumulated is None
        if term.flipped and not (one_by_one and copies and turned_axis(layout) is None):
            raise CannotFuseError(term.seen_as[-1])
    if layout.cumulated is not None:
        return CumulativeKernel(layout, target)
    if products and layout.reduced:
        raise CannotFuseError(products[0].value)
    if products:
        return ProductKernel(layout, types, extents, target)
    return ColumnKernel(layout, target) if layout.reduced else RowKernel(layout, target)


class _Search:
    def __init__(self, program: Program, types: TypeTable, target: Target) -> None:
        self._program = program
        self._types = types
        self._target = target
        self._extents = Extents(program, types)
        self._why: dict[ir.Value, str] = {}
        self._assigns = [node for node in program.nodes if node.name == "pypto.assign"]
        unused = set(unused_views(program.nodes))
        # What is viewed, or read element by element or tile by tile, is memory.
        self._in_memory = {
            operand
            for node in program.nodes
            if node.name not in VALUES and node.name != "pypto.assign" and node not in unused
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
                self._keep({error.value}, self._needed_by(error.value))
                continue
            for find, why in (
                (self._used_twice, "several kernels use it"),
                (self._overwritten, "what it is computed from is written before it is used"),
                (self._in_its_own_way, "it is written to memory that it is computed from"),
                (self._without_rows, "the cube writes rows, and it is written where there are none"),
            ):
                again = find(kernels)
                if again:
                    self._keep(again, why)
                    break
            else:
                return sorted(kernels, key=lambda kernel: kernel.place.position)

    def _keep(self, values: set[ir.Value], why: str) -> None:
        self._in_memory |= values
        self._why.update(dict.fromkeys(values, why))

    def _needed_by(self, value: ir.Value) -> str:
        """Why a kernel that uses a value cannot compute it."""
        users = {node.name for node in self._program.nodes if value in node.operands}
        if "pypto.product" in users:
            return "a matrix product takes it from memory"
        kind = self._program.maker[value].name.removeprefix("pypto.")
        return f"the kernel that uses it has other tiles than its {_KINDS.get(kind, 'computation')}"

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
            # What lies in memory is computed by the kernel that makes it, and read by all others.
            own = destination is None and inner == value
            return self._program.maker[inner] if own else self._maker(inner)

        written = value if destination is None else destination
        attention = self._attention(value, written, maker)
        if attention is not None:
            return Kernel(place, value, attention.layout, attention, destination, self._extents.shape(value))
        layout = lay_out(value, self._extents.shape(written), maker, self._types, self._extents)
        return Kernel(
            place,
            value,
            layout,
            _plan(layout, self._types, self._extents, self._target),
            destination,
            self._extents.shape(value),
            self._why.get(value, "it is viewed, or used as tiles or elements") if destination is None else "",
        )

    def _attention(
        self, value: ir.Value, written: ir.Value, maker: Callable[[ir.Value], Node | None]
    ) -> AttentionKernel | None:
        """The kernel of a value that is a product of a softmax of another product."""
        found, kinds = (
            find_attention(value, maker, self._program.maker.get, self._types),
            [self._types.tensor(v) for v in (value, written)],
        )
        if found is None or kinds[0].shape != kinds[1].shape or kinds[0].dtype != kinds[1].dtype:
            return None
        scores = lay_out(found.scores, self._extents.shape(found.scores), maker, self._types, self._extents)
        tiling = choose_scores(found, scores, self._types, self._target)
        return None if tiling is None else AttentionKernel(found, scores, tiling, self._types)

    def _used_twice(self, kernels: list[Kernel]) -> set[ir.Value]:
        """Values that several kernels would compute, and that cost more than to keep them."""
        users: dict[ir.Value, int] = {}
        for kernel in kernels:
            for value in {term.value for term in kernel.layout.terms if term.node is not None}:
                users[value] = users.get(value, 0) + 1
        costs = self._costs()
        shared = {value for value, count in users.items() if count > 1 and costs[value] > _CHEAP}
        # Those that others of them are computed from come by themselves.
        return shared - self._sources(shared)

    def _values(self) -> list[Node]:
        """The operations whose results are computed where they are used, in order."""
        return [n for n in self._program.nodes if n.name in VALUES and n.results[0] not in self._in_memory]

    def _costs(self) -> dict[ir.Value, int]:
        """What computing each value again costs, up to more than is cheap."""
        costs: dict[ir.Value, int] = {}
        for node in self._values():
            total = _COSTS.get(node.name, _CHEAP + 1) + sum(costs.get(operand, 0) for operand in node.operands)
            costs[node.results[0]] = min(total, _CHEAP + 1)
        return costs

    def _sources(self, values: set[ir.Value]) -> set[ir.Value]:
        """All that these values are computed from."""
        found: set[ir.Value] = set()
        for node in reversed(self._values()):
            if node.results[0] in values or node.results[0] in found:
                found.update(node.operands)
        return found

    def _overwritten(self, kernels: list[Kernel]) -> set[ir.Value]:
        """Values whose kernel would read memory that is written after the value is made."""
        found: set[ir.Value] = set()
        for kernel in kernels:
            for term in kernel.layout.terms:
                made_here = kernel.destination is None and kernel.value == term.value
                if made_here:
                    continue
                if term.node is None:
                    found |= {view for view in term.seen_as if self._written_since(view, term.value, kernel.place)}
                    continue
                sources = {self._root(operand.value) for operand in term.terms if operand.node is None}
                sources |= {self._root(v) for v in term.node.operands if term.kind == "product"}
                last = self._last_turn(term.node, kernel.place)
                if any(self._written(s, term.node.position, last) for s in sources):
                    found.add(term.value)
        return found

    def _written_since(self, view: ir.Value, tensor: ir.Value, place: Node) -> bool:
        """Whether memory is written after a rearranged value of it is made, and before a kernel that uses that."""
        node = self._program.maker[view]
        return self._written(self._root(tensor), node.position, self._last_turn(node, place))

    def _last_turn(self, node: Node, place: Node) -> int:
        """How far a program may have come before a kernel runs again without what it computes being made again."""
        last, around = place.position, place.body.owner
        while around is not None and not around.position < node.position < around.end:
            if around.name in ("scf.for", "scf.while"):
                last = around.end
            around = around.body.owner
        return last

    def _in_its_own_way(self, kernels: list[Kernel]) -> set[ir.Value]:
        """Values that are written to memory which their kernel reads elsewhere: its blocks would see each other."""
        found: set[ir.Value] = set()
        for kernel in kernels:
            if kernel.destination is None or not self._is_value(kernel.value) or kernel.value in self._in_memory:
                continue
            root, layout = self._root(kernel.destination), kernel.layout
            read = [term for term in layout.terms if term.node is None and self._root(term.value) == root]
            multiplied = [v for term in layout.of_kind("product") if term.node for v in term.node.operands]
            in_place = all(
                term.value == kernel.destination and term.axes == layout.axes and not term.flipped for term in read
            )
            if not in_place or any(self._root(value) == root for value in multiplied):
                found.add(kernel.value)
        return found

    def _without_rows(self, kernels: list[Kernel]) -> set[ir.Value]:
        """Products that are written from the accumulator to memory whose columns lie apart."""
        found: set[ir.Value] = set()
        for kernel in kernels:
            if kernel.destination is None or not isinstance(kernel.plan, ProductKernel):
                continue
            written = self._types.tensor(kernel.destination)
            if kernel.plan.is_all and written.strides[-1] > 1 and written.shape[-1] != 1:
                found.add(kernel.value)
        return found - self._in_memory

    def _root(self, value: ir.Value) -> ir.Value:
        node = self._program.maker.get(value)
        while node is not None and node.name == "pypto.view":
            value = node.operands[0]
            node = self._program.maker.get(value)
        return value

    def _written(self, tensor: ir.Value, first: int, last: int) -> bool:
        return any(
            first < node.position < last and self._root(node.operands[_WRITTEN[node.name]]) == tensor
            for node in self._program.nodes
            if node.name in _WRITTEN
        )
