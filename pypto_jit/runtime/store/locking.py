"""One process compiles, the others wait for it: file locks that give up rather than hang."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TIMEOUT = 20.0  # seconds: many compiles of the largest kernels
_POLL = (0.001, 0.05)  # seconds between tries, at first and at most


@contextmanager
def exclusive(path: Path, timeout: float = TIMEOUT) -> Iterator[bool]:
    """Hold the lock of a file, which is made, and removed again; gives whether the lock is held.

    It is not where another process holds it for longer than the timeout, or where the file system has no locks. The
    caller then goes on by itself: a lock saves work and never guards what is right.
    """
    file = _acquire(path, time.monotonic() + timeout)
    try:
        yield file is not None
    finally:
        if file is not None:
            _release(path, file)


def _acquire(path: Path, deadline: float) -> int | None:
    pause = _POLL[0]
    while True:
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_current(path, file):
                return file
            os.close(file)
            continue
        except BlockingIOError:
            os.close(file)
        except OSError:
            os.close(file)
            return None
        if time.monotonic() >= deadline:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _POLL[1])


def _is_current(path: Path, file: int) -> bool:
    """Whether the locked file is still the one of that name: its last holder may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except OSError:
        return False


def _release(path: Path, file: int) -> None:
    with contextlib.suppress(OSError):
        if _is_current(path, file):
            os.unlink(path)
        # A child that was forked meanwhile shares the lock, and would keep it.
        fcntl.flock(file, fcntl.LOCK_UN)
    os.close(file)
