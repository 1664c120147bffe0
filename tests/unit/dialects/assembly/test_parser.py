from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import parse_assembly, print_assembly
from pypto_jit.dialects.registration import register
from pypto_jit.errors import AssemblyError, Span

SHARED = ir.Context()
register(SHARED)

# Written by nobody here: other names, both tile spellings, April's spacing, sections, manual synchronization, no entry.
FOREIGN = """\
#loc7 = loc("model.py":3:1)
module @m attributes {pto.target_arch = "a3", some.other = [1, 2]} {
  func.func public @scale(%arg0: !pto.ptr<f32, gm>, %arg1: !pto.ptr<f32>, %n: index)
      attributes {pto.kernel_kind = #pto.kernel_kind<vector>, pto.auto_sync_tail_hint = "default"} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %c1 = arith.constant 1 : index
    %a = arith.constant 0 : i64
    %s = arith.constant 1.5 : f32
    %v = pto.make_tensor_view %arg0, shape = [%n, %c8], strides = [%c8, %c1]: !pto.tensor_view<?x?xf32>
    %w = pto.make_tensor_view %arg1, shape = [%n, %c8], strides = [%c8, %c1]
      {layout = #pto.layout<nd>}: !pto.tensor_view<?x?xf32>
    pto.section.vector {
      %t = pto.alloc_tile addr = %a valid_row = %n valid_col = %c8
          : !pto.tile_buf<vec, 16x8xf32, valid=?x?>  // a comment
      %p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%n, %c8] : !pto.tensor_view<?x?xf32>
      pto.tload ins(%p : !pto.partition_tensor_view<?x8xf32>)
        outs(%t : !pto.tile_buf<vec, 16x8xf32, valid=?x?>) loc(#loc7)
      pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
      pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
      pto.texp ins(%t : !pto.tile_buf<vec, 16x8xf32, valid=?x?>)
        outs(%t : !pto.tile_buf<vec, 16x8xf32, valid=?x?>)
        {precisionType = #pto<exp_precision default>}
      pto.tdivs
        ins(%s, %t : f32, !pto.tile_buf<loc=vec, dtype=f32, rows=16, cols=8, v_row=?, v_col=?,
            blayout=row_major, slayout=none_box, fractal=512, pad=0>)
        outs(%t : !pto.tile_buf<vec, 16x8xf32, valid=?x?>)
      pto.barrier #pto.pipe<PIPE_ALL>
      %q = pto.partition_view %w, offsets = [%c0, %c0], sizes = [%n, %c8]
        : !pto.tensor_view<?x?xf32> -> !pto.partition_tensor_view<?x8xf32>
      pto.tstore ins(%t : !pto.tile_buf<vec, 16x8xf32, valid=?x?>) outs(%q : !pto.partition_tensor_view<?x8xf32>)
        {atomicType = #pto<atomic_type atomic_none>}
    }
    return
  }
}
"""

GOLDEN = [p.read_text() for p in sorted((Path(__file__).parents[3] / "asm" / "golden").glob("*.pto"))]


def operations(module: ir.Module) -> list[ir.Operation]:
    return [o.operation for o in module.body.operations[0].regions[0].blocks[0].operations]


def test_text_nobody_here_wrote_is_read() -> None:
    module = parse_assembly(FOREIGN, SHARED)
    function = module.body.operations[0]
    assert [ir.DictAttr(a)["pypto.argument"].value for a in list(function.attributes["arg_attrs"])[:2]] == [
        "arg0",
        "arg1",
    ]
    assert ir.StringAttr(function.attributes["pto.kernel_kind"]).value == "vector"
    assert [o.name for o in operations(module) if o.name.startswith("pto.t")] == [
        "pto.tload",
        "pto.texp",
        "pto.tdivs",
        "pto.tstore",
    ]
    tile = next(o for o in operations(module) if o.name == "pto.alloc_tile")
    assert ir.IntegerAttr(tile.attributes["addr"]).value == 0
    assert ir.IntegerAttr(tile.attributes["buffer"]).value == 0
    assert str(tile.results[0].type) == (
        '!pto.tile_buf<"vec", f32, [16, 8], [-1, -1], ["row_major", "none_box"], [512, 0]>'
    )
    load, divide = (next(o for o in operations(module) if o.name == n) for n in ("pto.tload", "pto.tdivs"))
    assert (load.location.filename, load.location.start_line) == ("model.py", 3)
    assert [str(o.type)[:13] for o in divide.operands] == ["f32", "!pto.tile_buf", "!pto.tile_buf"]
    again = print_assembly(module)
    assert print_assembly(parse_assembly(again, SHARED)) == again


def test_what_the_cpu_needs_survives() -> None:
    text = """\
module attributes {pto.target_arch = "a5"} {
  func.func @k(%x: !pto.ptr<f32>, %x_dim0: index, %w: !pto.ptr<f32>) attributes {pto.entry}
  { // pypto: pypto.trips = 7 : i64
    // pypto: %x_dim0 = {pypto.dim = ["x", 0]}
    // pypto: %w = {pypto.workspace = 64 : i64}
    %c32_i64 = arith.constant 32 : i64
    %t0 = pto.alloc_tile addr = %c32_i64 : !pto.tile_buf<vec, 1x8xf32> // pypto: buffer = 5 : i64
    scf.for %i = %x_dim0 to %x_dim0 step %x_dim0 { // pypto: pypto.parallel
    }
    return
  }
}
"""
    module = parse_assembly(text, SHARED)
    function = module.body.operations[0]
    assert ir.StringAttr(module.operation.attributes["pto.target_arch"]).value == "a5"
    assert ir.IntegerAttr(function.attributes["pypto.trips"]).value == 7
    assert str(function.attributes["arg_attrs"]) == (
        '[{pypto.argument = "x"}, {pypto.dim = ["x", 0]}, {pypto.workspace = 64 : i64}]'
    )
    _, tile, loop, _ = operations(module)
    assert ir.IntegerAttr(tile.attributes["buffer"]).value == 5
    assert "pypto.parallel" in loop.attributes


def test_another_handle_on_a_buffer_is_an_allocation_at_its_address() -> None:
    text = """func.func @k() {
    %a = arith.constant 64 : i64
    %t = pto.alloc_tile addr = %a : !pto.tile_buf<vec, 8x1xf32, blayout=col_major>
    %u = pto.treshape %t : !pto.tile_buf<vec, 8x1xf32, blayout=col_major> -> !pto.tile_buf<vec, 1x8xf32>
    return
  }"""
    *_, other, _ = operations(parse_assembly(text, SHARED))
    assert (other.name, ir.IntegerAttr(other.attributes["addr"]).value) == ("pto.alloc_tile", 64)


# A kernel around one wrong line, with something of every kind defined.
HEAD = """func.func @k(%x: !pto.ptr<f32>, %n: index, %b: i1) {
%a = arith.constant 32 : i64
%f = arith.constant 1.0 : f32
%v = pto.make_tensor_view %x, shape = [%n], strides = [%n] : !pto.tensor_view<?xf32>
%p = pto.partition_view %v, offsets = [%n], sizes = [%n] : !pto.tensor_view<?xf32>
%t = pto.alloc_tile addr = %a : !pto.tile_buf<vec, 1x8xf32>
"""


# The bar stands before the characters that the error points at.
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%u = ¦pto.alloc_tile : T", "this tile buffer has no address"),
        ("%u = pto.alloc_tile addr = ¦%n : T", "%n has another type"),
        ("%u = pto.alloc_tile addr = %a valid_row = %n : ¦T", "exactly where the type says"),
        ("%c = arith.constant 8 : i64 %u = pto.alloc_tile addr = %c : ¦T", "is not aligned"),
        ("%c = arith.constant 188416 : i64 %u = pto.alloc_tile addr = %c : ¦T", "does not fit vec of a2a3"),
        ("%u = pto.alloc_tile addr = %a : ¦!pto.tile_buf<vec, 1x8xf99>", "unknown element type"),
        ("%u = pto.alloc_tile addr = %a : ¦!pto.ptr<f32>", "alloc_tile makes a tile buffer"),
        ("pto.tabs ins(%t : T) outs(¦%q : T)", "this name is not defined here"),
        ("pto.tabs ins(¦%t : !pto.ptr<f32>) outs(%t : T)", "%t has another type"),
        ("¦pto.tabs ins(%t, %t : T, T) outs(%t : T)", "takes 1 inputs and one output"),
        ("pto.tabs ins(¦%f : f32) outs(%t : T)", "does not take this operand"),
        ("pto.tadds ins(%t, ¦%n : T, index) outs(%t : T)", "does not take this operand"),
        ("pto.tabs ins(%t : T) outs(¦%p : !pto.partition_tensor_view<?xf32>)", "does not write this"),
        ("pto.tstore ins(%t : T) outs(¦%t : T)", "does not write this"),
        ("¦pto.tcvt ins(%t {rmode = #pto<round_mode UP>} : T) outs(%t : T)", "unknown rmode"),
        ("¦pto.tabs ins(%t : T) outs(%t : T) {turbo = true}", "attribute is not supported"),
        ("¦pto.tads ins(%t : T) outs(%t : T)", "not in the operator table"),
        ("%u = pto.make_tensor_view ¦%x, shape = [%n], strides = [] : !pto.tensor_view<?xf32>", "one extent and one"),
        ("%u = pto.make_tensor_view %x, shape = [%n], strides = [%n] : ¦!pto.tensor_view<?xf16>", "same element type"),
        ("%u = pto.partition_view ¦%v, offsets = [], sizes = [%n] : !pto.tensor_view<?xf32>", "one offset and one"),
        ("%u = ¦math.exp %f : f32", "not part of PTO assembly"),
        ("%u = arith.addi %n, ¦%a : index", "%a has another type"),
        ("%u = arith.cmpi ¦above, %n, %n : index", "unknown predicate"),
        ("%u = arith.constant ¦1.0 : index", "malformed attribute"),
        ("%u = arith.constant ¦300 : i8", "malformed attribute"),
        ("%u = arith.constant ¦dense<1> : i8", "malformed assembly"),
        ("¦%n = arith.addi %n, %n : index", "already defined"),
        ("%u:2 = ¦arith.addi %n, %n : index", "has 1 results"),
        ("¦arith.addi %n, %n : index", "has 1 results"),
        ("scf.if ¦%n {", "%n has another type"),
        ("%u = scf.if %b -> (index) { scf.yield %n : index } ¦return", "malformed assembly"),
        ("%u = scf.if %b -> (index) { ¦} else { }", "does not yield"),
        ("scf.if %b { ¦scf.yield %n : index }", "does not give what its operation returns"),
        ("scf.for %i = %n to %n ¦{ }", "malformed assembly"),
        ("¦scf.condition(%b)", "ends the first region of scf.while"),
        ("scf.while () : () -> () { ¦} do { }", "this region does not decide"),
        ("scf.while () : () -> () { scf.condition(¦%n) } do { }", "%n has another type"),
        ("scf.while () : () -> () { ¦scf.condition(%b) %n : index } do { }", "does not pass on what"),
        ("scf.while () : () -> () { ¦scf.yield } do { }", "scf.yield ends the body"),
        ("%u = scf.while () : () -> (index) { scf.condition(%b) %n : index } do { ¦}", "takes what scf.condition"),
        ("scf.while (%m = %n) : (index) -> () { scf.condition(%b) } do { ¦}", "does not yield"),
        ("scf.while (%p = ¦%n) : (i1) -> () { }", "%n has another type"),
        ("scf.while (%p = %n) ¦: () -> () { }", "one type per carried value"),
        ("scf.for %i = %n to %n step %n { ¦return }", "return stands at the end"),
        ("pto.section.cube { ¦pto.section.vector { } }", "either cube or vector"),
        ("return ¦%n : index", "malformed assembly"),
        ("%u = ¦$", "malformed assembly"),
        ('¦"pto.tabs"(%t, %t) : () -> ()', "malformed assembly"),
        ("pto.tabs ins(%t : T ¦outs", "malformed assembly"),
        ("pto.set_flag[<PIPE_V>¦}", "brackets do not match"),
        ("%u = arith.addi %n, %n : index ¦loc(nowhere)", "malformed location"),
        ("%u = pto.alloc_tile addr = %a : T ¦// pypto: addr = 3 : i64", "not kept in a comment"),
        ("%u = pto.alloc_tile addr = %a : T ¦// pypto: buffer = [", "malformed attribute"),
    ],
)
def test_an_error_points_at_the_characters(line: str, message: str) -> None:
    line = re.sub(r"\bT\b", "!pto.tile_buf<vec, 1x8xf32>", line)
    with pytest.raises(AssemblyError, match=message) as caught:
        parse_assembly(f"{HEAD}{line.replace('¦', '')}\nreturn\n}}\n", SHARED, filename="kernel.pto")
    span = caught.value.span
    assert span is not None
    assert (span.filename, span.line, span.column) == ("kernel.pto", 7, line.index("¦") + 1)


def test_an_error_shows_the_line_of_text_that_is_in_no_file() -> None:
    with pytest.raises(AssemblyError) as caught:
        parse_assembly("module {\n  func.fun @k\n}", SHARED)
    assert caught.value.span == Span("<assembly>.pto", 2, 3, 11)
    assert caught.value.notes == ("func.fun @k",)
    assert (caught.value.found, caught.value.expected) == ("func.fun", "func.func")


@pytest.mark.parametrize(
    "text",
    [
        "func.func @k() { }",
        "func.func @k() { return } func.func @k() { return }",
        "func.func @k() -> index { return }",
        "func.func @k() { return",
        "module { func.func @k() { return } } extra",
        "func.func @k(%x: index, %x: index) { return }",
        "func.func @k() attributes {pto.kernel_kind = #pto.kernel_kind<mixed>} { return }",
        "func.func @k(%x: memref<4xf32>) { return }",
        "func.func @k() {" + "scf.if %b {" * 3000,
        "func.func @k(%b: i1) {" + "scf.if %b {" * 3000,
        "module attributes " + "{a = " * 20000,
        "func.func @k() { // pypto: pypto.a = " + "[" * 5000 + "]" * 5000 + "\nreturn }",
        "func.func @k(%n: index) { // pypto: pypto.a = " + "-" * 5000 + "\nreturn }",
        "\x00",
    ],
)
def test_malformed_modules_are_errors(text: str) -> None:
    with pytest.raises(AssemblyError):
        parse_assembly(text, SHARED)


def test_an_empty_module_is_none_the_less_a_module() -> None:
    assert len(parse_assembly("", SHARED).body.operations) == 0
    assert len(parse_assembly("module { }", SHARED).body.operations) == 0


_TOKENS = ["%x", "%i", "{", "}", "(", ")", "<", ">", "->", ",", ":", "=", "!pto.ptr<f32>", "index", "ins", "outs", '"']
_TOKENS += ["pto.tadd", "scf.for", "scf.if", "scf.yield", "return", "loc(", "#pto", "0", "-1", "99999999999999999999"]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_malformed_text_is_an_error_or_a_module_never_more(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([*GOLDEN, FOREIGN]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.one_of(st.just(len(text)), st.integers(start, min(len(text), start + 40))))
    middle = data.draw(st.one_of(st.just(""), st.sampled_from(_TOKENS), st.text(max_size=8)))
    try:
        module = parse_assembly(text[:start] + middle + text[end:], SHARED)
    except AssemblyError:
        return
    assert module.operation.verify()


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_swapped_words_are_an_error_or_a_module_never_more(data: st.DataObject) -> None:
    words = data.draw(st.sampled_from([*GOLDEN, FOREIGN])).split(" ")
    one, other = (data.draw(st.integers(0, len(words) - 1)) for _ in range(2))
    words[one], words[other] = words[other], words[one]
    try:
        module = parse_assembly(" ".join(words), SHARED)
    except AssemblyError:
        return
    assert module.operation.verify()
