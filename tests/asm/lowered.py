"""Traced kernels that go through the passes to assembly: what layouts, moves and boxes the compiler really picks."""

from __future__ import annotations

from collections.abc import Callable

from pypto_jit._mlir import ir
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import BY_NAME, Space
from tests.module_text import ModuleText, Value

Write = Callable[[ModuleText], None]


def softmax(dtype: DType) -> Write:
    """Rows of ten in blocks of four, a hundred columns: a ragged last block and padded rows."""

    def write(m: ModuleText) -> None:
        x, out = m.tensor((10, 100), dtype), m.tensor((10, 100), dtype)
        with m.loop(10, 4, parallel=True) as loop:
            rows = m.arith("minsi", m.constant(4), m.arith("subi", m.constant(10), loop.index))
            tile = m.load(x, [loop.index, 0], (4, 100), [rows, 100])
            shifted = m.operator("exp", m.operator("row_expand_sub", tile, m.operator("row_max", tile)))
            total = m.operator("row_sum", shifted)
            m.store(m.operator("row_expand_div", shifted, total), out, [loop.index, 0])

    return write


def rms_norm(m: ModuleText) -> None:
    """Work on a column vector between the reduction and the broadcast."""
    x, out = m.tensor((8, 70), FP32), m.tensor((8, 70), FP32)
    tile = m.load(x, [0, 0], (8, 70))
    mean = m.operator("muls", m.operator("row_sum", m.operator("mul", tile, tile)), m.constant("0.01", "f32"))
    scale = m.operator("rsqrt", m.operator("adds", mean, m.constant("1.0e-5", "f32")))
    m.store(m.operator("row_expand_mul", tile, scale), out, [0, 0])


def copied(
    shape: tuple[int, ...], tile: tuple[int, ...], dtype: DType, strides: tuple[int, ...] | None = None
) -> Write:
    """A load and a store of one box."""

    def write(m: ModuleText) -> None:
        x, out = m.tensor(shape, dtype, strides), m.tensor(tile, dtype)
        m.store(m.load(x, [0] * len(shape), tile), out, [0] * len(tile))

    return write


def column(place: int, width: int) -> Write:
    """A column vector stored as one column of a tensor."""

    def write(m: ModuleText) -> None:
        x, out = m.tensor((10, 100), FP32), m.tensor((10, width), FP32)
        m.store(m.operator("row_sum", m.load(x, [0, 0], (10, 100))), out, [0, place])

    return write


def matmul(dtype: DType, result: DType) -> Write:
    """Accumulation over a K of 200 in steps of 64: a loop with a ragged last step that carries the accumulator."""

    def write(m: ModuleText) -> None:
        a, b, out = m.tensor((100, 200), dtype), m.tensor((200, 70), dtype), m.tensor((100, 70), result)

        def operands(k: Value | int, extent: Value | int) -> tuple[Value, Value]:
            left = m.load(a, [0, k], (100, 64), [100, extent], space=Space.MAT)
            right = m.load(b, [k, 0], (64, 70), [extent, 70], space=Space.MAT)
            return m.operator("move", left, space=Space.LEFT), m.operator("move", right, space=Space.RIGHT)

        first = m.operator("matmul", *operands(0, 64))
        with m.loop(3, 1, [first]) as loop:
            k = m.arith("muli", m.arith("addi", loop.index, m.constant(1)), m.constant(64))
            extent = m.arith("minsi", m.constant(64), m.arith("subi", m.constant(200), k))
            loop.yields = [m.operator("matmul_acc", loop.carried[0], *operands(k, extent))]
        m.store(loop.results[0], out, [0, 0])

    return write


def matmul_bias(m: ModuleText) -> None:
    """The bias goes through a plain row in L1."""
    a, b, bias = m.tensor((30, 64), FP16), m.tensor((64, 70), FP16), m.tensor((1, 70), FP32)
    out = m.tensor((30, 70), FP32)
    loads = m.load(a, [0, 0], (30, 64)), m.load(b, [0, 0], (64, 70)), m.load(bias, [0, 0], (1, 70))
    m.store(m.operator("matmul_bias", *loads), out, [0, 0])


def matmul_relu(m: ModuleText) -> None:
    """Cube work, then vector work: two functions."""
    a, b, out = m.tensor((30, 64), FP16), m.tensor((64, 70), FP16), m.tensor((30, 70), FP32)
    product = m.operator("matmul", m.load(a, [0, 0], (30, 64)), m.load(b, [0, 0], (64, 70)))
    m.store(m.operator("relu", product), out, [0, 0])


def exp_matmul(m: ModuleText) -> None:
    """Vector work, then cube work: two functions."""
    a, b, out = m.tensor((30, 64), FP32), m.tensor((64, 70), FP32), m.tensor((30, 70), FP32)
    left = m.operator("exp", m.load(a, [0, 0], (30, 64)))
    m.store(m.operator("matmul", left, m.load(b, [0, 0], (64, 70))), out, [0, 0])


def matmul_transposed(m: ModuleText) -> None:
    """a @ b.T, where b.T is another view of b's tile in L1."""
    a, b, out = m.tensor((30, 64), FP16), m.tensor((70, 64), FP16), m.tensor((30, 70), FP32)
    turned = m.operator("transpose_view", m.load(b, [0, 0], (70, 64), space=Space.MAT))
    m.store(m.operator("matmul", m.load(a, [0, 0], (30, 64)), turned), out, [0, 0])


def transpose(m: ModuleText) -> None:
    """A transpose with its scratch."""
    a, out = m.tensor((30, 64), FP32), m.tensor((64, 30), FP32)
    m.store(m.operator("transpose", m.load(a, [0, 0], (30, 64))), out, [0, 0])


def concat(m: ModuleText) -> None:
    """Seven columns beside sixty-four."""
    a, b, out = m.tensor((30, 64), FP32), m.tensor((30, 7), FP32), m.tensor((30, 71), FP32)
    parts = m.load(a, [0, 0], (30, 64)), m.load(b, [0, 0], (30, 7))
    m.store(m.operator("concat", *parts), out, [0, 0])


def reshape(m: ModuleText) -> None:
    """A second handle on the same buffer."""
    a, out = m.tensor((4, 64), FP32), m.tensor((1, 256), FP32)
    m.store(m.operator("reshape", m.load(a, [0, 0], (4, 64)), shape=(1, 256)), out, [0, 0])


def cast(m: ModuleText) -> None:
    """A float becomes an integer."""
    a, out = m.tensor((4, 60), FP32), m.tensor((4, 60), INT16)
    m.store(m.operator("cast", m.load(a, [0, 0], (4, 60)), dtype=INT16, mode="floor"), out, [0, 0])


def selected(dtype: DType) -> Write:
    """The larger of two tiles whose rows are no multiple of what a mask's rows are."""

    def write(m: ModuleText) -> None:
        a, b, out = (m.tensor((4, 20), dtype) for _ in range(3))
        tiles = m.load(a, [0, 0], (4, 20)), m.load(b, [0, 0], (4, 20))
        mask = m.operator("cmp", *tiles, mode="ge")
        m.store(m.operator("sel", mask, *tiles), out, [0, 0])

    return write


def col_expand_of_cast(m: ModuleText) -> None:
    """Rows that are padded for the conversion they come from, with a vector of rows that are not."""
    a, b, out = m.tensor((4, 20), FP16), m.tensor((1, 20), FP32), m.tensor((4, 20), FP32)
    wide = m.operator("cast", m.load(a, [0, 0], (4, 20)), dtype=FP32, mode="rint")
    m.store(m.operator("col_expand_sub", wide, m.load(b, [0, 0], (1, 20))), out, [0, 0])


def sel_of_cast(m: ModuleText) -> None:
    """Of the two tiles chosen from, and the mask's, one is padded for the conversion it comes from."""
    a, b, out = m.tensor((4, 20), FP16), m.tensor((4, 20), FP32), m.tensor((4, 20), FP32)
    wide, other = m.operator("cast", m.load(a, [0, 0], (4, 20)), dtype=FP32, mode="rint"), m.load(b, [0, 0], (4, 20))
    mask = m.operator("cmps", other, m.constant("0.5", "f32"), mode="lt")
    m.store(m.operator("sel", mask, wide, other), out, [0, 0])


def turned(m: ModuleText) -> None:
    """From a tensor whose columns lie consecutively to another such."""
    x, out = m.tensor((24, 10), FP32, (1, 24)), m.tensor((24, 10), FP32, (1, 24))
    m.store(m.operator("exp", m.load(x, [8, 0], (16, 10))), out, [0, 0])


def bits(m: ModuleText) -> None:
    """Instructions that may not write over what they read."""
    x, out = m.tensor((4, 32), INT16), m.tensor((4, 32), INT16)
    tile = m.operator("ands", m.load(x, [0, 0], (4, 32)), m.constant(12, "i16"))
    tile = m.operator("xors", m.operator("ors", tile, m.constant(3, "i16")), m.constant(5, "i16"))
    m.store(m.operator("xor", tile, m.load(x, [0, 0], (4, 32))), out, [0, 0])


def parts(m: ModuleText) -> None:
    """Parts that start at any column, one of them written at another."""
    x, out = m.tensor((6, 40), FP32), m.tensor((6, 40), FP32)
    tile = m.load(x, [0, 0], (6, 40))
    box = [m.constant(number, "index") for number in (1, 3, 4, 9)]
    part = m.operator("extract", tile, *box, shape=(4, 9), valid=(4, 9), space=Space.VEC)
    place = [m.constant(number, "index") for number in (2, 30)]
    m.store(m.operator("insert", tile, part, *place), out, [0, 0])


def infinite(m: ModuleText) -> None:
    """Constants that C++ has no literals for."""
    for dtype, kind, bits in ((FP32, "f32", "0xFF800000"), (FP16, "f16", "0x7C00"), (FP32, "f32", "0x7FC00000")):
        x, out = m.tensor((4, 32), dtype), m.tensor((4, 32), dtype)
        m.store(m.operator("maximums", m.load(x, [0, 0], (4, 32)), m.constant(bits, kind)), out, [0, 0])


KERNELS: dict[str, Write] = {
    "softmax_fp32": softmax(FP32),
    "softmax_fp16": softmax(FP16),
    "rms_norm": rms_norm,
    "copy_strided": copied((8, 64), (8, 64), FP32, (-1, 1)),
    "copy_of_any_rows": copied((-1, 64), (8, 64), FP32, (64, 1)),
    "copy_3d": copied((3, 8, 64), (3, 8, 64), FP32),
    "copy_1d": copied((100,), (100,), FP32),
    "copy_bytes": copied((4, 60), (4, 60), UINT8),
    "column": column(0, 1),
    "column_of_five": column(2, 5),
    "matmul_fp32": matmul(FP32, FP32),
    "matmul_fp16": matmul(FP16, FP16),
    "matmul_bf16": matmul(BF16, BF16),
    "matmul_int8": matmul(INT8, INT32),
    "matmul_bias": matmul_bias,
    "matmul_relu": matmul_relu,
    "exp_matmul": exp_matmul,
    "matmul_transposed": matmul_transposed,
    "transpose": transpose,
    "concat": concat,
    "reshape": reshape,
    "cast": cast,
    "selected_fp32": selected(FP32),
    "selected_fp16": selected(FP16),
    "col_expand_of_cast": col_expand_of_cast,
    "sel_of_cast": sel_of_cast,
    "turned": turned,
    "bits": bits,
    "parts": parts,
    "infinite": infinite,
}


def lowered(name: str, target: str, context: ir.Context) -> ir.Module:
    """The planned module of a kernel."""
    text = ModuleText(BY_NAME[target], name)
    KERNELS[name](text)
    return lower(ir.Module.parse(str(text), context), BY_NAME[target])
