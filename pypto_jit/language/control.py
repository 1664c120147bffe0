"""Loops that are recorded rather than run: ``for i in pl.range(...)`` and its kin, and what closes their bodies."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

from pypto_jit.dtypes import INDEX
from pypto_jit.errors import ControlFlowError, DTypeError, TraceError
from pypto_jit.language.scalars import Scalar, binary, cast, fold
from pypto_jit.language.tracing import current, here


class _Carrying:
    """The iterations of a loop that may carry values.

    Attributes:
        name: what the user wrote.
        init_values: the first of the carried values, if the loop was given some.
    """

    name: str
    init_values: tuple[Any, ...] | None

    def __iter__(self) -> Iterator[Any]:
        raise current(self.name).unstaged(
            f"{self.name} is iterated over by something else than a `for` statement of the kernel",
            f"write `for i in {self.name}(...):` as a statement; to unroll in Python, use range",
        )


class Range(_Carrying):
    """The iterations of a recorded loop.

    Attributes:
        start, stop, step: ints or traced INDEX scalars; a constant step is not zero.
        parallel: whether the iterations are independent.
        stages: how many iterations may overlap, a hint.
        first, end, stride: the recorded counter's bounds; it only counts up.
    """

    def __init__(
        self,
        name: str,
        bounds: tuple[Any, Any, Any],
        *,
        parallel: bool = False,
        stages: int | None = None,
        init_values: Any = None,
    ) -> None:
        self.name = name
        self.start, self.stop, self.step = bounds
        self.parallel = parallel
        self.stages = stages
        self.init_values = _initial(name, init_values)
        self.first, self.end, self.stride = self.start, self.stop, self.step
        self._down = isinstance(self.step, int) and self.step < 0
        self._counted = False
        if self._down:
            self.first, self.end, self.stride = 0, self.start - self.stop, -self.step
        elif not isinstance(self.step, Scalar) or current(name).at_most(1, self.step):
            return
        elif current(name).at_most(0, self.step):
            self.end, self.stride = _select(self.step > 0, self.stop, self.start), fold("max", (self.step, 1))
        else:
            self._counted = True
            self.first, self.end, self.stride = 0, self._turns(), 1

    def _turns(self) -> Any:
        """How often a loop runs whose step may go either way; a step of zero leads nowhere."""
        size = fold("max", (abs(self.step), 1))
        up, down = self.stop - self.start, self.start - self.stop
        distance = _select(binary("gt", self.step, 0), up, _select(binary("lt", self.step, 0), down, 0))
        return fold("max", (binary("floordiv", binary("add", distance, size - 1), size), 0))

    def variable(self, counter: Scalar) -> Any:
        """The loop variable, from the recorded counter."""
        if self._down:
            return self.start - counter
        return self.start + counter * self.step if self._counted else counter

    def __repr__(self) -> str:
        return f"{self.name}({self.start}, {self.stop}, {self.step})"


class Unrolled(_Carrying):
    """Iterations that Python makes while tracing."""

    name = "pl.unroll"

    def __init__(self, items: builtins.range, init_values: Any) -> None:
        self._items = items
        self.init_values = _initial(self.name, init_values)

    def __iter__(self) -> Iterator[int]:
        return iter(self._items)


class While(_Carrying):
    """What ``pl.while_`` gives; the rewrite takes it apart."""

    name = "pl.while_"

    def __init__(self, init_values: Any) -> None:
        self.init_values = _initial(self.name, init_values)

    def __iter__(self) -> Iterator[Any]:
        raise current(self.name).unstaged(
            "pl.while_ is iterated over by something else than a `for` statement of the kernel",
            "write `for (a, b) in pl.while_(init_values=(x, y)):` as a statement, with pl.cond(...) first in it",
        )


def range(*bounds: Any, init_values: Sequence[Any] | None = None) -> Range:
    """A loop over ``start, start + step, ...`` up to ``stop``, recorded once, run in order.

    Args:
        bounds: ``stop``, or ``start, stop``, or ``start, stop, step``: integers, known now or when the kernel runs. A
            step may be negative; a loop whose step turns out to be zero does not run.
        init_values: carried values: ``for i, (a, b) in pl.range(n, init_values=(x, y)):``, closed by
            ``a, b = pl.yield_(u, v)``. Without it, whatever the body rebinds is carried.

    Raises:
        ControlFlowError: a constant step of zero.
    """
    return Range("pl.range", _bounds("pl.range", bounds), init_values=init_values)


def parallel(*bounds: Any, init_values: Sequence[Any] | None = None) -> Range:
    """As `range`, for iterations that are independent: at the top of a kernel they spread over the cores."""
    return Range("pl.parallel", _bounds("pl.parallel", bounds), parallel=True, init_values=init_values)


def pipeline(*bounds: Any, stage: int = 2, init_values: Sequence[Any] | None = None) -> Range:
    """As `range`, with the hint that ``stage`` iterations may overlap; results are those of `range`.

    Raises:
        ControlFlowError: ``stage`` is no positive int.
    """
    if isinstance(stage, bool) or not isinstance(stage, Integral) or stage < 1:
        raise ControlFlowError(
            "the stage of pl.pipeline is a positive int", span=here(), found=stage, expected="how many turns overlap"
        )
    bounds = _bounds("pl.pipeline", bounds)
    return Range("pl.pipeline", bounds, stages=int(stage), init_values=init_values)


def unroll(*bounds: Any, init_values: Sequence[Any] | None = None) -> Unrolled:
    """As Python's ``range``: the body is traced for every iteration.

    Raises:
        ControlFlowError: a bound that is only known when the kernel runs.
    """
    start, stop, step = _bounds("pl.unroll", bounds)
    if any(isinstance(bound, Scalar) for bound in (start, stop, step)):
        raise ControlFlowError(
            "pl.unroll needs a number of iterations that is known while tracing",
            span=here(),
            found=f"pl.unroll({start}, {stop}, {step})",
            hint="record the loop with pl.range",
        )
    return Unrolled(builtins.range(start, stop, step), init_values)


def while_(*, init_values: Sequence[Any] | None = None) -> While:
    """A loop with carried values that runs while a condition holds, recorded once.

    Args:
        init_values: ``for (a, b) in pl.while_(init_values=(x, y)):``, whose body begins with ``pl.cond(condition)`` and
            ends with ``a, b = pl.yield_(u, v)``.

    Raises:
        ControlFlowError: no ``init_values``.
    """
    current("pl.while_")
    if init_values is None:
        raise ControlFlowError(
            "pl.while_ takes the first of the values it carries",
            span=here(),
            found="pl.while_()",
            expected="pl.while_(init_values=(x, y))",
            hint="or write a `while` statement",
        )
    return While(init_values)


def cond(condition: Any) -> Any:
    """The condition of a ``pl.while_`` loop, as the first statement of its body.

    Raises:
        ControlFlowError: it stands elsewhere.
    """
    current("pl.cond")
    raise ControlFlowError(
        "pl.cond is the first statement of a pl.while_ loop",
        span=here(),
        found=f"pl.cond({condition!r}) elsewhere",
        hint="write `if` for a condition on a part of the body",
    )


def yield_(*values: Any) -> Any:
    """What an arm of an ``if``, or an iteration of a loop with ``init_values``, hands on: ``a, b = pl.yield_(x, y)``.

    Returns:
        The value, or the tuple of several ones.
    """
    current("pl.yield_")
    return values[0] if len(values) == 1 else values


def _initial(name: str, values: Any) -> tuple[Any, ...] | None:
    if values is None:
        return None
    if not isinstance(values, (tuple, list)):
        raise ControlFlowError(
            f"the init_values of {name} are a tuple", span=here(), found=values, expected="init_values=(x, y)"
        )
    return tuple(values)


def _bounds(name: str, bounds: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    current(name)
    if not 1 <= len(bounds) <= 3:
        raise TraceError(
            f"{name} takes one to three bounds", span=here(), found=len(bounds), expected="start, stop, step"
        )
    values = [_bound(name, value) for value in bounds]
    start, stop, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
    if not isinstance(step, Scalar) and step == 0:
        raise ControlFlowError(f"the step of {name} is zero", span=here(), found=step, expected="a step up or down")
    return start, stop, step


def _bound(name: str, value: Any) -> Any:
    if isinstance(value, Scalar) and value.dtype.kind == "int":
        return cast(value, INDEX)
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise DTypeError(f"the bounds of {name} are integers", span=here(), found=value)
    return int(value)


def _select(condition: Any, then: Any, other: Any) -> Any:
    trace = current("a traced scalar")
    values = [v if isinstance(v, Scalar) else trace.constant(v, INDEX) for v in (then, other)]
    return trace.scalar("select", (condition, *values), INDEX)
