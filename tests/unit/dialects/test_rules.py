from __future__ import annotations

import pytest

from pypto_jit.dialects.operators import BY_NAME
from pypto_jit.dialects.rules import matmul_dtype, result_type
from pypto_jit.dialects.types import DYNAMIC, TensorType, TileType
from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType
from pypto_jit.errors import DTypeError, LayoutError, PyptoError, ShapeError, TraceError
from pypto_jit.targets import A2A3, A5, Space


def tile(*shape: int, dtype: DType = FP32, space: Space = Space.VEC, valid: tuple[int, ...] | None = None) -> TileType:
    return TileType(shape, dtype, space, shape if valid is None else valid)


X = TensorType((10, 128), FP32, (128, 1))
BOX = {"shape": (4, 128), "valid": (4, 128), "space": Space.VEC}
ACC, MAT, LEFT, RIGHT = Space.ACC, Space.MAT, Space.LEFT, Space.RIGHT
D = DYNAMIC

ACCEPTED = [
    ("add", [tile(4, 8), tile(4, 8)], {}, tile(4, 8)),
    ("add", [tile(4, 8, valid=(D, 8)), tile(4, 8, valid=(3, 8))], {}, tile(4, 8, valid=(3, 8))),
    ("add", [tile(4, 8, valid=(D, D)), tile(4, 8, valid=(D, 7))], {}, tile(4, 8, valid=(D, 7))),
    ("add", [tile(4, 8, space=ACC), tile(4, 8)], {}, tile(4, 8)),
    ("mul", [tile(2, 3, 4, dtype=INT16), tile(2, 3, 4, dtype=INT16)], {}, tile(2, 3, 4, dtype=INT16)),
    ("adds", [tile(4, 8, dtype=FP16), FP16], {}, tile(4, 8, dtype=FP16)),
    ("exp", [tile(7, valid=(5,))], {}, tile(7, valid=(5,))),
    ("relu", [tile(4, 8, dtype=INT32)], {}, tile(4, 8, dtype=INT32)),
    ("load", [X], BOX, tile(4, 128)),
    ("load", [X], {**BOX, "valid": (D, 100), "space": MAT}, tile(4, 128, space=MAT, valid=(D, 100))),
    ("load", [X], {**BOX, "valid": (0, 128)}, tile(4, 128, valid=(0, 128))),
    ("store", [tile(4, 8), X], {}, None),
    ("store", [tile(8), X], {}, None),
    ("store", [tile(1, 1, 4, 8), X], {}, None),
    ("store", [tile(4, 8, space=ACC), TensorType((4, 8), BF16, (8, 1))], {}, None),
    ("create_tile", [], {"shape": (4, 8), "dtype": UINT8, "space": MAT}, tile(4, 8, dtype=UINT8, space=MAT)),
    ("full", [INT16], {"shape": (4, 8), "dtype": INT16}, tile(4, 8, dtype=INT16)),
    ("cast", [tile(4, 8, valid=(D, 8))], {"dtype": BF16, "mode": "odd"}, tile(4, 8, dtype=BF16, valid=(D, 8))),
    ("cast", [tile(4, 8, space=ACC, dtype=INT32)], {"dtype": FP16}, tile(4, 8, dtype=FP16)),
    ("row_sum", [tile(4, 8, valid=(3, 5))], {}, tile(4, 1, valid=(3, 1))),
    ("row_max", [tile(2, 4, 8)], {}, tile(2, 4, 1)),
    ("col_min", [tile(4, 8, valid=(D, 5))], {}, tile(1, 8, valid=(1, 5))),
    ("row_expand_sub", [tile(4, 8, valid=(D, 8)), tile(4, 1, valid=(D, 1))], {}, tile(4, 8, valid=(D, 8))),
    ("row_expand_mul", [tile(2, 4, 8), tile(2, 4, 1)], {}, tile(2, 4, 8)),
    ("row_expand", [tile(4, 8), tile(4, 1)], {}, tile(4, 8)),
    ("col_expand_div", [tile(4, 8, valid=(3, 8)), tile(1, 8)], {}, tile(4, 8, valid=(3, 8))),
    ("reshape", [tile(4, 8)], {"shape": (2, 16)}, tile(2, 16)),
    ("reshape", [tile(8, 1, valid=(5, 1))], {"shape": (1, 8)}, tile(1, 8, valid=(1, 5))),
    ("reshape", [tile(1, 8, valid=(1, D))], {"shape": (8,)}, tile(8, valid=(D,))),
    ("reshape", [tile(4, 8, valid=(3, 8))], {"shape": (4, 8)}, tile(4, 8, valid=(3, 8))),
    ("transpose", [tile(4, 8, valid=(3, D))], {}, tile(8, 4, valid=(D, 3))),
    ("transpose_view", [tile(4, 8, space=MAT, valid=(3, 8))], {}, tile(8, 4, space=MAT, valid=(8, 3))),
    ("concat", [tile(4, 8), tile(4, 3, valid=(4, 2))], {}, tile(4, 11, valid=(4, 10))),
    ("concat", [tile(4, 8, valid=(D, 8)), tile(4, 3, valid=(2, D))], {}, tile(4, 11, valid=(2, D))),
    ("move", [tile(4, 8, space=MAT, valid=(3, 8))], {"space": LEFT}, tile(4, 8, space=LEFT, valid=(3, 8))),
    ("move", [tile(4, 8, space=ACC)], {"space": Space.VEC}, tile(4, 8)),
    ("matmul", [tile(4, 8, space=LEFT), tile(8, 5, space=RIGHT)], {}, tile(4, 5, space=ACC)),
    ("matmul", [tile(4, 8, valid=(D, 8)), tile(8, 5, valid=(8, 3))], {}, tile(4, 5, space=ACC, valid=(D, 3))),
    ("matmul", [tile(4, 8, dtype=INT8), tile(8, 5, dtype=INT8)], {}, tile(4, 5, dtype=INT32, space=ACC)),
    ("matmul", [tile(4, 8, dtype=BF16), tile(8, 5, dtype=BF16)], {}, tile(4, 5, space=ACC)),
    ("matmul_acc", [tile(4, 5, space=ACC), tile(4, 8), tile(8, 5)], {}, tile(4, 5, space=ACC)),
    ("matmul_bias", [tile(4, 8), tile(8, 5), tile(1, 5)], {}, tile(4, 5, space=ACC)),
    (
        "matmul_bias",
        [tile(4, 8, dtype=FP16), tile(8, 5, dtype=FP16), tile(1, 5, dtype=FP16, space=MAT)],
        {},
        tile(4, 5, space=ACC),
    ),
]


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case[0])
def test_result_type(case):
    name, operands, attributes, expected = case
    assert result_type(BY_NAME[name], operands, attributes, A2A3) == expected


REJECTED = [
    (
        "add",
        [tile(4, 8), tile(4, 4)],
        {},
        ShapeError,
        """the operands of add have different shapes
  found:    lhs is Tile[[4, 8], FP32, Vec], rhs is Tile[[4, 4], FP32, Vec]
  expected: equal shapes""",
    ),
    (
        "add",
        [tile(4, 8), tile(4, 1)],
        {},
        ShapeError,
        """the operands of add have different shapes
  found:    lhs is Tile[[4, 8], FP32, Vec], rhs is Tile[[4, 1], FP32, Vec]
  expected: equal shapes
  hint: spread a [M, 1] vector over the rows with pl.row_expand_add""",
    ),
    (
        "maximum",
        [tile(4, 8), tile(1, 8)],
        {},
        ShapeError,
        """the operands of maximum have different shapes
  found:    lhs is Tile[[4, 8], FP32, Vec], rhs is Tile[[1, 8], FP32, Vec]
  expected: equal shapes
  hint: spread a [1, N] vector over the columns with pl.col_expand_max""",
    ),
    (
        "add",
        [tile(4, 8), tile(4, 8, dtype=FP16)],
        {},
        DTypeError,
        """add takes operands of one dtype
  found:    lhs is Tile[[4, 8], FP32, Vec], rhs is Tile[[4, 8], FP16, Vec]
  expected: the same dtype on both
  hint: convert one of them, for example pl.cast(rhs, pl.FP32)""",
    ),
    (
        "add",
        [tile(4, 8, dtype=BF16), tile(4, 8, dtype=BF16)],
        {},
        DTypeError,
        """add does not take BF16 on a2a3
  found:    BF16
  expected: FP16, FP32, INT16, INT32
  hint: cast first: pl.add(pl.cast(tile, pl.FP32), ...), and cast the result back""",
    ),
    (
        "muls",
        [tile(4, 8, dtype=INT8), INT8],
        {},
        DTypeError,
        """muls does not take INT8 on a2a3
  found:    INT8
  expected: FP16, FP32, INT16, INT32
  hint: cast first: pl.muls(pl.cast(tile, pl.FP16), ...), and cast the result back""",
    ),
    (
        "exp",
        [tile(4, 8, dtype=INT32)],
        {},
        DTypeError,
        """exp does not take INT32 on a2a3
  found:    INT32
  expected: FP16, FP32
  hint: cast first: pl.exp(pl.cast(tile, pl.FP32)), and cast the result back""",
    ),
    (
        "exp",
        [X],
        {},
        TraceError,
        """exp takes a tile as 'src'
  found:    !pypto.tensor<[10, 128], f32, [128, 1]>
  expected: a tile""",
    ),
    (
        "add",
        [tile(4, 8, valid=(3, 8)), tile(4, 8)],
        {},
        ShapeError,
        """the operands of add have different valid shapes
  found:    [3, 8] and [4, 8]
  expected: equal valid shapes""",
    ),
    (
        "load",
        [tile(4, 8)],
        BOX,
        TraceError,
        """load reads a tensor
  found:    !pypto.tile<[4, 8], f32, "vec", [4, 8]>
  expected: a tensor parameter""",
    ),
    (
        "load",
        [X],
        {**BOX, "space": LEFT},
        LayoutError,
        """load puts a tile into Vec or Mat
  found:    target_memory=Left
  hint: load into Mat, then pl.move the tile to Left, Right or Bias""",
    ),
    (
        "load",
        [X],
        {**BOX, "shape": (4,)},
        ShapeError,
        """the shape of a load has one extent per dimension of the tensor
  found:    shape [4] of a tensor with 2 dimensions
  expected: 2 extents""",
    ),
    (
        "load",
        [X],
        {**BOX, "shape": (4, 0)},
        ShapeError,
        """load needs a tile shape of positive extents
  found:    [4, 0]""",
    ),
    (
        "load",
        [X],
        {**BOX, "valid": (5, 128)},
        ShapeError,
        """the valid shape of load does not lie in its tile
  found:    [5, 128]
  expected: within [4, 128]""",
    ),
    (
        "store",
        [tile(4, 8, space=LEFT), X],
        {},
        LayoutError,
        """store takes a tile in Vec or Acc
  found:    Tile[[4, 8], FP32, Left]""",
    ),
    (
        "store",
        [tile(4, 8, dtype=FP16), X],
        {},
        DTypeError,
        """store does not convert
  found:    a tile of FP16 into a tensor of FP32
  expected: equal dtypes (an FP32 Acc tile may also go to FP16 or BF16)
  hint: cast the tile first: pl.cast(tile, pl.FP32)""",
    ),
    (
        "store",
        [tile(2, 4, 8), X],
        {},
        ShapeError,
        """store needs a tile of at most the tensor's rank
  found:    Tile[[2, 4, 8], FP32, Vec] into a tensor with 2 dimensions""",
    ),
    (
        "full",
        [UINT8],
        {"shape": (4, 8), "dtype": UINT8},
        DTypeError,
        """full does not take UINT8 on a2a3
  found:    UINT8
  expected: FP16, FP32, INT16, INT32
  hint: make it in FP16 and cast it: pl.cast(pl.full(..., pl.FP16), pl.UINT8)""",
    ),
    (
        "cast",
        [tile(4, 8, dtype=BF16)],
        {"dtype": INT16},
        DTypeError,
        """a2a3 has no conversion from BF16 to INT16
  found:    cast of Tile[[4, 8], BF16, Vec] to INT16
  expected: one of FP32, INT32
  hint: go through FP32: pl.cast(pl.cast(tile, pl.FP32), pl.INT16)""",
    ),
    (
        "cast",
        [tile(4, 8)],
        {"dtype": FP32},
        DTypeError,
        """a2a3 has no conversion from FP32 to FP32
  found:    cast of Tile[[4, 8], FP32, Vec] to FP32
  expected: one of BF16, FP16, INT16, INT32
  hint: the tile is FP32 already: leave the cast out""",
    ),
    (
        "cast",
        [tile(4, 8)],
        {"dtype": FP16, "mode": "up"},
        TraceError,
        """unknown rounding mode
  found:    up
  expected: none, rint, round, floor, ceil, trunc, odd""",
    ),
    (
        "row_sum",
        [tile(8)],
        {},
        ShapeError,
        """row_sum takes a tile with rows
  found:    Tile[[8], FP32, Vec]
  expected: at least two dimensions""",
    ),
    (
        "col_max",
        [tile(2, 4, 8)],
        {},
        ShapeError,
        """col_max takes two-dimensional tiles
  found:    Tile[[2, 4, 8], FP32, Vec]
  hint: reshape it to two dimensions first""",
    ),
    (
        "row_expand_add",
        [tile(4, 8), tile(1, 8)],
        {},
        ShapeError,
        """row_expand_add spreads a vector over a tile
  found:    Tile[[4, 8], FP32, Vec] and vector Tile[[1, 8], FP32, Vec]
  expected: a vector of shape [4, 1]""",
    ),
    (
        "row_expand_add",
        [tile(4, 8, valid=(3, 8)), tile(4, 1)],
        {},
        ShapeError,
        """the valid rows of row_expand_add differ
  found:    [3, 8] and [4, 1]""",
    ),
    (
        "col_expand_add",
        [tile(4, 8, valid=(4, 7)), tile(1, 8)],
        {},
        ShapeError,
        """the valid columns of col_expand_add differ
  found:    [4, 7] and [1, 8]""",
    ),
    (
        "reshape",
        [tile(4, 8)],
        {"shape": (4, 4)},
        ShapeError,
        """reshape keeps the number of elements
  found:    Tile[[4, 8], FP32, Vec] to [4, 4]
  expected: 32 elements""",
    ),
    (
        "reshape",
        [tile(4, 8, space=MAT)],
        {"shape": (8, 4)},
        LayoutError,
        """reshape takes a tile in Vec
  found:    Tile[[4, 8], FP32, Mat]""",
    ),
    (
        "reshape",
        [tile(4, 8, valid=(3, 8))],
        {"shape": (8, 4)},
        ShapeError,
        """reshape takes a fully valid tile, or a vector
  found:    Tile[[4, 8], FP32, Vec, valid_shape=[3, 8]]
  expected: a valid shape of [4, 8]""",
    ),
    (
        "transpose_view",
        [tile(4, 8)],
        {},
        LayoutError,
        """transpose_view takes a tile in Mat
  found:    Tile[[4, 8], FP32, Vec]
  hint: load it with target_memory=pl.Mem.Mat, or use pl.transpose for a tile in Vec""",
    ),
    (
        "concat",
        [tile(4, 8), tile(5, 8)],
        {},
        ShapeError,
        """concat needs equal rows
  found:    Tile[[4, 8], FP32, Vec] and Tile[[5, 8], FP32, Vec]""",
    ),
    (
        "concat",
        [tile(4, 8, valid=(4, 7)), tile(4, 8)],
        {},
        ShapeError,
        """concat needs a left tile with fully valid columns
  found:    Tile[[4, 8], FP32, Vec, valid_shape=[4, 7]]""",
    ),
    (
        "move",
        [tile(4, 8)],
        {"space": LEFT},
        LayoutError,
        """a2a3 cannot move a tile from Vec to Left
  found:    Tile[[4, 8], FP32, Vec]
  expected: a move to Mat, Vec""",
    ),
    (
        "move",
        [tile(4, 8, space=LEFT)],
        {"space": Space.VEC},
        LayoutError,
        """a2a3 cannot move a tile from Left to Vec
  found:    Tile[[4, 8], FP32, Left]
  expected: a move to nowhere: nothing leaves this memory but through a matmul""",
    ),
    (
        "matmul",
        [tile(4, 8), tile(4, 8)],
        {},
        ShapeError,
        """the inner extents of matmul differ
  found:    lhs is Tile[[4, 8], FP32, Vec], rhs is Tile[[4, 8], FP32, Vec]
  expected: [M, K] and [K, N]""",
    ),
    (
        "matmul",
        [tile(4, 8, dtype=INT16), tile(8, 4, dtype=INT16)],
        {},
        DTypeError,
        """matmul does not take INT16 on a2a3
  found:    INT16
  expected: BF16, FP16, FP32, INT8
  hint: cast first: pl.matmul(pl.cast(tile, pl.FP32), ...), and cast the result back""",
    ),
    (
        "matmul",
        [tile(4, 8, space=RIGHT), tile(8, 4)],
        {},
        LayoutError,
        """matmul takes 'lhs' from Left
  found:    Tile[[4, 8], FP32, Right]""",
    ),
    (
        "matmul_acc",
        [tile(4, 4), tile(4, 8), tile(8, 4)],
        {},
        LayoutError,
        """matmul_acc accumulates in Acc
  found:    Tile[[4, 4], FP32, Vec]
  hint: start with pl.matmul, or pl.create_tile(..., target_memory=pl.Mem.Acc)""",
    ),
    (
        "matmul_acc",
        [tile(4, 5, space=ACC), tile(4, 8), tile(8, 4)],
        {},
        ShapeError,
        """the accumulator does not fit the product
  found:    Tile[[4, 5], FP32, Acc]
  expected: Tile[[4, 4], FP32, Acc]""",
    ),
    (
        "matmul_bias",
        [tile(4, 8), tile(8, 4), tile(4, 4)],
        {},
        ShapeError,
        """the bias of matmul_bias is one row
  found:    Tile[[4, 4], FP32, Vec]
  expected: [1, 4]""",
    ),
    (
        "matmul_bias",
        [tile(4, 8), tile(8, 4), tile(1, 4, dtype=BF16)],
        {},
        DTypeError,
        """the bias has the accumulator's dtype
  found:    Tile[[1, 4], BF16, Vec]
  expected: FP32""",
    ),
]


@pytest.mark.parametrize("case", REJECTED, ids=lambda case: case[0])
def test_error(case):
    name, operands, attributes, error, text = case
    with pytest.raises(PyptoError) as caught:
        result_type(BY_NAME[name], operands, attributes, A2A3)
    assert type(caught.value) is error
    assert str(caught.value) == f"[{error.code}] {text}"


def test_dtypes_depend_on_the_target():
    operands = [tile(4, 8, dtype=BF16), tile(4, 8, dtype=BF16)]
    assert result_type(BY_NAME["add"], operands, {}, A5) == tile(4, 8, dtype=BF16)
    with pytest.raises(DTypeError):
        result_type(BY_NAME["add"], operands, {}, A2A3)


@pytest.mark.parametrize(("source", "goal", "a2a3", "a5"), [(INT32, FP16, True, False), (INT16, INT32, False, True)])
def test_casts_depend_on_the_target(source, goal, a2a3, a5):
    for target, allowed in ((A2A3, a2a3), (A5, a5)):
        if allowed:
            assert result_type(BY_NAME["cast"], [tile(4, 8, dtype=source)], {"dtype": goal}, target) == tile(
                4, 8, dtype=goal
            )
        else:
            with pytest.raises(DTypeError):
                result_type(BY_NAME["cast"], [tile(4, 8, dtype=source)], {"dtype": goal}, target)


@pytest.mark.parametrize(("dtype", "accumulator"), [(FP32, FP32), (FP16, FP32), (BF16, FP32), (INT8, INT32)])
def test_accumulator(dtype, accumulator):
    assert matmul_dtype(dtype) == accumulator
