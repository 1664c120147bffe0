"""A kernel that submits 1,000 tasks against a Python loop of as many torch operations on the same data."""

from __future__ import annotations

import torch
from rich.console import Console

import pypto_jit as pypto
import pypto_jit.language as pl
from benchmarks.timing import interleaved, table
from pypto_jit import RunConfig

TASKS = 1000
# Microseconds that a task may cost beyond its work.
BUDGET = 2.0


@pypto.jit
def independent(x, y: pl.InOut[pl.Tensor], rows: pl.constexpr):
    """Each task adds another band of rows."""
    columns = x.shape[1]
    for i in pl.range(0, TASKS):
        with pl.at(level=pl.Level.CORE_GROUP):
            a, b = (pl.load(t, [i * rows, 0], [rows, columns]) for t in (x, y))
            pl.store(pl.add(a, b), [i * rows, 0], y)
    return y


@pypto.jit
def chained(x, y: pl.InOut[pl.Tensor], rows: pl.constexpr):
    """All tasks add to the same band, one after the other."""
    columns = x.shape[1]
    for i in pl.range(0, TASKS):
        with pl.at(level=pl.Level.CORE_GROUP):
            a, b = pl.load(x, [i * rows, 0], [rows, columns]), pl.load(y, [0, 0], [rows, columns])
            pl.store(pl.add(a, b), [0, 0], y)
    return y


def cases():
    """Name, our call by its number of threads, and torch's loop."""
    threads = torch.get_num_threads()
    for rows, columns in ((8, 32), (64, 64)):
        x = torch.randn(TASKS * rows, columns)
        for kernel, apart in ((independent, True), (chained, False)):
            out, reference = torch.zeros(TASKS * rows, columns), torch.zeros(TASKS * rows, columns)
            bands = [
                (x[k * rows : (k + 1) * rows], reference[(k if apart else 0) * rows :][:rows]) for k in range(TASKS)
            ]

            def theirs(bands=bands):
                for a, b in bands:
                    torch.add(a, b, out=b)

            calls = {
                f"ours, {count}": lambda kernel=kernel, x=x, out=out, rows=rows, count=count: kernel(
                    x, out, rows, config=RunConfig(threads=count)
                )
                for count in sorted({1, threads})
            }
            yield f"{kernel.__name__}, {rows}x{columns} each", calls, theirs


def main() -> None:
    """Print the table."""
    result = table(
        f"{TASKS} tasks (ratio: torch's time over ours)",
        "tasks",
        "threads",
        "ours, us/task",
        "torch, us/task",
        "ratio",
    )
    with torch.no_grad():
        for name, calls, theirs in cases():
            best = interleaved({**calls, "torch": theirs}, rounds=9)
            for call in calls:
                each = best[call] / TASKS * 1e6
                ratio = best["torch"] / best[call]
                colour = "green" if ratio >= 1 else "red"
                result.add_row(
                    name,
                    call.removeprefix("ours, "),
                    f"{each:.2f}",
                    f"{best['torch'] / TASKS * 1e6:.2f}",
                    f"[{colour}]{ratio:.1f}[/]",
                )
    Console(width=110).print(result)
    print(f"A task of 8x32 is hardly any work: what it costs is overhead, which may be {BUDGET} us.")


if __name__ == "__main__":
    main()
