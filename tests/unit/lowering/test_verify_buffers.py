from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.errors import CapacityError, DTypeError, InternalError, LayoutError, ShapeError
from pypto_jit.lowering.context import borrowed_context, type_table
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.verify_buffers import verify_buffers
from pypto_jit.targets import A2A3, A5, Target


def buffer(shape="[4, 8]", dtype="f32", space="vec", valid=None, layout='"row_major", "none_box"', fractal=512):
    return f'!pto.tile_buf<"{space}", {dtype}, {shape}, {valid or shape}, [{layout}], [{fractal}, 0]>'


def mat(shape="[16, 16]", dtype="f32", valid=None):
    return buffer(shape, dtype, "mat", valid, '"col_major", "row_major"')


def left(shape="[16, 16]", dtype="f32", valid=None):
    return buffer(shape, dtype, "left", valid, '"row_major", "row_major"')


def right(shape="[16, 16]", dtype="f32", valid=None):
    return buffer(shape, dtype, "right", valid, '"row_major", "col_major"')


def acc(shape="[16, 16]", dtype="f32", valid=None):
    return buffer(shape, dtype, "acc", valid, '"col_major", "row_major"', 1024)


def column(rows=8, valid=4, dtype="f32"):
    return buffer(f"[{rows}, 1]", dtype, "vec", f"[{valid}, 1]", '"col_major", "none_box"')


def bits(columns=32):
    return buffer(f"[4, {columns}]", "ui8", valid="[4, 32]")


def scratch(dtype="f32"):
    return buffer("[1, 16]", dtype)


def op(name, *operands, kind=None, mixed=False):
    """One instruction on buffers of these types."""
    lines = [
        f'    %a{k} = "pto.alloc_tile"() {{addr = 0 : i64, buffer = {k} : i64}} : () -> {t}' if "tile_buf" in t else ""
        for k, t in enumerate(operands)
    ]
    given = ", ".join(f"%a{k}: {t}" for k, t in enumerate(operands) if "tile_buf" not in t)
    names = ", ".join(f"%a{k}" for k in range(len(operands)))
    attributes = [f'pto.kernel_kind = "{kind}"'] if kind else []
    attributes += ['pypto.mixed = "test"'] if mixed else []
    head = f"func.func @f({given}) attributes {{{', '.join(attributes)}}}"
    instruction = f'    "pto.{name}"({names}) : ({", ".join(operands)}) -> () loc("k.py":5:9)' if name else ""
    body = "\n".join([*lines, instruction])
    return f"module {{\n  {head} {{\n{body}\n    return\n  }}\n}}"


def check(text: str, target: Target = A2A3, *, planned: bool = True) -> None:
    with borrowed_context() as context:
        module = ir.Module.parse(text)
        verify_buffers(module.operation, Lowering(target, type_table(context)), planned=planned)


BOX = "!pto.partition_tensor_view<[4, 8], f32>"
GOOD = [
    op("tadd", buffer(), buffer(), buffer(), kind="vector"),
    op("trowmax", buffer(), buffer(), column(), kind="vector"),
    op("trowargmax", buffer(), buffer(), column(dtype="i32"), kind="vector"),
    op("trowexpandsub", buffer(), column(), buffer(), kind="vector"),
    op("tload", BOX, buffer(), kind="vector"),
    op("tstore", buffer(), BOX),
    op("tmov", mat(), left(), kind="cube"),
    op("tmov", acc(), mat(), kind="cube"),
    op("tmatmul", left(), right(), acc(), kind="cube"),
    op("tmatmul_acc", acc(), left(), right(), acc(), kind="cube"),
    op("tstore", acc(), "!pto.partition_tensor_view<[16, 16], f16>", kind="cube"),
    op("tmov", acc(), buffer("[16, 16]"), mixed=True),
    op("tdivs", "f32", buffer(), buffer()),
    op("tsel", bits(), buffer(), buffer(), scratch(), buffer()),
    op("tcmp", buffer(), buffer(), bits()),
]


@pytest.mark.parametrize("text", GOOD)
def test_what_the_machine_can_do(text):
    check(text)


BAD = [
    (op("tadd", buffer(dtype="bf16", shape="[4, 16]"), *[buffer(dtype="bf16", shape="[4, 16]")] * 2), DTypeError),
    (op("tadd", buffer(), buffer(dtype="i32"), buffer()), DTypeError),
    (op("tadd", buffer(), buffer(valid="[3, 8]"), buffer()), ShapeError),
    (op("tneg", column(), column()), LayoutError),
    (op("trowmax", buffer(), buffer(), column(valid=3)), ShapeError),
    (op("trowargmax", buffer(), buffer(), column()), DTypeError),
    (op("trowexpandsub", buffer(), buffer("[4, 8]", valid="[4, 1]"), buffer()), LayoutError),
    (op("tcolexpandsub", buffer("[4, 16]", valid="[4, 8]"), buffer("[1, 8]"), buffer()), ShapeError),
    (op("tsel", bits(), buffer(), buffer("[4, 16]", valid="[4, 8]"), scratch(), buffer()), ShapeError),
    (op("tsel", bits(), buffer(), buffer(), scratch("f16"), buffer()), DTypeError),
    (op("tmov", left(), mat()), LayoutError),
    (op("tmov", buffer("[16, 16]"), mat()), LayoutError),
    (op("tmov", acc(), buffer("[16, 16]")), LayoutError),
    (op("tmov", mat("[32, 16]"), left()), ShapeError),
    (op("tmov", mat("[16, 16]", "f16"), left()), DTypeError),
    (op("tmatmul", left(), right(), acc("[16, 32]")), ShapeError),
    (op("tmatmul", left("[16, 32]", valid="[16, 20]"), right("[32, 16]", valid="[19, 16]"), acc()), ShapeError),
    (op("tmatmul", right(), right(), acc()), LayoutError),
    (op("tmatmul", left(dtype="f16"), right(), acc()), DTypeError),
    (op("tmatmul", left(dtype="f16"), right(dtype="f16"), acc(dtype="i32", shape="[32, 32]")), DTypeError),
    (op("tload", BOX, left()), LayoutError),
    (op("tload", BOX, buffer(dtype="i32")), DTypeError),
    (op("tadd", buffer(), buffer(), buffer(), kind="cube"), LayoutError),
    (op("tmatmul", left(), right(), acc(), kind="vector"), LayoutError),
    (op("tload", BOX, mat(), kind="vector"), LayoutError),
    (op("tcvt", buffer(), buffer("[4, 32]", "i8", valid="[4, 8]")), DTypeError),
    (op("tcvt", buffer(), buffer("[4, 16]", "f16", valid="[4, 8]")), ShapeError),
]


@pytest.mark.parametrize(("text", "error"), BAD)
def test_what_it_cannot_is_refused_at_its_line(text, error):
    with pytest.raises(error) as caught:
        check(text)
    assert caught.value.span.line == 5


def test_a_mask_is_as_wide_as_what_is_compared_where_the_target_says_so():
    wide = buffer("[4, 32]")
    check(op("tcmp", wide, wide, bits()), A5)
    with pytest.raises(ShapeError, match="buffers of one shape"):
        check(op("tcmp", buffer(), buffer(), bits()), A5)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        (buffer("[4, 7]"), LayoutError),
        (column(rows=7), LayoutError),
        (left("[16, 12]"), LayoutError),
        (left("[16, 16]", "i8"), LayoutError),
        (right("[8, 16]"), LayoutError),
        (buffer(space="mat"), LayoutError),
        (buffer("[16, 16]", space="left", layout='"col_major", "row_major"'), LayoutError),
        (buffer(valid="[5, 8]"), ShapeError),
    ],
)
def test_buffers_no_memory_holds_are_refused(kind, error):
    with pytest.raises(error):
        check(op("", kind))


def test_the_left_memory_has_another_layout_on_a5():
    check(op("", buffer("[16, 16]", space="left", layout='"col_major", "row_major"')), A5)
    with pytest.raises(LayoutError):
        check(op("", left()), A5)


@pytest.mark.parametrize(
    ("kind", "address", "error"),
    [
        (buffer(), 16, LayoutError),
        (left(), 256, LayoutError),
        (buffer(), 184 * 1024 - 64, CapacityError),
        (buffer(), -32, CapacityError),
    ],
)
def test_addresses_are_aligned_and_inside(kind, address, error):
    text = op("", kind).replace("addr = 0", f"addr = {address}")
    check(text, planned=False)
    with pytest.raises(error):
        check(text)


def test_a_plan_has_an_address_for_every_buffer():
    with pytest.raises(InternalError, match="without an address"):
        check(op("", buffer()).replace("{addr = 0 : i64, buffer = 0 : i64}", ""))


def test_tile_values_are_gone():
    text = op("", buffer()).replace(
        "    return", '    %t = "pypto.create_tile"() : () -> !pypto.tile<[4, 8], f32, "vec", [4, 8]>\n    return'
    )
    with pytest.raises(InternalError, match="left in the pto dialect"):
        check(text)
