"""Errors: their full text, their classes, and that they travel between processes."""

import linecache
import pickle

import pytest

from pypto_jit import errors
from pypto_jit.errors import CapacityError, PyptoError, ShapeError, Span


@pytest.fixture
def source():
    name = "<kernel of test_errors>"
    text = "def kernel(x):\n    y = x - pl.row_max(x)\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    yield name
    del linecache.cache[name]


def test_full_text(source):
    error = ShapeError(
        "the operands of sub have different shapes",
        span=Span(source, 2, 9, 26),
        found="[8, 16] and [8, 1]",
        expected="equal shapes",
        hint="spread it",
        notes=("one", "two"),
    )
    assert str(error) == "\n".join(
        [
            "[PYPTO-SHAPE] the operands of sub have different shapes",
            f"  --> {source}:2:9",
            "    |",
            "  2 |     y = x - pl.row_max(x)",
            "    |         ^^^^^^^^^^^^^^^^^",
            "  found:    [8, 16] and [8, 1]",
            "  expected: equal shapes",
            "  note: one",
            "  note: two",
            "  hint: spread it",
        ]
    )


def test_without_a_column_or_a_source(source):
    assert "^" not in str(ShapeError("no", span=Span(source, 2)))
    assert str(ShapeError("no", span=Span("<gone>", 7, 3))) == "[PYPTO-SHAPE] no\n  --> <gone>:7:3"


def test_falsy_sides_are_shown():
    assert str(ShapeError("no", found=0, expected=False)) == "[PYPTO-SHAPE] no\n  found:    0\n  expected: False"


FAMILY = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, PyptoError) and c is not PyptoError]


@pytest.mark.parametrize("kind", FAMILY, ids=lambda c: c.__name__)
def test_pickle_keeps_everything(kind):
    error = kind("m", span=Span("f", 1), found=[1], hint="h", notes=("n",))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert str(again) == str(error)
    assert again.span == error.span


def test_codes_are_unique_and_classes_fit_their_builtin():
    assert len({c.code for c in FAMILY}) == len(FAMILY)
    assert issubclass(CapacityError, ValueError)
    assert issubclass(errors.ArgumentError, TypeError)
    assert issubclass(errors.BoundsError, IndexError)
