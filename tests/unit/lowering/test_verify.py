from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.errors import DTypeError, InternalError, LayoutError, PyptoError, ShapeError
from pypto_jit.lowering.context import borrowed_context, type_table
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.verify import verify_values
from pypto_jit.targets import A2A3, A5, Target

TENSOR = "!pypto.tensor<[4, 8], f32, [8, 1]>"


def tile(shape="[4, 8]", dtype="f32", space="vec", valid=None):
    return f'!pypto.tile<{shape}, {dtype}, "{space}", {valid or shape}>'


def op(name, operands, result=None, attributes=""):
    """One operation on arguments of these types."""
    names = ", ".join(f"%a{k}" for k in range(len(operands)))
    arguments = ", ".join(f"%a{k}: {kind}" for k, kind in enumerate(operands))
    outcome = f"-> {result}" if result else "-> ()"
    left = "%r = " if result else ""
    return (
        f'module {{\n  func.func @f({arguments}) {{\n    {left}"pypto.{name}"({names}) {attributes} : '
        f'({", ".join(operands)}) {outcome} loc("k.py":5:9)\n    return\n  }}\n}}'
    )


def check(text: str, target: Target = A2A3, *, flat: bool = False, placed: bool = False) -> None:
    with borrowed_context() as context:
        module = ir.Module.parse(text)
        verify_values(module.operation, Lowering(target, type_table(context)), flat=flat, placed=placed)


GOOD = [
    op("add", [tile(), tile()], tile()),
    op("load", [TENSOR, *["index"] * 4], tile()),
    op("store", [tile(), TENSOR, "index", "index"]),
    op("adds", [tile(dtype="i16"), "i16"], tile(dtype="i16")),
    op("row_sum", [tile()], tile("[4, 1]")),
    op("cast", [tile()], tile(dtype="f16"), '{mode = "rint"}'),
    op("move", [tile(space="mat")], tile(space="left")),
    op("move", [tile("[1, 8]", "f16", "mat")], tile("[1, 8]", "f32", "bias")),
    op("create_tile", [], tile(space="acc")),
]


@pytest.mark.parametrize("text", GOOD)
def test_what_the_rules_allow(text):
    check(text)


BAD = [
    (op("add", [tile(), tile("[4, 9]")], tile()), ShapeError),
    (op("add", [tile(), tile()], tile("[4, 9]")), ShapeError),
    (op("add", [tile(), tile()], tile(valid="[3, 8]")), ShapeError),
    (op("add", [tile(dtype="bf16")] * 2, tile(dtype="bf16")), DTypeError),
    (op("adds", [tile(), "f16"], tile()), DTypeError),
    (op("cast", [tile()], tile(dtype="i8"), '{mode = "rint"}'), DTypeError),
    (op("load", [TENSOR, *["index"] * 4], tile(space="left")), LayoutError),
    (op("load", [TENSOR, *["index"] * 4], tile(dtype="f16")), DTypeError),
    (op("load", [TENSOR, *["index"] * 3], tile()), ShapeError),
    (op("load", [TENSOR, *["index"] * 4], tile(valid="[5, 8]")), ShapeError),
    (op("store", [tile(), TENSOR, "index"]), ShapeError),
    (op("store", [tile(dtype="f16"), TENSOR, "index", "index"]), DTypeError),
    (op("move", [tile(space="left")], tile(space="vec")), LayoutError),
]


@pytest.mark.parametrize(("text", "error"), BAD)
def test_what_they_do_not_is_refused_at_its_line(text, error):
    with pytest.raises(error) as caught:
        check(text)
    assert isinstance(caught.value, PyptoError)
    assert (caught.value.span.filename, caught.value.span.line) == ("k.py", 5)


def test_dtypes_are_those_of_the_target():
    text = op("add", [tile(dtype="bf16")] * 2, tile(dtype="bf16"))
    check(text, A5)
    with pytest.raises(DTypeError):
        check(text, A2A3)


def test_flat_tiles_have_two_dimensions():
    text = op("neg", [tile("[2, 3, 8]")], tile("[2, 3, 8]"))
    check(text)
    with pytest.raises(InternalError, match="not two-dimensional"):
        check(text, flat=True)


@pytest.mark.parametrize(
    "text",
    [
        op("matmul", [tile("[16, 16]"), tile("[16, 16]", space="right")], tile("[16, 16]", space="acc")),
        op("relu", [tile(space="acc")], tile()),
        op("neg", [tile("[4, 1]")], tile("[4, 1]")),
    ],
)
def test_placed_operands_are_where_the_instruction_reads_them(text):
    check(text)
    with pytest.raises(LayoutError):
        check(text, placed=True)
