"""Interleaved timing: each round times every candidate once, so that noise of a shared machine hits all alike."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

import torch
from rich import box
from rich.table import Table

Case = tuple[str, float, Callable[[], object], Callable[[], object]]


def interleaved(candidates: dict[str, Callable[[], object]], rounds: int = 15, batch: float = 0.02) -> dict[str, float]:
    """Best seconds per call of each candidate over the rounds; a batch of calls takes about `batch` seconds."""
    repeats = {}
    for name, call in candidates.items():
        call()
        start = time.perf_counter()
        call()
        repeats[name] = max(1, int(batch / max(time.perf_counter() - start, 1e-7)))
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, call in candidates.items():
            count = repeats[name]
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / count)
    return best


def fresh_environment() -> dict[str, str]:
    """Of a new process: modules are compiled to bytecode once, as they are for whoever installed the package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def table(title: str, *headings: str) -> Table:
    """A table whose first column names the row and whose others are numbers."""
    result = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for k, heading in enumerate(headings):
        result.add_column(heading, justify="left" if k == 0 else "right", no_wrap=k == 0)
    return result


def ratios(title: str, cases: Iterable[Case], rounds: int) -> Table:
    """Each case against torch: its name, the ratio it must reach, our call and torch's call."""
    result = table(f"{title}, {torch.get_num_threads()} threads", "kernel", "ours ms", "torch ms", "ratio", "budget")
    for name, budget, ours, theirs in cases:
        best = interleaved({"ours": ours, "torch": theirs}, rounds=rounds)
        ratio = best["torch"] / best["ours"]
        colour = "green" if ratio >= budget else "red"
        numbers = (f"{best['ours'] * 1e3:.3f}", f"{best['torch'] * 1e3:.3f}", f"[{colour}]{ratio:.2f}[/]", f"{budget}")
        result.add_row(name, *numbers)
    return result
