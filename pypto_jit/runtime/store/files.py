"""Folders of files that are written whole or not at all, and read whole or not at all.

A folder holds files and a `manifest.json` that lists each with its size and checksum, and carries a checksum of itself.
It is filled under a name nobody looks for and appears under its own by one rename.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from pypto_jit.runtime.store.location import is_own

MANIFEST = "manifest.json"


class DamagedError(Exception):
    """A file or folder that is not what was once written, or not by this user."""


def encode_manifest(content: Mapping[str, Any]) -> bytes:
    """JSON with a checksum of itself."""
    return json.dumps({**content, "checksum": _checksum(_canonical(content))}, indent=1).encode()


def decode_manifest(data: bytes) -> dict[str, Any]:
    """What `encode_manifest` was given.

    Raises:
        DamagedError: the checksum differs.
    """
    try:
        content = json.loads(data)
        checksum = content.pop("checksum")
        if _checksum(_canonical(content)) != checksum:
            raise DamagedError("the checksum of the manifest differs")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError("the manifest is no manifest") from error
    return content


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def read_own(path: Path) -> bytes:
    """The content of a regular file of this user's.

    Raises:
        FileNotFoundError: there is none.
        DamagedError: it is no regular file, or another user's.
        OSError: it cannot be read.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DamagedError(f"{path.name} cannot be opened: {error.strerror}") from error
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or not is_own(found) or found.st_mode & 0o022:
            raise DamagedError(f"{path.name} is no file of this user's alone")
        with open(file, "rb", closefd=False) as opened:
            return opened.read()
    finally:
        os.close(file)


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        _write(partial, data)
        os.replace(partial, path)
    except BaseException:
        _remove(partial)
        raise


def write_folder(path: Path, files: Mapping[str, bytes], about: Mapping[str, Any], staging: Path) -> bool:
    """Write a folder whole or not at all; whether it is now there by this call.

    Args:
        path: of the folder.
        files: contents by relative name.
        about: what the manifest says besides.
        staging: a directory on the same file system, for folders that are being written.

    Raises:
        OSError: it cannot be written. Nothing is left behind.
    """
    listed = {name: {"bytes": len(data), "sha256": _checksum(data)} for name, data in files.items()}
    partial = staging / f"{os.getpid()}-{os.urandom(8).hex()}"
    try:
        staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.mkdir(mode=0o700)
        for name, data in files.items():
            place = partial / _safe(name)
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(place, data)
        _write(partial / MANIFEST, encode_manifest({**about, "files": listed}))
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _publish(partial, path)
    finally:
        if partial.exists():
            shutil.rmtree(partial, ignore_errors=True)


def _publish(partial: Path, path: Path) -> bool:
    try:
        os.rename(partial, path)
    except OSError:
        # Whoever was faster wrote the same.
        if path.is_dir():
            return False
        raise
    return True


def read_folder(
    path: Path,
    names: frozenset[str] | None = None,
    read: Callable[[Path], bytes] = read_own,
    editable: str = "",
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest of a folder, and its files.

    Args:
        names: the files wanted (default: all); those that the folder does not have are left out.
        read: gives the content of a file.
        editable: suffix of the names of files that may be others than were written.

    Raises:
        FileNotFoundError: there is no such folder.
        DamagedError: it is not as it was written.
        OSError: it cannot be read.
    """
    try:
        about = decode_manifest(read(path / MANIFEST))
    except FileNotFoundError:
        if path.is_dir():
            raise DamagedError("there is no manifest") from None
        raise
    files: dict[str, bytes] = {}
    try:
        listed = {name: (entry["bytes"], entry["sha256"]) for name, entry in about["files"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise DamagedError("the manifest lists no files") from error
    for name, (size, checksum) in listed.items():
        if names is not None and name not in names:
            continue
        try:
            data = read(path / _safe(name))
        except FileNotFoundError:
            if not (path / MANIFEST).exists():  # removed while it was read
                raise
            raise DamagedError(f"{name} is missing") from None
        may_differ = bool(editable) and name.endswith(editable)
        if not may_differ and (len(data) != size or _checksum(data) != checksum):
            raise DamagedError(f"the checksum of {name} differs")
        files[name] = data
    return about, files


def remove_folder(path: Path, staging: Path) -> None:
    """Remove a folder: at once for whoever looks for it, its files thereafter. What cannot be removed stays."""
    aside = staging / f"removed-{os.getpid()}-{os.urandom(8).hex()}"
    try:
        staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.rename(path, aside)
    except OSError:
        aside = path
    if aside.is_dir() and not aside.is_symlink():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        _remove(aside)


def was_edited(about: Mapping[str, Any], name: str, data: bytes) -> bool:
    """Whether a file of a folder is another one than the folder's manifest lists."""
    return about["files"][name]["sha256"] != _checksum(data)


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _safe(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise DamagedError(f"{name!r} is no file of a folder")
    return path


def _write(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as opened:
        opened.write(data)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
