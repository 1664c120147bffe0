"""Decodes bytecode. `dis` also makes it readable, which takes longer than all else that a warm start does."""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from types import CodeType
from typing import Any, NamedTuple

# Low bits of an argument that are flags and no index, by CPython version (Python/bytecodes.c).
_FLAG_BITS = {"LOAD_GLOBAL": 1} if sys.version_info >= (3, 11) else {}
if sys.version_info >= (3, 12):
    _FLAG_BITS.update(LOAD_ATTR=1, LOAD_SUPER_ATTR=2)
if sys.version_info >= (3, 14):
    _FLAG_BITS.update(IMPORT_NAME=2)
_NAMES = frozenset(dis.opname[op] for op in dis.hasname)
_CONSTANTS = frozenset(dis.opname[op] for op in dis.hasconst)
_CELLS = frozenset(dis.opname[op] for op in dis.hasfree)
_PAIRS = frozenset(name for name in dis.opname if name.count("_FAST") == 2 and "__" not in name)
_LOCALS = frozenset(dis.opname[op] for op in dis.haslocal) - _PAIRS
_IGNORED = frozenset({"CACHE", "NOP", "EXTENDED_ARG", "NOT_TAKEN"})


class Instruction(NamedTuple):
    """One instruction: where it is, what it does, and what its argument means: a name, a constant, or two names."""

    offset: int
    operation: str
    argument: Any


def decode(code: CodeType) -> Iterator[Instruction]:
    """The instructions of a code object, without those that do nothing."""
    if sys.version_info >= (3, 11):
        cells = (
            *code.co_varnames,
            *(name for name in code.co_cellvars if name not in code.co_varnames),
            *code.co_freevars,
        )
    else:
        cells = (*code.co_cellvars, *code.co_freevars)
    variables = cells if sys.version_info >= (3, 11) else code.co_varnames
    raw, extended = code.co_code, 0
    for offset in range(0, len(raw), 2):
        operation = dis.opname[raw[offset]]
        argument: Any = raw[offset + 1] | extended
        extended = argument << 8 if operation == "EXTENDED_ARG" else 0
        if operation in _IGNORED:
            continue
        if operation in _NAMES:
            argument = code.co_names[argument >> _FLAG_BITS.get(operation, 0)]
        elif operation in _CONSTANTS:
            argument = code.co_consts[argument]
        elif operation in _PAIRS:
            argument = (variables[argument >> 4], variables[argument & 15])
        elif operation in _CELLS:
            argument = cells[argument]
        elif operation in _LOCALS:
            argument = variables[argument]
        yield Instruction(offset, operation, argument)
