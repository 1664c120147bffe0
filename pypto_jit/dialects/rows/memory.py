"""Rows: loads, stores, and tiles without contents."""

from __future__ import annotations

from pypto_jit.dialects.row import AssemblyAttribute, Attribute, Instruction, Operand, Operator
from pypto_jit.dialects.rows.sets import ALL_DTYPES, ATOMICS, STORED, both

ROWS: tuple[Operator, ...] = (
    Operator(
        "load",
        (Operand("tensor", "tensor"), Operand("box", "indices")),
        "load",
        Instruction("tload", ("partition",), pipe="MTE2", core="any", inplace=False),
        both(STORED),
        "A box of a tensor in global memory becomes a tile in Vec or Mat. ``box`` is offsets, then the valid shape.",
        pure=True,
    ),
    Operator(
        "store",
        (Operand("src"), Operand("tensor", "tensor"), Operand("offsets", "indices")),
        "store",
        Instruction(
            "tstore",
            ("src",),
            pipe="MTE3",
            core="any",
            inplace=False,
            attributes=(
                AssemblyAttribute("atomic", "atomicType", "#pto<atomic_type atomic_{lower}>", "none", trailing=True),
            ),
        ),
        both(STORED),
        "The valid region of a tile is written to a tensor in global memory, or added to what is there.",
        attributes=(Attribute("atomic", "str", "none", ATOMICS),),
        results=0,
        pure=False,
    ),
    Operator(
        "create_tile",
        (),
        "create_tile",
        None,
        both(ALL_DTYPES),
        "A tile with undefined contents.",
    ),
)
