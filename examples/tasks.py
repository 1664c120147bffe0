"""Task graphs: a kernel whose parts are submitted as tasks. What they read and write orders them."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl


def whole(x: pl.Tensor) -> pl.Tile:
    """A tensor of a few rows as one tile."""
    return pl.load(x, [0, 0], x.shape)


@pypto.jit
def four_times(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """(x + x) + (x + x), [M, N]: the second task reads what the first one writes, so it runs after it."""
    double = pl.create_tensor(x.shape, dtype=pl.FP32)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="double"):
        t = whole(x)
        pl.store(t + t, [0, 0], double)
    with pl.at(level=pl.Level.CORE_GROUP, name_hint="sum"):
        t = whole(double)
        pl.store(t + t, [0, 0], out)
    return out


@pypto.jit
def four_times_declared(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The same with the dependency declared; a manual scope leaves the order to the author."""
    with pl.manual_scope():
        double = pl.create_tensor(x.shape, dtype=pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="double") as first:
            t = whole(x)
            pl.store(t + t, [0, 0], double)
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="sum", deps=[first]):
            t = whole(double)
            pl.store(t + t, [0, 0], out)
    return out


@pl.jit.incore
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a + b."""
    pl.store(whole(a) + whole(b), [0, 0], out)
    return out


@pl.jit.incore
def mul(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a * b."""
    pl.store(whole(a) * whole(b), [0, 0], out)
    return out


@pl.jit.incore
def shift(x: pl.Tensor, amount: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor]):
    """x + amount."""
    pl.store(whole(x) + amount, [0, 0], out)
    return out


@pypto.jit
def vector_graph(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """(a + b + 1) (a + b + 2) + (a + b), [M, N]: five tasks of three kernels; the two shifts may run side by side."""
    both, one, two, product = (pl.create_tensor(a.shape, dtype=pl.FP32) for _ in range(4))
    add(a, b, both)
    shift(both, 1.0, one)
    shift(both, 2.0, two)
    mul(one, two, product)
    add(product, both, out)
    return out


@pypto.jit
def overwrite_if(x: pl.Tensor, gate: pl.Tensor, out: pl.InOut[pl.Tensor]):
    """out = x where gate [1, 1] INT32 is positive, else out stays: the scheduler asks when the task's turn has come."""
    with pl.spmd(1, predicate=gate[0, 0] > 0, name_hint="overwrite"):
        pl.store(whole(x), [0, 0], out)
    return out


@pypto.jit
def phases(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Row i of out [N, C] is the sum of all rows of x plus twice the rows i and i + 1 (after the last one, the first).

    Three phases of N tasks in a manual scope: those of the second wait for an array of ids, all of the first; those
    of the third for two of the second.
    """
    rows, cols = x.shape
    first, second = (pl.create_tensor([rows, cols], dtype=pl.FP32) for _ in range(2))
    with pl.manual_scope():
        doubled, summed = pl.array.create(rows, pl.TASK_ID), pl.array.create(rows, pl.TASK_ID)
        for i in pl.range(rows):
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="double") as task:
                pl.store(pl.load(x, [i, 0], [1, cols]) * 2.0, [i, 0], first)
            doubled[i] = task
        for i in pl.range(rows):
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="sum", deps=[doubled]) as task:
                pl.store(pl.col_sum(whole(first)) * 0.25 + pl.load(first, [i, 0], [1, cols]), [i, 0], second)
            summed[i] = task
        for i in pl.range(rows):
            following = (i + 1) % rows
            with pl.at(level=pl.Level.CORE_GROUP, name_hint="pair", deps=[summed[i], summed[following]]):
                both = pl.load(second, [i, 0], [1, cols]) + pl.load(second, [following, 0], [1, cols])
                pl.store(both, [i, 0], out)
    return out
