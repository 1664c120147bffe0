"""Runs every example on real tensors, checks it against torch, and shows what a kernel becomes.

python -m examples.demo [--pto-dir DIR] [NAME ...]
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import tempfile
import time
from pathlib import Path

import torch
from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table

import pypto_jit
from examples.catalog import EXAMPLES, Example

SHOWN = "softmax"


def microseconds_per_call(call, seconds: float = 0.15) -> float:
    """Best of several batches, in microseconds."""
    call()
    best, batch, end = float("inf"), 1, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(batch):
            call()
        elapsed = time.perf_counter() - start
        best = min(best, elapsed / batch)
        batch = batch * 2 if elapsed < 0.01 else batch
    return best * 1e6


def run(example: Example, folder: Path) -> tuple[list[str], bool]:
    """Compile, check and time one example; the row of the table, and whether it is right."""
    arguments = example.arguments()
    inputs = example.given(arguments)
    program = example.kernel.compile(*arguments)
    with torch.no_grad():
        found = example.kernel(*arguments)
        error = (found.double() - example.expected(arguments).double()).abs().max().item()
        ours = microseconds_per_call(lambda: example.kernel(*arguments))
        theirs = microseconds_per_call(lambda: example.reference(*inputs))
    right = error <= example.tolerance
    times = program.timings
    path = folder / f"{example.name.replace(' ', '_')}.pto"
    if program.assembly is None:
        where = "on the CPU only"
    else:
        path.write_text(program.pto)
        where = path.name
    shapes = " ".join("x".join(map(str, t.shape)) for t in inputs)
    row = [
        example.name,
        f"{shapes} {str(inputs[0].dtype).removeprefix('torch.')}",
        f"[{'green' if right else 'bold red'}]{error:.1e}[/]",
        f"{times['trace'] * 1e3:.0f} + {times['passes'] * 1e3:.0f} + {times['codegen'] * 1e3:.0f}",
        f"{ours:,.1f}",
        f"{theirs:,.1f}",
        where,
    ]
    return row, right


def readable(assembly: str) -> str:
    """Assembly for the eye: without locations and comments, and types in ptoas's short spelling."""
    plain = re.sub(r" loc\(.*?\)| // .*", "", assembly)
    tile = (
        r"!pto\.tile_buf<loc=(\w+), dtype=(\w+), rows=(\d+), cols=(\d+), v_row=([\d?]+), v_col=([\d?]+), "
        r"blayout=row_major, slayout=none_box, fractal=512, pad=0>"
    )

    def short(m: re.Match[str]) -> str:
        valid = "" if m.group(3, 4) == m.group(5, 6) else f", valid={m[5]}x{m[6]}"
        return f"!pto.tile_buf<{m[1]}, {m[3]}x{m[4]}x{m[2]}{valid}>"

    return re.sub(tile, short, plain)


def show(console: Console, example: Example) -> None:
    """One kernel's Python beside its PTO assembly."""
    program = example.kernel.compile(*example.arguments())
    source = inspect.getsource(inspect.unwrap(example.kernel))
    assembly = readable(program.assembly or "")
    width = max(40, console.width // 2 - 2)
    console.print(
        Columns(
            [
                Panel(Syntax(source, "python", word_wrap=True), title=f"{example.name} in Python", width=width),
                Panel(Syntax(assembly, "llvm", word_wrap=True), title="the same in PTO assembly", width=width),
            ]
        )
    )


def main() -> int:
    """Entry point; the exit status says whether every example agreed with torch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="examples to run (all)")
    parser.add_argument("--pto-dir", type=Path, help="where to put the .pto files (a new temporary folder)")
    arguments = parser.parse_args()
    # The times shown are those of compiling, also the second time.
    os.environ["PYPTO_JIT_CACHE"] = "0"
    folder = arguments.pto_dir or Path(tempfile.mkdtemp(prefix="pypto-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    chosen = [e for e in EXAMPLES if not arguments.names or e.name in arguments.names]
    if not chosen:
        parser.error("no such example; there are: " + ", ".join(e.name for e in EXAMPLES))

    table = Table(
        title=f"pypto-jit {pypto_jit.__version__}: example kernels on the CPU, {torch.get_num_threads()} threads",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("kernel", style="cyan", no_wrap=True)
    table.add_column("inputs")
    for heading in ("max error", "first call, ms\ntrace + passes + code", "us per call", "torch, us"):
        table.add_column(heading, justify="right")
    table.add_column("assembly")
    results = []
    for example in chosen:
        row, right = run(example, folder)
        table.add_row(*row)
        results.append(right)
    console.print(table)
    console.print(f"The assembly is in {folder}\n")
    shown = next((e for e in chosen if e.name == SHOWN), chosen[0])
    show(console, shown)
    if not all(results):
        console.print("[bold red]Some results are outside of their tolerance.")
    return 0 if all(results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
