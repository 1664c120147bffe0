"""Attention of one new query per sequence over a cache of keys and values in pages.

q is [batch * heads, dim] and the caches k and v are [pages * page, dim] in BF16; the heads of a sequence share one head
of keys and values. Row b of table [batch, most] INT32 lists the pages of sequence b, and lengths [batch] INT32 says how
many keys it has, at least one; out is [batch * heads, dim] FP32. The variants cut the same work into tasks differently.
"""

from __future__ import annotations

import math

import pypto_jit as pypto
import pypto_jit.language as pl

PAGE = 128
LOWEST = -1e30


def ceil_div(a, b):
    """a / b rounded up, of ints known now or when the kernel runs."""
    return (a + b - 1) // b


def page_start(table: pl.Tensor, b, p, page: int):
    """The row of the caches where page p of sequence b starts."""
    return pl.cast(pl.read(table, [b, p]), pl.INDEX) * page


# Six kernels. Each works on one page of one sequence.


@pl.jit.incore
def score(q: pl.Tensor, k: pl.Tensor, row: pl.INDEX, key: pl.INDEX, scores: pl.Out[pl.Tensor]):
    """scores [heads, page] = q[row:] @ k[key:].T."""
    (heads, page), dim = scores.shape, q.shape[1]
    query = pl.load(q, [row, 0], [heads, dim], target_memory=pl.Mem.Mat)
    keys = pl.load(k, [key, 0], [page, dim], target_memory=pl.Mem.Mat)
    pl.store(pl.matmul(query, pl.transpose_view(keys)), [0, 0], scores)
    return scores


@pl.jit.incore
def weigh(
    scores: pl.Tensor,
    count: pl.Scalar[pl.INDEX],
    scale: pl.Scalar[pl.FP32],
    weights: pl.Out[pl.Tensor],
    largest: pl.Out[pl.Tensor],
    total: pl.Out[pl.Tensor],
):
    """exp(scale scores - largest) of the first `count` keys of the page, with the largest [heads, 1] and their sum."""
    t = pl.load(scores, [0, 0], scores.shape, valid_shape=[scores.shape[0], count]) * scale
    above = pl.row_max(t)
    t = pl.exp(pl.row_expand_sub(t, above))
    pl.store(above, [0, 0], largest)
    pl.store(pl.row_sum(t), [0, 0], total)
    pl.store(pl.cast(t, pl.BF16), [0, 0], weights)
    return weights, largest, total


@pl.jit.incore
def mix(
    weights: pl.Tensor, v: pl.Tensor, key: pl.Scalar[pl.INDEX], count: pl.Scalar[pl.INDEX], mixed: pl.Out[pl.Tensor]
):
    """mixed [heads, dim] = weights[:, :count] @ v[key : key + count]."""
    (heads, page), dim = weights.shape, v.shape[1]
    left = pl.load(weights, [0, 0], [heads, page], valid_shape=[heads, count], target_memory=pl.Mem.Mat)
    right = pl.load(v, [key, 0], [page, dim], valid_shape=[count, dim], target_memory=pl.Mem.Mat)
    pl.store(pl.matmul(left, right), [0, 0], mixed)
    return mixed


@pl.jit.incore
def start(
    largest: pl.Tensor,
    total: pl.Tensor,
    mixed: pl.Tensor,
    top: pl.Out[pl.Tensor],
    norm: pl.Out[pl.Tensor],
    acc: pl.Out[pl.Tensor],
):
    """The state after the first page: largest score, sum of weights, and the weighted sum of values."""
    for source, target in ((largest, top), (total, norm), (mixed, acc)):
        pl.store(pl.load(source, [0, 0], source.shape), [0, 0], target)
    return top, norm, acc


@pl.jit.incore
def update(
    largest: pl.Tensor,
    total: pl.Tensor,
    mixed: pl.Tensor,
    top: pl.InOut[pl.Tensor],
    norm: pl.InOut[pl.Tensor],
    acc: pl.InOut[pl.Tensor],
):
    """The state after another page: both sides are brought to the larger maximum, and added."""
    old, new = pl.load(top, [0, 0], top.shape), pl.load(largest, [0, 0], top.shape)
    above = pl.maximum(old, new)
    fade, gain = pl.exp(old - above), pl.exp(new - above)
    sums = pl.load(norm, [0, 0], norm.shape) * fade + pl.load(total, [0, 0], norm.shape) * gain
    before = pl.row_expand_mul(pl.load(acc, [0, 0], acc.shape), fade)
    added = pl.row_expand_mul(pl.load(mixed, [0, 0], acc.shape), gain)
    pl.store(above, [0, 0], top)
    pl.store(sums, [0, 0], norm)
    pl.store(before + added, [0, 0], acc)
    return top, norm, acc


@pl.jit.incore
def finish(norm: pl.Tensor, acc: pl.Tensor, row: pl.Scalar[pl.INDEX], out: pl.Out[pl.Tensor]):
    """out[row:] = acc / norm."""
    pl.store(pl.row_expand_div(pl.load(acc, [0, 0], acc.shape), pl.load(norm, [0, 0], norm.shape)), [row, 0], out)
    return out


def attend(q, k, v, table, lengths, out, heads: int, page: int):
    """The task graph of the two kernels below."""
    dim = q.shape[1]
    scale = 1 / math.sqrt(dim)
    for b in pl.range(pl.dim(table, 0)):
        scores = pl.create_tensor([heads, page], dtype=pl.FP32)
        weights = pl.create_tensor([heads, page], dtype=pl.BF16)
        mixed, acc = (pl.create_tensor([heads, dim], dtype=pl.FP32) for _ in range(2))
        largest, total, top, norm = (pl.create_tensor([heads, 1], dtype=pl.FP32) for _ in range(4))
        length = pl.cast(pl.read(lengths, [b]), pl.INDEX)
        for p in pl.range(ceil_div(length, page)):
            key = page_start(table, b, p, page)
            count = pl.min(page, length - p * page)
            score(q, k, b * heads, key, scores)
            weigh(scores, count, scale, weights, largest, total)
            mix(weights, v, key, count, mixed)
            if p == 0:
                start(largest, total, mixed, top, norm, acc)
            else:
                update(largest, total, mixed, top, norm, acc)
        finish(norm, acc, b * heads, out)
    return out


@pypto.jit
def paged_attention(
    q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, table: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]
):
    """Four tasks for each page of each sequence."""
    return attend(q, k, v, table, lengths, out, q.shape[0] // table.shape[0], PAGE)


BATCH, ROWS, KEYS, MOST = (pl.dynamic(name) for name in ("BATCH", "ROWS", "KEYS", "MOST"))
HEADS = 16


@pypto.jit
def paged_attention_dynamic(
    q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, table: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]
):
    """The same, compiled once for every batch, cache and table; 16 heads."""
    for tensor, rows in ((q, ROWS), (out, ROWS), (k, KEYS), (v, KEYS), (table, BATCH), (lengths, BATCH)):
        tensor.bind_dynamic(0, rows)
    table.bind_dynamic(1, MOST)
    return attend(q, k, v, table, lengths, out, HEADS, PAGE)


@pypto.jit
def paged_attention_batched(
    q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, table: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]
):
    """Four tasks for each page index: the loop over the sequences is inside of the kernels.

    A sequence that ends before the page keeps its state; keys behind its end are outside of the valid shapes.
    """
    (batch, most), dim = table.shape, q.shape[1]
    heads = q.shape[0] // batch
    rows = batch * heads
    scores = pl.create_tensor([rows, PAGE], dtype=pl.FP32)
    weights = pl.create_tensor([rows, PAGE], dtype=pl.BF16)
    mixed, acc = (pl.create_tensor([rows, dim], dtype=pl.FP32) for _ in range(2))
    top, norm, fade = (pl.create_tensor([rows, 1], dtype=pl.FP32) for _ in range(3))

    with pl.at(level=pl.Level.CORE_GROUP, name_hint="clear"):
        for row in pl.range(0, rows, heads):
            for target, value in ((top, LOWEST), (norm, 0.0), (acc, 0.0)):
                pl.store(pl.full([heads, target.shape[1]], pl.FP32, value), [row, 0], target)

    for p in pl.range(most):
        with pl.at(level=pl.Level.CORE_GROUP, name_hint="score"):
            for b in pl.range(batch):
                if pl.read(lengths, [b]) > p * PAGE:
                    query = pl.load(q, [b * heads, 0], [heads, dim], target_memory=pl.Mem.Mat)
                    key = page_start(table, b, p, PAGE)
                    keys = pl.load(k, [key, 0], [PAGE, dim], target_memory=pl.Mem.Mat)
                    pl.store(pl.matmul(query, pl.transpose_view(keys)), [b * heads, 0], scores)

        with pl.at(level=pl.Level.CORE_GROUP, name_hint="weigh"):
            for b in pl.range(batch):
                count = pl.min(PAGE, pl.cast(pl.read(lengths, [b]), pl.INDEX) - p * PAGE)
                if count > 0:
                    at = [b * heads, 0]
                    t = pl.load(scores, at, [heads, PAGE], valid_shape=[heads, count]) * (1 / math.sqrt(dim))
                    old, sums = pl.load(top, at, [heads, 1]), pl.load(norm, at, [heads, 1])
                    above = pl.maximum(old, pl.row_max(t))
                    t = pl.exp(pl.row_expand_sub(t, above))
                    rescale = pl.exp(old - above)
                    pl.store(above, at, top)
                    pl.store(rescale, at, fade)
                    pl.store(sums * rescale + pl.row_sum(t), at, norm)
                    pl.store(pl.cast(t, pl.BF16), at, weights)

        with pl.at(level=pl.Level.CORE_GROUP, name_hint="mix"):
            for b in pl.range(batch):
                count = pl.min(PAGE, pl.cast(pl.read(lengths, [b]), pl.INDEX) - p * PAGE)
                if count > 0:
                    shape, valid = [heads, PAGE], [heads, count]
                    left = pl.load(weights, [b * heads, 0], shape, valid_shape=valid, target_memory=pl.Mem.Mat)
                    at, shape, valid = [page_start(table, b, p, PAGE), 0], [PAGE, dim], [count, dim]
                    right = pl.load(v, at, shape, valid_shape=valid, target_memory=pl.Mem.Mat)
                    pl.store(pl.matmul(left, right), [b * heads, 0], mixed)

        with pl.at(level=pl.Level.CORE_GROUP, name_hint="update"):
            for b in pl.range(batch):
                if pl.read(lengths, [b]) > p * PAGE:
                    at = [b * heads, 0]
                    before = pl.row_expand_mul(pl.load(acc, at, [heads, dim]), pl.load(fade, at, [heads, 1]))
                    pl.store(before + pl.load(mixed, at, [heads, dim]), at, acc)

    with pl.at(level=pl.Level.CORE_GROUP, name_hint="finish"):
        for row in pl.range(0, rows, heads):
            result = pl.row_expand_div(pl.load(acc, [row, 0], [heads, dim]), pl.load(norm, [row, 0], [heads, 1]))
            pl.store(result, [row, 0], out)
    return out


def paged_attention_grouped(page: int = 64, group: int = 64):
    """A kernel that takes `group` pages of `page` keys at a time: tasks are few and long."""

    @pypto.jit
    def kernel(q: pl.Tensor, k: pl.Tensor, v: pl.Tensor, table: pl.Tensor, lengths: pl.Tensor, out: pl.Out[pl.Tensor]):
        """Softmax in two passes over a group, and one product of all its weights and values, split over the pages."""
        batch, dim = table.shape[0], q.shape[1]
        heads = q.shape[0] // batch
        for b in pl.parallel(batch):
            scores = pl.create_tensor([heads, group * page], dtype=pl.FP32)
            weights = pl.create_tensor([heads, group * page], dtype=pl.BF16)
            mixed, acc = (pl.create_tensor([heads, dim], dtype=pl.FP32) for _ in range(2))
            largest, total, top, norm = (pl.create_tensor([heads, 1], dtype=pl.FP32) for _ in range(4))
            length = pl.cast(pl.read(lengths, [b]), pl.INDEX)
            for first in pl.range(0, length, group * page):
                count = pl.min(group * page, length - first)

                with pl.at(level=pl.Level.CORE_GROUP, name_hint="score"):
                    query = pl.load(q, [b * heads, 0], [heads, dim], target_memory=pl.Mem.Mat)
                    for j in pl.range(0, count, page):
                        key = page_start(table, b, (first + j) // page, page)
                        keys = pl.load(k, [key, 0], [page, dim], target_memory=pl.Mem.Mat)
                        pl.store(pl.matmul(query, pl.transpose_view(keys)), [0, j], scores)

                with pl.at(level=pl.Level.CORE_GROUP, name_hint="weigh"):
                    scale = 1 / math.sqrt(dim)
                    above = pl.full([heads, 1], pl.FP32, LOWEST)
                    for j in pl.range(0, count, page):
                        valid = [heads, pl.min(page, count - j)]
                        t = pl.load(scores, [0, j], [heads, page], valid_shape=valid) * scale
                        above = pl.maximum(above, pl.row_max(t))
                    sums = pl.full([heads, 1], pl.FP32, 0.0)
                    for j in pl.range(0, count, page):
                        valid = [heads, pl.min(page, count - j)]
                        t = pl.load(scores, [0, j], [heads, page], valid_shape=valid) * scale
                        t = pl.exp(pl.row_expand_sub(t, above))
                        sums = sums + pl.row_sum(t)
                        pl.store(pl.cast(t, pl.BF16), [0, j], weights)
                    pl.store(above, [0, 0], largest)
                    pl.store(sums, [0, 0], total)

                with pl.at(level=pl.Level.CORE_GROUP, name_hint="mix"):

                    def operands(j, b=b, first=first, count=count, weights=weights):
                        n = pl.min(page, count - j)
                        left = pl.load(weights, [0, j], [heads, page], valid_shape=[heads, n], target_memory=pl.Mem.Mat)
                        at = [page_start(table, b, (first + j) // page, page), 0]
                        return left, pl.load(v, at, [page, dim], valid_shape=[n, dim], target_memory=pl.Mem.Mat)

                    product = pl.matmul(*operands(0))
                    for j in pl.range(page, count, page):
                        product = pl.matmul_acc(product, *operands(j))
                    pl.store(product, [0, 0], mixed)

                if first == 0:
                    start(largest, total, mixed, top, norm, acc)
                else:
                    update(largest, total, mixed, top, norm, acc)
            finish(norm, acc, b * heads, out)
        return out

    return kernel
