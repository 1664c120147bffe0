from __future__ import annotations

import inspect

import pytest

from pypto_jit.dialects import rules
from pypto_jit.dialects.interpreter import MEANINGS
from pypto_jit.dialects.operators import BY_NAME, INSTRUCTIONS, ROUND_MODES, ROWS, Operator
from pypto_jit.dtypes import ALL, SCALARS
from pypto_jit.lowering.cpu.elements import ELEMENTS, FOLDS
from pypto_jit.lowering.cpu.kernel import ALONE
from pypto_jit.targets import BY_NAME as TARGETS

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def test_names_are_unique_identifiers():
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names)
    assert all(name.isidentifier() for name in names)
    assert list(BY_NAME) == names


@each_row
def test_operands(row: Operator):
    names = [operand.name for operand in row.operands] + [attribute.name for attribute in row.attributes]
    assert len(set(names)) == len(names)
    assert {operand.kind for operand in row.operands} <= {"tile", "scalar", "tensor", "array", "indices"}
    assert row.result in {"tile", "scalar", "array"}
    # IRDL takes one variadic operand without segment sizes, and it reads best last.
    assert [operand.kind for operand in row.operands[:-1]].count("indices") == 0


@each_row
def test_dtypes_are_known_for_every_target(row: Operator):
    assert set(row.dtypes) == set(TARGETS)
    for dtypes in row.dtypes.values():
        assert dtypes
        assert dtypes <= {*ALL, *SCALARS}
    assert row.dtypes["a2a3"] <= row.dtypes["a5"], "the newer machine takes what the older one takes"


@each_row
def test_instruction_reads_the_operands(row: Operator):
    instruction = row.instruction
    if instruction is None:
        return
    assert len(set(instruction.inputs)) == len(instruction.inputs)
    # A load and a store reach their tensor through the partition of a view, an element by pointer and offset.
    places = {"pointer", "offset", "index"} if instruction.form == "element" else {"tmp", "partition", "row", "column"}
    assert set(instruction.inputs) <= {operand.name for operand in row.operands} | places
    assert instruction.form in {"tiles", "element"}
    assert instruction.pipe in {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX"}
    assert instruction.core in {"vector", "cube", "any"}
    assert instruction.tied in {None, *instruction.inputs}
    assert not (instruction.tied and instruction.inplace)
    assert {attribute.name for attribute in instruction.attributes} <= {attribute.name for attribute in row.attributes}
    assert instruction.operation.isidentifier()


@each_row
def test_attributes(row: Operator):
    for attribute in row.attributes:
        assert attribute.kind in {"str", "int", "ints", "dtype"}
        assert not attribute.choices or attribute.default in attribute.choices


@each_row
def test_text_for_the_reference_page(row: Operator):
    assert row.summary.endswith(".")
    assert row.rule.isidentifier()


@each_row
def test_row_has_a_rule_and_a_numpy_meaning(row: Operator):
    registered = rules.RULES
    assert row.rule in registered
    assert list(inspect.signature(registered[row.rule]).parameters) == ["row", "operands", "attributes", "target"]
    assert row.name in MEANINGS


@each_row
def test_row_with_an_instruction_runs_on_the_cpu(row: Operator):
    if row.instruction is None:
        return
    reductions = {f"row_{name}" for name in FOLDS}
    assert row.name in {*ELEMENTS, *ALONE, *reductions, "cast"}


def test_no_rule_or_meaning_without_a_row():
    assert set(MEANINGS) == set(BY_NAME)
    assert set(rules.RULES) == {row.rule for row in ROWS}


def test_rows_that_share_an_instruction_differ_in_operand_order():
    for rows in INSTRUCTIONS.values():
        kinds = {
            tuple(next((o.kind for o in row.operands if o.name == name), name) for name in row.instruction.inputs)
            for row in rows
            if row.instruction is not None
        }
        assert len(kinds) == len(rows)


def test_rounding_modes_are_those_of_the_machine():
    # pto-isa, RoundMode: CAST_NONE, RINT, ROUND, FLOOR, CEIL, TRUNC, ODD.
    assert ROUND_MODES == ("none", "rint", "round", "floor", "ceil", "trunc", "odd")
    assert BY_NAME["cast"].attributes[0].choices == ROUND_MODES
