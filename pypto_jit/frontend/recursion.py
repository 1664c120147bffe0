"""Explains a kernel that calls itself without an end that is known while it is traced."""

from __future__ import annotations

from types import CodeType
from typing import NamedTuple

from pypto_jit.errors import Span, TraceError
from pypto_jit.language.location import code_span, is_internal

_SHOWN = 8


class _Call(NamedTuple):
    code: CodeType
    instruction: int
    line: int

    @property
    def span(self) -> Span:
        return code_span(self.code, self.instruction, self.line)


def explain_recursion(error: RecursionError) -> TraceError | None:
    """The error that names the cycle of calls; None where it is not the user's functions that call each other."""
    calls: list[_Call] = []
    place = error.__traceback__
    while place is not None:
        code = place.tb_frame.f_code
        if not is_internal(code.co_filename):
            calls.append(_Call(code, place.tb_lasti, place.tb_lineno))
        place = place.tb_next
    cycle = _cycle(calls)
    if cycle is None:
        return None
    names = [call.code.co_name for call in cycle]
    notes = [f"'{call.code.co_name}' calls on at {call.span}" for call in cycle[:_SHOWN]]
    return TraceError(
        f"'{names[0]}' calls itself without end",
        span=cycle[0].span,
        found=" -> ".join([*names[:_SHOWN], "..." if len(names) > _SHOWN else names[0]]),
        expected="a recursion that ends by Python values: both arms of an `if` on a traced value are recorded",
        hint="write a loop with pl.range or `while`; or recurse on a Python number, as in f(n - 1) with n from a shape",
        notes=tuple(notes) if len(cycle) > 1 else (),
    )


def _cycle(calls: list[_Call]) -> list[_Call] | None:
    """The shortest run of calls that the innermost ones repeat, from its outermost function on."""
    # The innermost calls may have been interrupted on the way to the next turn.
    for skipped in range(min(len(calls), _SHOWN)):
        tail = calls[: len(calls) - skipped]
        for length in range(1, len(tail) // 3 + 1):
            if tail[-length:] == tail[-2 * length : -length] == tail[-3 * length : -2 * length]:
                cycle = tail[-length:]
                # Start with the function that the kernel entered the cycle by.
                entered = next(call.code for call in calls if call.code in {each.code for each in cycle})
                first = next(k for k, call in enumerate(cycle) if call.code is entered)
                return cycle[first:] + cycle[:first]
    return None
