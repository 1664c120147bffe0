"""Two products with an activation between them, on whole tensors: the feed-forward part of a transformer."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def gelu(x: pl.Tensor, up: pl.Tensor, down: pl.Tensor):
    """gelu(x @ up) @ down: x ``[M, D]``, up ``[D, H]``, down ``[H, D]``."""
    return pl.gelu(x @ up) @ down


@pypto.jit
def relu(x: pl.Tensor, up: pl.Tensor, down: pl.Tensor):
    """relu(x @ up) @ down, shapes as in `gelu`."""
    return pl.relu(x @ up) @ down


@pypto.jit
def swiglu(x: pl.Tensor, gate: pl.Tensor, up: pl.Tensor, down: pl.Tensor, out: pl.Out[pl.Tensor]):
    """(silu(x @ gate) * (x @ up)) @ down: x ``[M, D]``, gate and up ``[D, H]``, down ``[H, D]``."""
    out[:] = (pl.silu(x @ gate) * (x @ up)) @ down
    return out
