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
from pypto_jit.dialects.rows import cube, elements, memory, predicates, shape, vector
from pypto_jit.dialects.rows.sets import ARRAY_DTYPES, ATOMICS, COMPARISONS, PAD_VALUES, ROUND_MODES

ROWS: tuple[Operator, ...] = (*memory.ROWS, *elements.ROWS, *vector.ROWS, *predicates.ROWS, *shape.ROWS, *cube.ROWS)
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

__all__ = [
    "ARRAY_DTYPES",
    "ATOMICS",
    "BY_NAME",
    "COMPARISONS",
    "ELEMENT_ROWS",
    "INSTRUCTIONS",
    "PAD_VALUES",
    "ROUND_MODES",
    "ROWS",
    "AssemblyAttribute",
    "Attribute",
    "Instruction",
    "Operand",
    "Operator",
]
