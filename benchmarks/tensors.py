"""Tensor-level kernels against torch eager with as many threads; first calls of graphs of many operations."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import torch
from rich.console import Console

import pypto_jit as pypto
import pypto_jit.language as pl
from benchmarks.timing import interleaved, table

Case = tuple[str, Callable[[], object], Callable[[], object]]
functional = torch.nn.functional


@pypto.jit
def chain(x, y, out):
    """Elementwise work that torch does in eight passes."""
    out[:] = pl.exp(x * 2.0 + y) * pl.sigmoid(y) - x


@pypto.jit
def softmax(x, out):
    """Along rows."""
    out[:] = pl.softmax(x)


@pypto.jit
def layer_norm(x, weight, bias, out):
    """Along rows."""
    out[:] = pl.layer_norm(x, weight, bias)


@pypto.jit
def row_sums(x, out):
    """Along rows."""
    out[:] = x.sum(-1)


@pypto.jit
def column_sums(x, out):
    """Along columns."""
    out[:] = x.sum(0)


@pypto.jit
def transpose(x, out):
    """Rows become columns."""
    out[:] = x.T * 2.0


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
    """Scores in memory."""
    out[:] = pl.softmax(pl.matmul(q, k, b_trans=True) * 0.125) @ v


def cases() -> Iterator[Case]:
    """Name, our call, torch's call."""
    for size in (256, 4096):
        x, y, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
        weight, bias, vector = torch.randn(size), torch.randn(size), torch.empty(size)
        name = f"{size}x{size}"
        yield (
            f"exp(2x + y) * sigmoid(y) - x {name}",
            lambda x=x, y=y, o=out: chain(x, y, o),
            lambda x=x, y=y: torch.exp(x * 2 + y) * torch.sigmoid(y) - x,
        )
        yield f"softmax {name}", lambda x=x, o=out: softmax(x, o), lambda x=x: x.softmax(-1)
        yield (
            f"layer_norm {name}",
            lambda x=x, w=weight, b=bias, o=out: layer_norm(x, w, b, o),
            lambda x=x, w=weight, b=bias: functional.layer_norm(x, w.shape, w, b),
        )
        yield f"row sums {name}", lambda x=x, o=vector: row_sums(x, o), lambda x=x: x.sum(-1)
        yield f"column sums {name}", lambda x=x, o=vector: column_sums(x, o), lambda x=x: x.sum(0)
        yield f"x.T * 2 {name}", lambda x=x, o=out: transpose(x, o), lambda x=x: (x.T * 2).contiguous()
    x, w, b, out = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.randn(1024), torch.empty(1024, 1024)
    yield "gelu(x @ w + b) 1024^3", lambda: linear(x, w, b, out), lambda: functional.gelu(torch.addmm(b, x, w))
    yield "gelu(x @ a) @ b 1024^3", lambda: feed_forward(x, w, w, out), lambda: functional.gelu(x @ w) @ w
    q, k, v = (torch.randn(8, 512, 64) for _ in range(3))
    o = torch.empty(8, 512, 64)
    yield (
        "attention 8 x 512 x 512, head 64",
        lambda: attention(q, k, v, o),
        lambda: functional.scaled_dot_product_attention(q, k, v),
    )


def _long_chain(count: int) -> Callable[[torch.Tensor, torch.Tensor], object]:
    @pypto.jit
    def kernel(x, out):
        value = x
        for k in range(count // 2):
            value = value * (1.0 + k / count) + x
        out[:] = value

    return kernel


def main() -> None:
    """Print the tables."""
    os.environ["PYPTO_JIT_CACHE"] = "0"
    console = Console()
    result = table("Tensor level: torch's time over ours (more is better)", "kernel", "ours ms", "torch ms", "ratio")
    with torch.no_grad():
        for name, ours, theirs in cases():
            best = interleaved({"ours": ours, "torch": theirs}, rounds=9)
            result.add_row(
                name,
                f"{best['ours'] * 1e3:.3f}",
                f"{best['torch'] * 1e3:.3f}",
                f"{best['torch'] / best['ours']:.2f}x",
            )
    console.print(result)
    firsts = table("First call of a graph of elementwise operations", "operations", "ms", "us per operation")
    x = torch.randn(64, 64)
    for count in (10, 50, 200):
        kernel, out = _long_chain(count), torch.empty(64, 64)
        start = time.perf_counter()
        kernel(x, out)
        seconds = time.perf_counter() - start
        firsts.add_row(str(count), f"{seconds * 1e3:.0f}", f"{seconds / count * 1e6:.0f}")
    console.print(firsts)


if __name__ == "__main__":
    main()
