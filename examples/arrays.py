"""Arrays of scalars on the core: small tables that a kernel indexes with what it read."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def place(src: pl.Tensor, where: pl.Tensor, out: pl.Out[pl.Tensor]):
    """out [N] INT32 is zero but for out[where[0]] = src[0]."""
    count = out.shape[0]
    table = pl.array.create(count, pl.INT32)
    for i in pl.range(count):
        table[i] = 0
    table[pl.read(where, [0])] = pl.read(src, [0])
    for i in pl.range(count):
        pl.write(out, [i], table[i])
    return out


@pypto.jit
def histogram(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """How often each of 0 .. N - 1 is in x [M] INT32; out [N] INT32."""
    count = out.shape[0]
    table = pl.array.create(count, pl.INT32)
    for i in pl.range(count):
        table[i] = 0
    for i in pl.range(x.shape[0]):
        value = pl.read(x, [i])
        table[value] = table[value] + 1
    for i in pl.range(count):
        pl.write(out, [i], table[i])
    return out
