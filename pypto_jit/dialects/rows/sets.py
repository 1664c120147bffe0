"""Sets of dtypes that several rows share.

Sources: the public pto-isa and ptoas v0.57 documentation and verifier.
"""

from __future__ import annotations

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
INTEGERS = frozenset({INT32, INT16, INT8})
FLOATS = frozenset({FP16, FP32})
RELU_TYPES = frozenset({INT32, FP16, FP32})
ALL_DTYPES = frozenset({FP32, FP16, BF16, INT32, INT16, INT8, UINT8})
# What memory holds: it may be moved between global memory and Vec, and its elements read and written one by one.
STORED = ALL_DTYPES | {INT64, UINT32, UINT16}
# What tgetval and tsetval take (ptoas): the signed integers and floats.
ELEMENTS = frozenset({FP32, FP16, BF16, INT64, INT32, INT16, INT8})
ARRAY_DTYPES = frozenset({INT64, INT32, INT16, INT8, BOOL, INDEX, TASK_ID})
CUBE_INPUTS = frozenset({FP32, FP16, BF16, INT8})

# In the order of the machine's codes, which start at 1 (pto-isa, PadValue).
PAD_VALUES = ("zero", "max", "min")
ATOMICS = ("none", "add")
# In the order of PyPTO's codes.
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ROUND_MODES = ("none", "rint", "round", "floor", "ceil", "trunc", "odd")


def both(dtypes: frozenset[DType], a5: frozenset[DType] = frozenset()) -> dict[str, frozenset[DType]]:
    """What both targets take, and what only the newer one takes besides."""
    return {"a2a3": dtypes, "a5": dtypes | a5}
