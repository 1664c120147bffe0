"""Matrix products of whole tensors against torch eager: products, attention, and a llama decoder layer."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

import torch
from rich.console import Console

import pypto_jit as pypto
import pypto_jit.language as pl
from benchmarks.timing import Case, ratios
from examples import llama

functional = torch.nn.functional
HEADS, GROUPS = 4, 2


@pypto.jit
def product(a, b, out):
    """Of any dtypes."""
    out[:] = pl.matmul(a, b)


@pypto.jit
def transposed_product(a, b, out):
    """As torch's linear layers keep their weights."""
    out[:] = pl.matmul(a, b, b_trans=True)


@pypto.jit
def linear(x, w, b, out):
    """A product with what follows it."""
    out[:] = pl.gelu(x @ w + b)


@pypto.jit
def feed_forward(x, a, b, out):
    """Two products."""
    out[:] = pl.gelu(x @ a) @ b


@pypto.jit
def attention(q, k, v, out):
    """All positions see all."""
    out[:] = pl.softmax(pl.matmul(q, k, b_trans=True) * 0.125) @ v


@pypto.jit
def causal_attention(q, k, v, out):
    """A position sees itself and those before it."""
    seen = pl.arange(0, k.shape[-2]) <= pl.arange(0, q.shape[-2])[:, None]
    scores = pl.where(seen, pl.matmul(q, k, b_trans=True) * 0.125, -math.inf)
    out[:] = pl.softmax(scores) @ v


@pypto.jit
def masked_attention(q, k, v, mask, out):
    """A mask is added to the scores."""
    out[:] = pl.softmax(pl.matmul(q, k, b_trans=True) * 0.125 + mask) @ v


def cases() -> Iterator[Case]:
    """Name, budget (torch's time over ours must reach it), our call, torch's call."""
    yield from _products()
    yield from _attentions()
    for rows in (1, 128):
        generator = torch.Generator().manual_seed(0)
        inputs, out = llama.inputs(generator, rows, 1024, 2816, GROUPS), torch.empty(rows, 1024)
        yield (
            f"decoder layer, width 1024, hidden 2816, seq {rows}",
            1.0,
            lambda inputs=inputs, out=out: llama.decoder_layer(*inputs, out),
            lambda inputs=inputs: llama.in_torch(*inputs),
        )


def _products() -> Iterator[Case]:
    for size in (256, 1024):
        for dtype, budget in ((torch.float32, 0.8), (torch.bfloat16, 1.0), (torch.float16, 1.0)):
            a, b, out = (torch.randn(size, size).to(dtype) for _ in range(3))
            yield (
                f"{size}^3 {str(dtype).removeprefix('torch.')}",
                budget,
                lambda a=a, b=b, out=out: product(a, b, out),
                lambda a=a, b=b, out=out: torch.matmul(a, b, out=out),
            )
        a, b = (torch.randint(-128, 128, (size, size), dtype=torch.int8) for _ in range(2))
        out = torch.empty(size, size, dtype=torch.int32)
        yield (
            f"{size}^3 int8",
            1.0,
            lambda a=a, b=b, out=out: product(a, b, out),
            lambda a=a, b=b, out=out: torch._int_mm(a, b, out=out),
        )
    for dtype in (torch.float32, torch.bfloat16):
        x, w, out = (torch.randn(shape).to(dtype) for shape in ((1, 4096), (4096, 4096), (1, 4096)))
        name = f"1 x 4096 x 4096 {str(dtype).removeprefix('torch.')}"
        yield name, 1.0, lambda x=x, w=w, o=out: product(x, w, o), lambda x=x, w=w, o=out: torch.matmul(x, w, out=o)
        turned = w.T.contiguous()
        yield (
            "    transposed",
            1.0,
            lambda x=x, w=turned, o=out: transposed_product(x, w, o),
            lambda x=x, w=turned: functional.linear(x, w),
        )
    for size in (256, 1024):
        x, w, b, out = torch.randn(size, size), torch.randn(size, size), torch.randn(size), torch.empty(size, size)
        yield (
            f"gelu(x @ w + b) {size}^3",
            1.0,
            lambda x=x, w=w, b=b, out=out: linear(x, w, b, out),
            lambda x=x, w=w, b=b: functional.gelu(torch.addmm(b, x, w)),
        )
        yield (
            f"gelu(x @ a) @ b {size}^3",
            1.0,
            lambda x=x, w=w, out=out: feed_forward(x, w, w, out),
            lambda x=x, w=w: functional.gelu(x @ w) @ w,
        )


def _attentions() -> Iterator[Case]:
    scaled = functional.scaled_dot_product_attention
    for rows in (128, 512, 2048):
        q, k, v, out = (torch.randn(8, rows, 64) for _ in range(4))
        mask = torch.full((rows, rows), -math.inf).triu(1)
        yield (
            f"attention 8 x {rows} x {rows}, head 64",
            1.0,
            lambda q=q, k=k, v=v, out=out: attention(q, k, v, out),
            lambda q=q, k=k, v=v: scaled(q[None], k[None], v[None]),
        )
        yield (
            "    causal",
            1.0,
            lambda q=q, k=k, v=v, out=out: causal_attention(q, k, v, out),
            lambda q=q, k=k, v=v: scaled(q[None], k[None], v[None], is_causal=True),
        )
        yield (
            "    any mask",
            1.0,
            lambda q=q, k=k, v=v, mask=mask, out=out: masked_attention(q, k, v, mask, out),
            lambda q=q, k=k, v=v, mask=mask: scaled(q[None], k[None], v[None], attn_mask=mask),
        )


def main() -> None:
    """Print the table."""
    os.environ["PYPTO_JIT_CACHE"] = "0"
    with torch.no_grad():
        Console(width=110).print(ratios("Products of whole tensors: torch's time over ours", cases(), rounds=9))


if __name__ == "__main__":
    main()
