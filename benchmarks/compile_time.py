"""Compile time against the number of traced operations: tiles in a straight line, and in a loop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import torch
from rich.console import Console

import pypto_jit as pypto
import pypto_jit.language as pl
from benchmarks.timing import table

COUNTS = (10, 100, 1_000, 10_000)


def straight(count: int) -> Callable[..., object]:
    """Stores every hundredth tile of a chain, so that no group of operations grows beyond bounds."""

    @pypto.jit
    def kernel(x, out):
        tile = pl.load(x, [0, 0], [8, 64])
        for k in range(count):
            tile = tile * 1.0001 if k % 2 else tile + 0.5
            if k % 100 == 99 or k == count - 1:
                pl.store(tile, [0, 0], out)

    return kernel


def main() -> None:
    """Print the table."""
    os.environ["PYPTO_JIT_CACHE"] = "0"
    result = table("Compile time of a chain of tile operations", "operations", "ms", "us per operation", "codegen, ms")
    x, out = torch.zeros(8, 64), torch.zeros(8, 64)
    straight(10)(x, out)
    for count in COUNTS:
        kernel = straight(count)
        start = time.perf_counter()
        program = kernel.compile(x, out, config=pypto.RunConfig())
        seconds = time.perf_counter() - start
        result.add_row(
            f"{count:,}",
            f"{seconds * 1e3:,.0f}",
            f"{seconds / count * 1e6:,.0f}",
            f"{program.timings.get('codegen', 0.0) * 1e3:,.0f}",
        )
    Console(width=110).print(result)


if __name__ == "__main__":
    main()
