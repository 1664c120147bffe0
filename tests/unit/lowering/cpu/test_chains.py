"""Which functions the CPU runs block by block, and the memory that a block has for what they hand over."""

from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.cpu.chains import Share, find_chains
from pypto_jit.lowering.tree import functions


def function(name: str, trips: int, sizes: list[int], staged: str = "", handed: list[int] | None = None) -> str:
    arguments = ", ".join(f"%w{k}: !llvm.ptr {{pypto.workspace = {size} : i64}}" for k, size in enumerate(sizes))
    marks = [f"pypto.trips = {trips} : i64"]
    if staged:
        marks += [f'pypto.staged = "{staged}"', f"pypto.handed = array<i64: {', '.join(map(str, handed or []))}>"]
    return f"func.func @{name}({arguments}) attributes {{{', '.join(marks)}}} {{ return }}"


def chains(*text: str) -> list[tuple[list[str], dict[int, Share]]]:
    with borrowed_context() as context:
        module = ir.Module.parse("\n".join(text), context)
        return [
            ([ir.StringAttr(f.attributes["sym_name"]).value for f in chain.functions], dict(chain.shares))
            for chain in find_chains(functions(module.operation))
        ]


def test_parts_of_one_function_share_what_a_block_needs():
    sizes = [4 * 128, 4 * 64]
    found = chains(function("a", 4, sizes, "f", [0, 1]), function("b", 4, sizes, "f", [0, 1]))
    assert found == [(["a", "b"], {0: Share(0, 128), 1: Share(128, 64)})]


def test_a_workspace_of_another_function_is_not_used():
    sizes = [4 * 128, 8 * 64]
    first = [function(name, 4, sizes, "f", [0]) for name in "ab"]
    second = [function(name, 8, sizes, "g", [1]) for name in "cd"]
    assert chains(*first, *second) == [
        (["a", "b"], {0: Share(0, 128), 1: Share(0, 0)}),
        (["c", "d"], {0: Share(0, 0), 1: Share(0, 64)}),
    ]


def test_functions_that_are_no_parts_or_differ_in_blocks_stand_alone():
    assert chains(function("a", 4, [256]), function("b", 4, [256])) == [(["a"], {}), (["b"], {})]
    parts = function("a", 4, [256], "f", [0]), function("b", 1, [256], "f", [0])
    assert chains(*parts) == [(["a"], {}), (["b"], {})]


def test_shares_that_are_no_whole_cache_lines_leave_the_workspace_whole():
    parts = function("a", 4, [4 * 32], "f", [0]), function("b", 4, [4 * 32], "f", [0])
    assert chains(*parts) == [(["a"], {}), (["b"], {})]
