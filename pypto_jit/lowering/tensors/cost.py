"""What the kernels of tensor-level work cost, by a small model over their tiles and the target.

Bytes are those that cross between global memory and the chip: a tensor is read again by every block, and in every pass,
that does not have it. An elementwise operation, and an addition or comparison of a reduction, is one floating-point
operation for each element; a product is two for each multiplication. Conversions and copies are none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from pypto_jit.errors import Span
from pypto_jit.lowering.attributes import number, text
from pypto_jit.lowering.tensors.attention import AttentionKernel
from pypto_jit.lowering.tensors.cumulative import CumulativeKernel
from pypto_jit.lowering.tensors.elementwise import RowKernel
from pypto_jit.lowering.tensors.graph import Kernel
from pypto_jit.lowering.tensors.products import ProductKernel
from pypto_jit.lowering.tensors.terms import Term
from pypto_jit.lowering.tensors.tiling import ELEMENT_BYTES, whole_fractals
from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Space

# Operations that compute nothing, by the row of an elementwise one.
_FREE = frozenset({"cast"})


_Operations = tuple[tuple[str, Span | None], ...]


@dataclass(frozen=True)
class KernelCost:
    """What one kernel does, and what that costs.

    Attributes:
        name: of the kernel.
        operations: what is fused into it, each with its line, in order.
        tile: rows and columns of its tiles, and of a product the depth of its pieces.
        blocks: independent ones; None where they are only counted at run time, as are the next three.
        read, written: bytes of global memory.
        flops: floating-point (or integer) operations.
        on_chip: estimated bytes of each memory that its tiles take at once.
        workspace: bytes of the memory that is made for what it computes.
        why: why that lies in memory.
        shares: the kernel whose workspace it leaves its result in instead; empty where it has its own.
    """

    name: str
    operations: _Operations
    tile: tuple[int, ...]
    blocks: int | None
    read: int | None
    written: int | None
    flops: int | None
    on_chip: dict[Space, int] = field(default_factory=dict)
    workspace: int | None = 0
    why: str = ""
    shares: str = ""

    @property
    def intensity(self) -> float | None:
        """Operations for each byte of global memory."""
        if self.read is None or self.written is None or self.flops is None:
            return None
        return self.flops / max(1, self.read + self.written)


def cost_of(kernel: Kernel, name: str, types: TypeTable) -> KernelCost:
    """The cost of one kernel.

    Args:
        kernel: as `find_kernels` gives it.
        name: of the kernel.
        types: of the context.
    """
    return _Model(kernel, types).cost(name)


class _Model:
    def __init__(self, kernel: Kernel, types: TypeTable) -> None:
        self._kernel = kernel
        self._layout = kernel.layout
        self._plan = kernel.plan
        self._tiling = kernel.plan.tiling
        self._written = types.tensor(kernel.value if kernel.destination is None else kernel.destination)
        self._product = _Product(self._layout.of_kind("product")[0], types) if self._multiplies else None
        self._passes = self._needed_in_passes()

    @property
    def _multiplies(self) -> bool:
        return isinstance(self._plan, ProductKernel)

    @property
    def _stack(self) -> int:
        """Tiles of a block that share the columns that they are made of."""
        return self._plan.stack if isinstance(self._plan, ProductKernel) else 1

    def cost(self, name: str) -> KernelCost:
        layout, kernel = self._layout, self._kernel
        operations = tuple((_label(term), term.node.span) for term in layout.terms if term.node is not None)
        if isinstance(self._plan, AttentionKernel):
            return self._attention(self._plan, name, operations)
        tile = (self._tiling.rows, self._tiling.columns)
        if isinstance(self._plan, ProductKernel):
            tile = (*tile, self._plan.depth)
        made = kernel.destination is None
        sides = [*layout.extents, *(self._product.sides if self._product else ())]
        if not all(isinstance(side, int) and side >= 0 for side in sides):
            unknown = None if made else 0
            return KernelCost(name, operations, tile, None, None, None, None, self._on_chip(), unknown, kernel.why)
        written = prod(self._extent(axis) for axis in layout.axes if axis is not None) * self._written.dtype.bytes
        read = sum(self._read(term) for term in layout.terms if term.kind == "memory")
        if self._product is not None:
            read += self._product.read(self._stack * self._tiling.rows, self._tiling.columns)
        flops = sum(self._flops(term) for term in layout.terms)
        workspace = written if made else 0
        return KernelCost(
            name, operations, tile, self._blocks(), read, written, flops, self._on_chip(), workspace, kernel.why
        )

    def _attention(self, plan: AttentionKernel, name: str, operations: _Operations) -> KernelCost:
        """A block reads its queries, the keys and values that they see, and its part of what else makes the scores."""
        kernel, batch = self._kernel, prod(plan.term.type.shape[:-2])
        self._layout = plan.scores
        query, key, values = (operand.kind.dtype.bytes for operand in plan.operands)
        seen = plan.keys_of_blocks()
        rows = [min(plan.tiling.rows, plan.rows - k * plan.tiling.rows) for k in range(len(seen))]
        scores = batch * sum(count * keys for count, keys in zip(rows, seen, strict=True))
        read = batch * plan.rows * plan.depth * query
        read += batch * sum(seen) * (plan.depth * key + plan.width * values)
        read += sum(self._read(term) for term in plan.scores.terms if term.kind == "memory")
        # The largest score, the differences, their powers, their sum and the quotients.
        flops = 2 * scores * (plan.depth + plan.width) + 5 * scores
        others = sum(self._flops(term) for term in plan.scores.terms if term.kind != "product")
        flops += others * scores // (batch * plan.rows * plan.keys)
        written = batch * plan.rows * plan.width * self._written.dtype.bytes
        tile = (plan.tiling.rows, plan.tiling.columns, plan.depth)
        made = written if kernel.destination is None else 0
        return KernelCost(name, operations, tile, plan.blocks, read, written, flops, plan.on_chip(), made, kernel.why)

    def _extent(self, axis: int) -> int:
        extent = self._layout.extents[axis]
        assert isinstance(extent, int)
        return extent

    def _elements(self, term: Term) -> int:
        return prod(self._extent(axis) for axis in term.axes if axis is not None)

    def _flops(self, term: Term) -> int:
        if term.kind == "product":
            assert self._product is not None
            return self._product.flops
        if term.kind == "reduce":
            return self._elements(term.terms[0])
        free = term.kind == "map" and _label(term) in _FREE
        return self._elements(term) if term.kind in ("map", "select", "cumulate") and not free else 0

    def _steps(self, axis: int) -> int:
        """How many tiles there are along an axis."""
        tiling, extent = self._tiling, self._extent(axis)
        if axis == self._layout.column:
            return -(-extent // tiling.columns)
        if axis in tiling.group:
            return -(-extent // tiling.size) if axis == tiling.group[0] else 1
        return extent

    def _blocks(self) -> int:
        """How many independent blocks there are: a block walks by itself along what depends on what is before."""
        layout, plan = self._layout, self._plan
        walked: tuple[int | None, ...] = layout.reduced
        if isinstance(plan, CumulativeKernel):
            walked = (layout.cumulated,)
        elif isinstance(plan, RowKernel) and plan.in_pieces:
            walked = (layout.column,)
        steps = {axis: self._steps(axis) for axis in range(len(layout.extents)) if axis not in walked}
        if self._tiling.group:
            steps[self._tiling.group[0]] = -(-steps.get(self._tiling.group[0], 1) // self._stack)
        return prod(steps.values())

    def _read(self, term: Term) -> int:
        """The bytes that are read of a tensor: again wherever the tiles change along an axis that it does not have."""
        axes = range(len(self._layout.extents))
        again = prod(self._steps(axis) for axis in axes if axis not in term.axes)
        return self._elements(term) * term.type.dtype.bytes * again * self._passes.get(term, 1)

    def _needed_in_passes(self) -> dict[Term, int]:
        """In how many passes over pieces of its rows a kernel needs each term; empty where there is one pass."""
        found: dict[Term, int] = {}
        if not isinstance(self._plan, RowKernel) or not self._plan.in_pieces:
            return found
        known: set[Term] = set()
        for roots in [*self._plan.levels, [self._layout.root]]:
            waiting, needed = [root for root in roots if root not in known], set[Term]()
            while waiting:
                each = waiting.pop()
                needed.add(each)
                waiting += [operand for operand in each.terms if operand not in known and operand not in needed]
            known.update(roots)
            for term in needed:
                found[term] = found.get(term, 0) + 1
        return found

    def _on_chip(self) -> dict[Space, int]:
        vectors = {Space.VEC: self._tiling.bytes()} if self._tiling.live else {}
        if self._product is None or not isinstance(self._plan, ProductKernel):
            return vectors
        sides = (self._tiling.rows, self._tiling.columns, self._plan.depth)
        rows, columns, depth = map(whole_fractals, sides)
        size = self._product.size * self._plan.overlap
        return {
            **vectors,
            Space.MAT: (self._stack * rows + columns) * depth * size,
            Space.LEFT: rows * depth * size,
            Space.RIGHT: columns * depth * size,
            Space.ACC: self._stack * rows * columns * ELEMENT_BYTES,
        }


class _Product:
    """The matrices of a product: bytes of an element, the operations, and what is read of them."""

    def __init__(self, term: Term, types: TypeTable) -> None:
        assert term.node is not None
        left = types.tensor(term.node.operands[0])
        *self._batch, self._rows, self._columns = term.type.shape
        self._depth = left.shape[-2 if number(term.node.op, "a_trans") else -1]
        self.size = left.dtype.bytes
        self.sides = (*term.type.shape, self._depth)
        self.flops = 2 * prod(self.sides)

    def read(self, rows_of_block: int, columns_of_block: int) -> int:
        """Each block of the result reads the rows and the columns that it is made of."""
        rows = self._rows * -(-self._columns // columns_of_block)
        columns = self._columns * -(-self._rows // rows_of_block)
        return prod(self._batch) * (rows + columns) * self._depth * self.size


def _label(term: Term) -> str:
    assert term.node is not None
    names = {"product": "matmul", "cumulate": "cumsum", "fill": "full", "count": "arange", "select": "where"}
    return names.get(term.kind) or text(term.node.op, "row") or term.kind
