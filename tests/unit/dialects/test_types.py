from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import (
    DYNAMIC,
    PartitionType,
    PointerType,
    TensorType,
    TensorViewType,
    TileBufType,
    TileType,
    parse_type,
    row_major_strides,
)
from pypto_jit.dtypes import ALL, BF16, FP16, FP32, INT8, UINT8
from pypto_jit.targets import ACC_NZ, COLUMN_VECTOR, NZ, ROW_MAJOR, ZN, ZZ, Space

EXAMPLES = {
    "!pypto.tensor<[10, 128], f32, [128, 1]>": TensorType((10, 128), FP32, (128, 1)),
    "!pypto.tensor<[-1, 7], ui8, [-1, -1]>": TensorType((DYNAMIC, 7), UINT8, (DYNAMIC, DYNAMIC)),
    "!pypto.tensor<[], f32, []>": TensorType((), FP32, ()),
    '!pypto.tile<[4, 128], f32, "vec", [-1, 128]>': TileType((4, 128), FP32, Space.VEC, (DYNAMIC, 128)),
    '!pypto.tile<[2, 3, 5], bf16, "mat", [2, 3, 4]>': TileType((2, 3, 5), BF16, Space.MAT, (2, 3, 4)),
    "!pto.ptr<f16>": PointerType(FP16),
    "!pto.tensor_view<[10, -1], f32>": TensorViewType((10, DYNAMIC), FP32),
    "!pto.partition_tensor_view<[-1, 128], i8>": PartitionType((DYNAMIC, 128), INT8),
    '!pto.tile_buf<"vec", f32, [4, 128], [-1, 128], ["row_major", "none_box"], [512, 0]>': TileBufType(
        Space.VEC, FP32, (4, 128), (DYNAMIC, 128), ROW_MAJOR
    ),
    '!pto.tile_buf<"acc", f32, [16, 16], [4, 9], ["col_major", "row_major"], [1024, 2]>': TileBufType(
        Space.ACC, FP32, (16, 16), (4, 9), ACC_NZ, 2
    ),
}


@pytest.mark.parametrize("text", EXAMPLES)
def test_text_and_value_are_inverse(text):
    value = EXAMPLES[text]
    assert str(value) == text
    assert parse_type(text) == value


@pytest.mark.parametrize("text", EXAMPLES)
def test_mlir_prints_a_type_as_it_reads_it(context, text):
    with context:
        assert str(ir.Type.parse(text)) == text


@pytest.mark.parametrize("dtype", ALL, ids=repr)
def test_every_dtype_travels(context, dtype):
    tile = TileType((3, 5), dtype, Space.VEC, (3, 5))
    with context:
        assert parse_type(str(ir.Type.parse(str(tile)))) == tile


@pytest.mark.parametrize("layout", [ROW_MAJOR, COLUMN_VECTOR, NZ, ZN, ZZ, ACC_NZ], ids=str)
@pytest.mark.parametrize("space", list(Space))
def test_every_layout_and_space_travels(layout, space):
    buffer = TileBufType(space, FP16, (32, 16), (32, 16), layout)
    assert parse_type(str(buffer)) == buffer


@pytest.mark.parametrize(
    "text", ["f32", "index", "!llvm.ptr", "memref<4xf32>", "!pypto.tile<[4], f32>", "!pypto.unknown<[4]>", ""]
)
def test_other_types_are_none(text):
    assert parse_type(text) is None


def test_rank():
    assert TensorType((2, 3, 4), FP32, (12, 4, 1)).rank == 3
    assert TileType((8,), FP32, Space.VEC, (8,)).rank == 1


def test_buffer_bytes():
    # 16 * 24 elements of 2 bytes.
    assert TileBufType(Space.VEC, FP16, (16, 24), (16, 24), ROW_MAJOR).bytes == 768


@pytest.mark.parametrize(
    ("layout", "expected"), [(COLUMN_VECTOR, True), (ROW_MAJOR, False), (NZ, False), (ZN, False), (ZZ, False)]
)
def test_column_vector(layout, expected):
    assert TileBufType(Space.VEC, FP32, (16, 1), (16, 1), layout).is_column_vector is expected


@pytest.mark.parametrize(
    ("tile", "expected"),
    [
        (TileType((4, 8), FP32, Space.VEC, (4, 8)), "Tile[[4, 8], FP32, Vec]"),
        (TileType((4, 8), INT8, Space.MAT, (3, 8)), "Tile[[4, 8], INT8, Mat, valid_shape=[3, 8]]"),
        (TileType((4, 8), BF16, Space.ACC, (DYNAMIC, 8)), "Tile[[4, 8], BF16, Acc, valid_shape=[?, 8]]"),
    ],
)
def test_description(tile, expected):
    assert tile.describe() == expected


@pytest.mark.parametrize(
    ("shape", "strides"),
    [
        ((), ()),
        ((7,), (1,)),
        ((2, 3, 5), (15, 5, 1)),
        ((4, 0, 3), (0, 3, 1)),
        ((4, DYNAMIC), (DYNAMIC, 1)),
        ((DYNAMIC, 4), (4, 1)),
        ((2, DYNAMIC, 4), (DYNAMIC, 4, 1)),
        ((2, 3, DYNAMIC), (DYNAMIC, DYNAMIC, 1)),
    ],
)
def test_row_major_strides(shape, strides):
    assert row_major_strides(shape) == strides
