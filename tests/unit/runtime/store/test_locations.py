"""Texts without places are equal where only places differ, and get the places of whoever asks."""

from __future__ import annotations

import pytest

from pypto_jit.errors import Span
from pypto_jit.runtime.store.locations import Frame, insert, separate

TEXT = """\
func.func @f(%a: index loc("a.py":1:2)) -> index {
  %0 = "x"(%a) : (index) -> index loc("b.py":30:4 to :9)
  %1 = "y"(%0) {note = "loc(\\22"} : (index) -> index loc("b.py":30:4 to :9)
  %2 = "z"(%1) : (index) -> index loc(callsite("b.py":31:4 at "a.py":1:2))
  %3 = "w"(%2) : (index) -> index loc("i"("c (1).py":7:1 to 9:2))
  return %3 : index loc(unknown)
} loc("a@b.py":1:1)
"""


def test_places_are_numbered_in_order_and_once():
    numbered, places = separate(TEXT)
    assert places == (
        Span("a.py", 1, 2),
        Span("b.py", 30, 4, 9),
        Span("b.py", 31, 4),
        Span("c (1).py", 7, 1),
        Span("a@b.py", 1, 1),
    )
    assert "loc(callsite(\x002\x00 at \x000\x00))" in numbered
    assert 'loc("i"(\x003\x00))' in numbered
    assert ".py" not in numbered
    assert 'note = "loc(\\22"' in numbered


def test_a_text_that_moves_is_the_same():
    moved = TEXT.replace('"b.py":3', '"d.py":13')
    assert separate(moved)[0] == separate(TEXT)[0]
    assert separate(moved)[1] != separate(TEXT)[1]


def test_two_places_that_become_one_are_a_difference():
    assert separate(TEXT.replace('"b.py":31:4', '"b.py":30:4 to :9'))[0] != separate(TEXT)[0]


def test_places_come_back_without_their_ends():
    numbered, places = separate(TEXT)
    assert insert(numbered, places) == TEXT.replace(" to :9", "").replace(" to 9:2", "")


@pytest.mark.parametrize("name", ['we"ird.py', "back\\slash.py", "späce py.py", "at@1.py", "p(a)r) en.py"])
def test_any_file_name_comes_back(name):
    escaped = "".join(c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\{b:02X}" for c in name for b in [ord(c)])
    if "ä" in name:
        escaped = name.replace("ä", "\\C3\\A4")
    text = f'a loc("{escaped}":1:2)\nb loc("{escaped}":3:4)'
    numbered, places = separate(text)
    assert places == (Span(name, 1, 2), Span(name, 3, 4))
    assert insert(numbered, places) == text


def test_places_that_are_known_keep_their_numbers():
    known = (Span("b.py", 30, 4, 9), Span("q.py", 1, 1))
    numbered, places = separate('x loc("q.py":1:1)\ny loc("b.py":30:4)\nz loc("n.py":2:2)', known)
    assert numbered == "x loc(\x001\x00)\ny loc(\x000\x00)\nz loc(\x002\x00)"
    assert places == (*known, Span("n.py", 2, 2))


def test_a_place_without_its_directory_is_known_too():
    known = (Span("/home/me/b.py", 30, 4, 9), Span("/else/q.py", 1, 1))
    text = 'x loc("q.py":1:1)\ny loc("b.py":30:4)\nz loc("b.py":30:5)'
    numbered, places = separate(text, known)
    assert places == (*known, Span("b.py", 30, 5))
    assert insert(numbered, places) == text
    moved = (Span("/new/c.py", 40, 4, 9), *places[1:])
    assert insert(numbered, moved) == text.replace('"b.py":30:4', '"c.py":40:4')


def test_a_number_without_a_place_is_an_error():
    with pytest.raises(IndexError):
        insert("x loc(\x003\x00)", [Span("a.py", 1)])


SOURCE = "def f(x):\n    return x\n\n\ndef g(x):\n    def inside():\n        return x\n    return inside\n"


def functions(source: str, filename: str) -> list:
    namespace: dict = {}
    exec(compile(source, filename, "exec"), namespace)
    return [("f", namespace["f"].__code__), ("f/g", namespace["g"].__code__)]


def test_places_move_with_their_functions():
    before, after = Frame(functions(SOURCE, "a.py")), Frame(functions("\n\n\n" + SOURCE, "b.py"))
    for line, moved in ((1, 4), (2, 5), (5, 8), (7, 10)):
        assert after.absolute(before.relative(Span("a.py", line, 3, 5))) == Span("b.py", moved, 3, 5)


def test_places_elsewhere_stay():
    before, after = Frame(functions(SOURCE, "a.py")), Frame(functions("\n\n\n" + SOURCE, "b.py"))
    for span in (Span("a.py", 4, 1), Span("library.py", 2, 1)):
        assert after.absolute(before.relative(span)) == span


@pytest.mark.parametrize("place", [["absent", None, 1, 1, 1], [None, "a.py", "1", 1, 1], [None]])
def test_what_describes_no_place_is_an_error(place):
    with pytest.raises(ValueError):
        Frame(functions(SOURCE, "a.py")).absolute(place)
