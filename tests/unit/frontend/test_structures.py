"""What variables hold: structures, sameness, and changes in place."""

from __future__ import annotations

from collections import namedtuple

import numpy
import pytest

from pypto_jit.frontend.structures import Containers, describe, flatten, same, unflatten

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [1, "a", (), [], {}, (1, [2, {"k": (3,)}]), Point(1, (2, 3)), {"b": 1, "a": [2]}, {1, 2}],
)
def test_flatten_and_back(value):
    leaves: list = []
    structure = flatten(value, leaves)
    again = unflatten(structure, iter(leaves))
    assert again == value
    assert type(again) is type(value)


def test_structures_differ_by_kind_length_and_keys():
    values = [1, (1,), [1], (1, 2), {"a": 1}, {"b": 1}, Point(1, 2), ((1,),)]
    structures = [flatten(value, []) for value in values]
    assert all(a != b for k, a in enumerate(structures) for b in structures[:k])


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (1, True, False),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        ("a", "a", True),
        (numpy.zeros(2), numpy.zeros(2), False),
        (None, None, True),
        (None, 0, False),
    ],
)
def test_sameness(a, b, expected):
    assert same(a, b) is expected


def test_containers_notice_changes_in_place_at_any_depth():
    values = {"a": [1, [2]], "b": {"k": 1}, "c": {1}, "d": ([],)}
    for change, name in (
        (lambda: values["a"][1].append(3), "a"),
        (lambda: values["b"].update(k=2), "b"),
        (lambda: values["c"].add(2), "c"),
        (lambda: values["d"][0].append(1), "d"),
    ):
        watch = Containers(values)
        assert watch.changed() is None
        change()
        assert watch.changed() == name


def test_containers_may_contain_themselves():
    value: list = []
    value.append(value)
    assert Containers({"v": value}).changed() is None


def test_descriptions_are_short():
    assert describe("x" * 100) == "str '" + "x" * 56 + "..."
    assert describe(3) == "int 3"
