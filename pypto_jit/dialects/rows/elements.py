"""Rows: single elements of tensors and tiles, and arrays on the core."""

from __future__ import annotations

from pypto_jit.dialects.row import Attribute, Instruction, Operand, Operator
from pypto_jit.dialects.rows.sets import ARRAY_DTYPES, ELEMENTS, STORED, both

ROWS: tuple[Operator, ...] = (
    Operator(
        "read",
        (Operand("tensor", "tensor"), Operand("indices", "indices")),
        "read",
        Instruction("load_scalar", ("pointer", "offset"), pipe="S", core="any", inplace=False, form="element"),
        both(STORED),
        "One element of a tensor in global memory, as a scalar.",
        "tensor[indices]",
        result="scalar",
        spelling="pl.read(tensor, indices), tensor[i, j]",
    ),
    Operator(
        "write",
        (Operand("scalar", "scalar"), Operand("tensor", "tensor"), Operand("indices", "indices")),
        "write",
        Instruction(
            "store_scalar", ("scalar", "pointer", "offset"), pipe="S", core="any", inplace=False, form="element"
        ),
        both(STORED),
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
        both(ELEMENTS),
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
        both(ELEMENTS),
        "The tile with another value for one valid element.",
        spelling="tile = pl.write(tile, indices, scalar)",
    ),
    Operator(
        "array_create",
        (),
        "array_create",
        Instruction("declare_local_array", (), pipe="S", core="any", inplace=False, form="element"),
        both(ARRAY_DTYPES),
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
        both(ARRAY_DTYPES),
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
        Instruction(
            "local_array_set", ("array", "index", "scalar"), pipe="S", core="any", inplace=False, form="element"
        ),
        both(ARRAY_DTYPES),
        "One element of an array becomes a scalar.",
        "array[index] = scalar",
        results=0,
        pure=False,
        spelling="array[i] = scalar",
    ),
)
