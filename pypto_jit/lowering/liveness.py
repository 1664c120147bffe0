"""Which tiles are needed at the same time, and which may therefore share one buffer.

Works on the ``pypto`` dialect, where a tile is a value. Two tiles *interfere* if one is defined while the other is
still needed. Tiles that a loop carries, or that an ``if`` chooses between, should share a buffer, so that nothing is
copied on the way round; they can wherever they do not interfere.
"""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.lowering.tree import LOOPS, Body, Node, carried

Live = set[ir.Value]


class Interference:
    """Interference of the tiles of one function.

    Args:
        body: the function.
        is_tile: whether a value is a tile.
        root: the tile whose buffer a value names: itself, or the source of a reshape or of a transposed view.
        shares_in_place: whether a node may write its result over the given operand while it reads it.
    """

    def __init__(
        self,
        body: Body,
        is_tile: Callable[[ir.Value], bool],
        root: Callable[[ir.Value], ir.Value],
        shares_in_place: Callable[[Node, ir.Value], bool],
    ) -> None:
        self._is_tile = is_tile
        self._root = root
        self._shares_in_place = shares_in_place
        self._edges: dict[ir.Value, Live] = {}
        self._class: dict[ir.Value, ir.Value] = {}
        self._block(body, set(), ())

    def same_buffer(self, value: ir.Value) -> ir.Value:
        """The tile that stands for all tiles in the buffer of this one."""
        found = self._root(value)
        while found in self._class:
            found = self._class[found]
        return found

    def interfere(self, a: ir.Value, b: ir.Value) -> bool:
        """Whether the buffers of two tiles must differ."""
        a, b = self.same_buffer(a), self.same_buffer(b)
        return a != b and b in self._edges.get(a, ())

    def unite(self, a: ir.Value, b: ir.Value) -> None:
        """Let two tiles share a buffer from now on."""
        a, b = self.same_buffer(a), self.same_buffer(b)
        if a == b:
            return
        edges = self._edges.pop(b, set())
        self._class[b] = a
        mine = self._edges.setdefault(a, set())
        for other in edges:
            theirs = self._edges[other]
            theirs.discard(b)
            if other != a:
                theirs.add(a)
                mine.add(other)
        mine.discard(b)

    def _roots(self, values: list[ir.Value]) -> list[ir.Value]:
        return [self._root(v) for v in values if self._is_tile(v)]

    def _define(self, value: ir.Value, live: Live) -> None:
        if not live:
            return
        mine = self._edges.setdefault(value, set())
        for other in live:
            if other != value:
                mine.add(other)
                self._edges.setdefault(other, set()).add(value)

    def _block(self, body: Body, live_out: Live, yielded: tuple[ir.Value, ...] | list[ir.Value]) -> Live:
        live = live_out.union(self._roots(list(yielded)))
        for node in reversed(body.nodes):
            if node.name in LOOPS:
                live = self._loop(node, live)
            elif node.name == "scf.if":
                live = self._branch(node, live)
            elif node.name != "scf.yield":
                self._plain(node, live)
        return live

    def _plain(self, node: Node, live: Live) -> None:
        operands = self._roots(node.operands)
        for result in node.results:
            # A view of another tile defines nothing.
            if self._is_tile(result) and self._root(result) == result:
                live.discard(result)
                self._define(result, live)
                self._define(result, {o for o in operands if not self._shares_in_place(node, o)})
        live.update(operands)

    def _loop(self, node: Node, live: Live) -> Live:
        phis = [phi for phi in carried(node) if self._is_tile(phi[1])]
        results = [result for *_, result in phis]
        live = live.union(results)
        for result in results:
            self._define(result, live)
        after = live.difference(results)
        arguments = [argument for _, argument, _, _ in phis]
        yielded = [y for _, _, y, _ in phis]
        through = after
        while True:
            head = self._block(node.bodies[0], through, yielded).difference(arguments)
            if head <= through:
                break
            through = through | head
        for argument in arguments:
            self._define(argument, through.union(arguments))
        return through.union(self._roots([initial for initial, *_ in phis]))

    def _branch(self, node: Node, live: Live) -> Live:
        results = [result for result in node.results if self._is_tile(result)]
        live = live.union(results)
        for result in results:
            self._define(result, live)
        after = live.difference(results)
        before: Live = set(after)
        for body in node.bodies:
            before |= self._block(body, after, body.terminator.operands)
        return before
