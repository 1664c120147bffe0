"""Takes source locations out of texts and puts others in.

Two kernels that differ only in where they are written are one artifact. Its texts name places by number; the places
themselves come from the kernel at hand.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache
from types import CodeType

from pypto_jit.errors import Span
from pypto_jit.runtime.store.code import line_range

_STRING = r'"(?:[^"\\\n]|\\.)*"'
# As MLIR prints them: "file.py":3:4, and, for a range, "file.py":3:4 to :9 or to 5:9.
_PLACE = rf"({_STRING}):(\d+):(\d+)(?: to (\d+)?:(\d+))?"
# Texts have no null characters. A slash: the text has the file's name without its directory.
_NUMBER = r"\0(\d+)(/?)\0"
_ESCAPED = r"\\([0-9A-Fa-f]{2}|.)"
_DEPTH = 6  # of call sites within call sites


@cache
def _location() -> re.Pattern[str]:
    def nested(depth: int) -> str:
        inner = rf"|\({nested(depth - 1)}\)" if depth else ""
        return rf'(?:[^"()\n]|{_STRING}{inner})*'

    return re.compile(rf"\bloc\({nested(_DEPTH)}\)")


def separate(text: str, known: Sequence[Span] = ()) -> tuple[str, tuple[Span, ...]]:
    """A text whose places are numbered, and the places in order of their numbers.

    Args:
        text: as MLIR or the assembly printer writes it.
        known: places that have numbers already. A place of the text that has no end, or no directory, is the first of
            these that starts there.
    """
    places = {span: number for number, span in enumerate(known)}
    starts = {Span(s.filename, s.line, s.column): str(k) for s, k in reversed(places.items())}
    short = {Span(os.path.basename(s.filename), s.line, s.column): f"{k}/" for s, k in reversed(places.items())}

    def number(match: re.Match[str]) -> str:
        filename, line, column, end_line, end_column = match.groups()
        same_line = end_line is None or end_line == line
        end = int(end_column) if end_column is not None and same_line and int(end_column) > int(column) else 0
        span = Span(_unescape(filename[1:-1]), int(line), int(column), end)
        found = None if span in places else starts.get(span) or short.get(span)
        return f"\0{found or places.setdefault(span, len(places))}\0"

    numbered = _location().sub(lambda location: re.sub(_PLACE, number, location.group()), text)
    return numbered, tuple(places)


def insert(text: str, places: Sequence[Span]) -> str:
    """A numbered text with places, without their ends.

    Raises:
        IndexError: a number has no place.
    """

    def place(match: re.Match[str]) -> str:
        span = places[int(match.group(1))]
        filename = os.path.basename(span.filename) if match.group(2) else span.filename
        return f'"{_escape(filename)}":{span.line}:{span.column}'

    return re.sub(_NUMBER, place, text)


def _unescape(text: str) -> str:
    def byte(match: re.Match[str]) -> bytes:
        code = match.group(1)
        return bytes([int(code, 16)]) if len(code) == 2 else code.encode()

    pieces, end = [], 0
    for match in re.finditer(_ESCAPED, text):
        pieces += [text[end : match.start()].encode("utf-8", "surrogateescape"), byte(match)]
        end = match.end()
    pieces.append(text[end:].encode("utf-8", "surrogateescape"))
    return b"".join(pieces).decode("utf-8", "surrogateescape")


def _escape(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(c) if 32 <= c < 127 and c not in b'"\\' else f"\\{c:02X}" for c in data)


class Frame:
    """Places relative to the functions they are in, so that they are right after a function, or its file, has moved.

    Args:
        functions: path and code of the kernel and the functions it reaches.
    """

    def __init__(self, functions: Sequence[tuple[str, CodeType]]) -> None:
        self._ranges = [(path, code.co_filename, *line_range(code)) for path, code in functions]

    def relative(self, span: Span) -> list[str | int | None]:
        """A place as JSON: the function that holds it, or a file, with the line counted from its start."""
        inside = [r for r in self._ranges if r[1] == span.filename and r[2] <= span.line <= r[3]]
        if not inside:
            return [None, span.filename, span.line, span.column, span.end_column]
        path, _, first, _ = max(inside, key=lambda r: r[2])
        return [path, None, span.line - first, span.column, span.end_column]

    def absolute(self, place: Sequence[str | int | None]) -> Span:
        """The place that `relative` described, of the functions at hand.

        Raises:
            ValueError: it describes none.
        """
        path, filename, line, column, end = place
        if not (isinstance(line, int) and isinstance(column, int) and isinstance(end, int)):
            raise ValueError("a place without a line")
        if path is None:
            return Span(str(filename), line, column, end)
        for known, file, first, _ in self._ranges:
            if known == path:
                return Span(file, first + line, column, end)
        raise ValueError(f"no function {path}")
