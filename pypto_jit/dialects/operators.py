"""The operator table: every operator of the language, once, as data.

A row says what the language calls the operator, what operands and attributes it takes, which rule gives its result
type, which dtypes each target's instruction takes, and which PTO instruction it becomes in which assembly form. From a
row come the language function, its checks, the IRDL definition of both dialect operations, the verifier, the assembly
printer and parser, the property tests and the reference page. What an operator *means* registers under the row's name
elsewhere: in NumPy in `pypto_jit.dialects.interpreter`, on the CPU in `pypto_jit.lowering.cpu`; a test joins the three.

Sources of the dtype sets and operand orders: the public pto-isa and ptoas v0.57 documentation and verifier.
"""

from __future__ import annotations

from pypto_jit.dialects.row import AssemblyAttribute, Attribute, Instruction, Operand, Operator
from pypto_jit.dtypes import (
    BF16,
    BOOL,
    FP16,
    FP32,
    INDEX,
    INT8,
    INT16,
    INT32,
    INT64,
    TASK_ID,
    UINT8,
    UINT16,
    UINT32,
    DType,
)

ARITHMETIC = frozenset({INT32, INT16, FP16, FP32})
FLOATS = frozenset({FP16, FP32})
RELU_TYPES = frozenset({INT32, FP16, FP32})
ALL_DTYPES = frozenset({FP32, FP16, BF16, INT32, INT16, INT8, UINT8})
# What memory holds: it may be moved between global memory and Vec, and its elements read and written one by one.
STORED = ALL_DTYPES | {INT64, UINT32, UINT16}
# What tgetval and tsetval take (ptoas): the signed integers and floats.
ELEMENTS = frozenset({FP32, FP16, BF16, INT64, INT32, INT16, INT8})
ARRAY_DTYPES = frozenset({INT64, INT32, INT16, INT8, BOOL, INDEX, TASK_ID})
CUBE_INPUTS = frozenset({FP32, FP16, BF16, INT8})

ROUND_MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")


def _both(dtypes: frozenset[DType], a5: frozenset[DType] = frozenset()) -> dict[str, frozenset[DType]]:
    return {"a2a3": dtypes, "a5": dtypes | a5}


def _binary(name: str, mnemonic: str, dtypes: dict[str, frozenset[DType]], formula: str) -> Operator:
    return Operator(
        name,
        (Operand("lhs"), Operand("rhs")),
        "elementwise",
        Instruction(mnemonic, ("lhs", "rhs")),
        dtypes,
        f"Element by element: {formula}. Both tiles have the same shape, dtype and valid region.",
        formula,
    )


def _scalar(
    name: str, mnemonic: str, dtypes: dict[str, frozenset[DType]], formula: str, *, scalar_first: bool = False
) -> Operator:
    inputs = ("scalar", "src") if scalar_first else ("src", "scalar")
    return Operator(
        name,
        (Operand("src"), Operand("scalar", "scalar")),
        "elementwise",
        Instruction(mnemonic, inputs),
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
        _both(ARITHMETIC),
        f"Along each row of the valid region: {formula}; ``[M, N]`` gives ``[M, 1]``.",
        formula,
    )


def _column_reduction(name: str, formula: str) -> Operator:
    return Operator(
        name,
        (Operand("src"),),
        "column_reduction",
        Instruction("t" + name.replace("_", ""), ("src",), inplace=False, optional_scratch=name == "col_sum"),
        _both(ARITHMETIC, frozenset({BF16, INT8}) if name != "col_sum" else frozenset()),
        f"Along each column of the valid region: {formula}; ``[M, N]`` gives ``[1, N]``.",
        formula,
    )


def _expand(axis: str, name: str, dtypes: dict[str, frozenset[DType]], formula: str) -> Operator:
    vector = "[M, 1]" if axis == "row" else "[1, N]"
    return Operator(
        f"{axis}_expand_{name}",
        (Operand("src"), Operand("vector")),
        f"{axis}_expand",
        Instruction(f"t{axis}expand{name}", ("src", "vector"), optional_scratch=axis == "row"),
        dtypes,
        f"A ``[M, N]`` tile with a ``{vector}`` vector spread over it: {formula}.",
        formula,
    )


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
        "load",
        (Operand("tensor", "tensor"), Operand("box", "indices")),
        "load",
        Instruction("tload", ("partition",), pipe="MTE2", core="any", inplace=False),
        _both(STORED),
        "A box of a tensor in global memory becomes a tile in Vec or Mat. ``box`` is offsets, then the valid shape.",
        pure=True,
    ),
    Operator(
        "store",
        (Operand("src"), Operand("tensor", "tensor"), Operand("offsets", "indices")),
        "store",
        Instruction("tstore", ("src",), pipe="MTE3", core="any", inplace=False),
        _both(STORED),
        "The valid region of a tile is written to a tensor in global memory.",
        results=0,
        pure=False,
    ),
    Operator(
        "read",
        (Operand("tensor", "tensor"), Operand("indices", "indices")),
        "read",
        Instruction("load_scalar", ("pointer", "offset"), pipe="S", core="any", inplace=False, form="element"),
        _both(STORED),
        "One element of a tensor in global memory, as a scalar.",
        "tensor[indices]",
        result="scalar",
        spelling="pl.read(tensor, indices), tensor[i, j]",
    ),
    Operator(
        "write",
        (Operand("scalar", "scalar"), Operand("tensor", "tensor"), Operand("indices", "indices")),
        "write",
        Instruction("store_scalar", ("scalar", "pointer", "offset"), pipe="S", core="any", inplace=False, form="element"),
        _both(STORED),
        "One element of a tensor in global memory becomes a scalar.",
        "tensor[indices] = scalar",
        results=0,
        pure=False,
        spelling="pl.write(tensor, indices, scalar), tensor[i, j] = scalar",
    ),
    Operator(
        "read_tile",
        (Operand("src"), Operand("indices", "indices")),
        "read_tile",
        Instruction("tgetval", ("src", "offset"), pipe="S", inplace=False, form="element"),
        _both(ELEMENTS),
        "One valid element of a tile, as a scalar.",
        "src[indices]",
        result="scalar",
        spelling="pl.read(tile, indices), tile[i, j]",
    ),
    Operator(
        "write_tile",
        (Operand("src"), Operand("scalar", "scalar"), Operand("indices", "indices")),
        "write_tile",
        Instruction("tsetval", ("offset", "scalar"), pipe="S", inplace=False, form="element", updates=True),
        _both(ELEMENTS),
        "The tile with another value for one valid element.",
        spelling="tile = pl.write(tile, indices, scalar)",
    ),
    Operator(
        "array_create",
        (),
        "array_create",
        Instruction("declare_local_array", (), pipe="S", core="any", inplace=False, form="element"),
        _both(ARRAY_DTYPES),
        "A few scalars on the core, zero at first; those of a TASK_ID array are no task.",
        attributes=(Attribute("fill", "int", "0"),),
        result="array",
        spelling="pl.array.create(size, dtype)",
    ),
    Operator(
        "array_get",
        (Operand("array", "array"), Operand("indices", "indices")),
        "array_get",
        Instruction("local_array_get", ("array", "index"), pipe="S", core="any", inplace=False, form="element"),
        _both(ARRAY_DTYPES),
        "One element of an array, as a scalar.",
        "array[index]",
        result="scalar",
        pure=False,
        spelling="array[i]",
    ),
    Operator(
        "array_set",
        (Operand("scalar", "scalar"), Operand("array", "array"), Operand("indices", "indices")),
        "array_set",
        Instruction("local_array_set", ("array", "index", "scalar"), pipe="S", core="any", inplace=False, form="element"),
        _both(ARRAY_DTYPES),
        "One element of an array becomes a scalar.",
        "array[index] = scalar",
        results=0,
        pure=False,
        spelling="array[i] = scalar",
    ),
    Operator(
        "create_tile",
        (),
        "create_tile",
        None,
        _both(ALL_DTYPES),
        "A tile with undefined contents.",
    ),
    Operator(
        "full",
        (Operand("scalar", "scalar"),),
        "full",
        Instruction("texpands", ("scalar",)),
        _both(ARITHMETIC, frozenset({BF16, INT8})),
        "A tile filled with one value.",
        "scalar",
    ),
    _binary("add", "tadd", _both(ARITHMETIC, frozenset({INT8, BF16})), "lhs + rhs"),
    _binary("sub", "tsub", _both(ARITHMETIC, frozenset({INT8})), "lhs - rhs"),
    _binary("mul", "tmul", _both(ARITHMETIC), "lhs * rhs"),
    _binary("div", "tdiv", _both(FLOATS, frozenset({INT16, INT32})), "lhs / rhs"),
    _binary("maximum", "tmax", _both(ARITHMETIC, frozenset({INT8})), "max(lhs, rhs)"),
    _binary("minimum", "tmin", _both(ARITHMETIC, frozenset({INT8})), "min(lhs, rhs)"),
    _scalar("adds", "tadds", _both(ARITHMETIC, frozenset({INT8, BF16})), "src + scalar"),
    _scalar("subs", "tsubs", _both(ARITHMETIC, frozenset({INT8, BF16})), "src - scalar"),
    _scalar("muls", "tmuls", _both(ARITHMETIC, frozenset({INT8, BF16})), "src * scalar"),
    _scalar("divs", "tdivs", _both(ARITHMETIC, frozenset({INT8})), "src / scalar"),
    _scalar("rdivs", "tdivs", _both(ARITHMETIC, frozenset({INT8})), "scalar / src", scalar_first=True),
    _scalar("maximums", "tmaxs", _both(ARITHMETIC, frozenset({INT8, BF16})), "max(src, scalar)"),
    _scalar("minimums", "tmins", _both(ARITHMETIC, frozenset({INT8, BF16})), "min(src, scalar)"),
    _unary("neg", _both(ARITHMETIC, frozenset({INT8, BF16})), "-src"),
    _unary("abs", _both(FLOATS), "|src|"),
    _unary("exp", _both(FLOATS), "e ** src"),
    _unary("log", _both(FLOATS), "ln(src)"),
    _unary("sqrt", _both(FLOATS), "sqrt(src)"),
    _unary("rsqrt", _both(FLOATS), "1 / sqrt(src)"),
    _unary("recip", _both(FLOATS), "1 / src", inplace=False),
    _unary("relu", _both(RELU_TYPES), "max(src, 0)"),
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
        ),
        _both(ALL_DTYPES),
        "The value in another dtype, by one of seven rounding modes.",
        "dtype(src)",
        attributes=_ROUND,
    ),
    _row_reduction("row_sum", "the sum"),
    _row_reduction("row_max", "the largest element"),
    _row_reduction("row_min", "the smallest element"),
    _column_reduction("col_sum", "the sum"),
    _column_reduction("col_max", "the largest element"),
    _column_reduction("col_min", "the smallest element"),
    Operator(
        "row_expand",
        (Operand("target"), Operand("vector")),
        "row_expand",
        Instruction("trowexpand", ("vector",), inplace=False),
        _both(ARITHMETIC),
        "A ``[M, 1]`` vector spread over the shape of ``target``.",
        "vector",
    ),
    Operator(
        "col_expand",
        (Operand("target"), Operand("vector")),
        "col_expand",
        Instruction("tcolexpand", ("vector",), inplace=False),
        _both(ARITHMETIC),
        "A ``[1, N]`` vector spread over the shape of ``target``.",
        "vector",
    ),
    *(
        _expand("row", name, _both(FLOATS if name == "div" else ARITHMETIC), formula)
        for name, formula in _EXPAND_FORMULAS.items()
    ),
    *(
        _expand("col", name, _both(FLOATS if name == "div" else ARITHMETIC), formula)
        for name, formula in _EXPAND_FORMULAS.items()
    ),
    Operator(
        "reshape",
        (Operand("src"),),
        "reshape",
        None,
        _both(ALL_DTYPES),
        "The same elements in row-major order under another shape.",
    ),
    Operator(
        "transpose",
        (Operand("src"),),
        "transpose",
        Instruction("ttrans", ("src", "tmp"), inplace=False),
        _both(ALL_DTYPES),
        "Rows become columns: ``[M, N]`` gives ``[N, M]``.",
        "src.T",
    ),
    Operator(
        "transpose_view",
        (Operand("src"),),
        "transpose_view",
        None,
        _both(CUBE_INPUTS),
        "A Mat tile seen as its transpose, without moving it: how ``B.T`` reaches the cube.",
        "src.T",
    ),
    Operator(
        "concat",
        (Operand("lhs"), Operand("rhs")),
        "concat",
        Instruction("tconcat", ("lhs", "rhs"), inplace=False),
        _both(ALL_DTYPES),
        "Two tiles side by side: ``[M, A]`` and ``[M, B]`` give ``[M, A + B]``.",
    ),
    Operator(
        "move",
        (Operand("src"),),
        "move",
        Instruction("tmov", ("src",), pipe="MTE1", core="any", inplace=False),
        _both(ALL_DTYPES),
        "The tile in another memory.",
        "src",
    ),
    Operator(
        "matmul",
        (Operand("lhs"), Operand("rhs")),
        "matmul",
        Instruction("tmatmul", ("lhs", "rhs"), pipe="M", core="cube", inplace=False),
        _both(CUBE_INPUTS),
        "``[M, K] @ [K, N]`` in FP32 (INT32 for INT8).",
        "lhs @ rhs",
    ),
    Operator(
        "matmul_acc",
        (Operand("acc"), Operand("lhs"), Operand("rhs")),
        "matmul_acc",
        Instruction("tmatmul.acc", ("acc", "lhs", "rhs"), pipe="M", core="cube", tied="acc", inplace=False),
        _both(frozenset({FP32, INT32})),
        "``acc + [M, K] @ [K, N]`` in the accumulator's dtype.",
        "acc + lhs @ rhs",
    ),
    Operator(
        "matmul_bias",
        (Operand("lhs"), Operand("rhs"), Operand("bias")),
        "matmul_bias",
        Instruction("tmatmul.bias", ("lhs", "rhs", "bias"), pipe="M", core="cube", inplace=False),
        _both(CUBE_INPUTS),
        "``[M, K] @ [K, N] + bias`` with a ``[1, N]`` bias of the accumulator's dtype.",
        "lhs @ rhs + bias",
    ),
)

BY_NAME: dict[str, Operator] = {row.name: row for row in ROWS}
# Two rows may share an instruction (``divs`` and ``rdivs`` are both tdivs, told apart by which operand comes first).
INSTRUCTIONS: dict[str, tuple[Operator, ...]] = {}
# Operations of the ``pto`` dialect that read or write single elements.
ELEMENT_ROWS: dict[str, Operator] = {}
for _row in ROWS:
    if _row.instruction is not None and _row.instruction.form == "element":
        ELEMENT_ROWS[_row.instruction.operation] = _row
    elif _row.instruction is not None:
        INSTRUCTIONS[_row.instruction.operation] = (*INSTRUCTIONS.get(_row.instruction.operation, ()), _row)
