"""Shape, valid-shape, dtype and space rules: from a row's operands to its result type, or to an error.

The rules run twice: while tracing, where an error points at the line being traced, and in the verifier after each pass.
They know nothing of MLIR. An error carries no span; the caller adds it.

What they do with valid regions is stated in ``docs/valid_shapes.md``.
"""

from __future__ import annotations

from pypto_jit.dialects.operators import Operator
from pypto_jit.dialects.rules import cube, elements, memory, parts, predicates, shape, vector
from pypto_jit.dialects.rules.common import RULES, Attributes, Operands, Result, check_dtype
from pypto_jit.dialects.rules.cube import matmul_dtype
from pypto_jit.targets import Target

__all__ = [
    "RULES",
    "Attributes",
    "Operands",
    "Result",
    "check_dtype",
    "cube",
    "elements",
    "matmul_dtype",
    "memory",
    "parts",
    "predicates",
    "result_type",
    "shape",
    "vector",
]


def result_type(row: Operator, operands: Operands, attributes: Attributes, target: Target) -> Result:
    """The type of the result of an operator: a dtype for a scalar, None for an operator without one.

    Args:
        row: the operator.
        operands: one type per operand of the row; a scalar is given by its dtype, indices are left out.
        attributes: the row's attributes, and for operators that make a tile ``shape``, ``dtype``, ``space``, ``valid``.
        target: the machine whose dtype sets, casts and moves hold.

    Raises:
        DTypeError, ShapeError, LayoutError: the operands do not fit; the error has no span yet.
    """
    return RULES[row.rule](row, operands, attributes, target)
