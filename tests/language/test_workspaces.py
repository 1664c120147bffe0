"""Workspaces of tensor-level kernels: taken over where that orders nothing anew, and never too early."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl


def _random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) / 4


def _workspaces(kernel, *args):
    return kernel.lower(*args)["tensors"].count('"pypto.create_tensor"')


@pypto.jit
def twenty(x: pl.Tensor, w: pl.Tensor):
    for _ in range(20):
        x = x @ w
    return x


@pypto.jit
def of_several_shapes(x: pl.Tensor, w: pl.Tensor, v: pl.Tensor):
    a = pl.relu(x @ w) @ v
    b = (a @ v.T) @ w.T
    c = pl.softmax(b @ x.T) @ x
    return c + b, a


@pypto.jit
def side_by_side(x: pl.Tensor, w: pl.Tensor):
    a, b, c = x @ w, x @ (w * 2.0), x @ (w * 3.0)
    return (a @ w) + (b @ w) + (c @ w)


@pypto.jit
def needed_at_the_end(x: pl.Tensor, w: pl.Tensor):
    first = x @ w
    y = first
    for _ in range(6):
        y = y @ w
    return y + first @ w


@pypto.jit
def viewed(x: pl.Tensor, w: pl.Tensor):
    first = x @ w
    y = first[:, :40]
    for _ in range(4):
        y = y @ w[:40, :40]
    return y + first[:, :40]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_chain_takes_two_workspaces(threads):
    x, w = _random(64, 96), torch.linalg.qr(_random(96, 96))[0].contiguous()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = twenty(x, w)
    finally:
        torch.set_num_threads(before)
    expected = x.double() @ torch.linalg.matrix_power(w.double(), 20)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)
    assert _workspaces(twenty, x, w) == 2


def test_an_explanation_says_whose_workspace_it_is():
    text = str(twenty.explain(_random(64, 96), _random(96, 96)))
    assert text.startswith("'twenty' on a2a3: 20 kernels, 2 workspaces (48 KiB)\n")
    assert "  result in the workspace of twenty_0 (24 KiB): a matrix product takes it from memory" in text


def test_a_smaller_result_takes_a_part():
    x, w, v = _random(64, 96), _random(96, 96, seed=1), _random(96, 32, seed=2)
    found = of_several_shapes(x, w, v)
    x, w, v = x.double(), w.double(), v.double()
    a = torch.relu(x @ w) @ v
    b = (a @ v.T) @ w.T
    expected = torch.softmax(b @ x.T, -1) @ x + b
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found[1].double(), a, rtol=1e-4, atol=1e-4)
    assert _workspaces(of_several_shapes, x.float(), w.float(), v.float()) == 3


@pytest.mark.parametrize("kernel", [side_by_side, needed_at_the_end, viewed])
def test_what_is_still_needed_stays(kernel):
    x, w = _random(48, 80), _random(80, 80, seed=1)
    found, expected = kernel(x, w), kernel.__wrapped__(x.double(), w.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-2)
