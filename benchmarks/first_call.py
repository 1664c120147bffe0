"""First call of each example in a warm process: where its milliseconds go."""

from __future__ import annotations

import os

from rich.console import Console

from benchmarks.timing import table
from examples.catalog import EXAMPLES

BUDGET = {"add": 60, "attention": 300}


def main() -> None:
    """Print the table. Each example is compiled five times from scratch; the fastest is shown."""
    os.environ["PYPTO_JIT_CACHE"] = "0"
    result = table(
        "First call in a warm process, ms",
        "kernel",
        "trace",
        "passes",
        "assembly",
        "lower to LLVM",
        "LLVM",
        "all",
        "budget",
    )
    EXAMPLES[0].kernel.compile(*EXAMPLES[0].arguments())
    for example in EXAMPLES:
        arguments = example.arguments()
        runs = []
        for _ in range(5):
            example.kernel.cache_clear()
            runs.append(dict(example.kernel.compile(*arguments).timings))
        best = min(runs, key=lambda times: sum(times.values()))
        parts = [best.get(name, 0.0) * 1e3 for name in ("trace", "passes", "assembly", "cpu", "codegen")]
        total, budget = sum(best.values()) * 1e3, BUDGET.get(example.name, 60 if total_small(example) else 300)
        colour = "green" if total <= budget else "red"
        result.add_row(example.name, *(f"{p:.1f}" for p in parts), f"[{colour}]{total:.1f}[/]", str(budget))
    Console(width=110).print(result)


def total_small(example) -> bool:
    """Whether the elementwise budget holds for this example."""
    return example.name in {"add", "add_scale_relu", "silu", "gelu", "swiglu"}


if __name__ == "__main__":
    main()
