"""Whose line an error points at."""

from __future__ import annotations

import functools
import os
import sys

import pytest

from pypto_jit.errors import Span
from pypto_jit.language.location import code_span, is_internal, is_third_party, user_span
from tests.tracing import COLUMNS


def test_the_innermost_line_of_the_user():
    span = user_span()
    line = sys._getframe().f_lineno - 1
    assert span is not None
    assert (span.filename, span.line) == (__file__, line)
    if COLUMNS:
        assert (span.column, span.end_column) == (12, 23)


def test_pythons_own_frames_are_skipped():
    @functools.singledispatch
    def function(x):
        return user_span()

    # The frame of the dispatch in functools lies between this one and the function's.
    span = function(1)
    assert span is not None
    assert span.line == function.__wrapped__.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    ("filename", "internal"),
    [
        (os.__file__, True),
        (functools.__file__, True),
        (sys.modules["pypto_jit.errors"].__file__, True),
        ("<frozen importlib._bootstrap>", True),
        (pytest.__file__, False),
        (__file__, False),
        ("<stdin>", False),
        ("<ipython-input-1-0123456789ab>", False),
    ],
)
def test_files(filename, internal):
    assert is_internal(filename) == internal
    assert is_third_party(filename) == (filename == pytest.__file__)


def test_an_instruction_that_code_does_not_have():
    code = test_files.__code__
    assert code_span(code, 1 << 20, 7) == Span(__file__, 7)
