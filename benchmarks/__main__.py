"""Runs every benchmark in a process of its own."""

import subprocess
import sys

for name in ("dispatch", "first_call", "compile_time", "cache", "throughput", "tensors", "tasks", "paged_attention", "imports"):
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
