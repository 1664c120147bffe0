"""Tasks while tracing: a task is a loop over its blocks behind the operation that gives its TaskId."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pypto_jit._mlir import ir
from pypto_jit.dtypes import INDEX
from pypto_jit.errors import TraceError
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.tracing import Task

if TYPE_CHECKING:
    from pypto_jit.frontend.builder import Builder, Region

# The TaskId of no task.
NO_TASK = -1


@dataclass
class _Open:
    """What closing a task needs."""

    body: Region
    arm: Region | None
    branch: ir.Operation | None
    location: ir.Location


class Tasks:
    """Records the tasks of one trace."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._open: list[tuple[Task, _Open]] = []

    @property
    def current(self) -> Task | None:
        """The task being traced."""
        return self._open[-1][0] if self._open else None

    def open(self, name: str, blocks: int | Scalar, dependencies: Sequence[Scalar], predicate: Scalar | None) -> Task:
        """As `Trace.open_task`."""
        builder = self._builder
        span, location = builder.span(), builder.location
        if self.current is not None:
            raise TraceError(
                f"task '{name}' begins inside of task '{self.current.name}'",
                span=span,
                found=f"a task inside of the one that begins at {self.current.span}",
                expected="tasks one after the other",
                hint="end the first task before, or leave the inner one out",
            )
        count = builder.index(blocks)
        branch = arm = None
        if predicate is not None:
            branch = builder.operation("scf.if", [builder.type("index")], [builder.value(predicate)], {}, 2, location)
            block = ir.Block.create_at_start(branch.regions[0], [])
            arm = builder.open_region(block, f"task '{name}'", span)
        submitted = self.submit(dependencies, dummy=False)
        loop = builder.operation(
            "scf.for",
            [],
            [builder.index(0), count, builder.index(1)],
            {"pypto.task": ir.StringAttr.get(name, builder.context)},
            1,
            location,
        )
        block = ir.Block.create_at_start(loop.regions[0], [builder.type("index")], [location])
        body = builder.open_region(block, f"task '{name}'", span)
        task = Task(name, submitted, Scalar(block.arguments[0], INDEX, body), blocks, span)
        self._open.append((task, _Open(body, arm, branch, location)))
        return task

    def close(self, task: Task) -> None:
        """As `Trace.close_task`."""
        builder = self._builder
        current, state = self._open.pop()
        assert current is task
        builder.operation("scf.yield", [], [], location=state.location)
        builder.close_region(state.body)
        if state.branch is None or state.arm is None:
            return
        builder.operation("scf.yield", [], [task.id.handle], location=state.location)
        builder.close_region(state.arm)
        other = ir.Block.create_at_start(state.branch.regions[1], [])
        nothing = builder.index(NO_TASK)
        ir.Operation.create("scf.yield", operands=[nothing], loc=state.location, ip=ir.InsertionPoint(other))
        task.id.handle = state.branch.results[0]
        task.id.region = builder.region

    def submit(self, dependencies: Sequence[Scalar], dummy: bool = True) -> Scalar:
        """As `Trace.submit`; for a task that does something, unless it is a dummy."""
        builder = self._builder
        attributes: dict[str, ir.Attribute] = {"pypto.dummy": ir.UnitAttr.get(builder.context)} if dummy else {}
        values = [builder.value(dependency) for dependency in dependencies]
        if dummy and self.current is not None:
            raise TraceError(
                "a task begins inside of another one",
                span=builder.span(),
                found=f"pl.system.task_dummy inside of the task that begins at {self.current.span}",
                hint="make it after the task",
            )
        created = builder.operation("pypto.submit", [builder.type("index")], values, attributes)
        return Scalar(created.results[0], INDEX, builder.region)
