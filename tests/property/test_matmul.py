"""Matrix products of any shape: exact on whole numbers, and within the error of any order of summation on others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy
from hypothesis import given
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.dialects.rules import matmul_dtype
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, DType
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import A2A3, A5, Space, Target
from tests.module_text import ModuleText, Value
from tests.property.compiled import CompiledModule
from tests.property.running import interpreted

EPSILON = float(numpy.finfo(numpy.float32).eps)


@dataclass(frozen=True)
class Product:
    """One kernel: ``[M, steps * K] @ [steps * K, N]``, in steps along K, perhaps with a bias.

    Attributes:
        explicit: whether operands go through Mat, Left and Right as written, or the compiler inserts the moves.
        transposed: whether the right operand is stored as ``[N, steps * K]`` and read through a transposed view.
        stored: dtype of the output tensor.
    """

    target: Target
    dtype: DType
    rows: int
    inner: int
    columns: int
    steps: int
    valid: tuple[int, int]
    bias: bool
    explicit: bool
    transposed: bool
    stored: DType

    def __repr__(self) -> str:
        return f"\n{self.module()}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def shapes(self) -> list[tuple[int, int]]:
        """Of the left, the right, the bias and the output."""
        right = (self.steps * self.inner, self.columns)
        return [
            (self.rows, self.steps * self.inner),
            right[::-1] if self.transposed else right,
            (1, self.columns),
            (self.rows, self.columns),
        ]

    def module(self) -> ModuleText:
        """The kernel as a module."""
        text = ModuleText(self.target)
        accumulator = matmul_dtype(self.dtype)
        dtypes = (self.dtype, self.dtype, accumulator, self.stored)
        left, right, bias, out = (text.tensor(s, d) for s, d in zip(self.shapes(), dtypes, strict=True))
        if self.bias:
            line = text.load(bias, [0, 0], [1, self.columns], [1, self.valid[1]], Space.MAT)
            line = text.operator("move", line, space=Space.BIAS)
            acc = text.operator("matmul_bias", *self._operands(text, left, right, 0), line)
        else:
            acc = text.operator("matmul", *self._operands(text, left, right, 0))
        if self.steps > 1:
            with text.loop(self.steps - 1, carried=[acc]) as loop:
                offset = text.arith("muli", text.arith("addi", loop.index, text.constant(1)), text.constant(self.inner))
                loop.yields = [text.operator("matmul_acc", loop.carried[0], *self._operands(text, left, right, offset))]
            acc = loop.results[0]
        text.store(acc, out, [0, 0])
        return text

    def _operands(self, text: ModuleText, left: Value, right: Value, offset: Value | int) -> list[Value]:
        space = Space.MAT if self.explicit or self.transposed else Space.VEC
        rows, columns = self.valid
        lhs = text.load(left, [0, offset], [self.rows, self.inner], [rows, self.inner], space)
        if self.transposed:
            rhs = text.load(right, [0, offset], [self.columns, self.inner], [columns, self.inner], space)
            rhs = text.operator("transpose_view", rhs)
        else:
            rhs = text.load(right, [offset, 0], [self.inner, self.columns], [self.inner, columns], space)
        if self.explicit:
            lhs, rhs = text.operator("move", lhs, space=Space.LEFT), text.operator("move", rhs, space=Space.RIGHT)
        return [lhs, rhs]


@st.composite
def products(draw: Any) -> Product:
    dtype = draw(st.sampled_from([FP32, FP16, BF16, INT8]))
    rows, inner, columns = (draw(st.integers(1, 40)) for _ in range(3))
    valid = (rows, columns)
    if draw(st.booleans()):
        valid = (draw(st.integers(1, rows)), draw(st.integers(1, columns)))
    stored = matmul_dtype(dtype)
    if stored is FP32:
        stored = draw(st.sampled_from([FP32, FP16, BF16]))
    return Product(
        draw(st.sampled_from([A2A3, A5])),
        dtype,
        rows,
        inner,
        columns,
        draw(st.integers(1, 3)),
        valid,
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.booleans()),
        stored,
    )


def run(product: Product, arrays: list[numpy.ndarray]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The output as interpreted, and as compiled."""
    with borrowed_context():
        module = ir.Module.parse(str(product.module()))
        expected = interpreted(module, arrays)[3]
        kernel = CompiledModule(module, product.target)
    result = kernel(arrays)[3]
    assert kernel.violation is None
    return expected, result


def blank(product: Product) -> numpy.ndarray:
    return numpy.full(product.shapes()[3], 7, product.stored.numpy)


@given(product=products(), seed=st.integers(0, 2**16))
def test_products_of_whole_numbers_are_exact(product, seed):
    generator = numpy.random.default_rng(seed)
    limit = 128 if product.dtype is INT8 else 8
    arrays = [
        generator.integers(-limit, limit, shape).astype(dtype.numpy)
        for shape, dtype in zip(
            product.shapes()[:3], (product.dtype, product.dtype, matmul_dtype(product.dtype)), strict=True
        )
    ]
    expected, result = run(product, [*arrays, blank(product)])
    numpy.testing.assert_array_equal(result.astype(numpy.float64), expected.astype(numpy.float64), repr(product))


@given(product=products().filter(lambda product: product.stored is FP32), seed=st.integers(0, 2**16))
def test_products_are_accurate(product, seed):
    generator = numpy.random.default_rng(seed)
    left, right, bias = (generator.standard_normal(shape) for shape in product.shapes()[:3])
    left, right = left.astype(product.dtype.numpy), right.astype(product.dtype.numpy)
    bias = bias.astype(numpy.float32)
    expected, result = run(product, [left, right, bias, blank(product)])
    wide = right.T if product.transposed else right
    scale = numpy.abs(left.astype(numpy.float64)) @ numpy.abs(wide.astype(numpy.float64)) + numpy.abs(bias)
    error = numpy.abs(result.astype(numpy.float64) - expected.astype(numpy.float64))
    assert (error <= (product.steps * product.inner + 1) * EPSILON * scale).all(), repr(product)
