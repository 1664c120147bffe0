"""Tensor-level kernels against torch eager with as many threads; first calls of graphs of many operations."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import torch
from rich.console import Console

import pypto_jit as pypto
import pypto_jit.language as pl
from benchmarks.timing import Case, ratios, table

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
def column_maxima(x, out):
    """Along columns."""
    out[:] = x.max(0)


@pypto.jit
def transpose(x, out):
    """Rows become columns."""
    out[:] = x.T * 2.0


@pypto.jit
def gelu(x, out):
    """One pass."""
    out[:] = pl.gelu(x)


@pypto.jit
def rms_norm(x, weight, out):
    """Along rows."""
    out[:] = pl.rms_norm(x, weight, 1e-6)


@pypto.jit
def argmax(x, out):
    """Along rows."""
    out[:] = pl.argmax(x, axis=-1)


@pypto.jit
def cumsum(x, out):
    """Along rows."""
    out[:] = pl.cumsum(x, -1)


ROWS, COLUMNS = pl.dynamic("ROWS"), pl.dynamic("COLUMNS")


@pypto.jit
def dynamic_softmax(x: pl.Tensor[[ROWS, COLUMNS], pl.FP32], out: pl.Out[pl.Tensor[[ROWS, COLUMNS], pl.FP32]]):
    """Along rows of any length, in pieces."""
    out[:] = pl.softmax(x)


def cases() -> Iterator[Case]:
    """Name, budget (torch's time over ours must reach it), our call, torch's call."""
    for size in (256, 4096):
        x, y, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
        weight, bias, vector = torch.randn(size), torch.randn(size), torch.empty(size)
        places = torch.empty(size, dtype=torch.int32)
        pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "exp(2x + y) * sigmoid(y) - x": (
                lambda x=x, y=y, o=out: chain(x, y, o),
                lambda x=x, y=y: torch.exp(x * 2 + y) * torch.sigmoid(y) - x,
            ),
            "gelu": (lambda x=x, o=out: gelu(x, o), lambda x=x: functional.gelu(x)),
            "softmax": (lambda x=x, o=out: softmax(x, o), lambda x=x: x.softmax(-1)),
            "layer_norm": (
                lambda x=x, w=weight, b=bias, o=out: layer_norm(x, w, b, o),
                lambda x=x, w=weight, b=bias: functional.layer_norm(x, w.shape, w, b),
            ),
            "rms_norm": (
                lambda x=x, w=weight, o=out: rms_norm(x, w, o),
                lambda x=x, w=weight: functional.rms_norm(x, w.shape, w, 1e-6),
            ),
            "row sums": (lambda x=x, o=vector: row_sums(x, o), lambda x=x: x.sum(-1)),
            "column sums": (lambda x=x, o=vector: column_sums(x, o), lambda x=x: x.sum(0)),
            "column maxima": (lambda x=x, o=vector: column_maxima(x, o), lambda x=x: x.amax(0)),
            "argmax of rows": (lambda x=x, o=places: argmax(x, o), lambda x=x: x.argmax(-1)),
            "cumsum of rows": (lambda x=x, o=out: cumsum(x, o), lambda x=x: x.cumsum(-1)),
            "softmax of any extents": (lambda x=x, o=out: dynamic_softmax(x, o), lambda x=x: x.softmax(-1)),
            "x.T * 2": (lambda x=x, o=out: transpose(x, o), lambda x=x: (x.T * 2).contiguous()),
        }
        for name, (ours, theirs) in pairs.items():
            yield f"{name} {size}x{size}", 1.0, ours, theirs


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
    console = Console(width=110)
    with torch.no_grad():
        console.print(ratios("Whole tensors: torch's time over ours", cases(), rounds=9))
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
