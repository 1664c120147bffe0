from __future__ import annotations

from collections.abc import Callable

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TileBufType, parse_type
from pypto_jit.dtypes import FP16, FP32, INT8, UINT8, DType
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import lower
from pypto_jit.lowering.tree import functions, read
from pypto_jit.targets import A2A3, A5, Target
from tests.module_text import ModuleText, Value


def shapes(write: Callable[[ModuleText], None], target: Target = A2A3) -> list[tuple[DType, tuple[int, int]]]:
    """Dtype and physical shape of every buffer handle of a kernel, in order, each once."""
    text = ModuleText(target)
    write(text)
    with borrowed_context() as context:
        module = lower(ir.Module.parse(str(text), context), target)
        found = []
        for function in functions(module.operation):
            for node in read(function).walk():
                if node.name == "pto.alloc_tile":
                    kind = parse_type(str(node.results[0].type))
                    assert isinstance(kind, TileBufType)
                    found.append((kind.dtype, kind.shape))
    return list(dict.fromkeys(found))


def converted(shape: tuple[int, int], *dtypes: DType) -> Callable[[ModuleText], None]:
    def write(m: ModuleText) -> None:
        source, result = m.tensor(shape, FP32), m.tensor(shape, dtypes[-1])
        tile = m.load(source, [0, 0], shape)
        for dtype in dtypes:
            tile = m.operator("cast", tile, dtype=dtype, mode="rint")
        m.store(tile, result, [0, 0])

    return write


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        # 32 bytes are eight, sixteen and thirty-two elements.
        (converted((4, 7), FP16), [(FP32, (4, 16)), (FP16, (4, 16))]),
        (converted((4, 7), FP16, INT8), [(FP32, (4, 32)), (FP16, (4, 32)), (INT8, (4, 32))]),
        (converted((4, 16), FP16), [(FP32, (4, 16)), (FP16, (4, 16))]),
    ],
)
def test_both_sides_of_a_conversion_have_the_same_padded_rows(write, expected) -> None:
    assert shapes(write) == expected


def compared(m: ModuleText) -> None:
    tensors = [m.tensor((4, 40), FP32) for _ in range(3)]
    tiles = [m.load(tensor, [0, 0], (4, 40)) for tensor in tensors[:2]]
    m.store(m.operator("sel", m.operator("cmp", *tiles, mode="lt"), *tiles), tensors[2], [0, 0])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        # 40 bits are 5 bytes, in a row of 32; or a byte for each of the columns, which are then padded to 32.
        (A2A3, {(FP32, (4, 40)), (UINT8, (4, 32)), (FP32, (1, 8))}),
        (A5, {(FP32, (4, 64)), (UINT8, (4, 64)), (FP32, (1, 8))}),
    ],
)
def test_a_mask_is_padded_as_the_target_wants(target, expected) -> None:
    assert set(shapes(compared, target)) == expected


def test_a_column_is_padded_alike_as_the_row_it_is_converted_as() -> None:
    assert set(shapes(converted((5, 1), FP16))) == {
        (FP32, (16, 1)),
        (FP32, (1, 16)),
        (FP16, (1, 16)),
        (FP16, (16, 1)),
    }


def test_a_kernel_without_conversions_keeps_each_dtype_s_own_padding() -> None:
    def write(m: ModuleText) -> None:
        x, y = m.tensor((4, 7), FP32), m.tensor((4, 7), FP16)
        m.store(m.operator("exp", m.load(x, [0, 0], (4, 7))), x, [0, 0])
        m.store(m.operator("exp", m.load(y, [0, 0], (4, 7))), y, [0, 0])

    assert shapes(write) == [(FP32, (4, 8)), (FP16, (4, 16))]


def test_what_a_loop_carries_is_padded_like_what_it_is_converted_from() -> None:
    def write(m: ModuleText) -> None:
        x, out = m.tensor((4, 7), FP32), m.tensor((4, 7), FP32)
        with m.loop(3, 1, [m.load(x, [0, 0], (4, 7))]) as loop:
            half: Value = m.operator("cast", loop.carried[0], dtype=FP16, mode="rint")
            loop.yields = [m.operator("cast", half, dtype=FP32, mode="rint")]
        m.store(loop.results[0], out, [0, 0])

    assert set(shapes(write)) == {(FP32, (4, 16)), (FP16, (4, 16))}


def test_a_tile_that_is_reshaped_opens_no_gaps() -> None:
    def write(m: ModuleText) -> None:
        x, out = m.tensor((4, 8), FP32), m.tensor((1, 32), FP16)
        row = m.operator("reshape", m.load(x, [0, 0], (4, 8)), shape=(1, 32))
        m.store(m.operator("cast", row, dtype=FP16, mode="rint"), out, [0, 0])

    assert shapes(write) == [(FP32, (4, 8)), (FP32, (1, 32)), (FP16, (1, 32))]
