"""Runs every benchmark in a process of its own."""

import subprocess
import sys

NAMES = (
    "dispatch",
    "first_call",
    "compile_time",
    "cache",
    "throughput",
    "tensors",
    "products",
    "models",
    "tasks",
    "paged_attention",
    "imports",
)
for name in NAMES:
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
