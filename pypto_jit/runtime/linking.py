"""Turns object code into a shared object with the system's linker, and loads shared objects without any compiler.

A shared object is what lets a later process run a kernel without importing LLVM. It needs a linker once, and no
compiler; where there is none, object code is kept and linked by LLVM in each process.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pypto_jit.errors import LaunchError

_SECONDS = 30.0  # for a link of some milliseconds, on a machine that hangs


class Linker(NamedTuple):
    """A system linker.

    Attributes:
        command: what it is called with, up to the output and input files.
    """

    command: tuple[str, ...]


@cache
def find_linker() -> Linker | None:
    """The first of ``ld``, ``ld.lld``, ``cc`` on the search path; None where there is none."""
    for name in ("ld", "ld.lld"):
        path = shutil.which(name)
        if path is not None:
            return Linker((path, "-shared", "-s", "-z", "noexecstack"))
    path = shutil.which("cc")
    return Linker((path, "-shared", "-s", "-nostdlib", "-Wl,-z,noexecstack")) if path is not None else None


def link_shared(code: Sequence[bytes], linker: Linker | None = None) -> bytes | None:
    """A shared object of relocatable objects; None where no linker can make one.

    Args:
        code: position-independent, among them one with the symbols `pypto_jit.abi` names.
        linker: default: the system's.
    """
    linker = linker or find_linker()
    if linker is None:
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="pypto-link-") as folder:
            target = Path(folder, "kernel.so")
            sources = [Path(folder, f"kernel.{k}.o") for k in range(len(code))]
            for source, content in zip(sources, code, strict=True):
                source.write_bytes(content)
            done = subprocess.run(
                [*linker.command, "-o", str(target), *map(str, sources)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_SECONDS,
                check=False,
            )
            return target.read_bytes() if done.returncode == 0 else None
    except (OSError, subprocess.SubprocessError):
        return None


class SharedObject:
    """A loaded shared object. Its code stays loaded for as long as the process lives."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def __getitem__(self, symbol: str) -> int:
        """The address of a symbol.

        Raises:
            LaunchError: there is no such symbol.
        """
        try:
            return ctypes.addressof(ctypes.c_char.in_dll(self._library, symbol))
        except ValueError as error:
            raise LaunchError(f"the kernel's shared object has no '{symbol}'") from error


def load_shared(content: bytes) -> SharedObject:
    """Load a shared object from memory.

    The dynamic loader is given a private file that is gone once it is loaded: what runs is what the caller has checked,
    nobody can change it under a mapping, and two loads are two copies with data of their own.

    Raises:
        LaunchError: this machine does not load it.
    """
    try:
        with tempfile.NamedTemporaryFile(prefix="pypto-", suffix=".so") as file:
            file.write(content)
            file.flush()
            return SharedObject(ctypes.CDLL(file.name, mode=os.RTLD_NOW | os.RTLD_LOCAL))
    except OSError as error:
        raise LaunchError(f"a kernel's shared object does not load: {error}") from error
