"""Assembly that nobody here compiled is run on the CPU."""

from __future__ import annotations

import numpy
import pytest

from pypto_jit.dialects.assembly import parse_assembly
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.targets import BY_NAME
from tests.property.compiled import CompiledModule

# x * 2 + row maximum, in the style of PyPTO: every valid extent at run time, memory reused by tiles of other shapes.
SCALED = """\
module attributes {pto.target_arch = "a3"} {
  func.func @scaled(%arg0: !pto.ptr<f32>, %arg1: !pto.ptr<f32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c6 = arith.constant 6 : index
    %c20 = arith.constant 20 : index
    %a0 = arith.constant 0 : i64
    %a1 = arith.constant 1024 : i64
    %a2 = arith.constant 2048 : i64
    %two = arith.constant 2.0 : f32
    %x = pto.make_tensor_view %arg0, shape = [%c6, %c20], strides = [%c20, %c1]: !pto.tensor_view<?x?xf32>
    %y = pto.make_tensor_view %arg1, shape = [%c6, %c20], strides = [%c20, %c1]: !pto.tensor_view<?x?xf32>
    %xp = pto.partition_view %x, offsets = [%c0, %c0], sizes = [%c6, %c20] : !pto.tensor_view<?x?xf32>
    %yp = pto.partition_view %y, offsets = [%c0, %c0], sizes = [%c6, %c20] : !pto.tensor_view<?x?xf32>
    %t = pto.alloc_tile addr = %a0 valid_row = %c6 valid_col = %c20 : !pto.tile_buf<vec, 8x24xf32, valid=?x?>
    pto.tload ins(%xp : !pto.partition_tensor_view<6x20xf32>) outs(%t : !pto.tile_buf<vec, 8x24xf32, valid=?x?>)
    %s = pto.alloc_tile addr = %a1 valid_row = %c6 valid_col = %c20 : !pto.tile_buf<vec, 8x24xf32, valid=?x?>
    %m = pto.alloc_tile addr = %a2 valid_row = %c6 valid_col = %c1
      : !pto.tile_buf<vec, 8x1xf32, valid=?x?, blayout=col_major>
    pto.trowmax ins(%t, %s : !pto.tile_buf<vec, 8x24xf32, valid=?x?>, !pto.tile_buf<vec, 8x24xf32, valid=?x?>)
      outs(%m : !pto.tile_buf<vec, 8x1xf32, valid=?x?, blayout=col_major>)
    %d = pto.alloc_tile addr = %a0 valid_row = %c6 valid_col = %c20 : !pto.tile_buf<vec, 8x24xf32, valid=?x?>
    pto.tmuls ins(%t, %two : !pto.tile_buf<vec, 8x24xf32, valid=?x?>, f32)
      outs(%d : !pto.tile_buf<vec, 8x24xf32, valid=?x?>)
    pto.barrier #pto.pipe<PIPE_V>
    %e = pto.alloc_tile addr = %a1 valid_row = %c6 valid_col = %c20 : !pto.tile_buf<vec, 6x24xf32, valid=?x?>
    pto.trowexpandadd ins(%d, %m
      : !pto.tile_buf<vec, 8x24xf32, valid=?x?>, !pto.tile_buf<vec, 8x1xf32, valid=?x?, blayout=col_major>)
      outs(%e : !pto.tile_buf<vec, 6x24xf32, valid=?x?>)
    pto.tstore ins(%e : !pto.tile_buf<vec, 6x24xf32, valid=?x?>) outs(%yp : !pto.partition_tensor_view<6x20xf32>)
    return
  }
}
"""

MAT = "!pto.tile_buf<mat, 32x32xf16, blayout=col_major, slayout=row_major>"
LEFT = "!pto.tile_buf<left, 32x32xf16, slayout=row_major>"
RIGHT = "!pto.tile_buf<right, 32x32xf16, slayout=col_major>"
ACC = "!pto.tile_buf<acc, 32x32xf32, blayout=col_major, slayout=row_major, fractal=1024>"
BOX = "!pto.tensor_view<32x64xf16> -> !pto.partition_tensor_view<32x32xf16>"

# a @ b over a K of 64 in two steps; the tiles of both operands take turns at one place in L0.
PRODUCT = f"""\
module attributes {{pto.target_arch = "@"}} {{
  func.func @product(%a: !pto.ptr<f16>, %b: !pto.ptr<f16>, %c: !pto.ptr<f32>) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c32 = arith.constant 32 : index
    %c64 = arith.constant 64 : index
    %p0 = arith.constant 0 : i64
    %p1 = arith.constant 2048 : i64
    %av = pto.make_tensor_view %a, shape = [%c32, %c64], strides = [%c64, %c1] : !pto.tensor_view<32x64xf16>
    %bv = pto.make_tensor_view %b, shape = [%c64, %c32], strides = [%c32, %c1] : !pto.tensor_view<64x32xf16>
    %cv = pto.make_tensor_view %c, shape = [%c32, %c32], strides = [%c32, %c1] : !pto.tensor_view<32x32xf32>
    pto.section.cube {{
      %acc = pto.alloc_tile addr = %p0 : {ACC}
      scf.for %k = %c0 to %c2 step %c1 {{
        %o = arith.muli %k, %c32 : index
        %am = pto.alloc_tile addr = %p0 : {MAT}
        %bm = pto.alloc_tile addr = %p1 : {MAT}
        %ap = pto.partition_view %av, offsets = [%c0, %o], sizes = [%c32, %c32] : {BOX}
        %bp = pto.partition_view %bv, offsets = [%o, %c0], sizes = [%c32, %c32] : {BOX.replace("32x64", "64x32")}
        pto.tload ins(%ap : !pto.partition_tensor_view<32x32xf16>) outs(%am : {MAT})
        pto.tload ins(%bp : !pto.partition_tensor_view<32x32xf16>) outs(%bm : {MAT})
        %l = pto.alloc_tile addr = %p0 : {LEFT}
        %r = pto.alloc_tile addr = %p0 : {RIGHT}
        pto.tmov ins(%am : {MAT}) outs(%l : {LEFT})
        pto.tmov ins(%bm : {MAT}) outs(%r : {RIGHT})
        %first = arith.cmpi eq, %k, %c0 : index
        scf.if %first {{
          pto.tmatmul ins(%l, %r : {LEFT}, {RIGHT}) outs(%acc : {ACC}) {{accPhase = #pto<acc_phase partial>}}
        }} else {{
          pto.tmatmul.acc ins(%acc, %l, %r : {ACC}, {LEFT}, {RIGHT}) outs(%acc : {ACC})
        }}
      }}
      %cp = pto.partition_view %cv, offsets = [%c0, %c0], sizes = [%c32, %c32]
        : !pto.tensor_view<32x32xf32> -> !pto.partition_tensor_view<32x32xf32>
      pto.tstore ins(%acc : {ACC}) outs(%cp : !pto.partition_tensor_view<32x32xf32>)
    }}
    return
  }}
}}
"""


def run(text: str, target: str, arrays: list[numpy.ndarray]) -> list[numpy.ndarray]:
    with borrowed_context() as context:
        kernel = CompiledModule(parse_assembly(text, context), BY_NAME[target], planned=True)
    result = kernel(arrays)
    assert kernel.violation is None
    return result


def test_vector_work_with_extents_at_run_time() -> None:
    x = numpy.arange(120, dtype=numpy.float32).reshape(6, 20) % 37
    _, y = run(SCALED, "a2a3", [x, numpy.zeros_like(x)])
    numpy.testing.assert_array_equal(y, x * 2 + x.max(axis=1, keepdims=True))


@pytest.mark.parametrize(("target", "written"), [("a2a3", "a3"), ("a5", "a5")])
def test_a_product_in_a_cube_section(target: str, written: str) -> None:
    generator = numpy.random.default_rng(3)
    a, b = (generator.integers(-8, 9, shape).astype(numpy.float16) for shape in ((32, 64), (64, 32)))
    *_, c = run(PRODUCT.replace("@", written, 1), target, [a, b, numpy.zeros((32, 32), numpy.float32)])
    numpy.testing.assert_array_equal(c, a.astype(numpy.float32) @ b.astype(numpy.float32))
