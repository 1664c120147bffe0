"""One kernel per scalar operation that assembly may contain, with its result used."""

from __future__ import annotations

from collections.abc import Iterator

from pypto_jit.dialects.assembly import forms

_TILE = '!pto.tile_buf<"vec", f32, [8, 8], [8, 8], ["row_major", "none_box"], [512, 0]>'
_VIEW, _BOX = "!pto.tensor_view<[-1, 8], f32>", "!pto.partition_tensor_view<[8, 8], f32>"
_CASTS = {
    "arith.index_cast": "%r = arith.index_cast %i : i32 to index",
    "arith.index_castui": "%r = arith.index_castui %i : i32 to index",
    "arith.extsi": "%w = arith.extsi %i : i32 to i64\n%r = arith.index_cast %w : i64 to index",
    "arith.extui": "%w = arith.extui %i : i32 to i64\n%r = arith.index_cast %w : i64 to index",
    "arith.trunci": "%w = arith.trunci %i : i32 to i16\n%r = arith.index_cast %w : i16 to index",
    "arith.extf": "%r = arith.extf %h : f16 to f32",
    "arith.truncf": "%w = arith.truncf %x : f32 to f16\n%r = arith.extf %w : f16 to f32",
    "arith.sitofp": "%r = arith.sitofp %i : i32 to f32",
    "arith.uitofp": "%r = arith.uitofp %i : i32 to f32",
    "arith.fptosi": "%w = arith.fptosi %x : f32 to i32\n%r = arith.index_cast %w : i32 to index",
    "arith.fptoui": "%w = arith.fptoui %x : f32 to i32\n%r = arith.index_cast %w : i32 to index",
    "arith.bitcast": "%r = arith.bitcast %i : i32 to f32",
}


def _lines() -> Iterator[tuple[str, str]]:
    for name in sorted(forms.BINARY):
        operands = ("%x, %y : f32") if name.endswith("f") else ("%m, %n : index")
        yield name, f"%r = {name} {operands}"
    for name in sorted(forms.UNARY):
        yield name, f"%r = {name} %x : f32"
    for name in sorted(forms.CAST):
        yield name, _CASTS[name]
    for name, predicates in forms.COMPARE.items():
        operands = "%i, %j : i32" if name == "arith.cmpi" else "%x, %y : f32"
        for predicate in predicates:
            compare = f"%c = {name} {predicate}, {operands}"
            yield f"{name}-{predicate}", f"{compare}\n%r = arith.select %c, %m, %n : index"
    yield "scf.if", "%r = scf.if %b -> (index) {\nscf.yield %m : index\n} else {\nscf.yield %n : index\n}"
    body = "%s = arith.addi %p, %k : index\nscf.yield %s, %q : index, f32"
    head = "%r:2 = scf.for %k = %zero to %m step %one iter_args(%p = %zero, %q = %x) -> (index, f32)"
    yield "scf.for", f"{head} {{\n{body}\n}}\n%t = arith.addi %r#0, %one : index"


def kernels() -> Iterator[tuple[str, str]]:
    """Name and module, in the ``pto`` dialect's generic form."""
    for name, line in _lines():
        value = "%r#0" if name == "scf.for" else "%r"
        is_index = line.rstrip("}\n").endswith("index")
        offset, factor = (value, "%x") if is_index else ("%zero", value)
        arguments = "%x: f32, %y: f32, %m: index, %n: index, %i: i32, %j: i32, %h: f16, %b: i1"
        yield (
            name,
            f"""module attributes {{pto.target_arch = "a2a3"}} {{
            func.func @scalars(%pointer: !pto.ptr<f32>, {arguments})
                attributes {{pto.entry, pto.kernel_kind = "vector"}} {{
            %zero = arith.constant 0 : index
            %one = arith.constant 1 : index
            %eight = arith.constant 8 : index
            {line}
            %view = "pto.make_tensor_view"(%pointer, %m, %eight, %eight, %one) {{layout = "nd"}}
              : (!pto.ptr<f32>, index, index, index, index) -> {_VIEW}
            %box = "pto.partition_view"(%view, {offset}, %zero, %eight, %eight)
              : ({_VIEW}, index, index, index, index) -> {_BOX}
            %tile = "pto.alloc_tile"() {{addr = 0 : i64, buffer = 0 : i64}} : () -> {_TILE}
            "pto.tload"(%box, %tile) : ({_BOX}, {_TILE}) -> ()
            "pto.tadds"(%tile, {factor}, %tile) : ({_TILE}, f32, {_TILE}) -> ()
            "pto.tstore"(%tile, %box) : ({_TILE}, {_BOX}) -> ()
            return
            }}
            }}""",
        )
