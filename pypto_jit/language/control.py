"""Loops that are recorded rather than run: ``for i in pl.range(...)`` and ``for i in pl.parallel(...)``."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

from pypto_jit.dtypes import INDEX
from pypto_jit.errors import ControlFlowError, DTypeError, TraceError
from pypto_jit.language.scalars import Scalar, cast, fold
from pypto_jit.language.tracing import current, here


class Range:
    """The iterations of a recorded loop.

    Attributes:
        start, stop, step: ints or traced INDEX scalars; the step is positive.
        parallel: whether the iterations are independent.
    """

    __slots__ = ("parallel", "start", "step", "stop")

    def __init__(self, start: Any, stop: Any, step: Any, parallel: bool) -> None:
        self.start = start
        self.stop = stop
        self.step = step
        self.parallel = parallel

    @property
    def name(self) -> str:
        """What the user wrote."""
        return "pl.parallel" if self.parallel else "pl.range"

    def __iter__(self) -> Iterator[Any]:
        raise current(self.name).unstaged(
            f"{self.name} is iterated over by something else than a `for` statement of the kernel",
            f"write `for i in {self.name}(...):` as a statement; to unroll in Python, use range",
        )

    def __repr__(self) -> str:
        return f"{self.name}({self.start}, {self.stop}, {self.step})"


def range(*bounds: Any) -> Range:
    """A loop over ``start, start + step, ...`` below ``stop``, recorded once, run in order.

    Args:
        bounds: ``stop``, or ``start, stop``, or ``start, stop, step``: integers, known now or when the kernel runs.

    Raises:
        ControlFlowError: the step is not positive.
    """
    return _loop(bounds, False)


def parallel(*bounds: Any) -> Range:
    """As `range`, for iterations that are independent: at the top of a kernel they spread over the cores."""
    return _loop(bounds, True)


def _loop(bounds: tuple[Any, ...], independent: bool) -> Range:
    name = "pl.parallel" if independent else "pl.range"
    current(name)
    if not 1 <= len(bounds) <= 3:
        raise TraceError(
            f"{name} takes one to three bounds", span=here(), found=len(bounds), expected="start, stop, step"
        )
    values = [_bound(name, value) for value in bounds]
    start, stop, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
    if isinstance(step, Scalar):
        # A step of zero would never end.
        step = fold("max", (step, 1))
    elif step <= 0:
        raise ControlFlowError(
            f"the step of {name} is positive",
            span=here(),
            found=step,
            hint="to count down, compute the index: last - i",
        )
    return Range(start, stop, step, independent)


def _bound(name: str, value: Any) -> Any:
    if isinstance(value, Scalar) and value.dtype.kind == "int":
        return cast(value, INDEX)
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise DTypeError(f"the bounds of {name} are integers", span=here(), found=value)
    return int(value)
