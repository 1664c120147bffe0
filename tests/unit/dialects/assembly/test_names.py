from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly.names import Names, constant_name, hint_of


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("32 : index", "c32_index"),
        ("-5 : i32", "cn5_i32"),
        ("0 : i64", "c0_i64"),
        ("1.500000e+00 : f32", "cst"),
        ("0x7F80 : bf16", "cst"),
        ("true", "true"),
    ],
)
def test_constants_are_named_after_their_value(text: str, name: str) -> None:
    assert constant_name(text) == name


def test_names_are_unique_valid_and_numbered_where_there_is_no_hint() -> None:
    names = Names()
    hints = ["x", "x", None, "a b", "7", "3d", "x_1", ""]
    assert [names.reserve(hint) for hint in hints] == ["x", "x_1", "0", "a_b", "1", "_3d", "x_1_1", "2"]


def test_several_results_share_a_name() -> None:
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse('%a:2 = "some.op"() : () -> (i32, i32)')
        operation = module.body.operations[0]
        names = Names()
        assert names.give_all(list(operation.results), "r") == "%r:2"
        assert [names[result] for result in operation.results] == ["%r#0", "%r#1"]


def test_a_name_location_is_a_hint() -> None:
    with ir.Context():
        place = ir.Location.file("a.py", 1, 2)
        assert hint_of(ir.Location.name("tile", place)) == "tile"
        assert hint_of(place) is None
