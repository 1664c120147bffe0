"""Loops and branches over values that are known when the kernel runs."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def add_times(x: pl.Tensor, y: pl.Tensor, times: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    """x + times y, [M, N], by adding: the loop carries the sum."""
    rows, cols = x.shape
    total, step = pl.load(x, [0, 0], [rows, cols]), pl.load(y, [0, 0], [rows, cols])
    for _ in pl.range(times):
        total = total + step
    pl.store(total, [0, 0], out)
    return out


@pypto.jit
def power(x: pl.Tensor, exponent: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    """x ** exponent, [M, N]: the same loop with the carried value spelled out."""
    rows, cols = x.shape
    t = pl.load(x, [0, 0], [rows, cols])
    for _, (result,) in pl.range(exponent, init_values=(pl.full([rows, cols], pl.FP32, 1.0),)):
        result = pl.yield_(result * t)
    pl.store(result, [0, 0], out)
    return out


@pypto.jit
def scale_rows(x: pl.Tensor, codes: pl.Tensor, out: pl.Out[pl.Tensor]):
    """Row i of x [M, N] by codes[i] INT32: 0 zero, 1 copy, 2 double; any other code: positive half, negative negate."""
    rows, cols = x.shape
    for i in pl.range(rows):
        t = pl.load(x, [i, 0], [1, cols])
        code = pl.read(codes, [i])
        if code == 0:
            t = t * 0.0
        elif code == 1:
            t = t * 1.0
        elif code == 2:
            t = t + t
        else:
            if code > 0:
                t = t * 0.5
            else:
                t = -t
        pl.store(t, [i, 0], out)
    return out


@pypto.jit
def halve_until(x: pl.Tensor, limit: pl.Scalar[pl.FP32], out: pl.Out[pl.Tensor]):
    """x [1, N] halved until its first element is at most `limit`."""
    cols = x.shape[1]
    t = pl.load(x, [0, 0], [1, cols])
    size = pl.read(x, [0, 0])
    while size > limit:
        t = t * 0.5
        size = size * 0.5
    pl.store(t, [0, 0], out)
    return out


@pypto.jit
def sum_before(x: pl.Tensor, marks: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The sum [1, N] of the rows of x [M, N] up to the first of mark 2, without those of mark 1; marks [M] INT32."""
    rows, cols = x.shape
    total = pl.full([1, cols], pl.FP32, 0.0)
    for i in pl.range(rows):
        mark = pl.read(marks, [i])
        if mark == 1:
            continue
        if mark == 2:
            break
        total = total + pl.load(x, [i, 0], [1, cols])
    pl.store(total, [0, 0], out)
    return out


@pypto.jit
def collatz(start: pl.Tensor, out: pl.Out[pl.Tensor]):
    """How many steps of n -> n / 2 (even), 3 n + 1 (odd) lead each start [M] INT32 to 1; out [M] INT32."""
    for i in pl.range(start.shape[0]):
        n = pl.read(start, [i])
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps = steps + 1
        pl.write(out, [i], pl.cast(steps, pl.INT32))
    return out
