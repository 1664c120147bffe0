"""What a function's bytecode names outside of itself: globals, variables of enclosing functions, modules it imports.

Bytecode needs no source, and Python's own scoping has already decided which variable a name means.
"""

from __future__ import annotations

import bisect
import builtins
import sys
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from pypto_jit.runtime.store.code import nested_code
from pypto_jit.runtime.store.instructions import Instruction, decode

UNBOUND: Any = object()
_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME"})
_CELL = frozenset({"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"})
_EITHER = frozenset({"LOAD_FROM_DICT_OR_GLOBALS"})
_LOCAL = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "STORE_FAST_LOAD_FAST"})
_LOCALS = frozenset({"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"})
_STORE = frozenset({"STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"})
_ATTRIBUTE = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
# The argument of BINARY_OP that means a subscript (NB_SUBSCR since CPython 3.14, Include/opcode.h).
_SUBSCRIPT = 26 if sys.version_info >= (3, 14) else None
_CONSTANT = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})


class Step(NamedTuple):
    """One link of a chain: an attribute (``.name``) or a constant subscript (``[key]``)."""

    kind: str
    key: Any

    def __str__(self) -> str:
        return f".{self.key}" if self.kind == "." else f"[{self.key!r}]"


class Chain(NamedTuple):
    """A variable from outside of the function, and what is read of it: ``config.tile['rows']``.

    Attributes:
        name: of the variable.
        steps: attributes and constant subscripts that follow.
        value: of the variable, not of the chain; `UNBOUND` where it has none.
        line: where it is read.
    """

    name: str
    steps: tuple[Step, ...]
    value: Any
    line: int

    def __str__(self) -> str:
        return self.name + "".join(map(str, self.steps))


def chains(function: FunctionType) -> list[Chain]:
    """What a function's code, and the functions and comprehensions within it, name outside of themselves, in order."""
    return _distinct(_Reader(function.__code__, function.__globals__, _cells(function)))


def annotation_chains(function: FunctionType, text: str) -> list[Chain]:
    """What an annotation of a function that is kept as text names. Empty where it is no expression."""
    try:
        code = compile(text, "<annotation>", "eval", dont_inherit=True)
    except (SyntaxError, ValueError):
        return []
    cells = _cells(function)
    namespace = {**function.__globals__, **{name: value for name, value in cells.items() if value is not UNBOUND}}
    return _distinct(_Reader(code, namespace, {}))


def _distinct(reader: _Reader) -> list[Chain]:
    found: dict[tuple[Any, ...], Chain] = {}
    for chain in reader.run():
        found.setdefault((chain.name, chain.steps, id(chain.value)), chain)
    return list(found.values())


def _cells(function: FunctionType) -> dict[str, Any]:
    return dict(zip(function.__code__.co_freevars, map(cell_content, function.__closure__ or ()), strict=True))


def cell_content(cell: CellType) -> Any:
    """The value of a variable of an enclosing function; `UNBOUND` where it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


class _Reader:
    """Reads one code object, then those within it.

    Args:
        code: the code.
        namespace: its globals.
        cells: values of the variables of enclosing functions; a variable that is missing is a local of the function
            itself, and no read.
    """

    def __init__(self, code: CodeType, namespace: dict[str, Any], cells: dict[str, Any]) -> None:
        self._code = code
        self._globals = namespace
        self._cells = cells
        self._modules: dict[str, list[Any]] = {}
        self._line = code.co_firstlineno

    def run(self) -> Iterator[Chain]:
        instructions = list(decode(self._code))
        starts = sorted((start, line) for start, _, line in self._code.co_lines() if line is not None)
        for position, instruction in enumerate(instructions):
            if instruction.operation == "IMPORT_NAME":
                for name, value in self._imported(instructions, position):
                    yield Chain(name, (), value, _line(starts, instruction))
        for position, instruction in enumerate(instructions):
            for name, value in self._roots(instruction):
                # Of a pair of locals loaded at once only the second is on top of the stack.
                on_top = instruction.operation not in _LOCALS or name == instruction.argument[1]
                steps = _steps(instructions, position + 1) if on_top else ()
                yield Chain(name, steps, value, _line(starts, instruction))
        for inner in nested_code(self._code):
            cells = {name: self._cells[name] for name in inner.co_freevars if name in self._cells}
            cells.update((name, self._modules[name][-1]) for name in inner.co_freevars if name in self._modules)
            yield from _Reader(inner, self._globals, cells).run()

    def _roots(self, instruction: Instruction) -> Iterator[tuple[str, Any]]:
        operation, name = instruction.operation, instruction.argument
        if operation in _GLOBAL or (operation in _EITHER and name not in self._cells):
            yield name, self._global(name)
        elif operation in _CELL or operation in _EITHER:
            if name in self._cells:
                yield name, self._cells[name]
            else:
                yield from ((name, module) for module in self._modules.get(name, ()))
        elif operation in _LOCAL:
            variable = name if isinstance(name, str) else name[1]
            yield from ((variable, module) for module in self._modules.get(variable, ()))
        elif operation in _LOCALS:
            yield from ((each, module) for each in name for module in self._modules.get(each, ()))

    def _global(self, name: str) -> Any:
        if name in self._globals:
            return self._globals[name]
        table = self._globals.get("__builtins__", builtins)
        return (table.__dict__ if isinstance(table, ModuleType) else table).get(name, UNBOUND)

    def _imported(self, instructions: list[Instruction], position: int) -> Iterator[tuple[str, Any]]:
        """Modules that the function imports are remembered under their variables; names imported from one are reads."""
        name = instructions[position].argument
        level, names = instructions[position - 2].argument, instructions[position - 1].argument
        try:
            module = __import__(name, self._globals, {}, names or (), level)
        except ImportError:
            yield name, UNBOUND
            return
        position += 1
        if instructions[position].operation in _STORE:
            self._modules.setdefault(_stored(instructions[position]), []).append(module)
            return
        while instructions[position].operation == "IMPORT_FROM":
            attribute = instructions[position].argument
            value = getattr(module, attribute, UNBOUND)
            position += 1
            while instructions[position].operation in ("SWAP", "ROT_TWO", "POP_TOP"):
                position += 1
            if isinstance(value, ModuleType) and instructions[position].operation in _STORE:
                self._modules.setdefault(_stored(instructions[position]), []).append(value)
            else:
                yield f"{name}.{attribute}", value
            position += 1


def _line(starts: list[tuple[int, int]], instruction: Instruction) -> int:
    """The line of an instruction, by where the lines of its code object start."""
    found = bisect.bisect_right(starts, (instruction.offset, sys.maxsize)) - 1
    return starts[found][1] if found >= 0 else 0


def _stored(instruction: Instruction) -> str:
    name = instruction.argument
    return name if isinstance(name, str) else name[0]


def _steps(instructions: list[Instruction], position: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    while position < len(instructions):
        this = instructions[position]
        after = instructions[position + 1] if position + 1 < len(instructions) else None
        if this.operation in _ATTRIBUTE:
            steps.append(Step(".", this.argument))
            position += 1
        elif this.operation in _CONSTANT and after is not None and _is_subscript(after):
            steps.append(Step("[]", this.argument))
            position += 2
        else:
            break
    return tuple(steps)


def _is_subscript(instruction: Instruction) -> bool:
    return instruction.operation == "BINARY_SUBSCR" or (
        instruction.operation == "BINARY_OP" and instruction.argument == _SUBSCRIPT
    )
