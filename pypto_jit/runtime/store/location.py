"""Where the cache lies, and whether it may be used.

`PYPTO_JIT_CACHE_DIR` names the directory (default: the user's cache directory), `PYPTO_JIT_CACHE=0` turns the cache
off, and `PYPTO_JIT_CACHE_SIZE` bounds it in MiB.
"""

from __future__ import annotations

import contextlib
import os
import stat
import warnings
from pathlib import Path

# Part of the directory's name: programs of other formats lie beside, unseen.
FORMAT = "1"
DEFAULT_MIB = 1024


class CacheWarning(RuntimeWarning):
    """Something of the disk cache is not as this program left it. Results are right all the same."""


def cache_directory() -> Path | None:
    """The directory that the environment names; None where the cache is turned off."""
    if os.environ.get("PYPTO_JIT_CACHE", "1").lower() in ("0", "off", "no", "false"):
        return None
    named = os.environ.get("PYPTO_JIT_CACHE_DIR")
    if named:
        return Path(named).expanduser().absolute() / f"v{FORMAT}"
    import platformdirs

    return Path(platformdirs.user_cache_dir("pypto-jit", appauthor=False)) / f"v{FORMAT}"


def size_budget() -> int:
    """How many bytes the cache may take."""
    text = os.environ.get("PYPTO_JIT_CACHE_SIZE", "")
    return (int(text) if text.isdigit() else DEFAULT_MIB) << 20


def prepare_directory(root: Path) -> bool:
    """Make the cache's directory, for this user alone; whether it may be used.

    A directory that is another user's, or that others may write to, is not: whoever can put files there could put code
    there. One that cannot be written to may still be read.
    """
    with contextlib.suppress(OSError):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        found = os.lstat(root)
    except OSError:
        return False
    if stat.S_ISDIR(found.st_mode) and is_own(found) and not found.st_mode & 0o022:
        return True
    warnings.warn(
        f"the kernel cache {root} is not used: it is no directory of this user's alone", CacheWarning, stacklevel=2
    )
    return False


def is_own(found: os.stat_result) -> bool:
    """Whether a file is this user's."""
    return found.st_uid == os.geteuid()
