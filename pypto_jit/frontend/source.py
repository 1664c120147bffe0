"""Finds the syntax tree of a function, with the line and column numbers of its file."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import time
import tokenize
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from pypto_jit.language.location import positions

_STARTED = time.time_ns()  # a file that is older has not been edited since

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def find_definition(function: FunctionType) -> Definition | None:
    """The definition of a function, or None where its source is not available or is not that of the function.

    The source comes from `linecache`, which has files, notebook cells and doctests.
    """
    code = function.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    first = code.co_firstlineno
    if not 0 < first <= len(lines) or not _is_source_of(lines, code):
        return None
    if code.co_name != "<lambda>":
        found = _search(_parse_block(lines, first), code)
        if found is not None:
            return found
    return _search(_parse(lines, 1), code)


def _is_source_of(lines: list[str], code: CodeType) -> bool:
    """Whether the lines of a file are what a function was made of; a file may be edited after it was imported.

    Text that is in no file, such as that of a notebook cell, does not change.
    """
    try:
        if os.stat(code.co_filename).st_mtime_ns < _STARTED:
            return True
    except OSError:
        return True
    try:
        module = compile("".join(lines), code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    same = (each for each in _all_code(module) if (each.co_name, each.co_firstlineno) == _place(code))
    expected = _meaning(code)
    return any(_meaning(each) == expected for each in same)


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_name, code.co_firstlineno


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)


def _meaning(code: CodeType) -> tuple[Any, ...]:
    """What a code object does; equal for equal source."""
    constants = tuple(
        _meaning(c) if isinstance(c, CodeType) else sorted(map(repr, c)) if isinstance(c, frozenset) else repr(c)
        for c in code.co_consts
    )
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars


def _parse_block(lines: list[str], first: int) -> ast.Module | None:
    """The block that starts at a line. An indented one is put under an ``if``, which keeps its columns."""
    try:
        block = inspect.getblock(lines[first - 1 :])
    except (SyntaxError, tokenize.TokenError, IndexError):
        return None
    return _parse(["if 1:\n", *block], first - 1) if block[0][:1].isspace() else _parse(block, first)


def _parse(lines: list[str], first: int) -> ast.Module | None:
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError):
        return None
    return ast.increment_lineno(tree, first - 1) if first != 1 else tree


def _search(tree: ast.Module | None, code: CodeType) -> Definition | None:
    if tree is None:
        return None
    kinds = (ast.Lambda,) if code.co_name == "<lambda>" else (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(tree) if isinstance(node, kinds) and _matches(node, code)]
    if len(found) > 1:
        found = [node for node in found if _starts_with(node.body, code)]
    return found[0] if len(found) == 1 else None


def _matches(node: Definition, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        line = node.lineno
    else:
        if node.name != code.co_name:
            return False
        line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    names += [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    count = code.co_argcount + code.co_kwonlyargcount + flags
    return line == code.co_firstlineno and tuple(names) == code.co_varnames[:count]


def _starts_with(body: ast.expr | list[ast.stmt], code: CodeType) -> bool:
    """Whether code begins where the body of a lambda does; no code does before Python 3.11, which has no columns."""
    if isinstance(body, list):
        return False
    # An instruction without width belongs to no expression.
    places = [(p[0], p[2]) for p in positions(code) if None not in p and p[2] != p[3]]
    return min(places, default=None) == (body.lineno, body.col_offset)
