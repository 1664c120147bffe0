"""One kernel of tensor-level work as terms over iteration axes.

An iteration axis is a dimension of what the kernel writes, or the dimension that its reductions run along. One axis,
the *column*, runs along the columns of the tiles; the others are rows or loops. A term says along which axis each of
its dimensions runs; a dimension of extent 1 runs along none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TensorType
from pypto_jit.lowering.attributes import number, numbers
from pypto_jit.lowering.tensors.extents import Extent, Extents
from pypto_jit.lowering.tree import Node
from pypto_jit.lowering.types import TypeTable

Axes = tuple[int | None, ...]


class CannotFuseError(Exception):
    """A value that has to lie in memory before the kernel can use it."""

    def __init__(self, value: ir.Value) -> None:
        super().__init__()
        self.value = value


class _ColumnTakenError(Exception):
    """A reduction runs along another axis than the columns of its kernel."""


@dataclass(eq=False)
class Term:
    """A value within a kernel.

    Attributes:
        value: what it is in the module.
        type: its type.
        axes: the iteration axis of each of its dimensions.
        node: the operation that computes it; None where it lies in memory.
        operands: terms, and scalars.
        reduced: where it is a reduction, the iteration axes that it reduces.
        seen_as: where the kernel uses it rearranged, the rearranged values; of what it computes not the kernel's own.
        flipped: the iteration axes that run through it backwards; it then lies in memory.
    """

    value: ir.Value
    type: TensorType
    axes: Axes
    node: Node | None = None
    operands: list[Term | ir.Value] = field(default_factory=list)
    reduced: tuple[int, ...] = ()
    seen_as: list[ir.Value] = field(default_factory=list)
    flipped: frozenset[int] = frozenset()

    @property
    def kind(self) -> str:
        """``memory``, ``map``, ``select``, ``reduce``, ``product``, ``fill`` or ``count``."""
        return "memory" if self.node is None else self.node.name.removeprefix("pypto.")

    @property
    def terms(self) -> list[Term]:
        """The operands that are terms."""
        return [operand for operand in self.operands if isinstance(operand, Term)]


@dataclass(eq=False)
class Layout:
    """A kernel laid out.

    Attributes:
        root: what it computes; it broadcasts to what is written.
        axes: the iteration axis of each dimension of what is written.
        extents: of each iteration axis.
        column: the axis along the columns of its tiles; None where it has one element.
        terms: all terms, operands before what uses them.
        reduced: the axes that the root itself reduces, where they are not just the columns.
        cumulated: the axis that the root adds up along; None where it does not.
    """

    root: Term
    axes: Axes
    extents: list[Extent]
    column: int | None
    terms: list[Term]
    reduced: tuple[int, ...] = ()
    cumulated: int | None = None

    @property
    def rows(self) -> list[int]:
        """The axes that are no columns, in order."""
        return [axis for axis in range(len(self.extents)) if axis != self.column]

    def has_columns(self, axes: Axes) -> bool:
        """Whether one of these axes runs along the columns."""
        return self.column is not None and self.column in axes

    @property
    def flipped(self) -> frozenset[int]:
        """The axes that run backwards through some term."""
        return frozenset[int]().union(*(term.flipped for term in self.terms))

    def place(self, value: ir.Value, memory: ir.Value) -> None:
        """Read a value that is computed elsewhere from memory."""
        for term in self.terms:
            if term.node is None and term.value == value:
                term.value = memory

    def of_kind(self, kind: str) -> list[Term]:
        """The terms of a kind."""
        return [term for term in self.terms if term.kind == kind]


def lay_out(
    value: ir.Value,
    shape: tuple[Extent, ...],
    maker: Callable[[ir.Value], Node | None],
    types: TypeTable,
    extents: Extents,
) -> Layout:
    """Lay out the kernel that computes a value.

    Args:
        value: a computed tensor.
        shape: of what is written, which the value broadcasts to.
        maker: gives the operation that computes a value within the kernel; None where it is in memory.
        types: of the context.
        extents: of the function.

    Raises:
        CannotFuseError: a value that has to be in memory first.
    """
    for reduced_columns in (False, True):
        try:
            return _Builder(value, shape, maker, types, extents, reduced_columns).layout()
        except _ColumnTakenError as error:
            if reduced_columns:
                raise CannotFuseError(error.args[0]) from None
    raise AssertionError


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes of a reduction, as numbers of its operand's dimensions."""
    axes = numbers(node.op, "axes")
    assert axes is not None
    return axes


def _aligned(axes: Axes, operand: TensorType) -> Axes:
    """The axes of an operand that broadcasts to a tensor of these axes."""
    aligned = axes[len(axes) - operand.rank :]
    return tuple(None if extent == 1 else axis for extent, axis in zip(operand.shape, aligned, strict=True))


class _Builder:
    def __init__(
        self,
        value: ir.Value,
        shape: tuple[Extent, ...],
        maker: Callable[[ir.Value], Node | None],
        types: TypeTable,
        extents: Extents,
        reduced_columns: bool,
    ) -> None:
        self._value = value
        self._maker = maker
        self._types = types
        self._extents_of = extents
        self._extents: list[Extent] = []
        self._terms: dict[tuple[ir.Value, Axes, frozenset[int]], Term] = {}
        # Terms whose operands are to be found, the last of the program first: all that uses a term comes before it.
        self._waiting: list[tuple[int, int, Term]] = []
        self._product: Node | None = None
        self._reduced_by_root: list[int] = []
        self._cumulated: int | None = None
        self._axes: Axes = tuple(None if extent == 1 else self._axis(extent) for extent in shape)
        self._written = len(self._extents)
        self._column: int | None = None
        if self._extents and not reduced_columns:
            self._column = len(self._extents) - 1

    def _axis(self, extent: Extent) -> int:
        self._extents.append(extent)
        return len(self._extents) - 1

    def layout(self) -> Layout:
        root = self._term(self._value, _aligned(self._axes, self._types.tensor(self._value)))
        computed: list[Term] = []
        while self._waiting:
            _, _, term = heappop(self._waiting)
            assert term.node is not None
            term.operands = self._operands(term)
            computed.append(term)
        order: dict[Term, None] = {}
        for term in reversed(computed):
            order.update(dict.fromkeys([*term.terms, term]))
        terms = list(order) or [root]
        reduced = tuple(self._reduced_by_root)
        return Layout(root, self._axes, self._extents, self._column, terms, reduced, self._cumulated)

    def _term(self, value: ir.Value, axes: Axes) -> Term:
        node, seen_as, flipped = self._maker(value), None, frozenset[int]()
        while node is not None and node.name == "pypto.rearrange" and not flipped:
            seen_as, flipped = node.results[0], self._flipped(node, axes)
            axes, value = self._rearranged(node, axes), node.operands[0]
            node = self._maker(value)
        if flipped and node is not None:
            raise CannotFuseError(value)
        term = self._terms.get((value, axes, flipped))
        if term is None:
            term = Term(value, self._types.tensor(value), axes, node, flipped=flipped)
            self._terms[value, axes, flipped] = term
            if node is not None:
                heappush(self._waiting, (-node.position, len(self._terms), term))
        if seen_as is not None and (node is None or seen_as != self._value):
            term.seen_as.append(seen_as)
        return term

    def _flipped(self, node: Node, axes: Axes) -> frozenset[int]:
        """The axes that a rearrangement runs through backwards."""
        return frozenset(axis for dim in numbers(node.op, "flipped") or () if (axis := axes[dim]) is not None)

    def _rearranged(self, node: Node, axes: Axes) -> Axes:
        """The axes of what is given another order of dimensions; dimensions of extent 1 come and go."""
        inner: list[int | None] = [None] * self._types.tensor(node.operands[0]).rank
        dims = numbers(node.op, "dims")
        assert dims is not None
        for axis, dim in zip(axes, dims, strict=True):
            if dim >= 0:
                inner[dim] = axis
        return tuple(inner)

    def _operands(self, term: Term) -> list[Term | ir.Value]:
        node, axes = term.node, term.axes
        assert node is not None
        if node.name == "pypto.reduce":
            return [self._reduced(term, node)]
        if node.name == "pypto.cumulate":
            return [self._totalled(node, axes)]
        if node.name == "pypto.product":
            return self._multiplied(node, axes)
        result: list[Term | ir.Value] = []
        for value in node.operands:
            operand = self._types.of(value)
            if not isinstance(operand, TensorType):
                result.append(value)
                continue
            result.append(self._term(value, _aligned(axes, operand)))
        return result

    def _reduced(self, term: Term, node: Node) -> Term:
        """The operand of a reduction."""
        axes = term.axes
        source = self._types.tensor(node.operands[0])
        along = reduced_axes(node)
        long = [axis for axis in along if source.shape[axis] != 1]
        among_rows = bool(long) and long != [source.rank - 1]
        if among_rows and node.results[0] != self._value:
            raise CannotFuseError(node.results[0])
        keeps = len(axes) == source.rank
        outer = iter(axes)
        inner: list[int | None] = []
        for dim in range(source.rank):
            axis = next(outer) if keeps or dim not in along else None
            if dim in long:
                extent = self._extents_of.of(node.operands[0], dim)
                axis = self._column_axis(node, extent, axes) if dim == source.rank - 1 else self._axis(extent)
                term.reduced = (*term.reduced, axis)
                if among_rows:
                    self._reduced_by_root.append(axis)
            inner.append(axis)
        operand = self._term(node.operands[0], tuple(inner))
        if any(inner[dim] not in operand.axes for dim in long):
            # What is spread along a reduced axis counts as often as it is there.
            raise CannotFuseError(node.operands[0])
        return operand

    def _totalled(self, node: Node, axes: Axes) -> Term:
        along = axes[number(node.op, "axis") or 0]
        if node.results[0] != self._value or along is None:
            raise CannotFuseError(node.results[0])
        self._cumulated = along
        if len(self._extents) == 1:
            # A single row is added up element by element.
            self._column = None
        return self._term(node.operands[0], axes)

    def _column_axis(self, node: Node, extent: Extent, axes: Axes) -> int:
        if self._column is None:
            if self._product is not None:
                # Blocks of a product of a single column have no pieces of another row.
                raise CannotFuseError(node.results[0])
            self._column = self._axis(extent)
        if self._column in axes:
            raise _ColumnTakenError(node.results[0])
        if self._extents[self._column] != extent:
            raise CannotFuseError(node.results[0])
        return self._column

    def _multiplied(self, node: Node, axes: Axes) -> list[Term | ir.Value]:
        columns = self._types.tensor(node.results[0]).shape[-1]
        rows = [axis for axis in axes[:-1] if axis is not None]
        if columns == 1 and self._column is not None:
            raise _ColumnTakenError(node.results[0])
        fits = columns == 1 or axes[-1] == self._column
        in_order = rows == list(range(len(rows))) and (not rows or axes[-2] in (rows[-1], None))
        complete = all(axis in axes for axis in range(self._written))
        if self._product not in (None, node) or not fits or not in_order or not complete:
            raise CannotFuseError(node.results[0])
        self._product = node
        for value in node.operands:
            if self._maker(value) is not None:
                raise CannotFuseError(value)
        return []
