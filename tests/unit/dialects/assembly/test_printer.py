from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import parse_assembly, print_assembly
from pypto_jit.dialects.registration import register
from pypto_jit.errors import AssemblyError, Span

TILE = '!pto.tile_buf<"vec", f32, [8, 8], [8, 8], ["row_major", "none_box"], [512, 0]>'


@pytest.fixture(scope="module")
def context() -> ir.Context:
    context = ir.Context()
    register(context)
    return context


def printed(context: ir.Context, body: str, arguments: str = "", attributes: str = "pto.entry", **options) -> str:
    text = f"func.func @k({arguments}) attributes {{{attributes}}} {{\n{body}\nreturn\n}} loc(unknown)"
    return print_assembly(ir.Module.parse(text, context), **options)


def body_of(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[2:-3]]


def test_constants_come_first_once_each_and_only_where_they_are_used(context: ir.Context) -> None:
    body = """
      %a = arith.constant 4 : index
      %unused = arith.constant 9 : index
      %b = arith.addi %n, %a : index
      %again = arith.constant 4 : index
      %c = arith.muli %b, %again : index
      %m = arith.constant -3 : i32
      %d = arith.addi %m, %m : i32
    """
    lines = body_of(printed(context, body, '%n: index loc("n")', locations=False))
    assert lines == [
        "%c4_index = arith.constant 4 : index",
        "%cn3_i32 = arith.constant -3 : i32",
        "%0 = arith.addi %n, %c4_index : index",
        "%1 = arith.muli %0, %c4_index : index",
        "%2 = arith.addi %cn3_i32, %cn3_i32 : i32",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "%0 = arith.cmpi slt, %i, %j : index",
        "%0 = arith.cmpf oge, %x, %y : f32",
        "%0 = arith.select %b, %i, %j : index",
        "%0 = arith.index_cast %i : index to i64",
        "%0 = arith.truncf %x : f32 to f16",
        "%0 = arith.negf %x : f32",
        "%0 = arith.maximumf %x, %y : f32",
        "%0 = arith.ceildivsi %i, %j : index",
    ],
)
def test_scalar_operations_are_written_in_their_own_syntax(context: ir.Context, line: str) -> None:
    names = ("i", "index"), ("j", "index"), ("x", "f32"), ("y", "f32"), ("b", "i1")
    arguments = ", ".join(f'%{name}: {kind} loc("{name}")' for name, kind in names)
    assert body_of(printed(context, line, arguments, locations=False)) == [line]


def test_a_sum_of_floats_is_written_as_a_difference(context: ir.Context) -> None:
    arguments = '%x: f32 loc("x"), %y: f32 loc("y")'
    text = printed(context, "%s = arith.addf %x, %y : f32", arguments, locations=False)
    assert body_of(text) == ["%0 = arith.negf %y : f32", "%1 = arith.subf %x, %0 : f32"]
    assert print_assembly(parse_assembly(text, context), locations=False) == text


def test_loops_and_branches_carry_values(context: ir.Context) -> None:
    body = """
      %r:2 = scf.for %i = %n to %n step %n iter_args(%p = %n, %q = %n) -> (index, index) {
        %v = scf.if %b -> (index) {
          scf.yield %p : index
        } else {
          scf.yield %i : index
        }
        scf.yield %v, %q : index, index
      }
      scf.if %b {
        %s = arith.addi %r#0, %r#1 : index
      }
    """
    lines = body_of(printed(context, body, '%n: index loc("n"), %b: i1 loc("b")', locations=False))
    assert lines == [
        "%0:2 = scf.for %i = %n to %n step %n iter_args(%1 = %n, %2 = %n) -> (index, index) {",
        "%3 = scf.if %b -> (index) {",
        "scf.yield %1 : index",
        "} else {",
        "scf.yield %i : index",
        "}",
        "scf.yield %3, %2 : index, index",
        "}",
        "scf.if %b {",
        "%4 = arith.addi %0#0, %0#1 : index",
        "}",
    ]


def test_a_loop_that_runs_until_it_says_so(context: ir.Context) -> None:
    body = """
      %r = scf.while (%p = %n, %q = %b) : (index, i1) -> (index) {
        scf.condition(%q) %p : index
      } do {
      ^bb0(%v: index):
        %s = arith.addi %v, %n : index
        scf.while : () -> () {
          scf.condition(%b)
        } do {
          scf.yield
        }
        scf.yield %s, %b : index, i1
      }
    """
    text = printed(context, body, '%n: index loc("n"), %b: i1 loc("b")', locations=False)
    assert body_of(text) == [
        "%0 = scf.while (%1 = %n, %2 = %b) : (index, i1) -> (index) {",
        "scf.condition(%2) %1 : index",
        "} do {",
        "^bb0(%3: index):",
        "%4 = arith.addi %3, %n : index",
        "scf.while () : () -> () {",
        "scf.condition(%b)",
        "} do {",
        "}",
        "scf.yield %4, %b : index, i1",
        "}",
    ]
    assert print_assembly(parse_assembly(text, context), locations=False) == text


def test_a_location_is_the_users_line_without_its_folder(context: ir.Context) -> None:
    body = '%a = arith.addi %n, %n : index loc("sum"("/home/me/kernel.py":12:9 to :17))'
    text = printed(context, body, '%n: index loc("n")')
    assert '%sum = arith.addi %n, %n : index loc("kernel.py":12:9)\n' in text
    assert "loc" not in printed(context, body, '%n: index loc("n")', locations=False)


def test_what_the_assembly_has_no_place_for_is_kept_in_comments(context: ir.Context) -> None:
    body = f'%t = "pto.alloc_tile"() {{addr = 64 : i64, buffer = 3 : i64}} : () -> {TILE}'
    arguments = (
        '%x: !pto.ptr<f32> {pypto.argument = "x"}, %n: index {pypto.dim = ["x", 0]}, '
        '%s: index {pypto.stride = ["x", 1]}, %w: !pto.ptr<f32> {pypto.workspace = 4096 : i64}'
    )
    lines = printed(context, body, arguments, "pto.entry, pypto.trips = 3 : i64", locations=False).splitlines()
    assert lines[1] == (
        "  func.func @k(%x: !pto.ptr<f32>, %x_dim0: index, %x_stride1: index, %workspace: !pto.ptr<f32>) "
        "attributes {pto.entry} { // pypto: pypto.trips = 3 : i64"
    )
    assert lines[2:5] == [
        '    // pypto: %x_dim0 = {pypto.dim = ["x", 0]}',
        '    // pypto: %x_stride1 = {pypto.stride = ["x", 1]}',
        "    // pypto: %workspace = {pypto.workspace = 4096 : i64}",
    ]
    assert lines[6].startswith("    %t0 = pto.alloc_tile addr = %c64_i64 : !pto.tile_buf<loc=vec, dtype=f32, rows=8")
    assert lines[6].endswith(" // pypto: buffer = 3 : i64")


def test_a_conversion_to_an_integer_asks_for_saturation(context: ir.Context) -> None:
    integers = TILE.replace("f32", "i32")
    body = f"""
      %t = "pto.alloc_tile"() {{addr = 0 : i64}} : () -> {TILE}
      %u = "pto.alloc_tile"() {{addr = 256 : i64}} : () -> {integers}
      "pto.tcvt"(%t, %u) {{mode = "floor"}} : ({TILE}, {integers}) -> ()
      "pto.tcvt"(%u, %t) {{mode = "none"}} : ({integers}, {TILE}) -> ()
    """
    lines = body_of(printed(context, body, locations=False))
    options = "{rmode = #pto<round_mode FLOOR>, satmode = #pto<saturation_mode ON>}"
    assert lines[-2].startswith(f"pto.tcvt ins(%t0 {options} : !pto.tile_buf<loc=vec, dtype=f32,")
    assert lines[-1].startswith("pto.tcvt ins(%t1 {rmode = #pto<round_mode NONE>} : !pto.tile_buf<loc=vec, dtype=i32,")


def test_a_mixed_kernel_is_refused_with_its_reason(context: ir.Context) -> None:
    with pytest.raises(AssemblyError, match="cannot be separated") as caught:
        printed(context, "", attributes='pypto.mixed = "a product in a loop of vector work"')
    assert caught.value.found == "a product in a loop of vector work"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f'%t = "pto.alloc_tile"() : () -> {TILE} loc("k.py":4:9)', "a tile buffer without an address"),
        (
            '%t = "pto.get_block_idx"() {odd = 1 : i64} : () -> i64 loc("k.py":4:9)',
            "attribute odd of pto.get_block_idx",
        ),
        ('%t = math.exp %f : f32 loc("k.py":4:9)', "math.exp"),
        ('func.call @k(%f) : (f32) -> () loc("k.py":4:9)', "func.call"),
    ],
)
def test_what_the_assembly_cannot_say_is_an_error_at_its_line(context: ir.Context, body: str, found: str) -> None:
    with pytest.raises(AssemblyError) as caught:
        printed(context, body, "%f: f32")
    assert (caught.value.found, caught.value.span) == (found, Span("k.py", 4, 9))
