"""How many threads a kernel runs on, and whose: torch's own OpenMP pool, so that no second pool competes with it.

After a fork neither libgomp nor torch can start a team in the child, so kernels run serially there.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch


@dataclass(frozen=True)
class OpenMP:
    """The OpenMP runtime in this process: where it came from, and the addresses of the three functions entries use."""

    path: str
    parallel: int
    thread_num: int
    num_threads: int


def _candidates() -> list[str]:
    """libgomp as torch loaded it, then as torch ships it."""
    found: list[str] = []
    try:
        with open("/proc/self/maps") as maps:
            found = [line.split(maxsplit=5)[5].strip() for line in maps if "libgomp" in line]
    except OSError:
        found = []
    library = Path(torch.__file__).parent / "lib"
    return list(dict.fromkeys([*found, *map(str, sorted(library.glob("libgomp*")))]))


@cache
def find_openmp() -> OpenMP | None:
    """torch's libgomp; None where torch uses another OpenMP, or none: kernels then run serially."""
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            addresses = [
                ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
                for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
            ]
        except (OSError, AttributeError):
            continue
        return OpenMP(path, *addresses)
    return None


# The process that owns the OpenMP pool. Fork is the one thing that changes it, behind every Python object's back.
_home = [os.getpid()]
os.register_at_fork(after_in_child=_home.clear)


def thread_count() -> int:
    """``torch.get_num_threads()`` as it stands for the calling thread; 1 in a forked child."""
    return torch.get_num_threads() if _home else 1
