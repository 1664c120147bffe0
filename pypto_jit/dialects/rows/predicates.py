"""Rows: comparisons, whose result is one bit for each element, and what chooses by such bits."""

from __future__ import annotations

from pypto_jit.dialects.row import AssemblyAttribute, Attribute, Instruction, Operand, Operator
from pypto_jit.dialects.rows.sets import ARITHMETIC, COMPARISONS, FLOATS, both
from pypto_jit.dtypes import BF16, INT8, INT16, INT32

_MODE = (Attribute("mode", "str", "eq", COMPARISONS),)
_SPELLED = (AssemblyAttribute("mode", "cmpMode", "#pto<cmp {lower}>", "eq"),)

ROWS: tuple[Operator, ...] = (
    Operator(
        "cmp",
        (Operand("lhs"), Operand("rhs")),
        "compare",
        Instruction("tcmp", ("lhs", "rhs"), inplace=False, attributes=_SPELLED, alike=("lhs", "rhs")),
        both(FLOATS | {INT32}, frozenset({INT8, INT16, BF16})),
        "Whether elements compare so, packed: bit ``j % 8`` of byte ``j // 8`` of a row is about column ``j``. The "
        "result is UINT8, with rows of a multiple of 32 bytes.",
        "lhs < rhs, by mode",
        attributes=_MODE,
    ),
    Operator(
        "cmps",
        (Operand("src"), Operand("scalar", "scalar")),
        "compare",
        Instruction("tcmps", ("src", "scalar"), inplace=False, attributes=_SPELLED),
        both(ARITHMETIC, frozenset({INT8})),
        "Whether elements compare so with a scalar, packed as by ``cmp``.",
        "src < scalar, by mode",
        attributes=_MODE,
    ),
    Operator(
        "sel",
        (Operand("mask"), Operand("lhs"), Operand("rhs")),
        "select",
        # One type of tile for what is chosen from and the result (pto-isa, TSEL).
        Instruction("tsel", ("mask", "lhs", "rhs", "tmp"), inplace=False, alike=("lhs", "rhs")),
        both(ARITHMETIC, frozenset({INT8})),
        "Of two tiles the first one's element where the bit of a packed mask is set, the second one's elsewhere.",
        "lhs if mask else rhs",
    ),
    Operator(
        "sels",
        (Operand("mask"), Operand("src"), Operand("scalar", "scalar")),
        "select",
        Instruction("tsels", ("mask", "src", "tmp", "scalar"), inplace=False),
        both(ARITHMETIC, frozenset({INT8})),
        "A tile's element where the bit of a packed mask is set, a scalar elsewhere.",
        "src if mask else scalar",
    ),
)
