"""The disk cache: the first result in a new process, what recorded reads cost a call, and what a key costs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

import pypto_jit as pypto
import pypto_jit.language as pl
from benchmarks.timing import fresh_environment, interleaved, table
from pypto_jit._cached import key_options
from pypto_jit.dtypes import FP32
from pypto_jit.options import CompileOptions
from pypto_jit.runtime.store.disk import open_store
from pypto_jit.runtime.store.requests import make_request
from pypto_jit.signature import TensorSpec

BUDGET = 10  # ms from imports to the first result, with a linker
RUNS = 9
STEPS = ("imports", "lookup", "link", "run")

# Each prints the milliseconds of its steps as JSON. Importing torch or NumPy is what any program pays, and so is the
# full collection that is due when torch is imported: it would fall into whatever comes next.
KERNEL = """
import gc, json, time, torch; torch.set_num_threads(1)
gc.collect()
x = torch.randn(64, 256); out = torch.empty_like(x)
start = time.perf_counter()
import warm_kernel
imported = time.perf_counter()
program = warm_kernel.kernel.compile(x, x, out)
found = time.perf_counter()
program.torch_entry
linked = time.perf_counter()
warm_kernel.kernel(x, x, out)
done = time.perf_counter()
assert torch.equal(out, x + x)
print(json.dumps([imported - start, found - imported, linked - found, done - linked]))
"""
TORCH = """
import gc, json, time, torch; torch.set_num_threads(1)
gc.collect()
x = torch.randn(64, 256)
start = time.perf_counter()
import torch._dynamo, torch._inductor.compile_fx
imported = time.perf_counter()
torch.compile(lambda a, b: a + b)(x, x)
print(json.dumps([imported - start, time.perf_counter() - imported]))
"""
NUMBA = """
import gc, json, time, numpy
gc.collect()
x = numpy.random.rand(64, 256).astype(numpy.float32)
start = time.perf_counter()
import warm_numba
imported = time.perf_counter()
warm_numba.add(x, x)
print(json.dumps([imported - start, time.perf_counter() - imported]))
"""
MODULES = {
    "warm_kernel.py": """
import pypto_jit as pypto
import pypto_jit.language as pl

@pypto.jit
def kernel(a: pl.Tensor, b: pl.Tensor, out: pl.Out[pl.Tensor]):
    for i in pl.parallel(0, a.shape[0], 16):
        pl.store(pl.load(a, [i, 0], [16, 256]) + pl.load(b, [i, 0], [16, 256]), [i, 0], out)
    return out
""",
    "warm_numba.py": """
import numba

@numba.njit(cache=True)
def add(a, b):
    return a + b
""",
}


def first_results() -> None:
    """Print what each step of a new process takes, when an earlier process has compiled."""
    result = table("First result in a new process, warm cache, ms", *("", *STEPS, "all", "after imports", "budget"))
    rows = {"kernel": (KERNEL, "torch"), "torch.compile": (TORCH, "torch"), "numba, cache=True": (NUMBA, "numba")}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in MODULES.items():
            Path(folder, name).write_text(text)
        for name, (script, package) in rows.items():
            steps = _best(script, folder) if importlib.util.find_spec(package) else None
            if steps is None:
                result.add_row(name, "not here")
                continue
            # The others do not tell lookup, link and run apart.
            shown = [f"{step:.1f}" for step in steps] + [""] * (len(STEPS) - len(steps))
            budget = str(BUDGET) if name == "kernel" else ""
            result.add_row(name, *shown, f"{sum(steps):.1f}", f"{sum(steps[1:]):.1f}", budget)
    Console(width=110).print(result)


def _best(script: str, folder: str) -> list[float] | None:
    """The steps of the fastest of several processes, in milliseconds; None where it does not run."""
    environment = {
        **fresh_environment(),
        "PYPTO_JIT_CACHE": "1",
        "PYPTO_JIT_CACHE_DIR": str(Path(folder, "kernels")),
        "TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "inductor")),
        "NUMBA_CACHE_DIR": str(Path(folder, "numba")),
        "PYTHONPATH": os.pathsep.join([folder, str(Path(pypto.__file__).parents[1])]),
    }
    runs = []
    for _ in range(RUNS + 1):
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return None
        runs.append([step * 1e3 for step in json.loads(done.stdout)])
    return min(runs[1:], key=lambda steps: sum(steps[1:]))


def kernel_that_reads(count: int):
    """a + b + the sum of so many globals; the language is one more read."""
    names = [f"VALUE_{k}" for k in range(count)]
    total = " + ".join(["0.0", *names])
    text = (
        "def kernel(a, b, out):\n"
        f"    pl.store(pl.load(a, [0, 0], [8, 8]) + pl.load(b, [0, 0], [8, 8]) * ({total} + 1.0), [0, 0], out)\n"
        "    return out\n"
    )
    namespace = {"pl": pl, "__name__": "__main__", **dict.fromkeys(names, 0.0)}
    exec(text, namespace)
    return pypto.jit(namespace["kernel"])


def guards() -> None:
    """Print what recorded reads add to a call."""
    a, b, out = (torch.randn(8, 8) for _ in range(3))
    torch_add = torch.add
    calls = {"torch.add(a, b, out=c)": lambda: torch_add(a, b, out=out)}
    for count in (0, 3, 10):
        calls[f"kernel, {count} recorded reads"] = partial(kernel_that_reads(count), a, b, out)
    with torch.no_grad():
        seconds = interleaved(calls, rounds=40, batch=0.005)
    yardstick, plain = seconds["torch.add(a, b, out=c)"], seconds["kernel, 0 recorded reads"]
    result = table("Guards of recorded reads, torch.no_grad()", "call", "us", "more, of torch.add")
    for name, value in seconds.items():
        more = f"{(value - plain) / yardstick:.2f}" if name.startswith("kernel") else ""
        result.add_row(name, f"{value * 1e6:.2f}", more)
    Console(width=110).print(result)


def keys() -> None:
    """Print what it takes to say what a call needs, before anything is looked up."""
    spec = TensorSpec((8, 8), FP32, (8, 1))
    options = key_options(CompileOptions())
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(PYPTO_JIT_CACHE="1", PYPTO_JIT_CACHE_DIR=folder)
        store = open_store()
        assert store is not None
        calls = {}
        for count in (0, 3, 10):
            function = kernel_that_reads(count).__wrapped__
            arguments = dict.fromkeys(("a", "b", "out"), spec)

            def compute(function=function, arguments=arguments) -> object:
                request = make_request(store, function, arguments, options)
                return request and request.key.digest

            calls[f"{count} recorded reads"] = compute
        seconds = interleaved(calls)
    result = table("Key of a call in the disk cache", "kernel", "us")
    for name, value in seconds.items():
        result.add_row(name, f"{value * 1e6:.0f}")
    Console(width=110).print(result)


def main() -> None:
    """Print the tables."""
    torch.set_num_threads(1)
    first_results()
    guards()
    keys()


if __name__ == "__main__":
    main()
