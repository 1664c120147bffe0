"""Rows: moves between memories, and matrix products."""

from __future__ import annotations

from pypto_jit.dialects.row import Instruction, Operand, Operator
from pypto_jit.dialects.rows.sets import ALL_DTYPES, CUBE_INPUTS, both
from pypto_jit.dtypes import FP32, INT32

ROWS: tuple[Operator, ...] = (
    Operator(
        "move",
        (Operand("src"),),
        "move",
        Instruction("tmov", ("src",), pipe="MTE1", core="any", inplace=False),
        both(ALL_DTYPES),
        "The tile in another memory.",
        "src",
    ),
    Operator(
        "matmul",
        (Operand("lhs"), Operand("rhs")),
        "matmul",
        Instruction("tmatmul", ("lhs", "rhs"), pipe="M", core="cube", inplace=False),
        both(CUBE_INPUTS),
        "``[M, K] @ [K, N]`` in FP32 (INT32 for INT8).",
        "lhs @ rhs",
    ),
    Operator(
        "matmul_acc",
        (Operand("acc"), Operand("lhs"), Operand("rhs")),
        "matmul_acc",
        Instruction("tmatmul.acc", ("acc", "lhs", "rhs"), pipe="M", core="cube", tied="acc", inplace=False),
        both(frozenset({FP32, INT32})),
        "``acc + [M, K] @ [K, N]`` in the accumulator's dtype.",
        "acc + lhs @ rhs",
    ),
    Operator(
        "matmul_bias",
        (Operand("lhs"), Operand("rhs"), Operand("bias")),
        "matmul_bias",
        Instruction("tmatmul.bias", ("lhs", "rhs", "bias"), pipe="M", core="cube", inplace=False),
        both(CUBE_INPUTS),
        "``[M, K] @ [K, N] + bias`` with a ``[1, N]`` bias of the accumulator's dtype.",
        "lhs @ rhs + bias",
    ),
)
