"""Runs one kernel against an installed wheel."""

import torch

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def add_relu(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    rows, cols = a.shape
    for i in pl.parallel(0, rows, 8):
        box = [pl.min(8, rows - i), cols]
        total = pl.load(a, [i, 0], [8, cols], valid_shape=box) + pl.load(b, [i, 0], [8, cols], valid_shape=box)
        pl.store(pl.relu(total), [i, 0], out)
    return out


a, b = torch.randn(37, 50), torch.randn(37, 50)
out = torch.empty_like(a)
assert add_relu(a, b, out) is out
torch.testing.assert_close(out, torch.relu(a + b))
print("one kernel from the wheel: ok")
