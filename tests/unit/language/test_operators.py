"""The functions generated from the table: which row they record, with which operands, and what they refuse."""

from __future__ import annotations

import inspect
import re

import numpy
import pytest

import pypto_jit.language as pl
from pypto_jit.dialects.operators import ROUND_MODES, ROWS
from pypto_jit.dtypes import ALL, FP16, FP32, INT8, INT32
from pypto_jit.errors import DTypeError, LayoutError, ShapeError, TraceError
from pypto_jit.language.operators import FUNCTIONS
from pypto_jit.targets import A5
from tests.tracing import excerpt, lines, result_types, spec

X = spec(16, 32)


def operations(expression, dtype=FP32, target=None):
    """What an expression of two tiles records, between the loads and the end."""

    def kernel(x, y, out):
        a = pl.load(x, [0, 0], [16, 32])
        b = pl.load(y, [0, 0], [16, 32])
        expression(a, b)
        pl.store(a, [0, 0], out)

    tensor = spec(16, 32, dtype=dtype)
    arguments = {} if target is None else {"target": target}
    return lines(kernel, tensor, tensor, tensor, **arguments)[2:-1]


def test_every_row_has_a_function_with_its_documentation():
    spelled = {row.name for row in ROWS if not row.spelling}
    assert set(FUNCTIONS) == spelled | {"read", "write"}
    for row in ROWS:
        if row.name not in FUNCTIONS:
            continue
        function = getattr(pl, row.name)
        assert function is getattr(pl.tile, row.name)
        assert function.__name__ == row.name
        assert row.summary in function.__doc__
        if row.instruction is not None:
            assert row.instruction.mnemonic in function.__doc__


# Of the rows of one tile, these take more than it, or a tile elsewhere.
_MORE = ("not_", "fillpad", "cast", "reshape", "move", "transpose_view")


@pytest.mark.parametrize(
    "row", [row for row in ROWS if [o.kind for o in row.operands] == ["tile"] and row.name not in _MORE]
)
def test_rows_of_one_tile(row):
    assert operations(lambda a, b: getattr(pl, row.name)(a)) == [f"%2 = {row.name}(%0)"]
    first = next(iter(inspect.signature(getattr(pl, row.name)).parameters))
    assert operations(lambda a, b: getattr(pl, row.name)(**{first: a})) == [f"%2 = {row.name}(%0)"]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum"])
def test_arithmetic_dispatches_on_its_operands(name):
    function = getattr(pl, name)
    assert operations(function) == [f"%2 = {name}(%0, %1)"]
    assert operations(lambda a, b: function(rhs=b, lhs=a)) == [f"%2 = {name}(%0, %1)"]
    assert operations(lambda a, b: function(a, 2)) == [f"%2 = {name}s(%0, %cst)"]
    assert operations(lambda a, b: getattr(pl, f"{name}s")(a, 2.0)) == [f"%2 = {name}s(%0, %cst)"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda a, b: a + b, ["%2 = add(%0, %1)"]),
        (lambda a, b: a - b, ["%2 = sub(%0, %1)"]),
        (lambda a, b: a * b, ["%2 = mul(%0, %1)"]),
        (lambda a, b: a / b, ["%2 = div(%0, %1)"]),
        (lambda a, b: a + 1, ["%2 = adds(%0, %cst)"]),
        (lambda a, b: 1 + a, ["%2 = adds(%0, %cst)"]),
        (lambda a, b: a - 1, ["%2 = subs(%0, %cst)"]),
        (lambda a, b: 1 - a, ["%2 = neg(%0)", "%3 = adds(%2, %cst)"]),
        (lambda a, b: a * 2, ["%2 = muls(%0, %cst)"]),
        (lambda a, b: 2 * a, ["%2 = muls(%0, %cst)"]),
        (lambda a, b: a / 2, ["%2 = divs(%0, %cst)"]),
        (lambda a, b: 2 / a, ["%2 = rdivs(%0, %cst)"]),
        (lambda a, b: pl.maximum(0, a), ["%2 = maximums(%0, %cst)"]),
        (lambda a, b: pl.minimum(0, a), ["%2 = minimums(%0, %cst)"]),
        (lambda a, b: -a, ["%2 = neg(%0)"]),
        (lambda a, b: +a, []),
        (lambda a, b: abs(a), ["%2 = abs(%0)"]),
        (lambda a, b: numpy.float32(2) * a, ["%2 = muls(%0, %cst)"]),
        (lambda a, b: a + numpy.int64(2), ["%2 = adds(%0, %cst)"]),
        (lambda a, b: a + True, ["%2 = adds(%0, %cst)"]),
    ],
)
def test_python_operators(expression, expected):
    assert operations(expression) == expected


def test_scalars_take_the_dtype_of_the_tile():
    def kernel(x, out):
        for i in pl.range(16):
            pl.store(pl.load(x, [i, 0], [1, 32]) * i, [i, 0], out)

    half, whole = spec(16, 32, dtype=FP16), spec(16, 32, dtype=INT32)
    assert [line.split(" = ")[1] for line in lines(kernel, half, half) if "arith" in line] == [
        "arith.index_cast %arg2",
        "arith.sitofp %1",
    ]
    assert [line.split(" = ")[1] for line in lines(kernel, whole, whole) if "arith" in line] == [
        "arith.index_cast %arg2"
    ]


@pytest.mark.parametrize("kind", ["sum", "max", "min", "argmax"])
@pytest.mark.parametrize("axis", ["row", "col"])
def test_reductions_accept_scratch(axis, kind):
    name = f"{axis}_{kind}"
    function = getattr(pl, name)
    assert operations(lambda a, b: function(a, b)) == [f"%2 = {name}(%0)"]
    assert operations(lambda a, b: function(a, tmp=b)) == [f"%2 = {name}(%0)"]
    with pytest.raises(TraceError, match=f"the tmp of {name} is a tile"):
        operations(lambda a, b: function(a, 3))


def test_load_gives_offsets_then_extents():
    def kernel(x, out):
        for i in pl.range(0, 16, 4):
            n = pl.min(4, 14 - i)
            t = pl.load(x, [i, 0], [4, 8], valid_shape=[n, 8])
            u = pl.load(x, (0, 8), (4, 8), None, pl.Mem.Mat)
            pl.store(t, [i, 8], out)
            assert t.shape == (4, 8)
            assert t.valid_shape == (n, 8)
            assert (t.dtype, t.space, t.ndim, t.rank) == (FP32, pl.Mem.Vec, 2, 2)
            assert u.space is pl.Mem.Mat

    assert [line.strip() for line in lines(kernel, X, X) if "arith" not in line][1:] == [
        "%2 = load(%arg0, %arg2, %c0, %1, %c8)",
        "%3 = load(%arg0, %c0, %c8, %c4, %c8)",
        "store(%2, %arg1, %arg2, %c8)",
    ]
    assert result_types(kernel, X, X) == [
        '!pypto.tile<[4, 8], f32, "vec", [-1, 8]>',
        '!pypto.tile<[4, 8], f32, "mat", [4, 8]>',
    ]


def test_create_full_cast_reshape_transpose_move():
    def kernel(x, out):
        pl.create_tile([4, 8], pl.FP16, target_memory=pl.Mem.Acc)
        t = pl.full([4, 8], pl.FP32, 1.5)
        pl.full([4, 8], dtype=pl.INT32, value=-3)
        t = pl.cast(t, pl.FP16, mode="floor")
        t = pl.cast(t, target_type=pl.FP32, mode=1)
        t = pl.reshape(t, [8, 4])
        t = pl.transpose(t, 0, 1)
        t = pl.transpose(t, -1, -2)
        m = pl.load(x, [0, 0], [16, 32], target_memory=pl.MemorySpace.Mat)
        pl.move(m, pl.Mem.Left, blayout="row_major", slayout="row_major")
        pl.transpose_view(m)
        pl.store(t, [0, 0], out)

    assert result_types(kernel, X, X) == [
        '!pypto.tile<[4, 8], f16, "acc", [4, 8]>',
        '!pypto.tile<[4, 8], f32, "vec", [4, 8]>',
        '!pypto.tile<[4, 8], i32, "vec", [4, 8]>',
        '!pypto.tile<[4, 8], f16, "vec", [4, 8]>',
        '!pypto.tile<[4, 8], f32, "vec", [4, 8]>',
        '!pypto.tile<[8, 4], f32, "vec", [8, 4]>',
        '!pypto.tile<[4, 8], f32, "vec", [4, 8]>',
        '!pypto.tile<[8, 4], f32, "vec", [8, 4]>',
        '!pypto.tile<[16, 32], f32, "mat", [16, 32]>',
        '!pypto.tile<[16, 32], f32, "left", [16, 32]>',
        '!pypto.tile<[32, 16], f32, "mat", [32, 16]>',
    ]
    found = [line for line in lines(kernel, X, X) if "cast" in line]
    assert found == ["%3 = cast(%1) {mode = floor}", "%4 = cast(%3) {mode = rint}"]


@pytest.mark.parametrize("mode", [*ROUND_MODES, *range(7)])
def test_rounding_modes(mode):
    name = mode if isinstance(mode, str) else ROUND_MODES[mode]
    assert operations(lambda a, b: pl.cast(a, pl.INT32, mode)) == [f"%2 = cast(%0) {{mode = {name}}}"]


def test_matmul_and_its_family():
    def kernel(x, y, bias, out):
        a, b = pl.load(x, [0, 0], [16, 16]), pl.load(y, [0, 0], [16, 32])
        acc = a @ b
        acc = pl.matmul_acc(acc, a, b)
        pl.matmul_bias(a, b, pl.load(bias, [0, 0], [1, 32]))
        pl.store(acc, [0, 0], out)

    assert [line.split(" = ")[-1] for line in lines(kernel, X, X, X, X) if "load" not in line] == [
        "matmul(%0, %1)",
        "matmul_acc(%2, %0, %1)",
        "matmul_bias(%0, %1, %4)",
        "store(%3, %arg3, %c0, %c0)",
    ]


def test_concat_adds_run_time_extents():
    def kernel(x, out):
        for i in pl.range(4):
            t = pl.concat(pl.load(x, [0, 0], [4, 8]), pl.load(x, [0, 8], [4, 8], valid_shape=[4, i]))
            assert t.valid_shape[0] == 4
            pl.store(t, [0, 0], out)
            pl.store(pl.full([1, 8], pl.FP32, 0.0), [0, t.valid_shape[1]], out)

    assert [line for line in lines(kernel, X, X) if "arith" in line or "concat" in line] == [
        "  %2 = concat(%0, %1)",
        "  %3 = arith.addi %arg2, %c8",
    ]


def test_store_returns_the_tensor():
    def kernel(x, out):
        assert pl.store(pl.load(x, [0, 0], [16, 32]), [0, 0], out) is out

    lines(kernel, X, X)


def refusal(error, statement, *arguments, target=None):
    def kernel(x, out):
        t = pl.load(x, [0, 0], [16, 32])
        statement(x, t, out)

    with pytest.raises(error) as caught:
        lines(kernel, *(arguments or (X, X)), **({} if target is None else {"target": target}))
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__
    return caught.value


class TestErrors:
    def test_outside_of_a_kernel(self):
        for call in (lambda: pl.exp(1), lambda: pl.range(3), lambda: pl.load(None, [0], [1]), lambda: pl.gelu(1)):
            with pytest.raises(TraceError, match="is used outside of a kernel") as caught:
                call()
            assert caught.value.span.filename == __file__

    def test_an_unknown_keyword(self):
        def kernel(x, out):
            pl.load(x, [0, 0], [16, 32], valid_shapes=[1, 2])

        with pytest.raises(TraceError) as caught:
            lines(kernel, X, X)
        assert str(caught.value) == (
            "[PYPTO-TRACE] pl.load has no argument 'valid_shapes'\n"
            + excerpt(kernel, 1, "pl.load(x, [0, 0], [16, 32], valid_shapes=[1, 2])")
            + "  found:    valid_shapes=\n"
            "  expected: pl.load(tensor, offsets, shapes, valid_shape=None, target_memory=Vec, clamp=False)\n"
            "  hint: did you mean 'valid_shape'?"
        )

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            (lambda x, t, o: pl.exp(), "pl.exp: missing a required argument: 'x'"),
            (lambda x, t, o: pl.exp(t, t), "pl.exp: too many positional arguments"),
            (lambda x, t, o: pl.row_sum(t, temp=t), "pl.row_sum has no argument 'temp'"),
            (lambda x, t, o: pl.sigmoid(t, approx=1), "pl.sigmoid has no argument 'approx'"),
            (lambda x, t, o: pl.gelu(t, approximate="fast"), "unknown approximation of gelu"),
            (lambda x, t, o: pl.exp("x"), "exp takes a tile as 'src'"),
            (lambda x, t, o: t + x, "add takes a tile as 'rhs'"),
            (lambda x, t, o: x + t, "add takes a tile as 'lhs'"),
            (lambda x, t, o: pl.add("x", x), "add takes a tensor"),
            (lambda x, t, o: t + "a", "adds takes a tile or a scalar"),
            (lambda x, t, o: t + None, "adds takes a tile or a scalar"),
            (lambda x, t, o: t @ 2, "matmul takes a tile as 'rhs'"),
            (lambda x, t, o: pl.load(t, [0, 0], [1, 1]), "load takes a tensor as 'tensor'"),
            (lambda x, t, o: pl.store(x, [0, 0], o), "store takes a tile as 'src'"),
            (lambda x, t, o: pl.store(t, [0, 0], t), "store takes a tensor as 'tensor'"),
            (lambda x, t, o: pl.store(o, t, [0, 0]), "the arguments of store are in another order"),
            (lambda x, t, o: pl.load(x, 0, [1, 1]), "the offsets of load is a list"),
            (lambda x, t, o: pl.load(x, [0, 0.5], [1, 1]), "the offsets of load takes integers"),
            (lambda x, t, o: pl.load(x, [0, 0], [1, "a"]), "the shape of load takes integers"),
            (lambda x, t, o: pl.cast(t, pl.FP16, mode="up"), "unknown rounding mode"),
            (lambda x, t, o: x[0:2:0, :], "the step of a slice is zero"),
            (lambda x, t, o: list(x), "a tensor is not iterated over"),
            (lambda x, t, o: t[0:2], "a part of a tile is not subscripted"),
            (lambda x, t, o: t.__setitem__(0, 1), "a tile is never changed"),
            (lambda x, t, o: list(t), "a tile is not iterated over"),
            (lambda x, t, o: t < t, "tiles have no '<'"),
            (lambda x, t, o: t == 1, "tiles have no '=='"),
            (lambda x, t, o: t**2, r"tiles have no '\*\*'"),
            (lambda x, t, o: 2 // t, "tiles have no '//'"),
            (lambda x, t, o: pl.range(), "one to three bounds"),
        ],
    )
    def test_operands(self, statement, message):
        error = refusal(TraceError, statement)
        assert re.search(message, error.message)

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            (lambda x, t, o: pl.load(x, [0], [16, 32]), "the offsets of load have one entry per dimension"),
            (lambda x, t, o: pl.load(x, [0, 0], [16]), "the shapes of load have one entry per dimension"),
            (lambda x, t, o: pl.load(x, [0, 0], [1, 1], [1]), "the extents of load have one entry per dimension"),
            (lambda x, t, o: pl.store(t, [0], o), "the offsets of store have one entry per dimension"),
            (lambda x, t, o: pl.load(x, [0, 0], [0, 32]), "load needs a tile shape of positive extents"),
            (lambda x, t, o: pl.load(x, [0, 0], [4, 32], [5, 32]), "the valid shape of load does not lie in its tile"),
            (lambda x, t, o: o.__setitem__((slice(0, 2), 0), t), "a tile is assigned to a part of another shape"),
            (lambda x, t, o: pl.transpose(t, 0, 0), "transpose swaps the two axes of a tile"),
            (lambda x, t, o: pl.transpose(t, 1, 2), "transpose swaps the two axes of a tile"),
            (lambda x, t, o: pl.reshape(t, [3, 5]), "reshape keeps the number of elements"),
        ],
    )
    def test_shapes(self, statement, message):
        assert message in refusal(ShapeError, statement).message

    def test_a_shape_that_is_only_known_at_run_time(self):
        def kernel(x, out):
            for i in pl.range(4):
                pl.load(x, [0, 0], [i, 32])

        with pytest.raises(ShapeError, match="the shape of load is static") as caught:
            lines(kernel, X, X)
        assert "valid_shape" in caught.value.hint

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            (lambda x, t, o: pl.move(t, pl.Mem.Left), "cannot move a tile from Vec to Left"),
            (lambda x, t, o: pl.move(t, "Left"), "move takes a memory"),
            (lambda x, t, o: pl.move(t, pl.Mem.Mat, blayout="row_major"), "the machine has no such layout in Mat"),
            (lambda x, t, o: pl.move(t, pl.Mem.Vec, slayout="row_major"), "the machine has no such layout in Vec"),
            (lambda x, t, o: pl.load(x, [0, 0], [1, 1], target_memory=pl.Mem.Acc), "load puts a tile into Vec or Mat"),
        ],
    )
    def test_layouts_and_memories(self, statement, message):
        assert message in refusal(LayoutError, statement).message

    def test_a_column_vector_is_column_major(self):
        found = operations(lambda a, b: pl.move(pl.row_sum(a), pl.Mem.Vec, blayout="col_major", slayout="none_box"))
        assert found == ["%2 = row_sum(%0)", "%3 = move(%2)"]

    def test_the_layout_of_a_memory_is_the_targets(self):
        def statement(x, t, o):
            m = pl.load(x, [0, 0], [16, 32], target_memory=pl.Mem.Mat)
            pl.move(m, pl.Mem.Left, blayout="row_major")

        error = refusal(LayoutError, statement, target=A5)
        assert error.expected == "blayout='col_major'"

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            (lambda x, t, o: t + 0.5, "adds of a INT8 tile takes an integer"),
            (lambda x, t, o: t + 128, "128 does not fit INT8"),
            (lambda x, t, o: t + float("nan"), "takes an integer"),
            (lambda x, t, o: pl.full([1, 32], pl.UINT8, -1), "-1 does not fit UINT8"),
            (lambda x, t, o: pl.full([1, 32], pl.INDEX, 1), "full takes a dtype"),
            (lambda x, t, o: pl.cast(t, "f32"), "cast takes a dtype"),
        ],
    )
    def test_dtypes(self, statement, message):
        tensor = spec(16, 32, dtype=INT8)
        assert message in refusal(DTypeError, statement, tensor, tensor).message

    def test_a_dtype_that_the_target_does_not_add(self):
        for dtype in ALL:
            if dtype.name in ("FP32", "FP16", "INT32", "INT16"):
                assert operations(lambda a, b: a + b, dtype) == ["%2 = add(%0, %1)"]
        tensor = spec(16, 32, dtype=ALL[2])
        error = refusal(DTypeError, lambda x, t, o: t + t, tensor, tensor)
        assert error.message == "add does not take BF16 on a2a3"
        assert error.hint == "cast first: pl.add(pl.cast(tile, pl.FP32), ...), and cast the result back"
        assert operations(lambda a, b: a + b, ALL[2], A5) == ["%2 = add(%0, %1)"]
