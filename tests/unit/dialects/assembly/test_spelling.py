from __future__ import annotations

import pytest

from pypto_jit.dialects.assembly.spelling import read_type, spell_type
from pypto_jit.dialects.types import PartitionType, PointerType, TensorViewType, TileBufType
from pypto_jit.dtypes import BF16, FP16, FP32, UINT8
from pypto_jit.errors import AssemblyError
from pypto_jit.targets import A2A3, A5, ACC_NZ, COLUMN_VECTOR, NZ, ROW_MAJOR, ZZ, Space

TILE = TileBufType(Space.VEC, FP32, (16, 32), (16, -1), ROW_MAJOR)
KEYS = (
    "loc=vec, dtype=f32, rows=16, cols=32, v_row=16, v_col=?, blayout=row_major, slayout=none_box, fractal=512, pad=0"
)


def test_types_are_spelled_as_the_assembler_reads_them() -> None:
    assert spell_type(str(TILE)) == f"!pto.tile_buf<{KEYS}>"
    assert spell_type(str(TensorViewType((-1, 8), BF16))) == "!pto.tensor_view<?x8xbf16>"
    assert spell_type(str(PartitionType((1, 2, 3), UINT8))) == "!pto.partition_tensor_view<1x2x3xui8>"
    assert spell_type(str(PointerType(FP16))) == "!pto.ptr<f16>"
    assert spell_type("index") == "index"


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        ("!pto.tile_buf", KEYS, TILE),
        ("!pto.tile_buf", KEYS.replace("=vec", '="vec"') + ", compact=0", TILE),
        ("!pto.tile_buf", "vec, 16x32xf32, valid=16x?", TILE),
        (
            "!pto.tile_buf",
            "vec, 8x1xf32, blayout=col_major",
            TileBufType(Space.VEC, FP32, (8, 1), (8, 1), COLUMN_VECTOR),
        ),
        (
            "!pto.tile_buf",
            "acc, 16x16xf32, fractal=1024, slayout=row_major, blayout=col_major",
            TileBufType(Space.ACC, FP32, (16, 16), (16, 16), ACC_NZ),
        ),
        ("!pto.ptr", "f32", PointerType(FP32)),
        ("!pto.ptr", "f32, gm", PointerType(FP32)),
        ("!pto.tensor_view", " ? x 4 x f32 ", TensorViewType((-1, 4), FP32)),
        ("!pto.partition_tensor_view", "f32", PartitionType((), FP32)),
    ],
)
def test_types_are_read(head: str, body: str, expected: object) -> None:
    assert read_type(head, body, A2A3) == expected


def test_the_left_layout_is_the_targets_whatever_the_text_says() -> None:
    body = "left, 16x16xf16, slayout=row_major, blayout=col_major"
    assert read_type("!pto.tile_buf", body, A2A3) == TileBufType(Space.LEFT, FP16, (16, 16), (16, 16), ZZ)
    assert read_type("!pto.tile_buf", body, A5) == TileBufType(Space.LEFT, FP16, (16, 16), (16, 16), NZ)


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        ("!pto.tile", "16x16xf32", "unknown type"),
        ("!pto.ptr", "f64", "unknown element type"),
        ("!pto.ptr", "f32, vec", "global memory"),
        ("!pto.tensor_view", "4x-8xf32", "malformed dimensions"),
        ("!pto.tile_buf", "vec, 4x8xf32, pad=9", "unknown pad"),
        ("!pto.tile_buf", "vec, 4x8xf32, pad=0, pad=0", "repeated"),
        ("!pto.tile_buf", "vec, 4x8xf32, rows=3", "unknown or repeated"),
        ("!pto.tile_buf", "vec, 4x8xf32, valid=5x8", "leaves the tile"),
        ("!pto.tile_buf", "vec, ?x8xf32", "static shape"),
        ("!pto.tile_buf", "vec, 0x8xf32", "static shape"),
        ("!pto.tile_buf", "vec, 4x4x8xf32", "two dimensions"),
        ("!pto.tile_buf", "vec", "malformed tile buffer"),
        ("!pto.tile_buf", "scaling, 4x8xf32", "unknown loc"),
        ("!pto.tile_buf", "vec, 4x8xf32, compact=1", "compact"),
        ("!pto.tile_buf", KEYS.replace("rows=16, ", ""), "malformed tile buffer"),
        ("!pto.tile_buf", KEYS.replace("rows=16", "rows=x"), "malformed rows"),
    ],
)
def test_malformed_types_say_what_is_wrong(head: str, body: str, message: str) -> None:
    with pytest.raises(AssemblyError, match=message):
        read_type(head, body, A2A3)
