"""Encodings of constants and code objects as bytes: equal exactly where no program can tell them apart."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from types import CodeType
from typing import Any


def encode_leaf(value: Any) -> bytes | None:
    """Type and bits of a constant of a built-in type, unlike for any other; None for every other type."""
    kind = type(value)
    if value is None or value is Ellipsis or value is NotImplemented or kind is bool:
        return repr(value).encode()
    if kind is int:
        return b"int " + hex(value).encode()
    if kind is float:
        return b"float " + struct.pack("<d", value)
    if kind is complex:
        return b"complex " + struct.pack("<2d", value.real, value.imag)
    if kind is str:
        return b"str " + value.encode("utf-8", "surrogatepass")
    if kind is bytes:
        return b"bytes " + value
    return None


def sections(*parts: bytes) -> bytes:
    """Parts joined with their lengths, so that no two lists of parts give the same bytes."""
    return b"".join(part for each in parts for part in (len(each).to_bytes(8, "little"), each))


def encode_code(code: CodeType, first: int | None = None) -> bytes:
    """All that decides what a code object does, and its lines relative to its first.

    A function that merely moves in its file, or whose file moves, encodes to the same bytes.
    """
    origin = code.co_firstlineno if first is None else first
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = ("\0".join(group) for group in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    return sections(
        code.co_name.encode(),
        code.co_code,
        sections(*(_encode_constant(constant, origin) for constant in code.co_consts)),
        repr((*counts, code.co_firstlineno - origin)).encode(),
        *(group.encode() for group in names),
        getattr(code, "co_exceptiontable", b""),
        code.co_linetable,
    )


def _encode_constant(value: Any, first: int) -> bytes:
    if isinstance(value, CodeType):
        return b"code " + encode_code(value, first)
    if isinstance(value, tuple):
        return b"tuple " + sections(*(_encode_constant(item, first) for item in value))
    if isinstance(value, frozenset):
        return b"frozenset " + sections(*sorted(_encode_constant(item, first) for item in value))
    if isinstance(value, slice):
        return b"slice " + sections(*(_encode_constant(v, first) for v in (value.start, value.stop, value.step)))
    leaf = encode_leaf(value)
    assert leaf is not None, f"a constant of type {type(value)} in a code object"
    return leaf


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """The code objects directly within another."""
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def line_range(code: CodeType) -> tuple[int, int]:
    """First and last line of a code object, with those within it."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    last = max([code.co_firstlineno, *lines])
    return code.co_firstlineno, max([last, *(line_range(inner)[1] for inner in nested_code(code))])
