"""Recorded loops: counted ones become an ``scf.for``; those that may end early, or run while a condition holds, an
``scf.while``.

An ``scf.while`` carries whether there is another turn: each turn works that out for the next one, so that its first
region only passes on what is carried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BOOL, INDEX
from pypto_jit.errors import ControlFlowError, Span
from pypto_jit.frontend.builder import Builder
from pypto_jit.frontend.carried import Leaf, RecordedLoop
from pypto_jit.frontend.liveness import Flow
from pypto_jit.language.control import Range
from pypto_jit.language.scalars import Scalar, binary


def _record_while(
    builder: Builder,
    block: ir.Block,
    initial: Sequence[ir.Value],
    location: ir.Location,
) -> ir.Operation:
    """An ``scf.while`` around a body, from whether it runs at all and what it carries at first."""
    kinds = [value.type for value in initial]
    created = builder.operation("scf.while", kinds[1:], initial, {}, 2, location)
    before = ir.Block.create_at_start(created.regions[0], kinds, [location] * len(kinds))
    arguments = list(before.arguments)
    ir.Operation.create("scf.condition", operands=arguments, loc=location, ip=ir.InsertionPoint(before))
    block.append_to(created.regions[1])
    return created


class CountedLoop(RecordedLoop):
    """``for i in pl.range(...)`` and its kin."""

    def __init__(self, builder: Builder, items: Range, flow: Flow, span: Span | None) -> None:
        self._items = items
        self._attributes: dict[str, ir.Attribute] = {}
        if items.parallel:
            self._attributes["pypto.parallel"] = ir.UnitAttr.get(builder.context)
        if items.stages is not None:
            i64 = builder.type("i64")
            self._attributes["pypto.stages"] = ir.IntegerAttr.get(i64, items.stages)
        super().__init__(builder, flow, span, items.name, items.parallel)

    def _make(self) -> tuple[ir.Operation, ir.Block]:
        builder, items = self._builder, self._items
        self._bounds = [builder.index(bound) for bound in (items.first, items.end, items.stride)]
        operation = builder.operation("scf.for", [], self._bounds, self._attributes, 1, self._location)
        block = ir.Block.create_at_start(operation.regions[0], [builder.type("index")], [self._location])
        return operation, block

    def items(self) -> Iterator[Any]:
        """The one traced turn: opens the body and gives the loop variable."""
        self.open()
        self._counters.append(Scalar(self._block.arguments[0], INDEX, self._region))
        yield self._items.variable(self._counters[0])

    def _create(self, leaves: Sequence[Leaf], exits: Scalar | bool) -> Sequence[ir.Value]:
        builder = self._builder
        finals = [builder.value(leaf.final) for leaf in leaves]
        if exits is not False:
            return self._create_while(leaves, finals, exits)
        self._close_body(finals)
        if not leaves:
            return []
        initial = [self._initial(leaf) for leaf in leaves]
        kinds = [value.type for value in initial]
        created = builder.operation("scf.for", kinds, [*self._bounds, *initial], self._attributes, 1, self._location)
        self._block.append_to(created.regions[0])
        self._replace(created)
        return list(created.results)

    def _create_while(
        self, leaves: Sequence[Leaf], finals: Sequence[ir.Value], exits: Scalar | bool
    ) -> Sequence[ir.Value]:
        builder, region = self._builder, self._builder.region
        following = Scalar(self._block.arguments[0], INDEX, region) + self._items.stride
        again: Any = False
        if isinstance(exits, Scalar):
            again = (following < self._items.end) & ~exits
        self._close_body([builder.value(self._flag(again)), builder.value(following), *finals])
        first = self._items.first
        runs = first < self._items.end
        initial = [builder.value(self._flag(runs)), builder.index(first), *map(self._initial, leaves)]
        created = _record_while(builder, self._block, initial, self._location)
        self._replace(created)
        return list(created.results)[1:]

    def _flag(self, value: Any) -> Scalar:
        return value if isinstance(value, Scalar) else self._builder.constant(bool(value), BOOL)


class ConditionLoop(RecordedLoop):
    """``while condition:``."""

    def __init__(self, builder: Builder, condition: Scalar, flow: Flow, span: Span | None) -> None:
        self._condition = condition
        self._again: Scalar | bool = False
        super().__init__(builder, flow, span, "while")

    def _make(self) -> tuple[ir.Operation, ir.Block]:
        operation = self._builder.operation("scf.while", [], [], {}, 2, self._location)
        return operation, ir.Block.create_at_start(operation.regions[1], [])

    def close(self, condition: Scalar | bool, variables: dict[str, Any]) -> None:
        """Close the body; the condition says whether there is another turn."""
        if condition is True:
            raise ControlFlowError(
                "a recorded `while` loop never ends: its condition is True after each turn",
                span=self._span,
                hint="compare values that the body changes, or leave the loop with `break`",
            )
        self._again = condition
        self.leave(variables)

    def _create(self, leaves: Sequence[Leaf], exits: Scalar | bool) -> Sequence[ir.Value]:
        builder = self._builder
        again = self._again if isinstance(self._again, Scalar) else builder.constant(False, BOOL)
        self._close_body([builder.value(again), *(builder.value(leaf.final) for leaf in leaves)])
        initial = [builder.value(self._condition), *map(self._initial, leaves)]
        created = _record_while(builder, self._block, initial, self._location)
        self._replace(created)
        return list(created.results)


class Repetition:
    """Hooks around one ``while``: it runs in Python until its condition is one that is only known at run time.

    Args:
        flow: what is known of the statement.
        check: refuses a statement that cannot be recorded, and gives the trace to record into.

    Attributes:
        recorded: the recorded loop, once there is one.
    """

    def __init__(self, flow: Flow, check: Callable[[Flow], Builder]) -> None:
        self._flow = flow
        self._check = check
        self.recorded: ConditionLoop | None = None

    def again(self, test: Any, variables: dict[str, Any]) -> bool:
        """Whether Python runs the body now: the condition, or once for a recorded loop."""
        condition: Scalar | bool = bool(test) if not isinstance(test, Scalar) else test
        if isinstance(condition, Scalar) and condition.dtype != BOOL:
            condition = binary("ne", condition, 0)
        if self.recorded is not None:
            self.recorded.close(condition, variables)
            return False
        if not isinstance(condition, Scalar):
            return condition
        builder = self._check(self._flow)
        self.recorded = ConditionLoop(builder, condition, self._flow, builder.span())
        self.recorded.open()
        return True

    def enter(self, variables: dict[str, Any]) -> tuple[Any, ...]:
        """As `RecordedLoop.enter`."""
        assert self.recorded is not None
        return self.recorded.enter(variables)

    def results(self) -> tuple[Any, ...]:
        """As `RecordedLoop.results`."""
        assert self.recorded is not None
        return self.recorded.results()
