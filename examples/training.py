"""A training loop whose step is a kernel: compiled once, called many times on tensors that stay where they are."""

from __future__ import annotations

import torch

import pypto_jit as pypto
import pypto_jit.language as pl

RATE = 0.1


@pypto.jit
def step(x: pl.Tensor, target: pl.Tensor, w: pl.InOut[pl.Tensor], loss: pl.Out[pl.Tensor]):
    """One step of gradient descent of sum((x @ w - target)^2) / N: x [N, K], target [N, L], w [K, L], loss [1, 1]."""
    rows, depth = x.shape
    cols = w.shape[1]
    samples = pl.load(x, [0, 0], [rows, depth], target_memory=pl.Mem.Mat)
    weights = pl.load(w, [0, 0], [depth, cols], target_memory=pl.Mem.Mat)
    error = pl.matmul(samples, weights) - pl.load(target, [0, 0], [rows, cols])
    gradient = pl.matmul(pl.transpose_view(samples), error)
    pl.store(pl.load(w, [0, 0], [depth, cols]) - gradient * (2 * RATE / rows), [0, 0], w)
    pl.store(pl.col_sum(pl.row_sum(error * error)) * (1.0 / rows), [0, 0], loss)
    return loss


def train(x: torch.Tensor, target: torch.Tensor, steps: int) -> tuple[torch.Tensor, list[float]]:
    """The weights after `steps` steps from zero, and the loss before each."""
    w, loss = torch.zeros(x.shape[1], target.shape[1]), torch.empty(1, 1)
    program = step.compile(x, target, w, loss)  # shapes only: nothing runs yet
    losses = []
    for _ in range(steps):
        program(x, target, w, loss)
        losses.append(loss.item())
    return w, losses
