"""Latency of a cached call: what it costs besides the kernel's own work, beside torch and NumPy on the same tensors."""

from __future__ import annotations

import numpy
import torch
from rich.console import Console

import pypto_jit as pypto
import pypto_jit.language as pl
from benchmarks.timing import interleaved, table

SHAPE = (8, 8)
FIRST, SECOND, THIRD = 1.0, 0.0, 0.0


@pypto.jit
def add(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a + b: reads one global, the language."""
    rows, cols = a.shape
    pl.store(pl.load(a, [0, 0], [rows, cols]) + pl.load(b, [0, 0], [rows, cols]), [0, 0], out)
    return out


@pypto.jit
def add_guarded(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    """The same, reading three more globals, each a guard of every call."""
    rows, cols = a.shape
    first = pl.load(a, [0, 0], [rows, cols]) * FIRST + SECOND
    pl.store(first + pl.load(b, [0, 0], [rows, cols]) + THIRD, [0, 0], out)
    return out


@pypto.jit
def add_three(a: pl.Tensor, b: pl.Tensor, c: pl.Tensor, out: pl.Out[pl.Tensor]):
    """a + b + c."""
    rows, cols = a.shape
    total = pl.load(a, [0, 0], [rows, cols]) + pl.load(b, [0, 0], [rows, cols])
    pl.store(total + pl.load(c, [0, 0], [rows, cols]), [0, 0], out)
    return out


@pypto.jit
def total(a: pl.Tensor, b: pl.Tensor):
    """a + b, a new tensor."""
    return a + b


def grad_of_sum(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of a + b."""
    return grad, grad


def operator_calls() -> dict[str, object]:
    """Calls of a kernel, and of the same one registered with torch; the first is the yardstick."""
    a, b, out = (torch.randn(SHAPE) for _ in range(3))
    torch_add = torch.add
    plain = pypto.torch_op(total, name="pypto_benchmark::total", example=(a, b))
    recorded = pypto.torch_op(total, name="pypto_benchmark::recorded", example=(a, b), backward=grad_of_sum)

    def custom(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return total(a, b)

    custom_op = torch.library.custom_op("pypto_benchmark::custom", custom, mutates_args=())
    return {
        "torch.add(a, b, out=c)": lambda: torch_add(a, b, out=out),
        "torch.add(a, b)": lambda: torch_add(a, b),
        "kernel(a, b)": lambda: total(a, b),
        "kernel(a, b, out=c)": lambda: total(a, b, out=out),
        "torch_op(kernel)(a, b)": lambda: plain(a, b),
        "torch_op(kernel)(a, b, out=c)": lambda: plain(a, b, out=out),
        "torch_op(kernel, backward=...)(a, b)": lambda: recorded(a, b),
        "torch.library.custom_op of the kernel": lambda: custom_op(a, b),
    }


def torch_calls() -> dict[str, object]:
    """Calls on torch tensors; the first is the yardstick."""
    a, b, c, out = (torch.randn(SHAPE) for _ in range(4))
    torch_add = torch.add
    return {
        "torch.add(a, b, out=c)": lambda: torch_add(a, b, out=out),
        "kernel(a, b, out), 1 recorded read": lambda: add(a, b, out),
        "kernel(a, b, out), 4 recorded reads": lambda: add_guarded(a, b, out),
        "kernel(a, b, c, out)": lambda: add_three(a, b, c, out),
        "kernel(a, b, a), in place": lambda: add(a, b, a),
        "kernel(a, b), output left out": lambda: add(a, b),
        "torch.add(a, b)": lambda: torch_add(a, b),
    }


def numpy_calls() -> dict[str, object]:
    """Calls on NumPy arrays; the first is the yardstick."""
    a, b, out = (numpy.random.default_rng(0).standard_normal(SHAPE, dtype=numpy.float32) for _ in range(3))
    numpy_add = numpy.add
    return {
        "numpy.add(a, b, out=c)": lambda: numpy_add(a, b, out=out),
        "kernel(a, b, out)": lambda: add(a, b, out),
    }


def main() -> None:
    """Print a table of ratios for each mode.

    Budgets: 0.6 under no_grad and 0.9 in grad mode, for three tensors; an operator 3 us more than its kernel.
    """
    console = Console(width=100)
    torch.set_num_threads(1)
    for title, mode, calls in (
        ("torch tensors under torch.no_grad()", torch.no_grad(), torch_calls()),
        ("torch tensors in grad mode", torch.enable_grad(), torch_calls()),
        ("NumPy arrays", torch.no_grad(), numpy_calls()),
        ("operators of torch, under torch.no_grad()", torch.no_grad(), operator_calls()),
        ("operators of torch, in grad mode", torch.enable_grad(), operator_calls()),
    ):
        result = table(f"Cached call, 8x8 fp32, {title}", "call", "us", "ratio")
        with mode:
            seconds = interleaved(calls, rounds=40, batch=0.005)
        yardstick = next(iter(seconds.values()))
        for name, value in seconds.items():
            result.add_row(name, f"{value * 1e6:.2f}", f"{value / yardstick:.2f}")
        console.print(result)


if __name__ == "__main__":
    main()
