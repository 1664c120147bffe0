from __future__ import annotations

import pytest

from pypto_jit.dtypes import BF16, FP32
from pypto_jit.errors import LayoutError, ShapeError
from tests.module_text import ModuleText
from tests.unit.lowering.after import after, line, operations, result


@pytest.fixture
def text():
    return ModuleText()


def column(text, rows=6, dtype=FP32):
    return text.load(text.tensor((rows, 1), dtype), [0, 0], (rows, 1))


def rewritten(text):
    return after(text, "column-vectors", "dead-code")


def stored(text, tile):
    text.store(tile, text.tensor(tile.type.shape, tile.type.dtype), [0, 0])
    return rewritten(text)


def test_elementwise_work_is_done_on_rows(text):
    outcome = stored(text, text.operator("exp", text.operator("add", column(text), column(text))))
    assert operations(outcome) == ["load", "reshape", "load", "reshape", "add", "exp", "reshape", "store"]
    assert result(line(outcome, "pypto.add")) == '!pypto.tile<[1, 6], f32, "vec", [1, 6]>'


def test_a_reduced_column_is_itself(text):
    assert operations(stored(text, text.operator("row_sum", column(text)))) == ["load", "store"]


def test_a_column_is_reduced_along_the_row_it_is(text):
    outcome = stored(text, text.operator("col_sum", column(text)))
    assert operations(outcome) == ["load", "reshape", "row_sum", "store"]


def test_a_column_spread_over_a_column_is_elementwise(text):
    outcome = stored(text, text.operator("row_expand_max", column(text), column(text)))
    assert "maximum" in operations(outcome)


def test_a_scalar_row_spread_over_a_column_is_spread_over_a_row(text):
    source = column(text)
    scalar = text.operator("col_max", source)
    outcome = stored(text, text.operator("col_expand_sub", source, scalar))
    assert operations(outcome) == ["load", "reshape", "row_max", "row_expand_sub", "reshape", "store"]


def test_transposing_a_vector_moves_nothing(text):
    outcome = stored(text, text.operator("transpose", text.operator("neg", column(text))))
    assert operations(outcome) == ["load", "reshape", "neg", "store"]


def test_reshape_pairs_fold(text):
    row = text.operator("reshape", column(text), shape=(1, 6))
    back = text.operator("reshape", text.operator("neg", row), shape=(6, 1))
    outcome = stored(text, text.operator("abs", back))
    assert operations(outcome) == ["load", "reshape", "neg", "abs", "reshape", "store"]


def test_a_strided_column_passes_through_padded_rows(text):
    source, goal = text.tensor((6, 5), FP32), text.tensor((6, 5), FP32)
    text.store(text.load(source, [0, 2], (6, 1)), goal, [0, 3])
    outcome = rewritten(text)
    assert operations(outcome) == ["load", "row_max", "create_tile", "row_expand", "store"]
    assert result(line(outcome, "pypto.load")) == '!pypto.tile<[6, 8], f32, "vec", [6, 1]>'


def test_a_strided_column_of_a_dtype_without_reductions_is_refused(text):
    source = text.tensor((6, 5), BF16)
    text.store(text.load(source, [0, 2], (6, 1)), text.tensor((6, 1), BF16), [0, 0])
    with pytest.raises(LayoutError, match="needs its elements next to each other"):
        rewritten(text)


def test_a_strided_column_that_may_be_empty_is_refused(text):
    source = text.tensor((6, 5), FP32)
    columns = text.arith("minsi", text.constant(1), text.constant(0))
    tile = text.load(source, [0, 2], (6, 1), [6, columns])
    text.store(tile, text.tensor((6, 1), FP32), [0, 0])
    with pytest.raises(ShapeError, match="cannot be partly valid"):
        rewritten(text)


def test_carried_columns_stay_columns(text):
    with text.loop(3, carried=[column(text)]) as loop:
        loop.yields = [text.operator("exp", loop.carried[0])]
    outcome = stored(text, loop.results[0])
    assert operations(outcome) == ["load", "reshape", "exp", "reshape", "store"]
    assert '-> (!pypto.tile<[6, 1], f32, "vec", [6, 1]>)' in outcome
