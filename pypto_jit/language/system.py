"""``pl.system``: what concerns the machine that runs the tasks."""

from __future__ import annotations

from typing import Any

from pypto_jit.dtypes import INDEX
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.signatures import checked
from pypto_jit.language.tasks import task_ids
from pypto_jit.language.tracing import current


@checked
def task_dummy(deps: Any = ()) -> Scalar:
    """A task that does nothing, and ends when all of ``deps`` have ended."""
    return current("pl.system.task_dummy").submit(task_ids(deps))


@checked
def task_invalid() -> Scalar:
    """The TaskId of no task; nothing waits for it."""
    return current("pl.system.task_invalid").constant(-1, INDEX)


__all__ = ["task_dummy", "task_invalid"]
