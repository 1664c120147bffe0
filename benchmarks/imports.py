"""What `import pypto_jit` costs beyond `import torch`, in fresh processes."""

from __future__ import annotations

import subprocess
import sys

from rich.console import Console

from benchmarks.timing import fresh_environment, table

STATEMENTS = {
    "import pypto_jit": "import pypto_jit",
    "import pypto_jit.language": "import pypto_jit.language",
    "import tvm_ffi (part of the above)": "import tvm_ffi",
    "import mlir (first compile only)": "from pypto_jit import _mlir",
    "import llvmlite.binding (first compile only)": "import llvmlite.binding",
}


def milliseconds(statement: str, *, collector: bool) -> float:
    """Best of five fresh processes, after torch is imported, with or without Python's garbage collector.

    After `import torch` a full collection is due, and falls into whatever is imported next.
    """
    pause = "" if collector else "gc.disable(); "
    script = (
        f"import gc, torch, time; {pause}s = time.perf_counter(); {statement}; print((time.perf_counter() - s) * 1e3)"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=fresh_environment()
        )
        for _ in range(5)
    ]
    return min(float(run.stdout) for run in runs)


def main() -> None:
    """Print the table."""
    result = table("Imports beyond torch, ms", "statement", "time", "without garbage collection", "budget")
    for name, statement in STATEMENTS.items():
        times = (f"{milliseconds(statement, collector=collector):.0f}" for collector in (True, False))
        result.add_row(name, *times, "75" if name.startswith("import pypto_jit") else "")
    Console(width=110).print(result)


if __name__ == "__main__":
    main()
