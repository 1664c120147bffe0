"""Rows: operators that keep elements and change where they are."""

from __future__ import annotations

from pypto_jit.dialects.row import Attribute, Instruction, Operand, Operator
from pypto_jit.dialects.rows.sets import ALL_DTYPES, CUBE_INPUTS, PAD_VALUES, STORED, both

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
    Operator(
        "set_validshape",
        (Operand("src"), Operand("extents", "indices")),
        "set_validshape",
        None,
        both(STORED),
        "The same tile with another valid shape. Elements that become valid are what the buffer holds.",
    ),
    Operator(
        "fillpad",
        (Operand("src"),),
        "fillpad",
        Instruction("tfillpad", ("src",)),
        both(ALL_DTYPES),
        "The tile, all of it valid: what was not valid is zero, or the largest or smallest value of the dtype.",
        attributes=(Attribute("pad", "str", "zero", PAD_VALUES),),
    ),
    Operator(
        "extract",
        (Operand("src"), Operand("box", "indices")),
        "extract",
        Instruction("textract", ("src", "row", "column"), core="any", inplace=False),
        both(ALL_DTYPES),
        "A box of a tile as a tile of its own. ``box`` is offsets, then the valid shape.",
        "src[offsets + index]",
    ),
    Operator(
        "insert",
        (Operand("target"), Operand("src"), Operand("offsets", "indices")),
        "insert",
        Instruction("tinsert", ("src", "row", "column"), core="any", inplace=False, updates=True),
        both(ALL_DTYPES),
        "A tile with the valid region of another one written into its own.",
        spelling="target = pl.assemble(target, src, offsets)",
    ),
)
