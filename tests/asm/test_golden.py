"""The assembly of whole kernels, word for word, and there and back again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_jit.dialects.assembly import parse_assembly, print_assembly
from pypto_jit.lowering.context import borrowed_context, type_table
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.verify_buffers import verify_buffers
from pypto_jit.targets import BY_NAME
from tests.asm import lowered, scalars
from tests.asm.corpus import all_cases
from tests.asm.kernels import KERNELS
from tests.asm.planned import ir, new_context

GOLDEN = Path(__file__).parent / "golden"
# Rewrites the files instead of comparing with them; the difference is then reviewed like any other change.
REWRITE = "PYPTO_JIT_REWRITE_GOLDEN"


@pytest.fixture(scope="module")
def context() -> ir.Context:
    return new_context()


@pytest.mark.parametrize("name", KERNELS)
def test_text_is_the_golden_one(name: str, context: ir.Context) -> None:
    build, target = KERNELS[name]
    text = print_assembly(build(target).module(context))
    path = GOLDEN / f"{name}.pto"
    if os.environ.get(REWRITE):
        path.write_text(text)
    assert text == path.read_text(), f"set {REWRITE}=1 to accept the new text"


@pytest.mark.parametrize("name", KERNELS)
def test_golden_text_parses_and_prints_the_same(name: str, context: ir.Context) -> None:
    text = (GOLDEN / f"{name}.pto").read_text()
    assert print_assembly(parse_assembly(text, context)) == text


def test_every_instruction_of_the_table_survives_the_round_trip(context: ir.Context) -> None:
    seen = set()
    for case in all_cases():
        text = print_assembly(ir.Module.parse(case.text, context), locations=False)
        assert print_assembly(parse_assembly(text, context), locations=False) == text, case.name
        seen.add(case.row)
    assert {"add", "rdivs", "cast", "row_sum", "col_expand_div", "matmul_bias", "transpose", "concat", "move"} <= seen


def test_every_scalar_operation_survives_the_round_trip(context: ir.Context) -> None:
    for name, module in scalars.kernels():
        text = print_assembly(ir.Module.parse(module, context), locations=False)
        assert print_assembly(parse_assembly(text, context), locations=False) == text, name


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_what_the_passes_make_survives_the_round_trip(target: str) -> None:
    for name in lowered.KERNELS:
        with borrowed_context() as context:
            text = print_assembly(lowered.lowered(name, target, context))
            module = parse_assembly(text, context)
            verify_buffers(module.operation, Lowering(BY_NAME[target], type_table(context)), planned=True)
            assert print_assembly(module) == text, name
