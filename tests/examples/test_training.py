"""A kernel that is compiled once and then called in a loop on the same tensors."""

from __future__ import annotations

import pytest
import torch

from examples import training
from tests.workloads import blank, check


def problem():
    generator = torch.Generator().manual_seed(5)
    x, w = torch.randn(64, 32, generator=generator), torch.randn(32, 16, generator=generator)
    return x, x @ w


def test_a_step_is_that_of_autograd():
    x, target = problem()
    w = torch.randn(32, 16, generator=torch.Generator().manual_seed(6))
    wide = w.double().requires_grad_()
    loss = ((x.double() @ wide - target.double()) ** 2).sum() / 64
    loss.backward()
    right = (w.double() - training.RATE * wide.grad).float()

    got, got_loss = w.clone(), torch.empty(1, 1)
    training.step(x, target, got, got_loss)
    torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-4)
    assert got_loss.item() == pytest.approx(loss.item(), rel=1e-4)


def test_a_step_has_assembly_and_runs_interpreted():
    x, target = problem()
    loss = (target.double() ** 2).sum() / 64
    # From weights of zero the loss is that of predicting zero.
    check(training.step, [x, target, torch.zeros(32, 16), blank(1, 1)], {3: loss.float().reshape(1, 1)}, 1e-4)


def test_training_finds_the_weights_with_one_compile():
    x, target = problem()
    training.step.cache_clear()
    w, losses = training.train(x, target, 300)
    assert training.step.cache_info().misses == 1
    assert losses[-1] < 1e-6 * losses[0]
    torch.testing.assert_close(x @ w, target, rtol=1e-2, atol=1e-2)
