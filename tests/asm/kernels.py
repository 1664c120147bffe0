"""Planned modules of whole kernels, whose assembly is kept in ``golden/``."""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit.dtypes import BF16, FP16, FP32
from pypto_jit.targets import COLUMN_VECTOR, Space
from tests.asm.planned import Planned


def _blocks(kernel: Planned, step: str) -> tuple[str, str]:
    """Start and stride of this block's share of a parallel loop."""
    places = []
    for query in ("get_block_idx", "get_block_num"):
        number = kernel.generic(query, [], "i64")
        places.append(kernel.scalar("arith.index_cast", [number], tail="i64 to index"))
    return kernel.scalar("arith.muli", [places[0], step]), kernel.scalar("arith.muli", [places[1], step])


def add(target: str) -> Planned:
    """x + y of [32, 64], in place of x's tile."""
    kernel = Planned(target, "add")
    views = {n: kernel.view(kernel.pointer(n, FP32), FP32, (32, 64)) for n in ("x", "y", "out")}
    zero, rows, columns = kernel.constant(0), kernel.constant(32), kernel.constant(64)
    parts = {n: kernel.part(v, FP32, [zero, zero], [rows, columns], (32, 64)) for n, v in views.items()}
    kernel.place = 3
    left = kernel.tile(Space.VEC, FP32, (32, 64), buffer=0)
    right = kernel.tile(Space.VEC, FP32, (32, 64), buffer=1)
    kernel.generic("tload", [parts["x"], left])
    kernel.generic("tload", [parts["y"], right])
    kernel.place = 4
    total = kernel.tile(Space.VEC, FP32, (32, 64), buffer=0, address=0)
    kernel.generic("tadd", [left, right, total])
    kernel.generic("tstore", [total, parts["out"]])
    return kernel


def softmax(target: str) -> Planned:
    """Row softmax of [10, 128], four rows a block, the last block ragged."""
    kernel = Planned(target, "softmax")
    views = {n: kernel.view(kernel.pointer(n, FP32), FP32, (10, 128)) for n in ("x", "out")}
    zero, four, rows, columns = (kernel.constant(n) for n in (0, 4, 10, 128))
    start, stride = _blocks(kernel, four)
    kernel.types["%i"] = "index"
    kernel.line(f"scf.for %i = {start} to {rows} step {stride} {{")
    kernel.place = 5
    left = kernel.scalar("arith.subi", [rows, "%i"])
    valid = kernel.scalar("arith.minsi", [four, left])
    parts = {n: kernel.part(v, FP32, ["%i", zero], [valid, columns], (-1, 128)) for n, v in views.items()}
    known = {"valid": (-1, 128), "extents": (valid,)}
    tile = kernel.tile(Space.VEC, FP32, (4, 128), buffer=0, **known)
    kernel.generic("tload", [parts["x"], tile])
    kernel.place = 6
    scratch = kernel.tile(Space.VEC, FP32, (4, 128), buffer=1, **known)
    vector = {"valid": (-1, 1), "extents": (valid,), "layout": COLUMN_VECTOR}
    most = kernel.tile(Space.VEC, FP32, (8, 1), buffer=2, **vector)
    kernel.generic("trowmax", [tile, scratch, most])
    shifted = kernel.tile(Space.VEC, FP32, (4, 128), buffer=0, address=0, **known)
    kernel.generic("trowexpandsub", [tile, most, shifted])
    kernel.generic("texp", [shifted, shifted])
    kernel.place = 7
    total = kernel.tile(Space.VEC, FP32, (8, 1), buffer=2, address=4096, **vector)
    kernel.generic("trowsum", [shifted, scratch, total])
    kernel.generic("trowexpanddiv", [shifted, total, shifted])
    kernel.generic("tstore", [shifted, parts["out"]])
    kernel.place = 4
    kernel.line("}")
    return kernel


def cast(target: str) -> Planned:
    """FP32 to BF16 and back by two rounding modes, scaled between; the rows are only known when it is called."""
    kernel = Planned(target, "cast")
    pointers = {n: kernel.pointer(n, FP32) for n in ("x", "out")}
    rows = kernel.index_argument("n", 'pypto.dim = ["x", 0]')
    zero, one, columns = (kernel.constant(n) for n in (0, 1, 16))
    parts = {}
    for name, pointer in pointers.items():
        view = kernel.generic(
            "make_tensor_view",
            [pointer, rows, columns, columns, one],
            "!pto.tensor_view<[-1, 16], f32>",
            'layout = "nd"',
        )
        parts[name] = kernel.part(view, FP32, [zero, zero], [rows, columns], (-1, 16))
    known = {"valid": (-1, 16), "extents": (rows,)}
    source = kernel.tile(Space.VEC, FP32, (32, 16), buffer=0, **known)
    kernel.generic("tload", [parts["x"], source])
    narrow = kernel.tile(Space.VEC, BF16, (32, 16), buffer=1, **known)
    kernel.generic("tcvt", [source, narrow], None, 'mode = "rint"')
    wide = kernel.tile(Space.VEC, FP32, (32, 16), buffer=2, **known)
    kernel.generic("tcvt", [narrow, wide], None, 'mode = "none"')
    kernel.generic("tmuls", [wide, kernel.constant("2.5", "f32"), wide])
    kernel.generic("tstore", [wide, parts["out"]])
    return kernel


def matmul(target: str) -> Planned:
    """[32, 128] @ [128, 64] in FP16 with a loop over K in steps of 64."""
    kernel = Planned(target, "matmul", "cube")
    a, b, out = (kernel.pointer(n, d) for n, d in (("a", FP16), ("b", FP16), ("out", FP32)))
    views = kernel.view(a, FP16, (32, 128)), kernel.view(b, FP16, (128, 64)), kernel.view(out, FP32, (32, 64))
    zero, one, two, m, k = (kernel.constant(n) for n in (0, 1, 2, 32, 64))
    accumulator = kernel.tile(Space.ACC, FP32, (32, 64), buffer=0)
    kernel.types["%i"] = "index"
    kernel.line(f"scf.for %i = {zero} to {two} step {one} {{")
    offset = kernel.scalar("arith.muli", ["%i", k])
    left = kernel.tile(Space.MAT, FP16, (32, 64), buffer=1)
    right = kernel.tile(Space.MAT, FP16, (64, 64), buffer=2)
    kernel.generic("tload", [kernel.part(views[0], FP16, [zero, offset], [m, k], (32, 64)), left])
    kernel.generic("tload", [kernel.part(views[1], FP16, [offset, zero], [k, k], (64, 64)), right])
    kernel.place = 7
    near = kernel.tile(Space.LEFT, FP16, (32, 64), buffer=3), kernel.tile(Space.RIGHT, FP16, (64, 64), buffer=4)
    kernel.generic("tmov", [left, near[0]])
    kernel.generic("tmov", [right, near[1]])
    kernel.place = 9
    first = kernel.scalar("arith.cmpi eq,", ["%i", zero])
    kernel.line(f"scf.if {first} {{")
    kernel.generic("tmatmul", [*near, accumulator])
    kernel.line("} else {")
    kernel.generic("tmatmul_acc", [accumulator, *near, accumulator])
    kernel.place = 8
    kernel.line("}")
    kernel.place = 4
    kernel.line("}")
    kernel.generic("tstore", [accumulator, kernel.part(views[2], FP32, [zero, zero], [m, k], (32, 64))])
    return kernel


KERNELS: dict[str, tuple[Callable[[str], Planned], str]] = {
    "add": (add, "a2a3"),
    "softmax": (softmax, "a2a3"),
    "cast": (cast, "a2a3"),
    "matmul": (matmul, "a2a3"),
    "matmul_a5": (matmul, "a5"),
}
