"""Integers of whole tensors against torch, short ones included: compiled for both machines, and interpreted."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import DTypeError, TraceError

DTYPES = {"int8": torch.int8, "uint8": torch.uint8, "int16": torch.int16, "int32": torch.int32}


def _integers(dtype, seed):
    """Numbers of the whole range and small ones; in the second case without zeros."""
    generator = torch.Generator().manual_seed(seed)
    limits = torch.iinfo(dtype)
    wide = torch.randint(limits.min, limits.max + 1, (3, 70), generator=generator, dtype=torch.int64)
    small = torch.randint(-9, 9, (3, 70), generator=generator)
    x = torch.where(torch.rand(3, 70, generator=generator) < 0.5, wide, small).to(dtype)
    x[0, 0], x[0, 1] = limits.min, limits.max
    return torch.where(x == 0, 1, x).to(dtype) if seed else x


def _of(x):
    return pl if hasattr(x, "handle") else torch


def _sums(x, y):
    if _of(x) is pl:
        return x.sum(-1, keepdims=True) + y.sum(0) * y.min()
    return x.sum(-1, keepdim=True, dtype=x.dtype) + y.sum(0, dtype=x.dtype) * y.min()


CASES = {
    "ring": lambda x, y: (x + y) * x - y,
    "numbers": lambda x, y: (x + 3) * 5 - (7 - y) + (x * 0 + 5),
    "signs": lambda x, y: -x + abs(y) + ~x,
    "quotients": lambda x, y: x // y,
    "remainders": lambda x, y: x % y,
    "by a number": lambda x, y: x // 7 + y % 7,
    "by a negative number": lambda x, y: x // -7 - y % -7,
    "of a number": lambda x, y: 100 // y + 100 % y,
    "bits": lambda x, y: (x & y) | (x ^ y) ^ 5,
    "bits of vectors": lambda x, y: (x[:, :1] & y) + (x | y[:1]) + (15 & x),
    "shifts": lambda x, y: (x << 2) + (y >> 3),
    "extremes": lambda x, y: _of(x).maximum(x, y) - _of(x).clamp(y, 2, 100),
    "comparisons": lambda x, y: (x <= y) * 1 if _of(x) is pl else (x <= y).to(x.dtype),
    "selection": lambda x, y: _of(x).where(x > y, x, y),
    "powers": lambda x, y: x**3 + y**2,
    "sums": _sums,
}


# An unsigned dtype has no negative numbers.
PAIRS = [(name, dtype) for name in CASES for dtype in DTYPES if (name, dtype) != ("by a negative number", "uint8")]


@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_integers_are_those_of_torch(name, dtype):
    function = CASES[name]
    x, y = _integers(DTYPES[dtype], 0), _integers(DTYPES[dtype], 1)

    def kernel(x, y):
        return function(x, y)

    expected = function(x, y)
    runs = [pypto.jit(kernel, config=pypto.RunConfig(platform=each)) for each in ("a2a3sim", "a5sim")]
    for run in (*runs, runs[0].interpret):
        assert torch.equal(run(x, y), expected)


def test_quotients_of_floats():
    def kernel(x, y):
        return x // y, x % 0.75, pl.round(x), pl.ceil(x), pl.trunc(x), 2.0 // y

    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(5, 40, generator=generator) * 8, torch.randn(5, 40, generator=generator)
    x[0, :4] = torch.tensor([2.5, -0.5, 3e9, float("nan")])
    found = pypto.jit(kernel)(x, y)
    expected = (x // y, x % 0.75, x.round(), x.ceil(), x.trunc(), 2.0 // y)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, -1, -2, 0.5, -0.5, 1.7, 65, -66])
def test_powers_of_floats(exponent):
    def kernel(x):
        return x**exponent

    x = torch.randn(4, 33, generator=torch.Generator().manual_seed(0))
    x = x if isinstance(exponent, int) and abs(exponent) < 60 else x.clamp(-1.5, 1.5)
    torch.testing.assert_close(pypto.jit(kernel)(x), x**exponent, rtol=2e-5, atol=1e-7, equal_nan=True)


def test_powers_of_a_number():
    def kernel(x):
        return 2.5**x + pl.square(x)

    x = torch.randn(4, 33, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(pypto.jit(kernel)(x), 2.5**x + x * x)


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (lambda x, n: x & (x > 0.0), DTypeError, "and_ does not take FP32 on a2a3"),
        (lambda x, n: n**-1, DTypeError, "INT32 has no such power"),
        (lambda x, n: n**0.5, DTypeError, "INT32 has no such power"),
        (lambda x, n: x**x, TraceError, "a tensor of floats is the exponent of a positive number"),
        (lambda x, n: x ** "a", TraceError, "a tensor has powers with a constant exponent"),
        (lambda x, n: pl.floor(3), TraceError, "floor takes a tensor"),
        (lambda x, n: pl.clamp(x, low=3), TraceError, "pl.clamp has no argument 'low'"),
    ],
)
def test_wrong_operands(wrong, kind, message):
    def kernel(x, n):
        return wrong(x, n)

    with pytest.raises(kind) as caught:
        pypto.jit(kernel)(torch.zeros(3, 4), torch.zeros(3, 4, dtype=torch.int32))
    assert caught.value.message == message
    assert caught.value.span is not None
