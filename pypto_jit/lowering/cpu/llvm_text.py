"""LLVM IR under construction, as text: fresh names, blocks, and the idioms that entries are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pypto_jit import abi
from pypto_jit.abi import Binding


class LlvmText:
    """The lines of some functions. Methods that compute append an instruction and return the name of its value."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def fresh(self, stem: str = "v") -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def raw(self, line: str) -> None:
        self.lines.append(line)

    def value(self, expression: str) -> str:
        name = "%" + self.fresh()
        self.lines.append(f"  {name} = {expression}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def jump(self, target: str) -> None:
        self.lines.append(f"  br label %{target}")

    def branch(self, condition: str, then: str, otherwise: str) -> None:
        self.lines.append(f"  br i1 {condition}, label %{then}, label %{otherwise}")

    def require(self, condition: str, failure: str) -> None:
        """Go on where the condition holds, else to the failure block."""
        after = self.fresh("b")
        self.branch(condition, after, failure)
        self.label(after)

    @contextmanager
    def only_if(self, condition: str) -> Iterator[None]:
        """Run what is written inside only where the condition holds."""
        then, after = self.fresh("b"), self.fresh("b")
        self.branch(condition, then, after)
        self.label(then)
        yield
        self.jump(after)
        self.label(after)

    def address(self, base: str, offset: int | str) -> str:
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, kind: str, base: str, offset: int = 0) -> str:
        where = self.address(base, offset) if offset else base
        return self.value(f"load {kind}, ptr {where}")

    def every(self, conditions: Sequence[str]) -> str:
        return self._join("and", conditions, "true")

    def any(self, conditions: Sequence[str]) -> str:
        return self._join("or", conditions, "false")

    def _join(self, operation: str, conditions: Sequence[str], empty: str) -> str:
        result = conditions[0] if conditions else empty
        for condition in conditions[1:]:
            result = self.value(f"{operation} i1 {result}, {condition}")
        return result

    def binding(self, slot: Binding, kind: str = "i64") -> str:
        where = f"getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(slot)})"
        return self.value(f"load {kind}, ptr {where}")

    def least(self, left: str, right: str) -> str:
        return self._select("slt", left, right)

    def greatest(self, left: str, right: str) -> str:
        return self._select("sgt", left, right)

    def absolute(self, operand: str) -> str:
        return self.greatest(operand, self.value(f"sub i64 0, {operand}"))

    def _select(self, predicate: str, left: str, right: str) -> str:
        condition = self.value(f"icmp {predicate} i64 {left}, {right}")
        return self.value(f"select i1 {condition}, i64 {left}, i64 {right}")
