"""Where in the user's source the running code is: the innermost frame that is neither this package's nor Python's own.

Composite operators are written in this package, so an error inside one blames the line that called it.
"""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType

from pypto_jit.errors import Span

PACKAGE = str(Path(__file__).resolve().parents[1]) + "/"
_STDLIB = tuple(
    {str(Path(sysconfig.get_path(name)).resolve()) + "/" for name in ("stdlib", "platstdlib")}
    | {sysconfig.get_path(name) + "/" for name in ("stdlib", "platstdlib")}
)


@lru_cache(maxsize=4096)
def is_third_party(filename: str) -> bool:
    """Whether the file belongs to an installed distribution."""
    return "/site-packages/" in filename or "/dist-packages/" in filename


@lru_cache(maxsize=4096)
def is_internal(filename: str) -> bool:
    """Whether the file belongs to this package or to Python's standard library."""
    if filename.startswith((PACKAGE, "<frozen ", "<__array_function__", "<pypto_jit ")):
        return True
    return filename.startswith(_STDLIB) and not is_third_party(filename)


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost frame of the user's code, None where there is none."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


Positions = list[tuple[int | None, int | None, int | None, int | None]]


def positions(code: CodeType) -> Positions:
    """First and last line, first and last column of every instruction; nothing before Python 3.11."""
    found = getattr(code, "co_positions", None)
    return [] if found is None else list(found())


def code_span(code: CodeType, instruction: int, line: int, places: Positions | None = None) -> Span:
    """The span of an instruction: with columns on Python 3.11 and later, else the line alone.

    Columns count the bytes of the line in UTF-8, as Python's own tracebacks do.

    Args:
        code: the code.
        instruction: a byte offset.
        line: its line.
        places: the `positions` of the code, where they are known already.
    """
    places = positions(code) if places is None else places
    index = max(0, instruction) // 2
    if index < len(places):
        first, last, column, end = places[index]
        if first is not None and column is not None and end is not None:
            return Span(code.co_filename, first, column + 1, end + 1 if last == first else 0)
    return Span(code.co_filename, line)


def frame_span(frame: FrameType, places: Positions | None = None) -> Span:
    """The span of what a frame is executing."""
    return code_span(frame.f_code, frame.f_lasti, frame.f_lineno or 1, places)


def user_span(depth: int = 1) -> Span | None:
    """The span of the user's innermost frame."""
    frame = user_frame(depth + 1)
    return None if frame is None else frame_span(frame)
