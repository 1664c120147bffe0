"""The variables that code reads from outside of itself, found in its bytecode: globals, cells, imports within it."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

_OUTER = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_CONSTANT = ("LOAD_CONST", "LOAD_SMALL_INT")
_SILENT = ("CACHE", "NOP", "EXTENDED_ARG")


class Import(NamedTuple):
    """A module that code imports where it runs.

    Attributes:
        name: as written.
        level: how many dots stand before it.
        whole: whether the first package of the name is bound, as by ``import a.b``.
    """

    name: str
    level: int
    whole: bool


class Variable(NamedTuple):
    """A read of a variable.

    Attributes:
        root: name of the variable, or the import that the value comes from.
        attributes: those that are taken of it at once.
        line: the line.
    """

    root: str | Import
    attributes: tuple[str, ...]
    line: int


@lru_cache(maxsize=1024)
def variables(code: CodeType) -> tuple[Variable, ...]:
    """The global and closure variables that code reads, and the modules that it imports, each once."""
    found: dict[tuple[str | Import, tuple[str, ...]], Variable] = {}
    for variable in _walk(code, {}):
        found.setdefault(variable[:2], variable)
    return tuple(found.values())


def _walk(code: CodeType, imported: dict[str, Variable]) -> Iterator[Variable]:
    """The reads of code and of the code within it; imported names are known to both."""
    path: Variable | None = None
    module: Variable | None = None
    renamed = False  # `import a.b as c` takes b of a, and then leaves a
    line = code.co_firstlineno
    constants: list[object] = [0, None]
    for instruction in dis.get_instructions(code):
        name, argument = instruction.opname, instruction.argval
        line = _line(instruction, line)
        if name in ("LOAD_ATTR", "LOAD_METHOD") and path is not None:
            path = path._replace(attributes=(*path.attributes, argument))
            continue
        ended, path = (None, path) if name in _SILENT else (path, None)
        if ended is not None:
            yield ended
        if name in _CONSTANT:
            constants = [constants[-1], argument]
        elif name == "IMPORT_NAME":
            level, names = constants
            root = Import(argument, level if isinstance(level, int) else 0, not names)
            module, renamed = Variable(root, (), line), False
        elif name == "IMPORT_FROM" and module is not None:
            assert isinstance(module.root, Import)
            if module.root.whole or renamed:
                module, renamed = module._replace(root=module.root._replace(whole=False)), True
            else:
                path = module._replace(attributes=(argument,), line=line)
        elif name == "POP_TOP" and not renamed:
            module = None
        elif name.startswith("STORE_") and (ended or module) is not None:
            target = argument[0] if isinstance(argument, tuple) else argument
            if module is not None:
                imported[str(target)] = ended or module
            if ended is None:
                module = None
        read = argument[-1] if isinstance(argument, tuple) and argument else argument
        if "LOAD_" in name and isinstance(read, str) and name not in _CONSTANT:
            if read in imported:
                path = imported[read]._replace(line=line)
            elif name in _OUTER:
                path = Variable(read, (), line)
    if path is not None:
        yield path
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _walk(constant, dict(imported))


def _line(instruction: dis.Instruction, before: int) -> int:
    places = getattr(instruction, "positions", None)
    found = places.lineno if places is not None else instruction.starts_line
    return found if isinstance(found, int) and not isinstance(found, bool) else before
