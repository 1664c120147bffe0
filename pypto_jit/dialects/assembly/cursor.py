"""Reading assembly text token by token, with an error that points at the very characters.

Tokens are found where they are asked for, because what a character means depends on the place: ``16x32xf32`` is a
dimension list inside a type only. Bracketed text (types, attributes) is therefore taken raw, up to its closing bracket.
"""

from __future__ import annotations

import linecache
import re
from bisect import bisect_right
from dataclasses import dataclass

from pypto_jit.dialects.assembly.forms import PRAGMA
from pypto_jit.errors import AssemblyError, Span

_BLANK = re.compile(r"(?:\s+|//[^\n]*)*")
_TOKEN = re.compile(
    r"""
    (?P<value>%[\w$.-]+(?:\#\d+)?)
  | (?P<symbol>@(?:[A-Za-z_][\w$.]*|"(?:[^"\\\n]|\\.)*"))
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?))
  | (?P<word>[A-Za-z_][\w$.]*)
  | (?P<sigil>[!\#][A-Za-z_][\w$.]*|[!\#])
  | (?P<mark>->|[-+(){}\[\]<>,:=?*^])
    """,
    re.VERBOSE,
)
_CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
_BRACKET = re.compile(r'"(?:[^"\\\n]|\\.)*"|->|[()\[\]{}<>]')
# Bracketed text goes to MLIR's recursive parser; the limits keep malformed text from exhausting its stack.
_LONGEST_BRACKET = 16_384
_DEEPEST_BRACKET = 100


@dataclass(frozen=True)
class Token:
    """A token: ``kind`` is one of the groups above or ``end``; offsets count characters."""

    kind: str
    text: str
    start: int
    end: int

    def describe(self) -> str:
        """The token in an error message."""
        return "the end of the text" if self.kind == "end" else self.text


class Cursor:
    """A position in a text."""

    def __init__(self, text: str, filename: str) -> None:
        self.text = text
        self.filename = filename
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._next: Token | None = None
        self._position = 0
        self.last_end = 0

    # Places and errors.

    def line_of(self, offset: int) -> int:
        """The 1-based line of an offset."""
        return bisect_right(self._lines, offset)

    def span(self, start: int, end: int) -> Span:
        """The span of the characters between two offsets; at most to the end of the first line."""
        line = self.line_of(start)
        column = start - self._lines[line - 1] + 1
        line_end = self._lines[line] - 1 if line < len(self._lines) else len(self.text)
        return Span(self.filename, line, column, min(end, line_end) - self._lines[line - 1] + 1)

    def error(
        self,
        message: str,
        start: int,
        end: int,
        *,
        found: object = None,
        expected: object = None,
        hint: str | None = None,
    ) -> AssemblyError:
        """An error at the characters between two offsets."""
        span = self.span(start, end)
        notes = ()
        if not linecache.getline(span.filename, span.line):
            notes = (self.text[self._lines[span.line - 1] :].partition("\n")[0].strip()[:200],)
        return AssemblyError(message, span=span, found=found, expected=expected, hint=hint, notes=notes)

    def unexpected(self, expected: str) -> AssemblyError:
        """An error at the next token, which is not what is expected."""
        token = self.peek()
        return self.error(
            "malformed assembly",
            token.start,
            max(token.end, token.start + 1),
            found=token.describe(),
            expected=expected,
        )

    # Tokens.

    def peek(self) -> Token:
        """The next token, without taking it."""
        if self._next is None:
            blank = _BLANK.match(self.text, self._position)
            start = blank.end() if blank else self._position
            match = _TOKEN.match(self.text, start)
            if match is not None:
                self._next = Token(match.lastgroup or "mark", match[0], start, match.end())
            elif start >= len(self.text):
                self._next = Token("end", "", start, start)
            else:
                raise self.error("malformed assembly", start, start + 1, found=self.text[start], expected="a token")
        return self._next

    def take(self) -> Token:
        """The next token."""
        token = self.peek()
        self._next = None
        self._position = self.last_end = token.end
        return token

    def at(self, *texts: str) -> bool:
        """Whether the next token is one of these."""
        token = self.peek()
        return token.text in texts and token.kind != "string"

    def accept(self, text: str) -> bool:
        """Take the next token if it is this one."""
        if self.at(text):
            self.take()
            return True
        return False

    def expect(self, text: str) -> Token:
        """Take the next token, which must be this one."""
        if not self.at(text):
            raise self.unexpected(text)
        return self.take()

    def kind(self, kind: str, expected: str) -> Token:
        """Take the next token, which must be of this kind."""
        if self.peek().kind != kind:
            raise self.unexpected(expected)
        return self.take()

    def bracketed(self) -> str:
        """Take a bracket, what is in it and its closing bracket; give what is in it, as written."""
        opening = self.take()
        if opening.text not in _CLOSING:
            raise self.error("malformed assembly", opening.start, opening.end, found=opening.text, expected="a bracket")
        stack = [_CLOSING[opening.text]]
        position = opening.end
        while stack:
            match = _BRACKET.search(self.text, position)
            if match is None or match.end() - opening.end > _LONGEST_BRACKET or len(stack) > _DEEPEST_BRACKET:
                raise self.error(
                    f"'{opening.text}' is not closed", opening.start, opening.end, expected=f"a matching '{stack[0]}'"
                )
            position = match.end()
            if match[0] in _CLOSING:
                stack.append(_CLOSING[match[0]])
            elif match[0] == stack[-1]:
                stack.pop()
            elif match[0][0] not in '"-':
                raise self.error(
                    "brackets do not match", match.start(), match.end(), found=match[0], expected=stack[-1]
                )
        self._next = None
        self._position = self.last_end = position
        return self.text[opening.end : position - 1]


def pragmas(text: str) -> dict[int, tuple[int, str]]:
    """What the comments we print keep: line number to (offset, what follows the comment's mark)."""
    found = {}
    offset = 0
    for number, line in enumerate(text.split("\n"), 1):
        place = line.find(PRAGMA)
        if place >= 0:
            found[number] = (offset + place, line[place + len(PRAGMA) :].strip()[:_LONGEST_BRACKET])
        offset += len(line) + 1
    return found


def split_entries(text: str) -> list[str]:
    """Split bracketed text at its top-level commas."""
    parts, depth, start = [], 0, 0
    for match in re.finditer(r'"(?:[^"\\\n]|\\.)*"|->|[()\[\]{}<>,]', text):
        if match[0] in _CLOSING:
            depth += 1
        elif match[0] in _CLOSING.values():
            depth -= 1
        elif match[0] == "," and depth == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    last = text[start:].strip()
    return [*parts, last] if last or parts else []
