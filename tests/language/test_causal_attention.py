"""Attention in which positions say which keys a query sees, against torch in float64, and what of it is computed."""

from __future__ import annotations

import math
import re

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from tests.language.everywhere import run

NOTHING = -math.inf


def places(q, k):
    """Of the queries, as a column, and of the keys."""
    return pl.arange(0, q.shape[-2])[:, None], pl.arange(0, k.shape[-2])


@pypto.jit
def banded(q, k, v, out, low: pl.constexpr, high: pl.constexpr, hidden: pl.constexpr):
    """A query at i sees keys from i + low to i + high; None: without bound."""
    i, j = places(q, k)
    if low is None:
        seen = j <= i + high
    elif high is None:
        seen = j - low >= i
    else:
        seen = (j < i + (high + 1)) & (i - j <= -low)
    out[:] = pl.softmax(pl.where(seen, pl.matmul(q, k, b_trans=True) * 0.25, hidden)) @ v


def _inputs(queries: int, keys: int, lead: tuple[int, ...] = (2,), width: int = 24) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(queries * keys)
    shapes = (queries, 16), (keys, 16), (keys, width)
    q, k, v = (torch.randn(*lead, *shape, generator=generator) for shape in shapes)
    return q, k, v, torch.full((*lead, queries, width), 7.0)


def _expected(q, k, v, low, high, hidden=NOTHING):
    i, j = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    seen = torch.ones(len(i), len(j), dtype=torch.bool)
    if low is not None:
        seen &= j >= i + low
    if high is not None:
        seen &= j <= i + high
    scores = torch.where(seen, q.double() @ k.double().mT * 0.25, hidden)
    return torch.softmax(scores, -1) @ v.double()


def _close(result: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(result.double(), expected, rtol=2e-5, atol=2e-5, equal_nan=True)


def _operations(kernel, *arguments) -> int:
    found = kernel.explain(*arguments)
    assert len(found.kernels) == 1, str(found)
    return found.kernels[0].flops


SIZES = [(128, 128), (200, 200), (64, 331), (257, 64), (300, 17), (16, 16), (127, 1031)]
BANDS = [(None, 0), (None, 37), (None, -5), (-20, 0), (-150, 90), (-3, None), (30, 70), (400, None), (5, 2)]


@pytest.mark.parametrize("band", BANDS, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bands(sizes, band):
    *inputs, out = _inputs(*sizes)
    banded(*inputs, out, *band, NOTHING)
    _close(out, _expected(*inputs, *band))


@pytest.mark.parametrize("way", ["interpreted", "trace", "pto"])
def test_other_ways(way):
    @pypto.jit
    def kernel(q, k, v, out):
        i, j = places(q, k)
        seen = (j <= i + 3) & (j >= i - 60)
        out[:] = pl.softmax(pl.where(seen, pl.matmul(q, k, b_trans=True) * 0.25, NOTHING)) @ v

    *inputs, out = _inputs(100, 200)
    _close(run(kernel, way, *inputs, out)[3], _expected(*inputs, -60, 3))


def test_a_batch_whose_heads_share_keys():
    q, k, v, out = _inputs(70, 90, (2, 3))
    k, v = k[:, :1].contiguous(), v[:, :1].contiguous()
    banded(q, k, v, out, None, 20, NOTHING)
    _close(out, _expected(q, k, v, None, 20))


def test_a_number_for_nothing_counts_as_it_where_every_query_sees_a_key():
    *inputs, out = _inputs(200, 200)
    banded(*inputs, out, None, 0, -1e30)
    _close(out, _expected(*inputs, None, 0, -1e30))
    assert _operations(banded, *inputs, out, None, 0, -1e30) == _operations(banded, *inputs, out, None, 0, NOTHING)


@pytest.mark.parametrize(("high", "hidden"), [(-5, -1e30), (0, -100.0)])
def test_hidden_scores_that_count_are_computed(high, hidden):
    *inputs, out = _inputs(200, 200)
    banded(*inputs, out, None, high, hidden)
    _close(out, _expected(*inputs, None, high, hidden))
    assert _operations(banded, *inputs, out, None, high, hidden) > _operations(banded, *inputs, out, None, 200, NOTHING)


def test_hidden_keys_may_be_anything():
    q, k, v, out = _inputs(64, 200)
    k[:, 64:] = math.nan
    expected = _expected(q, k[:, :64], v[:, :64], None, 0)
    banded(q, k, v, out, None, 0, NOTHING)
    _close(out, expected)


def test_a_comparison_that_hides():
    @pypto.jit
    def kernel(q, k, v, out):
        i, j = places(q, k)
        out[:] = pl.softmax(pl.where(j > i, NOTHING, pl.matmul(q, k, b_trans=True) * 0.25)) @ v

    *inputs, out = _inputs(200, 200)
    kernel(*inputs, out)
    _close(out, _expected(*inputs, None, 0))
    assert _operations(kernel, *inputs, out) == _operations(banded, *inputs, out, None, 0, NOTHING)


def test_about_half_of_a_square_is_computed():
    *inputs, out = _inputs(1024, 1024, ())
    causal = _operations(banded, *inputs, out, None, 0, NOTHING)
    assert causal < 0.6 * _operations(banded, *inputs, out, None, 1024, NOTHING)


def test_a_window_costs_as_much_for_twice_the_keys():
    *few, out = _inputs(256, 1024, ())
    *many, _ = _inputs(256, 2048, ())
    assert _operations(banded, *few, out, -64, 0, NOTHING) == _operations(banded, *many, out, -64, 0, NOTHING)


def test_the_last_key_is_a_bound_of_the_loops():
    *inputs, out = _inputs(512, 512)
    stages = banded.lower(*inputs, out, None, 0, NOTHING)
    assert stages["tensors"].count("pypto.parallel") == 1
    assert "create_tensor" not in stages["tensors"]
    for part in stages["pto"].split("func.func")[1:]:
        constant = set(re.findall(r"(%\w+) = arith.constant", part))
        bounds = [bound for loop in re.findall(r"scf.for %\w+ = (%\w+) to (%\w+)", part) for bound in loop]
        assert any(bound not in constant for bound in bounds[2:])


def test_a_window_as_wide_as_the_keys_masks_nothing():
    *inputs, out = _inputs(64, 300)
    banded(*inputs, out, -64, 300, NOTHING)
    _close(out, _expected(*inputs, None, 300))


def test_two_attentions_may_share_a_mask():
    @pypto.jit
    def kernel(q, k, v, out):
        i, j = places(q, k)
        seen = j <= i
        first = pl.softmax(pl.where(seen, pl.matmul(q, k, b_trans=True) * 0.25, NOTHING)) @ v
        out[:] = pl.softmax(pl.where(seen, pl.matmul(first, k, b_trans=True) * 0.25, NOTHING)) @ v

    q, k, v, out = _inputs(200, 200, width=16)
    kernel(q, k, v, out)
    _close(out, _expected(_expected(q, k, v, None, 0), k, v, None, 0))
    assert len(kernel.explain(q, k, v, out).kernels) == 2
