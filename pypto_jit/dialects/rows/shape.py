"""Rows: operators that keep elements and change where they are."""

from __future__ import annotations

from pypto_jit.dialects.row import Instruction, Operand, Operator
from pypto_jit.dialects.rows.sets import ALL_DTYPES, CUBE_INPUTS, both

ROWS: tuple[Operator, ...] = (
    Operator(
        "reshape",
        (Operand("src"),),
        "reshape",
        None,
        both(ALL_DTYPES),
        "The same elements in row-major order under another shape.",
    ),
    Operator(
        "transpose",
        (Operand("src"),),
        "transpose",
        Instruction("ttrans", ("src", "tmp"), inplace=False),
        both(ALL_DTYPES),
        "Rows become columns: ``[M, N]`` gives ``[N, M]``.",
        "src.T",
    ),
    Operator(
        "transpose_view",
        (Operand("src"),),
        "transpose_view",
        None,
        both(CUBE_INPUTS),
        "A Mat tile seen as its transpose, without moving it: how ``B.T`` reaches the cube.",
        "src.T",
    ),
    Operator(
        "concat",
        (Operand("lhs"), Operand("rhs")),
        "concat",
        Instruction("tconcat", ("lhs", "rhs"), inplace=False),
        both(ALL_DTYPES),
        "Two tiles side by side: ``[M, A]`` and ``[M, B]`` give ``[M, A + B]``.",
    ),
)
