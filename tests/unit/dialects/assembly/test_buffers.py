from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import parse_assembly
from pypto_jit.dialects.registration import register
from pypto_jit.errors import AssemblyError

CONTEXT = ir.Context()
register(CONTEXT)
T, HALF = "!pto.tile_buf<vec, 4x8xf32>", "!pto.tile_buf<vec, 2x8xf32>"


def module(body: str) -> ir.Module:
    head = "\n".join(f"%a{n} = arith.constant {n} : i64" for n in (0, 64, 128, 256))
    return parse_assembly(f"func.func @k(%n: index, %b: i1) {{\n{head}\n{body}\nreturn\n}}", CONTEXT)


def tile(name: str, address: int, kind: str = T) -> str:
    return f"%{name} = pto.alloc_tile addr = %a{address} : {kind}\n"


def absolute(source: str, result: str, kind: str = T) -> str:
    return f"pto.tabs ins(%{source} : {kind}) outs(%{result} : {kind})\n"


def filled(name: str, kind: str = T) -> str:
    return f"%v{name} = arith.constant 0.0 : f32\npto.texpands ins(%v{name} : f32) outs(%{name} : {kind})\n"


def numbers(module: ir.Module) -> list[int]:
    operations = module.body.operations[0].regions[0].blocks[0].operations
    return [
        ir.IntegerAttr(o.operation.attributes["buffer"]).value
        for o in operations
        if o.operation.name == "pto.alloc_tile"
    ]


def test_handles_on_the_same_bytes_share_a_buffer() -> None:
    body = tile("x", 0) + tile("y", 128) + tile("z", 0, "!pto.tile_buf<vec, 2x16xf32>") + tile("h", 0, HALF)
    assert numbers(module(body)) == [0, 1, 0, 2]


def test_memory_is_reused_by_a_buffer_of_another_size() -> None:
    body = tile("x", 0) + tile("h", 64, HALF) + tile("g", 128, HALF)
    assert numbers(module(body + filled("x") + absolute("x", "x") + filled("h", HALF) + absolute("h", "g", HALF))) == [
        0,
        1,
        2,
    ]


def test_numbers_that_the_text_gives_are_kept() -> None:
    body = tile("x", 0).replace("\n", " // pypto: buffer = 7 : i64\n") + tile("y", 0).replace(
        "\n", " // pypto: buffer = 9 : i64\n"
    )
    assert numbers(module(body)) == [7, 9]


@pytest.mark.parametrize(
    "body",
    [
        # A row of x is read through h.
        tile("x", 0) + tile("h", 64, HALF) + tile("g", 128, HALF) + filled("x") + absolute("h", "g", HALF),
        # x is read after a part of it was written through h.
        tile("x", 0) + tile("h", 64, HALF) + tile("y", 128) + filled("x") + filled("h", HALF) + absolute("x", "y"),
        # The same, where only one branch writes.
        tile("x", 0)
        + tile("h", 64, HALF)
        + tile("y", 128)
        + filled("x")
        + f"scf.if %b {{\n{filled('h', HALF)}}}\n"
        + absolute("x", "y"),
        # The same, around a loop.
        tile("x", 0)
        + tile("h", 64, HALF)
        + tile("y", 128)
        + filled("x")
        + f"scf.for %i = %n to %n step %n {{\n{absolute('x', 'y')}{filled('h', HALF)}}}\n",
        # One instruction reads and writes bytes that overlap in part.
        tile("x", 0) + tile("y", 64) + filled("x") + absolute("x", "y"),
        # Scratch is written.
        tile("x", 0)
        + tile("s", 64)
        + "%m = pto.alloc_tile addr = %a256 : !pto.tile_buf<vec, 8x1xf32, valid=4x1, blayout=col_major>\n"
        + filled("x")
        + f"pto.trowmax ins(%x, %s : {T}, {T}) outs(%m : !pto.tile_buf<vec, 8x1xf32, valid=4x1, blayout=col_major>)",
    ],
)
def test_a_partial_overlap_in_use_is_refused(body: str) -> None:
    with pytest.raises(AssemblyError, match="overlap in part"):
        module(body)


def test_what_is_overwritten_and_written_again_may_be_read() -> None:
    body = tile("x", 0) + tile("h", 64, HALF) + tile("y", 128)
    loop = f"scf.for %i = %n to %n step %n {{\n{filled('x')}{absolute('x', 'y')}{filled('h', HALF)}}}\n"
    assert numbers(module(body + loop)) == [0, 1, 2]
