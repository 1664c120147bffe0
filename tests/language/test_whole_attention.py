"""Attention of whole tensors against torch in float64: one kernel, or several where it cannot be one."""

from __future__ import annotations

import math

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from tests.language.everywhere import run


@pypto.jit
def plain(q, k, v, out):
    out[:] = pl.softmax(pl.matmul(q, k, b_trans=True) * 0.25) @ v


@pypto.jit
def masked(q, k, v, mask, out):
    out[:] = pl.softmax(pl.matmul(q, k, b_trans=True) * 0.25 + mask) @ v


@pypto.jit
def chosen(q, k, v, mask, out):
    scores = pl.where(mask >= 0, pl.matmul(q, k, b_trans=True) * 0.25, -1e30)
    weights = pl.exp(scores - scores.max(-1, keepdims=True))
    out[:] = (weights / weights.sum(-1, keepdims=True)) @ v


@pypto.jit
def transposed(q, k, v, out):
    out[:] = pl.matmul(pl.softmax(pl.matmul(q, k, a_trans=True) * 0.25), v, b_trans=True)


@pypto.jit
def with_weights(q, k, v, weights, out):
    share = pl.softmax(pl.matmul(q, k, b_trans=True) * 0.25)
    weights[:] = share
    out[:] = share @ v


def _random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _inputs(lead: tuple[int, ...], sizes: tuple[int, int, int, int], dtype: torch.dtype = torch.float32):
    queries, keys, depth, width = sizes
    q, k, v = (
        _random(*lead, *shape, dtype=dtype, seed=seed)
        for seed, shape in enumerate(((queries, depth), (keys, depth), (keys, width)))
    )
    return q, k, v, torch.full((*lead, queries, width), math.nan, dtype=dtype)


def _expected(q, k, v, mask=0.0):
    scores = q.double() @ k.double().transpose(-1, -2) * 0.25 + mask
    return torch.softmax(scores, -1) @ v.double()


def _close(result: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


# Queries, keys, depth and width: one piece of keys, several, and parts of them at the end.
SIZES = [(64, 128, 64, 64), (128, 512, 32, 64), (100, 300, 16, 24), (17, 77, 8, 130), (64, 65, 40, 16)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("lead", [(), (3,), (2, 1, 2)], ids=str)
def test_plain(sizes, lead):
    *inputs, out = _inputs(lead, sizes)
    plain(*inputs, out)
    _close(out, _expected(*inputs))


@pytest.mark.parametrize("way", ["interpreted", "trace", "pto"])
def test_plain_in_other_ways(way):
    *inputs, out = _inputs((2,), (70, 200, 16, 24))
    _close(run(plain, way, *inputs, out)[-1], _expected(*inputs))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bits_do_not_depend_on_threads(threads):
    *inputs, out = _inputs((3,), (100, 300, 16, 24))
    before, alone = torch.get_num_threads(), out.clone()
    try:
        torch.set_num_threads(1)
        plain(*inputs, alone)
        torch.set_num_threads(threads)
        plain(*inputs, out)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(out, alone)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_floats(dtype):
    *inputs, out = _inputs((2,), (64, 200, 32, 48), dtype)
    plain(*inputs, out)
    _close(out, _expected(*inputs), 2**-6)


@pytest.mark.parametrize("keys", [128, 200])
def test_causal_mask(keys):
    *inputs, out = _inputs((2,), (keys, keys, 32, 48))
    mask = torch.full((keys, keys), -math.inf).triu(1)
    masked(*inputs, mask, out)
    _close(out, _expected(*inputs, mask))


def test_a_query_that_sees_only_later_keys_and_one_that_sees_none():
    *inputs, out = _inputs((), (64, 300, 16, 24))
    mask = torch.zeros(64, 300)
    mask[3, :250], mask[5] = -math.inf, -math.inf
    masked(*inputs, mask, out)
    _close(out, _expected(*inputs, mask))
    assert out[5].isnan().all()


def test_large_scores_do_not_overflow():
    q, k, v, out = _inputs((), (64, 300, 16, 24))
    q[7] *= 1000
    plain(q, k, v, out)
    _close(out, _expected(q, k, v), 1e-4)


def test_nan_in_a_key_spoils_what_sees_it_as_in_torch():
    q, k, v, out = _inputs((2,), (64, 300, 16, 24))
    k[1, 280, 3] = math.nan
    plain(q, k, v, out)
    _close(out, _expected(q, k, v))
    assert out[1].isnan().all()


def test_masks_that_are_computed_and_a_softmax_that_is_spelled_out():
    *inputs, out = _inputs((2,), (64, 200, 16, 24))
    mask = _random(64, 200, seed=9)
    chosen(*inputs, mask, out)
    _close(out, _expected(*inputs, torch.where(mask >= 0, 0.0, -1e30)))


def test_operands_that_are_transposed():
    q, k, v, out = _inputs((2,), (64, 200, 16, 24))
    turned = [x.transpose(-1, -2).contiguous() for x in (q, k, v)]
    transposed(*turned, out)
    _close(out, _expected(q, k, v))


def test_heads_that_share_keys_and_values():
    q, k, v, out = _inputs((2, 3), (64, 200, 16, 24))
    k, v = k[:, :1].contiguous(), v[:, :1].contiguous()
    plain(q, k, v, out)
    _close(out, _expected(q, k, v))


def test_weights_that_are_returned_too():
    q, k, v, out = _inputs((2,), (64, 200, 16, 24))
    weights = torch.empty(2, 64, 200)
    with_weights(q, k, v, weights, out)
    _close(weights, torch.softmax(q.double() @ k.double().transpose(-1, -2) * 0.25, -1))
    _close(out, _expected(q, k, v))


def test_the_mask_may_be_where_the_result_goes():
    q, k, v, mask = _inputs((), (64, 64, 16, 64))

    @pypto.jit
    def kernel(q, k, v, mask):
        mask[:] = pl.softmax(pl.matmul(q, k, b_trans=True) * 0.25 + mask) @ v

    mask[:] = _random(64, 64, seed=9)
    expected = _expected(q, k, v, mask.double())
    kernel(q, k, v, mask)
    _close(mask, expected)


def test_it_is_one_kernel():
    *inputs, out = _inputs((2,), (64, 200, 16, 24))
    text = plain.lower(*inputs, out)["tensors"]
    assert "create_tensor" not in text
    assert text.count("pypto.parallel") == 1
