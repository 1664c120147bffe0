"""Infinite and NaN constants: written so that the assembler's C++ compiles, and read as the constants they are."""

from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import parse_assembly, print_assembly
from pypto_jit.dialects.registration import register


@pytest.fixture(scope="module")
def context() -> ir.Context:
    context = ir.Context()
    register(context)
    return context


def _printed(context: ir.Context, body: str, arguments: str) -> str:
    text = f"func.func @k({arguments}) attributes {{pto.entry}} {{\n{body}\nreturn\n}} loc(unknown)"
    return print_assembly(ir.Module.parse(text, context), locations=False)


@pytest.mark.parametrize(
    ("bits", "kind", "name"),
    [
        (0x7F800000, "f32", "inf"),
        (0xFF800000, "f32", "neg_inf"),
        (0x7FC00000, "f32", "nan"),
        (0xFFC00001, "f32", "nan"),
        (0x7C00, "f16", "inf"),
        (0xFC00, "f16", "neg_inf"),
        (0x7E00, "f16", "nan"),
        (0x7F80, "bf16", "inf"),
        (0xFF80, "bf16", "neg_inf"),
    ],
)
def test_a_constant_is_its_bits(context: ir.Context, bits: int, kind: str, name: str) -> None:
    width = 32 if kind == "f32" else 16
    body = f"%c = arith.constant 0x{bits:X} : {kind}\n%s = arith.maximumf %x, %c : {kind}"
    text = _printed(context, body, f'%x: {kind} loc("x")')
    assert [line.strip() for line in text.splitlines()[2:-3]] == [
        "%blocks = pto.get_block_num",
        f"%c{bits}_i64 = arith.constant {bits} : i64",
        f"%bits = arith.maxsi %blocks, %c{bits}_i64 : i64",
        f"%bits_1 = arith.trunci %bits : i64 to i{width}",
        f"%{name} = arith.bitcast %bits_1 : i{width} to {kind}",
        f"%0 = arith.maximumf %x, %{name} : {kind}",
    ]
    module = parse_assembly(text, context)
    operations = [operation.operation for operation in module.body.operations[0].regions[0].blocks[0].operations]
    assert [operation.name for operation in operations] == ["arith.constant", "arith.maximumf", "func.return"]
    assert str(operations[0].attributes["value"]) == f"0x{bits:0{width // 4}X} : {kind}"
    assert print_assembly(module, locations=False) == text


def test_it_is_written_once(context: ir.Context) -> None:
    body = """
      %a = arith.constant 0x7F800000 : f32
      %b = arith.constant 0x7F800000 : f32
      %s = arith.maximumf %x, %a : f32
      %t = arith.mulf %s, %b : f32
    """
    text = _printed(context, body, '%x: f32 loc("x")')
    assert text.count("arith.bitcast") == 1
    assert print_assembly(parse_assembly(text, context), locations=False) == text


@pytest.mark.parametrize(
    ("number", "narrowed"),
    [
        # A block count may be larger than this, and these are numbers.
        ("%c = arith.constant 15360 : i64", "%m = arith.maxsi %n, %c : i64"),
        ("%c = arith.constant 1065353216 : i64", "%m = arith.maxsi %n, %c : i64"),
        # Not what is written for a constant.
        ("%c = arith.constant 31744 : i64", "%m = arith.minsi %n, %c : i64"),
        ("%c = arith.constant 31744 : i64", "%m = arith.maxsi %c, %n : i64"),
    ],
)
def test_other_bits_are_computed(context: ir.Context, number: str, narrowed: str) -> None:
    text = f"""\
func.func @k(%x: !pto.ptr<f32>, %f: f16) attributes {{pto.entry}} {{
  %n = pto.get_block_num
  {number}
  {narrowed}
  %t = arith.trunci %m : i64 to i16
  %b = arith.bitcast %t : i16 to f16
  %s = arith.mulf %f, %b : f16
  return
}}
"""
    module = parse_assembly(text, context)
    names = [operation.operation.name for operation in module.body.operations[0].regions[0].blocks[0].operations]
    assert "arith.bitcast" in names


def test_what_else_uses_the_parts_of_a_constant_keeps_them(context: ir.Context) -> None:
    text = """\
func.func @k(%x: !pto.ptr<f32>, %f: f16) attributes {pto.entry} {
  %n = pto.get_block_num
  %c = arith.constant 31744 : i64
  %m = arith.maxsi %n, %c : i64
  %t = arith.trunci %m : i64 to i16
  %b = arith.bitcast %t : i16 to f16
  %s = arith.mulf %f, %b : f16
  %u = arith.addi %n, %c : i64
  return
}
"""
    module = parse_assembly(text, context)
    names = [operation.operation.name for operation in module.body.operations[0].regions[0].blocks[0].operations]
    expected = ["pto.get_block_num", "arith.constant", "arith.constant", "arith.mulf", "arith.addi", "func.return"]
    assert names == expected
