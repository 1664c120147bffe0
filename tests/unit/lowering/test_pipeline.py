from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dtypes import FP32
from pypto_jit.errors import DTypeError, InternalError, ShapeError
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import PASSES, Pass, lower
from pypto_jit.targets import A2A3
from tests.module_text import ModuleText


def kernel():
    text = ModuleText()
    tile = text.load(text.tensor((4, 8), FP32), [0, 0], (4, 8))
    text.store(text.operator("neg", tile), text.tensor((4, 8), FP32), [0, 0])
    return text


def lowered(text, **options):
    with borrowed_context():
        module = ir.Module.parse(str(text))
        assert lower(module, A2A3, **options) is module
        return str(module)


def test_every_pass_is_dumped_and_timed_in_order():
    dumps: dict[str, str] = {}
    times: dict[str, float] = {}
    lowered(kernel(), dump=dumps.__setitem__, timing=times.__setitem__)
    names = [entry.name for entry in PASSES]
    assert list(dumps) == names
    assert list(times) == names
    assert all(seconds >= 0 for seconds in times.values())
    assert '"pypto.neg"' in dumps["stage"]
    assert '"pto.tneg"' in dumps["destination"]
    assert "addr = 0" in dumps["plan"]


def test_names_of_passes_are_unique():
    assert len({entry.name for entry in PASSES}) == len(PASSES)


def test_the_verifier_changes_nothing():
    assert lowered(kernel(), verify=False) == lowered(kernel(), verify=True)


def test_a_module_that_breaks_a_rule_is_refused_at_its_line():
    text = str(kernel())
    number = 1 + next(k for k, found in enumerate(text.splitlines()) if '"pypto.neg"' in found)
    tile, other = '!pypto.tile<[4, 8], f32, "vec", [4, 8]>', '!pypto.tile<[4, 9], f32, "vec", [4, 9]>'
    broken = text.replace(f"({tile}) -> {tile}", f"({tile}) -> {other}").replace(f"({tile}, !", f"({other}, !")
    with pytest.raises(ShapeError, match="the result of neg has another type") as caught:
        lowered(broken)
    assert caught.value.span is not None
    assert caught.value.span.line == number


def with_pass(run):
    return (Pass("broken", "values", run),)


def test_an_exception_in_a_pass_is_an_internal_error_with_its_cause():
    def run(module, lowering):
        raise KeyError("lost")

    with pytest.raises(InternalError, match="KeyError: 'lost'") as caught:
        lowered(kernel(), passes=with_pass(run))
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_error_of_a_pass_keeps_its_identity():
    mine = ShapeError("mine")

    def run(module, lowering):
        raise mine

    with pytest.raises(ShapeError) as caught:
        lowered(kernel(), passes=with_pass(run))
    assert caught.value is mine


def test_a_structural_fault_is_found_by_mlir_and_shown_at_its_line():
    def run(module, lowering):
        function = module.regions[0].blocks[0].operations[0]
        block = function.regions[0].blocks[0]
        neg = next(op.operation for op in block.operations if op.operation.name == "pypto.neg")
        # The operand now comes after its use.
        neg.move_before(block.operations[0])
        return True

    text = str(kernel())
    with pytest.raises(InternalError, match="MLIR refused") as caught:
        lowered(text, passes=with_pass(run))
    number = 1 + next(k for k, found in enumerate(text.splitlines()) if '"pypto.neg"' in found)
    assert caught.value.span is not None
    assert caught.value.span.line == number
    assert any("dominate" in note for note in caught.value.notes)


def test_a_semantic_fault_of_a_pass_names_the_pass():
    def run(module, lowering):
        function = module.regions[0].blocks[0].operations[0]
        for op in function.regions[0].blocks[0].operations:
            if op.operation.name == "pypto.neg":
                op.operation.result.set_type(ir.Type.parse('!pypto.tile<[4, 8], f16, "vec", [4, 8]>'))
        return True

    with pytest.raises((ShapeError, DTypeError)) as caught:
        lowered(kernel(), passes=with_pass(run))
    assert caught.value.notes[-1] == "found after the pass 'broken'"
    assert caught.value.span is not None


def test_the_next_kernel_compiles_after_a_failure():
    def run(module, lowering):
        raise RuntimeError

    with pytest.raises(InternalError):
        lowered(kernel(), passes=with_pass(run))
    assert '"pto.tneg"' in lowered(kernel())
