"""Cutting a function into functions: each keeps some of the effects and whatever computes them.

A slice is found backwards from the stores it keeps. Loops and ifs around what is kept stay, and carry only what is
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pypto_jit._mlir import ir
from pypto_jit.lowering.copies import copy_operation
from pypto_jit.lowering.tree import LOOPS, Body, Node, carried, carried_position


class Program:
    """A function whose definitions are indexed."""

    def __init__(self, function: ir.Operation, body: Body) -> None:
        self.function = function
        self.body = body
        self.nodes = list(body.walk())
        self.maker: dict[ir.Value, Node] = {}
        self.holder: dict[ir.Value, Body] = {}
        self._index(body)
        # What is written into each array on the core.
        self.written: dict[ir.Value, list[Node]] = {}
        for node in self.nodes:
            if node.name == "pypto.array_set":
                self.written.setdefault(node.operands[1], []).append(node)

    def _index(self, body: Body) -> None:
        for argument in body.arguments:
            self.holder[argument] = body
        for node in body.nodes:
            for result in node.results:
                self.maker[result] = node
            for inner in node.bodies:
                self._index(inner)

    def loops_around(self, node: Node) -> list[Node]:
        """The loops around a node, the outermost first."""
        found: list[Node] = []
        owner = node.body.owner
        while owner is not None:
            if owner.name in LOOPS:
                found.insert(0, owner)
            owner = owner.body.owner
        return found


class Slice:
    """What one of the functions keeps.

    Args:
        program: the function that is cut.
        replaced: values that come from elsewhere, each with the values that bringing it in needs.
    """

    def __init__(self, program: Program, replaced: dict[ir.Value, list[ir.Value]]) -> None:
        self.program = program
        self.kept: set[Node] = set()
        self.brought: set[ir.Value] = set()
        self._replaced = replaced
        self._needed: set[ir.Value] = set()
        self._work: list[ir.Value] = []
        for node in program.body.nodes[-1:]:
            self.kept.add(node)

    def keep(self, nodes: Iterable[Node], values: Iterable[ir.Value] = ()) -> None:
        """Keep these nodes and what computes their operands, and what computes these values."""
        for node in nodes:
            self._keep(node)
            self._work += node.operands
        self._work += values
        while self._work:
            value = self._work.pop()
            if value not in self._needed:
                self._needed.add(value)
                self._need(value)

    def carried(self, loop: Node) -> list[tuple[ir.Value, ir.Value, ir.Value, ir.Value]]:
        """What a loop carries that is computed here, as `tree.carried`."""
        return [phi for phi in carried(loop) if self.needs(phi[1])]

    def visit(self, node: Node) -> None:
        """Keep what is around a node, but not the node itself."""
        if node.body.owner is not None:
            self._keep(node.body.owner)
            self.keep(())

    def needs(self, value: ir.Value) -> bool:
        """Whether a value is computed or brought in."""
        return value in self._needed

    def _keep(self, node: Node) -> None:
        if node in self.kept:
            return
        self.kept.add(node)
        if node.body.owner is not None:
            self._keep(node.body.owner)
            self.kept.add(node.body.terminator)
        if node.name == "scf.while":
            self._keep_whole(node)
        elif node.name == "scf.for":
            self._work += node.operands[:3]
        elif node.name == "scf.if":
            self._work += node.operands[:1]
        for body in node.bodies:
            self.kept.add(body.terminator)

    def _keep_whole(self, node: Node) -> None:
        """A loop that runs until something in it says so needs all that is in it."""
        self._work += node.operands
        for inner in (inner for body in node.bodies for inner in body.walk()):
            self.kept.add(inner)
            self._work += [*inner.operands, *inner.results]

    def _need(self, value: ir.Value) -> None:
        program = self.program
        maker = program.maker.get(value)
        if value in self._replaced:
            self.brought.add(value)
            self._work += self._replaced[value]
            assert maker is not None
            if maker.body.owner is not None:
                self._keep(maker.body.owner)
                self.kept.add(maker.body.terminator)
            return
        if maker is None:
            owner = program.holder[value].owner
            if owner is None:
                return
            self._keep(owner)
            if owner.name == "scf.for":
                self._carry(owner, carried_position(owner, value))
            return
        self._keep(maker)
        for node in program.written.get(value, ()):
            self._keep(node)
            self._work += node.operands
        if maker.name == "scf.for":
            self._carry(maker, maker.results.index(value))
        elif maker.name == "scf.if":
            position = maker.results.index(value)
            self._work += [body.terminator.operands[position] for body in maker.bodies]
        else:
            self._work += maker.operands
            if maker.bodies:
                self.keep([node for body in maker.bodies for node in body.walk()])

    def _carry(self, loop: Node, position: int) -> None:
        if position >= 0:
            initial, argument, yielded, result = carried(loop)[position]
            self._work += [initial, argument, yielded]
            if result not in self._replaced:
                self._work.append(result)


class SliceWriter:
    """Writes a slice into a new function.

    Args:
        slice: what to write.
        insertions: what to put behind a node, or in its place where it is not kept.

    Attributes:
        values: the new function's values by those of the old one.
        extra: the new function's further arguments.
    """

    def __init__(self, slice: Slice, insertions: Mapping[Node, Sequence[Insertion]]) -> None:
        self._slice = slice
        self._insertions = insertions
        self.values: dict[ir.Value, ir.Value] = {}
        self.extra: list[ir.Value] = []

    def write(
        self, name: str, before: ir.Operation, extend: Callable[[ir.Operation], list[ir.Value]] | None = None
    ) -> ir.Operation:
        """The new function, put before the given operation, with the old one's arguments and attributes.

        Args:
            name: of the new function.
            before: where it goes.
            extend: gives the empty function further arguments.
        """
        old = self._slice.program.function
        attributes = dict(old.attributes.items())
        attributes["sym_name"] = ir.StringAttr.get(name)
        function = ir.Operation.create(
            "func.func", attributes=attributes, regions=1, loc=old.location, ip=ir.InsertionPoint(before)
        )
        body = self._slice.program.body
        kinds = [argument.type for argument in body.arguments]
        block = function.regions[0].blocks.append(*kinds, arg_locs=[old.location] * len(kinds))
        self.values.update(zip(body.arguments, block.arguments, strict=True))
        if extend is not None:
            self.extra = extend(function)
        self._body(body, block)
        return function

    def _body(self, body: Body, block: ir.Block) -> None:
        point = ir.InsertionPoint(block)
        for node in body.nodes:
            if node in self._slice.kept:
                self._node(node, point)
            for insertion in self._insertions.get(node, ()):
                insertion(self, point)

    def _node(self, node: Node, point: ir.InsertionPoint) -> None:
        if node.name == "scf.for":
            self._loop(node, point)
        elif node.name == "scf.while":
            self._copy(node, point)
        elif node.name == "scf.if":
            self._branch(node, point)
        elif node.name == "scf.yield":
            self._yield(node, point)
        else:
            self._copy(node, point)

    def _copy(self, node: Node, point: ir.InsertionPoint) -> None:
        copy = copy_operation(node.op, point, self.values)
        self.values.update(zip(node.results, copy.results, strict=True))

    def _yield(self, node: Node, point: ir.InsertionPoint) -> None:
        owner = node.body.owner
        assert owner is not None
        if owner.name == "scf.for":
            needed = [yielded for _, _, yielded, _ in self._slice.carried(owner)]
        else:
            results = zip(node.operands, owner.results, strict=True)
            needed = [value for value, result in results if self._slice.needs(result)]
        operands = [self.values[value] for value in needed]
        ir.Operation.create("scf.yield", operands=operands, loc=node.op.location, ip=point)

    def _region_op(
        self, node: Node, operands: list[ir.Value], results: list[ir.Value], point: ir.InsertionPoint
    ) -> ir.Operation:
        attributes = dict(node.op.attributes.items())
        return ir.Operation.create(
            node.name,
            results=[r.type for r in results],
            operands=operands,
            attributes=attributes,
            regions=len(node.op.regions),
            loc=node.op.location,
            ip=point,
        )

    def _loop(self, node: Node, point: ir.InsertionPoint) -> None:
        phis = self._slice.carried(node)
        operands = [self.values[v] for v in [*node.operands[:3], *(initial for initial, *_ in phis)]]
        results = [result for *_, result in phis]
        loop = self._region_op(node, operands, results, point)
        arguments = [node.bodies[0].arguments[0], *(argument for _, argument, _, _ in phis)]
        kinds = [argument.type for argument in arguments]
        block = loop.regions[0].blocks.append(*kinds, arg_locs=[node.op.location] * len(kinds))
        self.values.update(zip(arguments, block.arguments, strict=True))
        self._body(node.bodies[0], block)
        self.values.update(zip(results, loop.results, strict=True))

    def _branch(self, node: Node, point: ir.InsertionPoint) -> None:
        results = [result for result in node.results if self._slice.needs(result)]
        branch = self._region_op(node, [self.values[node.operands[0]]], results, point)
        for body, region in zip(node.bodies, branch.regions, strict=False):
            self._body(body, region.blocks.append())
        self.values.update(zip(results, branch.results, strict=True))


# Puts operations at the insertion point.
Insertion = Callable[[SliceWriter, ir.InsertionPoint], None]
