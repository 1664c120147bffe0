"""A program comes back from files as it was, without anything that files name being run."""

from __future__ import annotations

import json
import math

import pytest

from pypto_jit.dtypes import BF16, FP32
from pypto_jit.errors import Span
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store.files import DamagedError
from pypto_jit.runtime.store.serialization import Opaque, assembly_name, decode_program, encode_program, safe_name
from pypto_jit.signature import Constant, ParamInfo, TensorSpec

CONSTANTS = [None, True, 1, -(2**80), 1.5, -0.0, math.inf, "käse", (1, (2.0, "x")), [1, None], BF16]


def program(**changes) -> CompiledProgram:
    fields = {
        "name": "f",
        "platform": "a5sim",
        "parameters": (
            ParamInfo("x", "in", TensorSpec((2, 3), FP32, (-1, 1))),
            *(ParamInfo(f"k{k}", "in", Constant(value)) for k, value in enumerate(CONSTANTS)),
            ParamInfo("out", "out", TensorSpec((), BF16, ())),
        ),
        "returns": ("out", ("out",)),
        "assembly": "module {}",
        "assembly_error": None,
        "code": b"\x7fELF",
        "parallel": True,
        "work": -1,
        "checks": ((Span("a.py", 3, 4, 5), "outside"), (None, "elsewhere")),
        "origin": Span("a.py", 1),
    }
    return CompiledProgram(**{**fields, **changes})


def through_json(original: CompiledProgram, **how) -> CompiledProgram:
    about = json.loads(json.dumps(encode_program(original)))
    return CompiledProgram(**decode_program(about, original.code, original.assembly, **how))


def test_a_program_comes_back_equal():
    assert through_json(program()) == program()


def test_constants_keep_their_type_and_bits():
    restored = through_json(program())
    for original, info in zip(CONSTANTS, restored.parameters[1:-1], strict=True):
        assert repr(info.spec.value) == repr(original)
        assert type(info.spec.value) is type(original)


def test_nan_keeps_its_bits():
    parameters = (ParamInfo("k", "in", Constant(math.nan)),)
    assert math.isnan(through_json(program(parameters=parameters)).parameters[0].spec.value)


def test_a_constant_without_a_text_form_is_named_and_not_imported():
    parameters = (ParamInfo("f", "in", Constant(math.sqrt)), ParamInfo("o", "in", Constant(object())))
    restored = through_json(program(parameters=parameters))
    assert [info.spec.value for info in restored.parameters] == [Opaque("sqrt"), Opaque("<builtins.object>")]
    assert through_json(restored) == restored


def test_constants_at_hand_are_taken_as_they_are():
    parameters = (ParamInfo("f", "in", Constant(math.sqrt)),)
    restored = through_json(program(parameters=parameters), constants={"f": math.sqrt})
    assert restored.parameters[0].spec.value is math.sqrt


def test_places_are_written_as_the_caller_wants():
    about = encode_program(program(), place=lambda span: span.line)
    assert about["checks"] == [[3, "outside"], [None, "elsewhere"]]
    fields = decode_program(about, b"", None, place=lambda line: Span("moved.py", line + 10))
    assert fields["checks"] == ((Span("moved.py", 13), "outside"), (None, "elsewhere"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda about: about.pop("name"),
        lambda about: about.update(name=3),
        lambda about: about.update(schema=1),
        lambda about: about["parameters"][0].update(direction="sideways"),
        lambda about: about["parameters"][0].update(dtype="FP65"),
        lambda about: about["parameters"][0].pop("shape"),
        lambda about: about["parameters"][1].update(constant=["builtins.eval", "1"]),
        lambda about: about.update(work="many"),
        lambda about: about.update(checks=[[["a.py"], "m"]]),
        lambda about: about.update(parameters=None),
    ],
)
def test_what_describes_no_program_is_damage(damage):
    about = encode_program(program())
    damage(about)
    with pytest.raises(DamagedError):
        decode_program(about, b"", None)


@pytest.mark.parametrize("name", ["f", "<lambda>", "-rf", "../up", "a" * 300, "größe", ""])
def test_a_name_makes_a_safe_file_name(name):
    made = safe_name(name)
    assert 0 < len(made) <= 48
    assert made.isascii()
    assert made.replace("_", "a").isalnum()
    assert assembly_name(name) == f"kernels/{made}.pto"
