"""Rows: elementwise operators, casts, reductions, and expansion of vectors."""

from __future__ import annotations

from pypto_jit.dialects.row import AssemblyAttribute, Attribute, Instruction, Operand, Operator
from pypto_jit.dialects.rows.sets import ALL_DTYPES, ARITHMETIC, FLOATS, INTEGERS, RELU_TYPES, ROUND_MODES, both
from pypto_jit.dtypes import BF16, INT8, INT16, INT32, DType


def _binary(
    name: str,
    mnemonic: str,
    dtypes: dict[str, frozenset[DType]],
    formula: str,
    *,
    scratch: bool = False,
    alike: tuple[str, ...] = (),
) -> Operator:
    inputs = ("lhs", "rhs", "tmp") if scratch else ("lhs", "rhs")
    return Operator(
        name,
        (Operand("lhs"), Operand("rhs")),
        "elementwise",
        # With scratch an instruction is several of the machine, which read the operands again (pto-isa, TXOR).
        Instruction(mnemonic, inputs, inplace=not scratch, alike=alike),
        dtypes,
        f"Element by element: {formula}. Both tiles have the same shape, dtype and valid region.",
        formula,
    )


def _scalar(
    name: str,
    mnemonic: str,
    dtypes: dict[str, frozenset[DType]],
    formula: str,
    *,
    scalar_first: bool = False,
    scratch: bool = False,
    inplace: bool = True,
) -> Operator:
    inputs = ("scalar", "src") if scalar_first else ("src", "scalar")
    inputs = (*inputs, "tmp") if scratch else inputs
    return Operator(
        name,
        (Operand("src"), Operand("scalar", "scalar")),
        "elementwise",
        Instruction(mnemonic, inputs, inplace=inplace),
        dtypes,
        f"Element by element with a scalar: {formula}.",
        formula,
    )


def _unary(name: str, dtypes: dict[str, frozenset[DType]], formula: str, *, inplace: bool = True) -> Operator:
    return Operator(
        name,
        (Operand("src"),),
        "elementwise",
        Instruction(f"t{name}", ("src",), inplace=inplace, optional_scratch=name == "rsqrt"),
        dtypes,
        f"Element by element: {formula}.",
        formula,
    )


def _row_reduction(name: str, formula: str) -> Operator:
    return Operator(
        name,
        (Operand("src"),),
        "row_reduction",
        Instruction("t" + name.replace("_", ""), ("src", "tmp"), inplace=False),
        both(ARITHMETIC),
        f"Along each row of the valid region: {formula}; ``[M, N]`` gives ``[M, 1]``.",
        formula,
    )


# What the newer machine reduces besides along columns.
_MORE_COLUMNS = {"col_max": frozenset({BF16, INT8}), "col_min": frozenset({BF16, INT8}), "col_prod": frozenset({BF16})}


def _column_reduction(name: str, formula: str) -> Operator:
    return Operator(
        name,
        (Operand("src"),),
        "column_reduction",
        Instruction("t" + name.replace("_", ""), ("src",), inplace=False, optional_scratch=name == "col_sum"),
        both(ARITHMETIC, _MORE_COLUMNS.get(name, frozenset())),
        f"Along each column of the valid region: {formula}; ``[M, N]`` gives ``[1, N]``.",
        formula,
    )


def _place(axis: str, name: str, dtypes: dict[str, frozenset[DType]], formula: str) -> Operator:
    lines, shape = ("row", "[M, 1]") if axis == "row" else ("column", "[1, N]")
    return Operator(
        f"{axis}_{name}",
        (Operand("src"),),
        f"{lines}_index",
        Instruction(f"t{axis}{name}", ("src", "tmp"), inplace=False),
        dtypes,
        f"Along each {lines} of the valid region: {formula}, counted from 0, as INT32; ``[M, N]`` gives ``{shape}``. "
        "The first of equal elements; NaN comes before all numbers.",
        formula,
    )


def _expand(axis: str, name: str, dtypes: dict[str, frozenset[DType]], formula: str) -> Operator:
    vector = "[M, 1]" if axis == "row" else "[1, N]"
    return Operator(
        f"{axis}_expand_{name}",
        (Operand("src"), Operand("vector")),
        f"{axis}_expand",
        Instruction(
            f"t{axis}expand{name}",
            ("src", "vector"),
            optional_scratch=axis == "row",
            alike=("src",) if axis == "col" else (),
        ),
        dtypes,
        f"A ``[M, N]`` tile with a ``{vector}`` vector spread over it: {formula}.",
        formula,
    )


_SHORT_INTEGERS = both(frozenset({INT8, INT16}), frozenset({INT32}))
_ROUND = (Attribute("mode", "str", "round", ROUND_MODES),)
_EXPAND_FORMULAS = {
    "add": "src + vector",
    "sub": "src - vector",
    "mul": "src * vector",
    "div": "src / vector",
    "max": "max(src, vector)",
    "min": "min(src, vector)",
}

ROWS: tuple[Operator, ...] = (
    Operator(
        "full",
        (Operand("scalar", "scalar"),),
        "full",
        Instruction("texpands", ("scalar",)),
        both(ARITHMETIC, frozenset({BF16, INT8})),
        "A tile filled with one value.",
        "scalar",
    ),
    Operator(
        "ci",
        (Operand("scalar", "scalar"),),
        "ci",
        Instruction("tci", ("scalar", "tmp")),
        both(frozenset({INT16, INT32})),
        "Numbers in order from the scalar on, in a tile of one row.",
        "scalar + column",
    ),
    _binary("add", "tadd", both(ARITHMETIC, frozenset({INT8, BF16})), "lhs + rhs"),
    _binary("sub", "tsub", both(ARITHMETIC, frozenset({INT8})), "lhs - rhs"),
    _binary("mul", "tmul", both(ARITHMETIC), "lhs * rhs"),
    _binary("div", "tdiv", both(FLOATS, frozenset({INT16, INT32})), "lhs / rhs"),
    _binary("maximum", "tmax", both(ARITHMETIC, frozenset({INT8})), "max(lhs, rhs)"),
    _binary("minimum", "tmin", both(ARITHMETIC, frozenset({INT8})), "min(lhs, rhs)"),
    _scalar("adds", "tadds", both(ARITHMETIC, frozenset({INT8, BF16})), "src + scalar"),
    _scalar("subs", "tsubs", both(ARITHMETIC, frozenset({INT8, BF16})), "src - scalar"),
    _scalar("muls", "tmuls", both(ARITHMETIC, frozenset({INT8, BF16})), "src * scalar"),
    _scalar("divs", "tdivs", both(ARITHMETIC, frozenset({INT8})), "src / scalar"),
    _scalar("rdivs", "tdivs", both(ARITHMETIC, frozenset({INT8})), "scalar / src", scalar_first=True),
    _scalar("maximums", "tmaxs", both(ARITHMETIC, frozenset({INT8, BF16})), "max(src, scalar)"),
    _scalar("minimums", "tmins", both(ARITHMETIC, frozenset({INT8, BF16})), "min(src, scalar)"),
    _unary("neg", both(ARITHMETIC, frozenset({INT8, BF16})), "-src"),
    _unary("abs", both(FLOATS), "|src|"),
    _unary("exp", both(FLOATS), "e ** src"),
    _unary("log", both(FLOATS), "ln(src)"),
    _unary("sqrt", both(FLOATS), "sqrt(src)"),
    _unary("rsqrt", both(FLOATS), "1 / sqrt(src)"),
    _unary("recip", both(FLOATS), "1 / src", inplace=False),
    _unary("relu", both(RELU_TYPES), "max(src, 0)"),
    # One type of tile for both operands and the result (pto-isa, TAND and TOR).
    _binary("and_", "tand", both(INTEGERS), "lhs & rhs", alike=("lhs", "rhs")),
    _binary("or_", "tor", both(INTEGERS), "lhs | rhs", alike=("lhs", "rhs")),
    _binary("xor", "txor", both(frozenset({INT8, INT16}), frozenset({INT32})), "lhs ^ rhs", scratch=True),
    _binary("shl", "tshl", both(INTEGERS), "lhs << rhs"),
    _binary("shr", "tshr", both(INTEGERS), "lhs >> rhs"),
    # These write the scalar to the result before they read the source (pto-isa, TANDS, TORS and TXORS).
    _scalar("ands", "tands", _SHORT_INTEGERS, "src & scalar", inplace=False),
    _scalar("ors", "tors", _SHORT_INTEGERS, "src | scalar", inplace=False),
    _scalar("xors", "txors", _SHORT_INTEGERS, "src ^ scalar", scratch=True, inplace=False),
    _scalar("shls", "tshls", both(INTEGERS), "src << scalar"),
    _scalar("shrs", "tshrs", both(frozenset({INT16, INT32}), frozenset({INT8})), "src >> scalar"),
    Operator(
        "not_",
        (Operand("src"),),
        "elementwise",
        Instruction("tnot", ("src",)),
        both(frozenset({INT16}), frozenset({INT8, INT32})),
        "Element by element: every bit the other way round.",
        "~src",
    ),
    Operator(
        "cast",
        (Operand("src"),),
        "cast",
        Instruction(
            "tcvt",
            ("src",),
            inplace=False,
            attributes=(AssemblyAttribute("mode", "rmode", "#pto<round_mode {value}>", "rint"),),
            optional_scratch=True,
            saturates=True,
            alike=("src",),
        ),
        both(ALL_DTYPES),
        "The value in another dtype, by one of seven rounding modes.",
        "dtype(src)",
        attributes=_ROUND,
    ),
    _row_reduction("row_sum", "the sum"),
    _row_reduction("row_max", "the largest element"),
    _row_reduction("row_min", "the smallest element"),
    _row_reduction("row_prod", "the product"),
    _column_reduction("col_sum", "the sum"),
    _column_reduction("col_max", "the largest element"),
    _column_reduction("col_min", "the smallest element"),
    _column_reduction("col_prod", "the product"),
    _place("row", "argmax", both(ARITHMETIC), "where the largest element is"),
    _place("row", "argmin", both(ARITHMETIC), "where the smallest element is"),
    _place("col", "argmax", both(FLOATS), "where the largest element is"),
    _place("col", "argmin", both(FLOATS), "where the smallest element is"),
    Operator(
        "row_expand",
        (Operand("target"), Operand("vector")),
        "row_expand",
        Instruction("trowexpand", ("vector",), inplace=False),
        both(ARITHMETIC),
        "A ``[M, 1]`` vector spread over the shape of ``target``.",
        "vector",
    ),
    Operator(
        "col_expand",
        (Operand("target"), Operand("vector")),
        "col_expand",
        Instruction("tcolexpand", ("vector",), inplace=False),
        both(ARITHMETIC),
        "A ``[1, N]`` vector spread over the shape of ``target``.",
        "vector",
    ),
    *(
        _expand("row", name, both(FLOATS if name == "div" else ARITHMETIC), formula)
        for name, formula in _EXPAND_FORMULAS.items()
    ),
    *(
        _expand("col", name, both(FLOATS if name == "div" else ARITHMETIC), formula)
        for name, formula in _EXPAND_FORMULAS.items()
    ),
)
