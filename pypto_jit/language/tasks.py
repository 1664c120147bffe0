"""Tasks: parts of a kernel that run as kernels of their own, side by side where they do not touch the same data.

What a task reads and writes orders it; ``deps`` only adds to that order. ``no_dep``, ``manual_dep`` and
``pl.manual_scope``, with which PyPTO takes order away, change nothing here.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from numbers import Integral
from types import TracebackType
from typing import Any

from pypto_jit.dtypes import BOOL, INDEX, TASK_ID
from pypto_jit.errors import ControlFlowError, DTypeError, TraceError
from pypto_jit.language.annotations import ScalarAnnotation
from pypto_jit.language.scalars import Scalar, cast
from pypto_jit.language.signatures import checked
from pypto_jit.language.tracing import Task, current, here
from pypto_jit.language.values import Tensor

# A TaskId is a number; TASK_ID is the dtype of arrays of them.
TaskId = ScalarAnnotation(INDEX)


class Level(enum.Enum):
    """Where ``pl.at`` places its body: CORE_GROUP makes a task, AIV and AIC one for that core; the others group."""

    AIV = "aiv"
    AIC = "aic"
    CORE_GROUP = "core_group"
    CHIP_DIE = "chip_die"
    L2CACHE = CHIP_DIE
    CHIP = "chip"
    HOST = "host"
    CLUSTER_0 = "cluster_0"
    CLUSTER_1 = "cluster_1"
    CLUSTER_2 = "cluster_2"
    GLOBAL = "global"


class Role(enum.Enum):
    """What a hierarchy level does in ``pl.at``; nothing follows from it on one chip."""

    WORKER = "worker"
    ORCHESTRATOR = "orchestrator"
    Worker = WORKER
    Orchestrator = ORCHESTRATOR


class ScopeMode(enum.Enum):
    """Modes of ``pl.scope``; both track dependencies here."""

    AUTO = "auto"
    MANUAL = "manual"


class SplitMode(enum.Enum):
    """How ``pl.split`` divides vector work between the two vector cores of a group."""

    NONE = "none"
    UP_DOWN = "up_down"
    LEFT_RIGHT = "left_right"


class _Hint:
    """An entry of ``optimizations``; the compiler makes these choices itself."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


_TASKS = (Level.AIV, Level.AIC, Level.CORE_GROUP)


@checked
def split(mode: SplitMode = SplitMode.UP_DOWN) -> _Hint:
    """Advice for ``pl.at(optimizations=[...])``: divide vector work between two cores."""
    if not isinstance(mode, SplitMode):
        raise TraceError("pl.split takes a mode", span=here(), found=mode, expected="pl.SplitMode.UP_DOWN")
    return _Hint(f"pl.split({mode})")


@checked
def cross_core_slot(slot_num: int = 1) -> _Hint:
    """Advice for ``pl.at(optimizations=[...])``: how many tiles wait between the cube and the vector core."""
    if not isinstance(slot_num, int) or slot_num < 1:
        raise TraceError(
            "pl.cross_core_slot takes a number of slots", span=here(), found=slot_num, expected="1 or more"
        )
    return _Hint(f"pl.cross_core_slot(slot_num={slot_num})")


class _Scope:
    """``with pl.at(...)`` and the like."""

    def __init__(self, what: str) -> None:
        self._what = what
        current(what)

    def __enter__(self) -> Any:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class _TaskScope(_Scope):
    """A ``with`` statement whose body is a task."""

    def __init__(
        self, what: str, name: str | None, blocks: int | Scalar, dependencies: Any, predicate: Any, hints: Any
    ) -> None:
        super().__init__(what)
        self._name = task_name(what, name)
        self._blocks = blocks
        self._dependencies = task_ids(dependencies)
        self._predicate = condition(what, predicate)
        _check_hints(what, hints)
        self._task: Task | None = None

    def __enter__(self) -> Scalar:
        trace = current(self._what)
        self._task = trace.open_task(self._name, self._blocks, self._dependencies, self._predicate)
        return self._task.id

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._task is not None:
            current(self._what).close_task(self._task)


class _Spmd(_TaskScope):
    """What ``pl.spmd`` gives: for ``with`` and for ``for``."""

    def __iter__(self) -> Iterator[Scalar]:
        self.__enter__()
        assert self._task is not None
        yield self._task.index
        current(self._what).close_task(self._task)


def task_name(what: str, name: Any, default: str = "task") -> str:
    """The name of a task by its ``name_hint``."""
    if name is None or name == "":
        return default
    if not isinstance(name, str):
        raise TraceError(f"the name_hint of {what} is a string", span=here(), found=name)
    return name


def task_ids(dependencies: Any) -> list[Scalar]:
    """The TaskIds in the value of ``deps``: one, or lists, tuples and arrays of them.

    Raises:
        TraceError: something else.
    """
    if dependencies is None:
        return []
    if isinstance(dependencies, Scalar):
        if dependencies.dtype.kind != "int" and dependencies.dtype != INDEX:
            raise TraceError(
                "deps takes TaskIds", span=here(), found=dependencies, expected="what pl.at(...) as tid gives"
            )
        return [cast(dependencies, INDEX)]
    if isinstance(dependencies, Integral) and not isinstance(dependencies, bool):
        return [current("deps").constant(int(dependencies), INDEX)]
    if isinstance(dependencies, (str, bytes, Tensor)) or not hasattr(type(dependencies), "__getitem__"):
        raise TraceError(
            "deps takes TaskIds",
            span=here(),
            found=dependencies,
            expected="what pl.at(...) as tid gives, or a list of it",
        )
    return [tid for k in range(len(dependencies)) for tid in task_ids(dependencies[k])]


def _no_task_id(found: Any) -> TraceError:
    expected = "what `with pl.at(...) as tid` gives, or a list of that"
    return TraceError("deps takes TaskIds", span=here(), found=found, expected=expected)


def condition(what: str, predicate: Any) -> Scalar | None:
    """The value of ``predicate``: None where the task always runs."""
    if predicate is None or predicate is True:
        return None
    trace = current(what)
    if isinstance(predicate, bool):
        return trace.constant(predicate, BOOL)
    if not isinstance(predicate, Scalar) or predicate.dtype != BOOL:
        raise DTypeError(
            f"the predicate of {what} is a condition",
            span=here(),
            found=predicate,
            expected="a comparison, such as gate[0, 0] > 0",
        )
    return predicate


def _block_count(what: str, count: Any) -> int | Scalar:
    if isinstance(count, Scalar) and not count.dtype.is_float and count.dtype != BOOL:
        return cast(count, INDEX)
    if not isinstance(count, Integral) or isinstance(count, bool):
        raise DTypeError(f"{what} takes a number of blocks", span=here(), found=count)
    if count < 1:
        raise ControlFlowError(f"{what} takes at least one block", span=here(), found=int(count))
    return int(count)


def _check_hints(what: str, optimizations: Any) -> None:
    for hint in optimizations or ():
        if not isinstance(hint, _Hint):
            raise TraceError(
                f"unknown entry of the optimizations of {what}",
                span=here(),
                found=hint,
                expected="pl.split(mode) or pl.cross_core_slot(slot_num=n)",
            )


def _check_tensors(what: str, name: str, tensors: Any) -> None:
    for tensor in tensors or ():
        if not isinstance(tensor, Tensor):
            raise TraceError(f"{name} of {what} takes tensors", span=here(), found=tensor)


@checked
def at(
    level: Level = Level.CORE_GROUP,
    *,
    role: Role | None = None,
    name_hint: str | None = None,
    optimizations: Any = (),
    deps: Any = (),
    predicate: Any = None,
    no_dep_args: Any = (),
    dumps: Any = (),
    allow_early_resolve: bool = False,
) -> Any:
    """``with pl.at(level=pl.Level.CORE_GROUP) [as tid]:`` makes its body a task, run as a kernel of its own.

    Args:
        level: CORE_GROUP, AIV or AIC for a task. The body of another level is only grouped: it runs where it stands.
        role: of a hierarchy level; nothing follows from it.
        name_hint: part of the kernel's name.
        optimizations: ``pl.split(...)``, ``pl.cross_core_slot(...)``: advice, not needed here.
        deps: TaskIds that the task waits for, beyond those that the data it touches demand.
        predicate: a condition; where it does not hold when the kernel runs, the task does nothing.
        no_dep_args, dumps: tensors; PyPTO's hints, which change nothing here.
        allow_early_resolve: a hint that changes nothing here.

    Raises:
        TraceError: a task begins inside of another one, or an argument is of another kind.
    """
    if not isinstance(level, Level):
        raise TraceError("pl.at takes a level", span=here(), found=level, expected="pl.Level.CORE_GROUP")
    if role is not None and not isinstance(role, Role):
        raise TraceError("the role of pl.at is a pl.Role", span=here(), found=role, expected="pl.Role.Worker")
    _check_tensors("pl.at", "no_dep_args", no_dep_args)
    _check_tensors("pl.at", "dumps", dumps)
    if level in _TASKS:
        return _TaskScope("pl.at", name_hint, 1, deps, predicate, optimizations)
    if deps or predicate is not None:
        raise TraceError(
            f"pl.at(level=pl.Level.{level.name}) makes no task",
            span=here(),
            found="deps" if deps else "predicate",
            hint="only level=pl.Level.CORE_GROUP has dependencies and a predicate",
        )
    return _Scope("pl.at")


@checked
def spmd(
    core_num: int | Scalar,
    *,
    sync_start: bool = False,
    deps: Any = (),
    predicate: Any = None,
    allow_early_resolve: bool = False,
    optimizations: Any = (),
    name_hint: str | None = None,
) -> Any:
    """A task of ``core_num`` blocks: ``with pl.spmd(n) [as tid]:`` or ``for block in pl.spmd(n):``.

    Its author says by it that the blocks are independent of each other. ``pl.get_block_idx()`` is the block's number.

    Args:
        core_num: how many blocks, known now or when the kernel runs.
        sync_start: that all blocks start at once; nothing here waits for another block, so it changes nothing.
        deps, predicate, allow_early_resolve, optimizations, name_hint: as of `at`.
    """
    return _Spmd("pl.spmd", name_hint, _block_count("pl.spmd", core_num), deps, predicate, optimizations)


@checked
def scope(mode: ScopeMode = ScopeMode.AUTO, *, name_hint: str | None = None) -> Any:
    """``with pl.scope():`` groups tasks. Created tensors live as long as the call, so nothing follows from it."""
    if not isinstance(mode, ScopeMode):
        raise TraceError("pl.scope takes a mode", span=here(), found=mode, expected="pl.ScopeMode.AUTO")
    return _Scope("pl.scope")


@checked
def manual_scope(*, name_hint: str | None = None) -> Any:
    """``with pl.manual_scope():`` groups tasks. Their data still orders them: the declared order can only add to it."""
    return _Scope("pl.manual_scope")


@checked
def cluster(*, name_hint: str | None = None) -> Any:
    """``with pl.cluster():`` groups tasks for the cube and the vector cores. Here their data orders them."""
    return _Scope("pl.cluster")


def _called(what: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if not callable(function):
        raise TraceError(f"{what} takes a function and its arguments", span=here(), found=function)
    return current(what).callee(function)(*args, **kwargs)


def _submit(what: str, scope: _TaskScope, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    with scope as tid:
        result = _called(what, function, args, kwargs)
    if result is None:
        return tid
    return (tid, *result) if isinstance(result, tuple) else (tid, result)


def submit(
    function: Any,
    *args: Any,
    deps: Any = (),
    predicate: Any = None,
    dumps: Any = (),
    name_hint: str | None = None,
    **kwargs: Any,
) -> Any:
    """``tid, result = pl.submit(kernel, arguments..., deps=[...])``: a task that is one call of a function.

    Args:
        function: a function of the program, or any function of the kernel's author.
        args, kwargs: its arguments.
        deps, predicate, dumps, name_hint: as of `at`.

    Returns:
        The TaskId, and then what the function returned; the TaskId alone where that is nothing.
    """
    _check_tensors("pl.submit", "dumps", dumps)
    name = name_hint or getattr(function, "__name__", None)
    return _submit("pl.submit", _TaskScope("pl.submit", name, 1, deps, predicate, ()), function, args, kwargs)


def spmd_submit(
    function: Any,
    *args: Any,
    core_num: int | Scalar,
    deps: Any = (),
    predicate: Any = None,
    dumps: Any = (),
    sync_start: bool = False,
    name_hint: str | None = None,
    **kwargs: Any,
) -> Any:
    """As `submit`, in ``core_num`` blocks, which tell themselves apart by ``pl.get_block_idx()``."""
    _check_tensors("pl.spmd_submit", "dumps", dumps)
    blocks = _block_count("pl.spmd_submit", core_num)
    name = name_hint or getattr(function, "__name__", None)
    scope = _TaskScope("pl.spmd_submit", name, blocks, deps, predicate, ())
    return _submit("pl.spmd_submit", scope, function, args, kwargs)


def get_block_idx() -> Any:
    """The number of the block that runs, from 0; 0 outside of ``pl.spmd``."""
    task = current("pl.get_block_idx").task
    return 0 if task is None else task.index


def get_block_num() -> Any:
    """How many blocks the task has; 1 outside of ``pl.spmd``."""
    task = current("pl.get_block_num").task
    return 1 if task is None else task.count


def get_subblock_idx() -> int:
    """The number of the vector core within its group: 0, since one does all the work of a block here."""
    current("pl.get_subblock_idx")
    return 0


__all__ = [
    "TASK_ID",
    "Level",
    "Role",
    "ScopeMode",
    "SplitMode",
    "TaskId",
    "at",
    "cluster",
    "cross_core_slot",
    "get_block_idx",
    "get_block_num",
    "get_subblock_idx",
    "manual_scope",
    "scope",
    "split",
    "spmd",
    "spmd_submit",
    "submit",
]
