"""The vendor's assembler takes everything we print. Runs where ``PYPTO_JIT_PTOAS`` names its binary."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pypto_jit as pypto
from examples.catalog import EXAMPLES
from pypto_jit.dialects.assembly import print_assembly
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import A2A3, A5, Target
from tests.asm import lowered, scalars
from tests.asm.assembler import VARIABLE, binary, complaint, translated
from tests.asm.corpus import Case, all_cases
from tests.asm.kernels import KERNELS
from tests.asm.planned import ir, new_context
from tests.module_text import ModuleText
from tests.property.mixed_kernels import mixed_kernels
from tests.property.programs import CHAIN, block_programs, carried_programs, whole_programs
from tests.property.test_matmul import Product, products

pytestmark = pytest.mark.skipif(binary() is None, reason=f"{VARIABLE} does not name a ptoas binary")


def _complaints(texts: list[tuple[str, str, str]]) -> Iterator[tuple[str, str | None]]:
    path = binary()
    assert path is not None
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from zip(
            (name for name, _, _ in texts),
            pool.map(lambda entry: complaint(path, entry[1], entry[2]), texts),
            strict=True,
        )


def _refused(texts: list[tuple[str, str, str]]) -> dict[str, str]:
    return {name: said for name, said in _complaints(texts) if said is not None}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_every_row_of_the_table_is_taken_with_every_dtype_it_lists(target: str) -> None:
    context = new_context()
    cases = [case for case in all_cases() if case.target == target and case.supported]
    assert len(cases) > 100
    texts = [(c.name, print_assembly(ir.Module.parse(c.text, context)), target) for c in cases]
    assert _refused(texts) == {}


@pytest.mark.parametrize("name", KERNELS)
def test_whole_kernels_are_taken(name: str) -> None:
    build, target = KERNELS[name]
    text = print_assembly(build(target).module(new_context()))
    assert _refused([(name, text, target)]) == {}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_what_the_passes_make_is_taken(target: str) -> None:
    texts = []
    for name in lowered.KERNELS:
        with borrowed_context() as context:
            texts.append((name, print_assembly(lowered.lowered(name, target, context)), target))
    assert _refused(texts) == {}


def test_infinite_constants_are_bits_in_what_it_makes() -> None:
    with borrowed_context() as context:
        text = print_assembly(lowered.lowered("infinite", "a2a3", context))
    path = binary()
    assert path is not None
    made = translated(path, text, "a2a3")
    assert re.findall(r"(?i)\binf\b|\bnan\b", re.sub(r"//.*", "", made)) == []
    # Minus infinity and NaN of 32 bits, infinity of 16: the bits survive, and are seen as floats at run time.
    assert made.count("= ptoas_bitcast<float>(") == 2
    assert made.count("= ptoas_bitcast<half>(") == 1
    for bits in (0xFF800000, 0x7FC00000, 0x7C00):
        assert re.search(rf"= {bits};", made)


def test_every_scalar_operation_is_taken() -> None:
    context = new_context()
    texts = [(name, print_assembly(ir.Module.parse(text, context)), "a2a3") for name, text in scalars.kernels()]
    assert len(texts) > 60
    assert _refused(texts) == {}


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_every_example_is_taken(target: str) -> None:
    config = pypto.RunConfig(platform=f"{target}sim")
    texts = []
    for example in (example for example in EXAMPLES if target in example.machines):
        texts.append((example.name, example.kernel.lower(*example.arguments(), config=config)["pto"], target))
    assert len(texts) > 10
    assert _refused(texts) == {}


_random = settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.generate, Phase.shrink])


def _check(kernel: ModuleText, target: Target) -> None:
    with borrowed_context() as context:
        module = lower(ir.Module.parse(str(kernel), context), target)
        if any("pypto.mixed" in function.attributes for function in module.body.operations):
            return
        text = print_assembly(module)
    assert _refused([("random", text, target.name)]) == {}, text


@_random
@given(data=st.data())
def test_random_vector_kernels_are_taken(data: st.DataObject) -> None:
    target = data.draw(st.sampled_from([A2A3, A5]))
    programs = data.draw(st.sampled_from([whole_programs, block_programs, carried_programs]))
    _check(data.draw(programs(target, CHAIN)).module(), target)


@_random
@given(product=products())
def test_random_products_are_taken(product: Product) -> None:
    _check(product.module(), product.target)


@_random
@given(kernel=mixed_kernels())
def test_random_kernels_for_both_cores_are_taken(kernel: ModuleText) -> None:
    _check(kernel, A2A3)


def test_the_assembler_does_refuse() -> None:
    # Guards the harness itself: a dtype that this target's adder does not have.
    case: Case = next(c for c in all_cases() if c.name == "a2a3-add-INT8")
    text = print_assembly(ir.Module.parse(case.text, new_context()))
    assert "tadd" in _refused([(case.name, text, case.target)])[case.name]
