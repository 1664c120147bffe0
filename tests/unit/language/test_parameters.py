"""Annotations, however they are spelled, and arguments that do not fit them."""

from __future__ import annotations

import pytest

import pypto_jit.language as pl
from pypto_jit.dtypes import FP16, FP32
from pypto_jit.errors import ArgumentError, DecoratorError
from pypto_jit.language.parameters import Declaration, declarations
from tests.tracing import lines, spec

ALIAS = pl.Out[pl.Tensor]
X = spec(16, 32)


def test_every_form():
    local = pl.Tensor[[4, 8], pl.FP16]

    def kernel(
        a,
        b: pl.Tensor,
        c: pl.Tensor[[2, 3], pl.FP32],
        d: pl.Out[pl.Tensor],
        e: pl.InOut[pl.Tensor[[1], pl.FP32]],
        f: ALIAS,
        g: local,
        h: pl.constexpr,
        i: pl.Scalar[pl.FP32],
        j: float,
        k: pl.Out,
    ):
        return local

    assert list(declarations(kernel).items()) == [
        ("a", Declaration()),
        ("b", Declaration("in", kind="tensor")),
        ("c", Declaration("in", (2, 3), FP32, "tensor")),
        ("d", Declaration("out", kind="tensor")),
        ("e", Declaration("inout", (1,), FP32, "tensor")),
        ("f", Declaration("out", kind="tensor")),
        ("g", Declaration("in", (4, 8), FP16, "tensor")),
        ("h", Declaration(kind="constant")),
        ("i", Declaration(dtype=FP32, kind="scalar")),
        ("j", Declaration()),
        ("k", Declaration("out", kind="tensor")),
    ]


def test_annotations_that_are_objects_already():
    namespace: dict = {"pl": pl}
    exec("def kernel(a: pl.Out[pl.Tensor[(2, 3), pl.FP32]]): pass", namespace)
    assert declarations(namespace["kernel"]) == {"a": Declaration("out", (2, 3), FP32, "tensor")}


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ("missing.Tensor", "the annotation of parameter 'a' cannot be evaluated"),
        ("pl.Tile", "parameter 'a' is a tile"),
        ("pl.Tile[[1, 2], pl.FP32]", "parameter 'a' is a tile"),
        ("pl.Tensor[[1, 2]]", "cannot be evaluated"),
        ("pl.Out[int]", "cannot be evaluated"),
    ],
)
def test_wrong_annotations_name_the_parameter(annotation, text):
    namespace: dict = {"pl": pl}
    exec(f"from __future__ import annotations\ndef kernel(a: {annotation}): pass", namespace)
    with pytest.raises(DecoratorError, match=text) as caught:
        declarations(namespace["kernel"])
    assert caught.value.span.line == 2


def test_a_variable_number_of_parameters():
    def kernel(*arguments):
        return arguments

    with pytest.raises(DecoratorError, match="names each of its parameters"):
        declarations(kernel)


class TestArguments:
    def kernel(self, annotation):
        def kernel(x, out):
            pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], out)

        kernel.__annotations__ = {"x": annotation}
        return kernel

    @pytest.mark.parametrize(
        ("annotation", "argument", "text", "found", "expected"),
        [
            (pl.Tensor[[16, 31], pl.FP32], X, "'x' has another shape than declared", [16, 32], [16, 31]),
            (pl.Tensor[[16], pl.FP32], X, "'x' has another rank than declared", [16, 32], [16]),
            (pl.Tensor[[16, 32], pl.FP16], X, "'x' has another dtype than declared", FP32, FP16),
            (pl.Tensor, 5, "'x' is a tensor", "int 5", "a tensor"),
            (pl.constexpr, X, "'x' is a number", "a tensor", "a Python number"),
            (pl.INT32, X, "'x' is a number", "a tensor", "a Python number"),
        ],
    )
    def test_that_do_not_fit(self, annotation, argument, text, found, expected):
        with pytest.raises(ArgumentError, match=text) as caught:
            lines(self.kernel(annotation), argument, X)
        assert (caught.value.found, caught.value.expected) == (found, expected)

    def test_that_fit(self):
        assert lines(self.kernel(pl.Tensor[[16, 32], pl.FP32]), X, X)
