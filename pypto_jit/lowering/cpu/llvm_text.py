"""LLVM IR under construction, as text: fresh names, blocks, and the idioms that entries are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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

    def loop(
        self,
        carried: Sequence[tuple[str, str]],
        condition: Callable[[list[str]], str],
        body: Callable[[list[str]], Sequence[str]],
    ) -> list[str]:
        """``while condition(values): values = body(values)``; gives the values that the condition did not hold of.

        Args:
            carried: type and first value of each.
        """
        origin, head, inside, latch, after = (self.fresh("b") for _ in range(5))
        self.jump(origin)
        self.label(origin)
        self.jump(head)
        self.label(head)
        names = ["%" + self.fresh() for _ in carried]
        place = len(self.lines)
        self.branch(condition(list(names)), inside, after)
        self.label(inside)
        following = body(list(names))
        self.jump(latch)
        self.label(latch)
        self.jump(head)
        self.label(after)
        self.lines[place:place] = [
            f"  {name} = phi {kind} [ {first}, %{origin} ], [ {value}, %{latch} ]"
            for name, (kind, first), value in zip(names, carried, following, strict=True)
        ]
        return names

    def choose(self, kind: str, condition: str, then: Callable[[], str], otherwise: Callable[[], str]) -> str:
        """The value of one of two branches."""
        first, second, after = (self.fresh("b") for _ in range(3))
        ends: list[tuple[str, str]] = []
        self.branch(condition, first, second)
        for label, branch in ((first, then), (second, otherwise)):
            self.label(label)
            value, end = branch(), self.fresh("b")
            self.jump(end)
            self.label(end)
            self.jump(after)
            ends.append((value, end))
        self.label(after)
        return self.value(f"phi {kind} " + ", ".join(f"[ {value}, %{end} ]" for value, end in ends))

    def store(self, kind: str, value: int | str, base: str, offset: int | str = 0) -> None:
        """Store a value some bytes after an address."""
        where = self.address(base, offset) if offset else base
        self.raw(f"  store {kind} {value}, ptr {where}")

    def address(self, base: str, offset: int | str) -> str:
        return self.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, kind: str, base: str, offset: int | str = 0) -> str:
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
