"""Softmax of scores of which only a prefix is valid; how long it is is known when the kernel runs."""

from __future__ import annotations

import pypto_jit as pypto
import pypto_jit.language as pl

BLOCK = 64


def masked_softmax(scores: pl.Tensor, column, width: int, valid) -> pl.Tile:
    """Softmax of `valid` columns from `column` on, in a tile of `width` columns; the others become zero."""
    rows = scores.shape[0]
    t = pl.load(scores, [0, column], [rows, width], valid_shape=[rows, valid])
    # The least number in the columns behind the prefix: exp makes zero of it, and no sum notices.
    t = pl.fillpad(t, pad_value=pl.PadValue.min)
    weights = pl.exp(pl.row_expand_sub(t, pl.row_max(t)))
    return pl.row_expand_div(weights, pl.row_sum(weights))


@pypto.jit
def softmax_prefix(scores: pl.Tensor, length: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    """Softmax of the first `length` columns of scores [M, N], zero in the others: the length is an argument."""
    pl.store(masked_softmax(scores, 0, scores.shape[1], length), [0, 0], out)
    return out


@pypto.jit
def softmax_configured(scores: pl.Tensor, state: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The same with the length in memory: state [2] INT32 says whether the block is the last one, and its length."""
    cols = scores.shape[1]
    is_last = pl.read(state, [0])
    if is_last > 0:
        length = pl.cast(pl.read(state, [1]), pl.INDEX)
    else:
        length = cols
    pl.store(masked_softmax(scores, 0, cols, length), [0, 0], out)
    return out


@pypto.jit
def softmax_blocks(scores: pl.Tensor, length: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    """Softmax of each block of 64 columns among the first `length` of scores [M, N]; the last block may be ragged."""
    for j in pl.range(0, length, BLOCK):
        pl.store(masked_softmax(scores, j, BLOCK, pl.min(BLOCK, length - j)), [0, j], out)
    return out
