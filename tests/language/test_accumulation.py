"""Products of whole tensors that something is added to."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, ShapeError
from tests.language.everywhere import check


def _small(*shape, dtype=torch.float32, seed=0):
    """Integers whose products and sums every dtype here keeps."""
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pypto.jit
def accumulate(acc, a, b, out):
    out[:] = pl.matmul_acc(acc, a, b)


@pypto.jit
def bias(a, b, bias, out):
    out[:] = pl.matmul_bias(a, b, bias)


@pytest.mark.parametrize(
    ("given", "sums"),
    [
        (torch.float32, torch.float32),
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.int8, torch.int32),
    ],
    ids=str,
)
def test_in_the_dtype_of_accumulators(given, sums):
    a, b = _small(20, 17, dtype=given), _small(17, 33, dtype=given, seed=1)
    right = a.double() @ b.double()
    acc = _small(20, 33, dtype=sums, seed=2) * 1000 + 1
    check(accumulate, acc, a, b, torch.zeros(20, 33, dtype=sums), out=(right + acc).to(sums))
    check(bias, a, b, acc[0], torch.zeros(20, 33, dtype=sums), out=(right + acc[0]).to(sums))
    check(bias, a, b, acc[:1], torch.zeros(20, 33, dtype=sums), out=(right + acc[0]).to(sums))


def test_batches_and_steps():
    @pypto.jit
    def kernel(x, y, out):
        total = pl.matmul(x[:, :, 0:8], y[:, 0:8], out_dtype=pl.FP32)
        for k in range(8, 24, 8):
            total = pl.matmul_acc(total, x[:, :, k : k + 8], y[:, k : k + 8])
        out[:] = total

    x, y = _small(3, 20, 24), _small(3, 24, 16, seed=1)
    # Its kernels are tasks, which are not made from assembly again.
    check(kernel, x, y, torch.zeros(3, 20, 16), ways=("compiled", "interpreted", "trace"), out=x @ y)


def test_another_dtype():
    a = torch.zeros(8, 8, dtype=torch.bfloat16)
    with pytest.raises(
        DTypeError, match="matmul_acc adds in the dtype that products of BF16 are accumulated in"
    ) as caught:
        accumulate(a, a, a, a)
    assert (str(caught.value.found), str(caught.value.expected)) == ("BF16", "FP32")
    assert caught.value.hint == "pl.cast(x, pl.FP32), or add to the product: lhs @ rhs + x"


def test_another_shape():
    a, b, out = torch.zeros(8, 4), torch.zeros(4, 6), torch.zeros(8, 6)
    with pytest.raises(ShapeError, match="matmul_acc adds to a product of another shape"):
        accumulate(torch.zeros(1, 6), a, b, out)
    with pytest.raises(ShapeError, match="matmul_bias adds to a product of another shape"):
        bias(a, b, torch.zeros(2, 8, 6), out)


@pypto.jit
def with_bias(a, b, bias, scale, x):
    return pl.matmul(a, b, bias=bias), pl.matmul(x, b, bias=bias), pl.matmul(a, b, bias=1.0) * scale


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_bias_is_added_before_the_product_is_rounded(dtype):
    a, b, bias, x = (_small(*shape, dtype=dtype) for shape in ((20, 17), (17, 33), (33,), (17,)))
    scale = torch.tensor(2.0, dtype=dtype)
    wide = [each.double() for each in (a, b, bias, x)]
    expected = (wide[0] @ wide[1] + wide[2], wide[3] @ wide[1] + wide[2])
    for run in (with_bias, pypto.interpret(with_bias)):
        found = run(a, b, bias, scale, x)
        for one, other in zip(found, (*expected, (wide[0] @ wide[1] + 1).to(dtype) * 2), strict=True):
            assert torch.equal(one, other.to(dtype))


@pypto.jit
def wide_bias(a, b, bias):
    return pl.matmul(a, b, bias=bias)


def test_a_bias_that_does_not_fit():
    with pytest.raises(ShapeError, match="the bias of matmul has another shape") as caught:
        wide_bias(_small(20, 17), _small(17, 33), _small(3, 20, 33))
    assert caught.value.span is not None
    with pytest.raises(DTypeError, match="added in the dtype that the product is accumulated in"):
        wide_bias(_small(20, 17, dtype=torch.int8), _small(17, 33, dtype=torch.int8), _small(33))
