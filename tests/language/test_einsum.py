"""``pl.einsum`` against torch's in FP64: drawn equations, compiled and interpreted, and wrong ones."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ShapeError, TraceError

EXTENTS = {"a": 3, "b": 2, "c": 17, "d": 5, "e": 1}


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _run(equation, *operands, runs=("compiled", "interpreted")):
    names = ", ".join(f"x{k}" for k in range(len(operands)))
    space = {"pl": pl, "equation": equation}
    exec(f"def kernel({names}):\n    return pl.einsum(equation, {names})", space)
    kernel = pypto.jit(space["kernel"])
    return [(kernel if run == "compiled" else kernel.interpret)(*operands) for run in runs]


CASES = {
    "ij,jk->ik": ((7, 20), (20, 9)),
    "ij,kj->ik": ((7, 20), (9, 20)),
    "bhqd,bhkd->bhqk": ((2, 3, 7, 16), (2, 3, 9, 16)),
    "bqhd,bkhd->bhqk": ((2, 7, 3, 16), (2, 9, 3, 16)),
    "ij,j->i": ((7, 20), (20,)),
    "i,i->": ((20,), (20,)),
    "i,j->ij": ((7,), (9,)),
    "bij,bij->b": ((3, 7, 5), (3, 7, 5)),
    "ijk->kj": ((3, 4, 5),),
    "...ij,...jk": ((2, 1, 7, 8), (3, 8, 5)),
    "...i->...": ((2, 3, 9),),
    "ij,jk,kl->il": ((7, 8), (8, 5), (5, 6)),
    "abcd,cdef->abef": ((2, 3, 4, 5), (4, 5, 2, 3)),
    "ij,ij,i->j": ((4, 6), (4, 6), (4,)),
    " ij , jk ": ((3, 4), (4, 5)),
}


@pytest.mark.parametrize("equation", CASES)
def test_equations(equation):
    operands = [_random(*shape, seed=k) for k, shape in enumerate(CASES[equation])]
    expected = torch.einsum(equation, *(x.double() for x in operands))
    for found in _run(equation, *operands):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_drawn_equations(data):
    letters = st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True)
    inputs = data.draw(st.lists(letters, min_size=1, max_size=3))
    known = sorted({letter for names in inputs for letter in names})
    output = data.draw(st.permutations(known).flatmap(lambda p: st.integers(0, 3).map(lambda n: p[:n])))
    # A call without any change would return its argument.
    equation = ",".join("".join(names) for names in [*inputs, ["a"]]) + "->" + "".join(output)
    operands = [_random(*(EXTENTS[n] for n in names), seed=k) for k, names in enumerate([*inputs, ["a"]])]
    expected = torch.einsum(equation, *(x.double() for x in operands))
    size = torch.einsum(equation, *(x.double().abs() for x in operands))
    for found in _run(equation, *operands):
        assert found.shape == expected.shape
        assert bool(((found.double() - expected).abs() <= 1e-5 * size + 1e-12).all()), equation


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32], ids=str)
def test_other_dtypes(dtype):
    x, y = (_random(6, 8) * 4).round().to(dtype), (_random(8, 5, seed=1) * 4).round().to(dtype)
    for found in _run("ij,jk->ki", x, y):
        assert found.dtype == dtype
        torch.testing.assert_close(found.double(), (x.double() @ y.double()).T, rtol=1e-2, atol=0)


def test_a_product_is_one_operation():
    @pypto.jit
    def kernel(q, k):
        return pl.einsum("bhqd,bhkd->bhqk", q, k)

    text = kernel.lower(_random(2, 3, 7, 16), _random(2, 3, 9, 16))["trace"]
    assert text.count("pypto.product") == 1
    assert "pypto.map" not in text


@pytest.mark.parametrize(
    ("equation", "kind", "message"),
    [
        ("ij", TraceError, "einsum: as many operands as the equation has"),
        ("ii,jk->ik", TraceError, "einsum: a letter stands for one dimension of an operand"),
        ("ij,jk->iz", TraceError, "einsum: 'z' of the result is in no operand"),
        ("ij,j1->i", TraceError, "einsum: dimensions have letters"),
        ("ijk,jk->i", TraceError, "einsum: 'ijk' names the dimensions of a tensor with 2"),
        ("ij,ik->jk", ShapeError, "einsum: 'i' stands for different extents"),
        (3, TraceError, "einsum: the equation is a text"),
    ],
)
def test_wrong_equations(equation, kind, message):
    def kernel(x, y):
        return pl.einsum(equation, x, y)

    with pytest.raises(kind) as caught:
        pypto.jit(kernel)(_random(3, 4), _random(4, 5))
    assert caught.value.message == message
    assert caught.value.span is not None
