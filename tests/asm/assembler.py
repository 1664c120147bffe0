"""Runs the vendor's assembler, where a person has it, on assembly text."""

from __future__ import annotations

import os
import subprocess

# The path of a ptoas binary, release v0.57 or later.
VARIABLE = "PYPTO_JIT_PTOAS"
_ARCHITECTURES = {"a2a3": "a3", "a5": "a5"}


def binary() -> str | None:
    return os.environ.get(VARIABLE) or None


def version(path: str) -> str:
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.strip()


def complaint(path: str, text: str, target: str) -> str | None:
    """What the assembler has against a text, None if it takes it.

    It has taken a text when it exits with 0 and prints no line with ``error:`` (some failures exit with 0).
    """
    run = _assemble(path, text, target)
    errors = [line for line in run.stderr.splitlines() if "error:" in line]
    if run.returncode == 0 and not errors:
        return None
    return errors[0] if errors else f"exit code {run.returncode}: {run.stderr[-300:]}"


def translated(path: str, text: str, target: str) -> str:
    """The C++ that the assembler makes of a text that it takes."""
    return _assemble(path, text, target).stdout


def _assemble(path: str, text: str, target: str) -> subprocess.CompletedProcess[str]:
    architecture = f"--pto-arch={_ARCHITECTURES[target]}"
    command = [path, architecture, "--pto-level=level3", "--enable-insert-sync", "-", "-o", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)
