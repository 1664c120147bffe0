"""Names of values in printed assembly: the parameters' own, PyPTO's names for constants, numbers for the rest.

Names are unique in their function, so that a value is found by searching for its name. A name that a value brings along
(a name location, which the tracer and the parser attach) is kept.
"""

from __future__ import annotations

import re

from pypto_jit._mlir import ir

_NOT_IN_NAME = re.compile(r"[^\w$.]")
_LOOP_VARIABLES = "ijklmn"


def hint_of(location: ir.Location) -> str | None:
    """The name a location carries, if any."""
    return location.name_str if location.is_a_name() else None


class Names:
    """The names given so far in one function."""

    def __init__(self) -> None:
        self._of: dict[ir.Value, str] = {}
        self._taken: set[str] = set()
        self._number = 0

    def __getitem__(self, value: ir.Value) -> str:
        return self._of[value]

    def __contains__(self, value: ir.Value) -> bool:
        return value in self._of

    def alias(self, value: ir.Value, name: str) -> None:
        """Let a value be written as an existing name."""
        self._of[value] = name

    def give(self, value: ir.Value, hint: str | None) -> str:
        """Name a value after a hint, made unique, or by the next number."""
        name = self.reserve(hint)
        self._of[value] = "%" + name
        return "%" + name

    def give_loop(self, value: ir.Value, hint: str | None, depth: int) -> str:
        """Name a loop's induction variable: ``%i`` outside, ``%j`` in it, and so on."""
        return self.give(value, hint or _LOOP_VARIABLES[min(depth, len(_LOOP_VARIABLES) - 1)])

    def give_all(self, values: list[ir.Value], hint: str | None) -> str:
        """Name the results of one operation: ``%r:2`` defines ``%r#0`` and ``%r#1``."""
        if len(values) == 1:
            return self.give(values[0], hint)
        name = self.reserve(hint)
        for position, value in enumerate(values):
            self._of[value] = f"%{name}#{position}"
        return f"%{name}:{len(values)}"

    def reserve(self, hint: str | None) -> str:
        """A name nobody else has, without the percent sign."""
        name = _NOT_IN_NAME.sub("_", hint) if hint else ""
        if not name or name.isdigit():
            name = str(self._number)
            self._number += 1
            return name
        if name[0].isdigit():
            name = "_" + name
        base, count = name, 0
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


def constant_name(text: str) -> str:
    """PyPTO's name for a constant as MLIR writes it: ``c32_index``, ``cn5_i32``, ``cst`` for a float, ``true``."""
    if text in ("true", "false"):
        return text
    value, _, kind = text.partition(" : ")
    if kind.startswith(("f", "bf")):
        return "cst"
    return f"c{value.replace('-', 'n')}_{kind}"


def argument_hint(about: dict[str, ir.Attribute]) -> str:
    """The name of a function's argument that is none of the author's."""
    for key, suffix in (("pypto.dim", "dim"), ("pypto.stride", "stride")):
        if key in about:
            tensor, axis = ir.ArrayAttr(about[key])
            return f"{ir.StringAttr(tensor).value}_{suffix}{ir.IntegerAttr(axis).value}"
    return "workspace" if "pypto.workspace" in about else "arg"
