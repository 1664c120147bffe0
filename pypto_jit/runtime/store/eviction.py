"""Keeps the cache within its budget: what was used least recently goes first."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pypto_jit.runtime.store.files import MANIFEST, remove_folder

_ABANDONED = 3600.0  # seconds after which a folder that is still being written belongs to a process that died
_SHARE = 16  # a process looks again after it has added this share of the budget
_PERIOD = 600.0  # seconds after which the next process that adds something looks in any case
_MARK = "swept"  # a file whose time says when a process looked last
_HEADROOM = 0.9  # of the budget that a sweep leaves


class Item(NamedTuple):
    """An artifact or a file of records.

    Attributes:
        path: where it is.
        size: bytes.
        used: when it was used last, in seconds since the epoch.
    """

    path: Path
    size: int
    used: float


def items(root: Path) -> Iterator[Item]:
    """Everything in the cache that takes space. What disappears meanwhile is left out."""
    for folder in _folders(root / "artifacts"):
        for entry in _entries(folder):
            item = _artifact(Path(entry))
            if item is not None:
                yield item
    for folder in _folders(root / "records"):
        for entry in _entries(folder):
            try:
                found = os.lstat(entry)
            except OSError:
                continue
            yield Item(Path(entry), found.st_size, found.st_mtime)


def _artifact(path: Path) -> Item | None:
    size, used = 0, 0.0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found = os.lstat(os.path.join(folder, name))
            except OSError:
                continue
            size += found.st_size
            if name == MANIFEST:
                used = found.st_mtime
    return Item(path, size, used) if path.is_dir() else None


def _folders(path: Path) -> list[str]:
    return [entry for entry in _entries(path) if os.path.isdir(entry)]


def _entries(path: str | Path) -> list[str]:
    try:
        return sorted(entry.path for entry in os.scandir(path))
    except OSError:
        return []


def sweep(root: Path, budget: int, now: float | None = None) -> int:
    """Remove what is over the budget, and what dead processes left; the bytes that remain.

    Args:
        root: the cache.
        budget: in bytes.
        now: seconds since the epoch (default: the clock's).
    """
    staging, now = root / "staging", time.time() if now is None else now
    for leftover in (*_entries(staging), *_entries(root / "locks")):
        try:
            if now - os.lstat(leftover).st_mtime > _ABANDONED:
                remove_folder(Path(leftover), staging)
        except OSError:
            continue
    held = sorted(items(root), key=lambda item: item.used)
    total = sum(item.size for item in held)
    if total <= budget:
        return total
    for item in held:
        if total <= budget * _HEADROOM:
            break
        remove_folder(item.path, staging)
        total -= item.size
    return total


class Sweeper:
    """Sweeps now and then, as a process adds to the cache."""

    def __init__(self, root: Path, budget: int) -> None:
        self._root = root
        self._budget = budget
        self._lock = threading.Lock()
        self._pending = 0
        self._first = True

    def added(self, size: int) -> None:
        """Note that so many bytes were added."""
        with self._lock:
            self._pending += size
            due = self._pending * _SHARE >= self._budget or (self._first and self._is_long_ago())
            self._first = False
            if not due:
                return
            self._pending = 0
        with contextlib.suppress(OSError):
            (self._root / _MARK).touch(0o600)
        sweep(self._root, self._budget)

    def _is_long_ago(self) -> bool:
        """Whether no process has looked for a while."""
        try:
            return time.time() - (self._root / _MARK).stat().st_mtime > _PERIOD
        except OSError:
            return True
