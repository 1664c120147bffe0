"""Random graphs of tensor-level operations: the loops over tiles that they become mean what they mean."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto_jit as pypto
from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.dialects.operators import BY_NAME, COMPARISONS
from pypto_jit.dialects.rules.tensors import index_type, map_type, product_type, reduce_type, select_type, tensor_type
from pypto_jit.dialects.types import TensorType
from pypto_jit.dtypes import FP32
from pypto_jit.errors import PyptoError
from pypto_jit.lowering.context import borrowed_context, type_table
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.passes import tensors
from pypto_jit.targets import A2A3, A5, Target

EXTENTS = (1, 3, 8, 17, 40)
BINARY = ("add", "sub", "mul", "maximum", "minimum")
UNARY = ("neg", "abs", "relu")

Value = tuple[str, TensorType]


class Graph:
    """A function of tensor-level operations, drawn one by one."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._numbers = itertools.count()
        self._extents = draw(st.lists(st.sampled_from(EXTENTS), min_size=3, max_size=3))
        self.arguments: list[Value] = []
        self.lines: list[str] = []
        self.values: list[Value] = []
        self.masks: list[Value] = []

    def argument(self, shape: tuple[int, ...]) -> Value:
        value = (f"%a{len(self.arguments)}", tensor_type(shape, FP32))
        self.arguments.append(value)
        return value

    def leaf(self) -> None:
        rank = self._draw(st.integers(1, 3))
        shape = tuple(extent if self._draw(st.integers(0, 3)) else 1 for extent in self._extents[3 - rank :])
        self.values.append(self.argument(shape))

    def pick(self) -> Value:
        return self._draw(st.sampled_from(self.values))

    def record(self, name: str, operands: list[Value], attributes: str, result: TensorType) -> None:
        new = f"%v{next(self._numbers)}"
        given = ", ".join(name for name, _ in operands)
        kinds = ", ".join(str(kind) for _, kind in operands)
        self.lines.append(f'{new} = "pypto.{name}"({given}) {{{attributes}}} : ({kinds}) -> {result}')
        self.values.append((new, result))

    def step(self) -> None:
        kind = self._draw(
            st.sampled_from(
                (
                    "binary",
                    "binary",
                    "unary",
                    "compare",
                    "select",
                    "reduce",
                    "place",
                    "cumulate",
                    "rearrange",
                    "product",
                )
            )
        )
        try:
            getattr(self, f"_{kind}")()
        except PyptoError:
            # These operands do not go together.
            return

    def _binary(self) -> None:
        operands, row = [self.pick(), self.pick()], self._draw(st.sampled_from(BINARY))
        self.record("map", operands, f'row = "{row}"', map_type(BY_NAME[row], [kind for _, kind in operands]))

    def _unary(self) -> None:
        operand = self.pick()
        self.record("map", [operand], f'row = "{self._draw(st.sampled_from(UNARY))}"', operand[1])

    def _compare(self) -> None:
        # Of computed values the order of a sum may decide how they compare.
        leaves = st.sampled_from([value for value in self.values if value in self.arguments])
        operands, mode = [self._draw(leaves), self._draw(leaves)], self._draw(st.sampled_from(COMPARISONS))
        result = map_type(BY_NAME["cmp"], [kind for _, kind in operands])
        self.record("map", operands, f'row = "cmp", mode = "{mode}"', result)
        self.masks.append(self.values[-1])

    def _select(self) -> None:
        operands = [self._draw(st.sampled_from(self.masks or self.arguments)), self.pick(), self.pick()]
        self.record("select", operands, "", select_type([kind for _, kind in operands]))

    def _reduce(self) -> None:
        operand = self.pick()
        rank = operand[1].rank
        if rank == 0:
            return
        axes = self._draw(st.one_of(st.just({rank - 1}), st.sets(st.integers(0, rank - 1), min_size=1)))
        row = self._draw(st.sampled_from(("sum", "max", "min")))
        if row == "sum":
            operand = self._spread(operand, axes)
        result = reduce_type(row, operand[1], sorted(axes), self._draw(st.booleans()))
        self.record("reduce", [operand], f'row = "{row}", axes = {_numbers(sorted(axes))}', result)

    def _spread(self, operand: Value, axes: set[int]) -> Value:
        """Perhaps the operand broadcast along what is reduced."""
        name, kind = operand
        shape = [8 if extent == 1 and axis in axes else extent for axis, extent in enumerate(kind.shape)]
        if list(kind.shape) == shape or not self._draw(st.booleans()):
            return operand
        dims = [-1 if extent != new else axis for axis, (extent, new) in enumerate(zip(kind.shape, shape, strict=True))]
        self.record("rearrange", [(name, kind)], f"dims = {_numbers(dims)}", tensor_type(shape, FP32))
        return self.values.pop()

    def _place(self) -> None:
        # Of computed values the order of a sum may decide which is the largest.
        leaves = [value for value in self.values if value in self.arguments and max(value[1].shape) > 1]
        if not leaves:
            return
        leaf = self._draw(st.sampled_from(leaves))
        axis = self._draw(st.sampled_from([k for k, extent in enumerate(leaf[1].shape) if extent > 1]))
        row, keeps = self._draw(st.sampled_from(("argmax", "argmin"))), self._draw(st.booleans())
        result = index_type(row, leaf[1], (axis,), keeps)
        self.record("reduce", [leaf], f'row = "{row}", axes = {_numbers([axis])}', result)
        self.record("map", [self.values.pop()], 'row = "cast", mode = "rint"', tensor_type(result.shape, FP32))

    def _cumulate(self) -> None:
        operand = self.pick()
        long = [axis for axis, extent in enumerate(operand[1].shape) if extent > 1]
        if long:
            axis = self._draw(st.sampled_from(long))
            self.record("cumulate", [operand], f"axis = {axis} : i64", operand[1])

    def _rearrange(self) -> None:
        operand = self.pick()
        dims = self._draw(st.permutations(range(operand[1].rank)))
        result = tensor_type([operand[1].shape[dim] for dim in dims], FP32)
        self.record("rearrange", [operand], f"dims = {_numbers(dims)}", result)

    def _product(self) -> None:
        operands = [self.pick(), self.pick()]
        self.record("product", operands, "", product_type(*(kind for _, kind in operands)))

    def write(self) -> None:
        value, kind = self.values[-1]
        tensor, _ = self.argument(kind.shape)
        self.lines.append(f'"pypto.assign"({value}, {tensor}) : ({kind}, {kind}) -> ()')

    def text(self, target: Target) -> str:
        arguments = ", ".join(f"{name}: {kind}" for name, kind in self.arguments)
        names = ", ".join(f'"{name[1:]}"' for name, _ in self.arguments)
        body = "\n".join(self.lines)
        return (
            f'module attributes {{pypto.target = "{target.name}"}} {{ func.func @k({arguments}) '
            f"attributes {{pypto.parameters = [{names}]}} {{\n{body}\nfunc.return }} }}"
        )

    def arrays(self) -> list[numpy.ndarray]:
        random = numpy.random.default_rng(0)
        return [numpy.array(random.uniform(-2, 2, kind.shape), numpy.float32) for _, kind in self.arguments]


def _numbers(values: Any) -> str:
    return "array<i64: " + ", ".join(map(str, values)) + ">" if values else "array<i64>"


@st.composite
def graphs(draw: Any) -> Graph:
    graph = Graph(draw)
    for _ in range(3):
        graph.leaf()
    for _ in range(draw(st.integers(1, 2))):
        for _ in range(draw(st.integers(1, 7))):
            graph.step()
        graph.write()
    return graph


@given(graphs(), st.sampled_from((A2A3, A5)))
@settings(max_examples=40, deadline=None)
def test_loops_over_tiles_mean_what_the_graph_means(graph, target):
    expected, found = graph.arrays(), graph.arrays()
    with borrowed_context(), ir.Location.unknown():
        module = ir.Module.parse(graph.text(target))
        interpret(module, expected)
        tensors.run(module.operation, Lowering(target, type_table(module.context)))
        assert module.operation.verify()
        interpret(module, found)
    same(found, expected)
    compiled = graph.arrays()
    pypto.compile(graph.text(target), platform=f"{target.name}sim")(*compiled)
    same(compiled, expected)


def same(found: list[numpy.ndarray], expected: list[numpy.ndarray]) -> None:
    for a, b in zip(expected, found, strict=True):
        numpy.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-3 * max(1.0, float(numpy.max(numpy.abs(a), initial=0))))
