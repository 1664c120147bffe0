"""Small IR before and after some passes."""

from __future__ import annotations

import re

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import PASSES, lower
from pypto_jit.targets import A2A3, Target
from tests.module_text import ModuleText

_TYPE = re.compile(r"!\w+\.\w+<[^<>]*>")


def after(text: ModuleText | str, *names: str, target: Target = A2A3) -> str:
    """The module's text after the passes of these names, without locations."""
    passes = tuple(entry for entry in PASSES if entry.name in names)
    assert len(passes) == len(names), names
    with borrowed_context():
        module = ir.Module.parse(str(text))
        lower(module, target, passes=passes)
        return str(module)


def operations(text: str, dialect: str = "pypto") -> list[str]:
    """The names of the operations of a dialect, in order."""
    return re.findall(rf'"{dialect}\.(\w+)"', text)


def line(text: str, operation: str, number: int = 0) -> str:
    """The line of the so-manieth operation of a name."""
    lines = [found for found in text.splitlines() if f'"{operation}"' in found]
    return lines[number]


def types(text: str) -> list[str]:
    """The types of our dialects in a piece of text."""
    return _TYPE.findall(text)


def result(text: str) -> str:
    """The type of an operation's result."""
    return types(text.rpartition("->")[2])[0]
