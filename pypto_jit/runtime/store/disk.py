"""The store of one cache directory: artifacts by their key, and records of what leads to them."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pypto_jit.runtime.store.files import (
    MANIFEST,
    DamagedError,
    decode_manifest,
    encode_manifest,
    read_folder,
    read_own,
    remove_folder,
    write_file,
    write_folder,
)
from pypto_jit.runtime.store.keys import Key
from pypto_jit.runtime.store.location import CacheWarning, cache_directory, prepare_directory, size_budget
from pypto_jit.runtime.store.locking import TIMEOUT, exclusive

_log = logging.getLogger("pypto_jit.cache")
_RECORDS = 16  # sets of reads remembered for one code, signature and options
_TOUCHED = 60.0  # seconds between updates of an entry's time of last use


class Entry(NamedTuple):
    """An artifact as it lies in the store: its description, and its files by name."""

    about: Mapping[str, Any]
    files: Mapping[str, bytes]


class Record(NamedTuple):
    """One set of reads, and what it leads to.

    Attributes:
        reads: digest of each read by path.
        shown: the values read, shortened, by path.
        artifact: key of the artifact; empty where the trace came to need the values of parameters.
        places: of the source, as JSON.
        needs: names of these parameters.
        why: what needs their values; the one place is where.
    """

    reads: dict[str, str]
    shown: dict[str, str]
    artifact: str
    places: list[Any]
    needs: tuple[str, ...] = ()
    why: str = ""

    @classmethod
    def decode(cls, value: Any) -> Record:
        """The record that `_asdict` of it described.

        Raises:
            DamagedError: it describes none.
        """
        try:
            needs = tuple(map(str, value.get("needs", ())))
            record = cls(
                dict(value["reads"]),
                dict(value["shown"]),
                str(value["artifact"]),
                list(value["places"]),
                needs,
                str(value.get("why", "")),
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DamagedError("a record of another form") from error
        if needs and not record.artifact:
            return record
        if len(record.artifact) != 64 or not set(record.artifact) <= set("0123456789abcdef"):
            raise DamagedError("a record that names no artifact")
        return record


class Store:
    """The cache in one directory. Every method may be called by many threads and processes at once.

    Whatever goes wrong with the directory, a lookup misses and a publication does nothing.

    Attributes:
        root: the directory.
        budget: bytes it may take.
    """

    def __init__(self, root: Path, budget: int) -> None:
        self.root = root
        self.budget = budget
        self._warned: set[str] = set()
        self._lock = threading.Lock()

    @cached_property
    def _sweeper(self) -> Any:
        from pypto_jit.runtime.store.eviction import Sweeper

        return Sweeper(self.root, self.budget)

    @property
    def staging(self) -> Path:
        """Where entries are written before they appear."""
        return self.root / "staging"

    def artifact_path(self, key: str) -> Path:
        """The folder of an artifact."""
        return self.root / "artifacts" / key[:2] / key

    def record_path(self, key: str) -> Path:
        """The file of the records of one code, signature and options."""
        return self.root / "records" / key[:2] / f"{key}.json"

    # Lookups

    def records(self, key: Key) -> list[Record]:
        """The records of a key, the latest first."""
        path = self.record_path(key.digest)
        with self._reporting(path):
            content = decode_manifest(read_own(path))
            if not key.matches(content.get("key")):
                raise DamagedError("records of another key")
            return [Record.decode(each) for each in content.get("records", ())]
        return []

    def artifact(self, key: str, expected: Key | None = None, names: frozenset[str] | None = None) -> Entry | None:
        """An artifact, checked.

        Args:
            key: its key.
            expected: the sections it must have been made from, where they are known.
            names: the files wanted (default: all).
        """
        path = self.artifact_path(key)
        with self._reporting(path):
            about, files = read_folder(path, names)
            if expected is not None and not expected.matches(about.get("key")):
                raise DamagedError("an artifact of another key")
            _touch(path / MANIFEST)
            return Entry(about, files)
        return None

    def discard(self, key: str, reason: str) -> None:
        """Remove an artifact that is not what it should be."""
        with self._reporting(self.artifact_path(key)):
            raise DamagedError(reason)

    @contextmanager
    def _reporting(self, path: Path) -> Iterator[None]:
        """Make a miss of whatever goes wrong; remove an entry that is damaged, and say so once."""
        try:
            yield
        except FileNotFoundError:
            pass
        except DamagedError as error:
            remove_folder(path, self.staging)
            self._warn_once(path, str(error))
        except OSError as error:
            _log.debug("the cache entry %s cannot be read: %s", path, error)

    def _warn_once(self, path: Path, reason: str) -> None:
        with self._lock:
            if str(path) in self._warned:
                return
            self._warned.add(str(path))
        warnings.warn(f"a damaged kernel cache entry is made anew ({path}): {reason}", CacheWarning, stacklevel=4)

    # Publications

    def publish_artifact(self, key: Key, about: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        """Add an artifact. One that is there already stays."""
        path = self.artifact_path(key.digest)
        if path.exists():
            return
        with self._writing(path):
            made = write_folder(path, files, {**about, "key": key.about}, self.staging)
            if made:
                self._sweeper.added(sum(map(len, files.values())))

    def publish_record(self, key: Key, record: Record) -> None:
        """Add a record to those of a key. Records added by several processes at once may get lost; a miss finds out."""
        path = self.record_path(key.digest)
        others = [old for old in self.records(key) if old.reads != record.reads]
        listed = [each._asdict() for each in (record, *others[: _RECORDS - 1])]
        with self._writing(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_file(path, encode_manifest({"key": key.about, "records": listed}))

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # Full, read-only or gone: this process keeps what it has in memory.
            _log.info("the kernel cache is not written: %s: %s", path, error)

    @contextmanager
    def exclusive(self, key: str, timeout: float = TIMEOUT) -> Iterator[bool]:
        """Hold the lock of a key while a program is made; gives whether it is held."""
        folder = self.root / "locks"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            yield False
            return
        with exclusive(folder / key, timeout) as held:
            yield held


def _touch(path: Path) -> None:
    """Note that an entry is used, for those who evict the least recently used."""
    try:
        if time.time() - os.stat(path).st_mtime > _TOUCHED:
            os.utime(path)
    except OSError:
        pass


def open_store() -> Store | None:
    """The store that the environment names; None where it is turned off or may not be used."""
    root = cache_directory()
    return _store(root, size_budget()) if root is not None and prepare_directory(root) else None


@lru_cache(maxsize=8)
def _store(root: Path, budget: int) -> Store:
    return Store(root, budget)
