"""Cuts LLVM IR into modules that are compiled side by side and linked again.

A function starts with a line ``define ... {`` and ends with the line ``}``, and everything else is globals,
declarations, attributes and metadata, as MLIR and our own text have it; a module with other lines is left whole. What
is internal to the whole becomes hidden: known to all modules of a kernel, and to nobody outside of the linked code.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# A part has this many lines at least, as each costs a code generator of its own, about 2 ms, ...
_LINES = 400
# ... and there are at most so many. Never as many as there are cores: a kernel is the same code on every machine.
_PARTS = 8

_NAME = r'@("[^"\n]*"|[\w.$-]+)'
_HEAD = re.compile(rf"^define (?:internal |weak_odr )?([^\n]*?){_NAME}\(([^\n]*)\)[^\n)]*\{{\n")
_UNUSUAL = re.compile(r"^define [^\n]*[^{\n]\n", re.MULTILINE)
_DECLARED = re.compile(rf"^declare [^\n]*?{_NAME}\([^\n]*\n", re.MULTILINE)
_GLOBAL = re.compile(rf"^{_NAME} = (internal |private )?[^\n]*\n", re.MULTILINE)
_SYMBOL = re.compile(_NAME)
_PARAMETER_NAME = re.compile(r" %[\w.$-]+(?=,|$)")


@dataclass(frozen=True)
class _Function:
    """A function as its module defines it, and as other modules declare it."""

    name: str
    definition: str
    declaration: str

    @property
    def lines(self) -> int:
        """How much code it is."""
        return self.definition.count("\n")


def partition(text: str, lines: int = _LINES, parts: int = _PARTS) -> tuple[str, ...]:
    """The modules that a module is cut into, of about as much code each; itself where it is too little to be cut.

    Args:
        text: LLVM IR.
        lines: of a part at least, on average.
        parts: at most so many.
    """
    count = min(parts, text.count("\n") // lines)
    if count < 2 or _UNUSUAL.search(text):
        return (text,)
    texts, rest = _separated(text)
    functions = [_function(each) for each in texts]
    count = min(count, len(functions))
    declarations = {match[1]: match[0] for match in _DECLARED.finditer(rest)}
    declarations.update((each.name, each.declaration) for each in functions)
    rest = _DECLARED.sub("", rest)
    # Globals are part of the first module, and with them what they point to.
    frames = [_GLOBAL.sub(_visible, rest), *[_GLOBAL.sub(_elsewhere, rest)] * (count - 1)]
    return tuple(
        _module(frame, members, declarations)
        for frame, members in zip(frames, _balanced(functions, count), strict=True)
    )


def _separated(text: str) -> tuple[list[str], str]:
    """The functions of a module, and the rest of it."""
    functions, rest, end = [], [], 0
    lines = f"\n{text}"  # every line has a break before it, and lies where it lies in the text
    while (found := lines.find("\ndefine ", end)) >= 0:
        rest.append(text[end:found])
        end = text.index("\n}\n", found) + 3
        functions.append(text[found:end])
    return functions, "".join([*rest, text[end:]])


def _function(text: str) -> _Function:
    head = _HEAD.match(text)
    assert head is not None, "not a function"
    returned, name, parameters = head.groups()
    internal = text.startswith(("define internal ", "define weak_odr "))
    visibility = "hidden " if internal else ""
    definition = f"define {visibility}{text[head.start(1) :]}"
    parameters = ",".join(_PARAMETER_NAME.sub("", each) for each in parameters.split(","))
    return _Function(name, definition, f"declare {visibility}{returned}@{name}({parameters})\n")


def _visible(match: re.Match[str]) -> str:
    """A global that functions of other modules may use."""
    return match[0].replace(match[2], "hidden ", 1) if match[2] else match[0]


def _elsewhere(match: re.Match[str]) -> str:
    """A global of another module. Pointers have no types, so neither has what they point to."""
    return f"@{match[1]} = external {'hidden ' if match[2] else ''}global i8\n"


def _balanced(functions: Sequence[_Function], count: int) -> list[list[_Function]]:
    """Functions in so many groups: the largest first, each to the group that is smallest by then."""
    groups: list[list[_Function]] = [[] for _ in range(count)]
    sizes = [0] * count
    for function in sorted(functions, key=lambda each: each.lines, reverse=True):
        smallest = sizes.index(min(sizes))
        groups[smallest].append(function)
        sizes[smallest] += function.lines
    return groups


def _module(frame: str, members: Sequence[_Function], declarations: dict[str, str]) -> str:
    """A module of some functions, which declares all that they use."""
    text = frame + "\n" + "".join(each.definition for each in members)
    here = {each.name for each in members}
    used = {match[1] for match in _SYMBOL.finditer(text)} - here
    return text + "".join(line for name, line in declarations.items() if name in used)
