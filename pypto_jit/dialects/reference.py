"""Prints the reference page of the operators from the table: ``python -m pypto_jit.dialects.reference``."""

from __future__ import annotations

from pypto_jit.dialects.operators import ROWS, Attribute, Operator
from pypto_jit.dtypes import ALL, SCALARS
from pypto_jit.targets import BY_NAME, Target

_GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Memory", ("load", "store", "create_tile", "full", "ci")),
    ("Single elements", ("read", "write", "read_tile", "write_tile", "array_create", "array_get", "array_set")),
    ("Elementwise", ("elementwise", "cast")),
    ("Comparison and selection", ("compare", "select")),
    ("Reductions", ("row_reduction", "column_reduction", "row_index", "column_index")),
    ("Expansion of vectors", ("row_expand", "col_expand")),
    ("Shape", ("reshape", "transpose", "transpose_view", "concat")),
    ("Valid shapes and parts of tiles", ("set_validshape", "fillpad", "extract", "insert")),
    ("Matrices", ("move", "matmul", "matmul_acc", "matmul_bias")),
)
_HEADER = """# Operators

Written by `python -m pypto_jit.dialects.reference` from the operator table (`pypto_jit/dialects/operators.py`).

Elements outside of a tile's valid region are unspecified after every operator. FP16 and BF16 are computed in FP32 and
rounded once per operator; integers wrap; integer division truncates, and by zero it gives 0. A zero that is the largest
or smallest of several elements is positive.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [_HEADER]
    for title, rules in _GROUPS:
        parts.append(f"## {title}\n")
        parts.extend(_section(row) for row in ROWS if row.rule in rules)
    parts.append(_casts())
    return "\n".join(parts)


def signature(row: Operator) -> str:
    """How a row is written in the language, without what only the language adds."""
    arguments = [f"{operand.name}: {operand.kind}" for operand in row.operands]
    arguments.extend(_parameter(attribute) for attribute in row.attributes)
    if row.spelling:
        return row.spelling
    return f"{row.name}({', '.join(arguments)})" + (f" -> {row.result}" if row.results else "")


def _parameter(attribute: Attribute) -> str:
    default = "" if attribute.default is None else f" = {attribute.default!r}"
    return f"{attribute.name}: {attribute.kind}{default}"


def _section(row: Operator) -> str:
    lines = [f"### {row.name}\n", f"`{signature(row)}`\n", f"{row.summary}\n"]
    if row.formula:
        lines.append(f"- one element: `{row.formula}`")
    lines.extend(f"- `{attribute.name}`: {_choices(attribute)}" for attribute in row.attributes if attribute.choices)
    lines.extend(f"- {target}: {_dtypes(row, target)}" for target in row.dtypes)
    lines.append(f"- instruction: {_instruction(row)}\n")
    return "\n".join(lines)


def _choices(attribute: Attribute) -> str:
    return "one of " + ", ".join(f"`{choice}`" for choice in attribute.choices)


def _dtypes(row: Operator, target: str) -> str:
    return ", ".join(dtype.name for dtype in (*ALL, *SCALARS) if dtype in row.dtypes[target])


def _instruction(row: Operator) -> str:
    if row.instruction is None:
        return "none; the compiler places the tile"
    inputs = ", ".join(row.instruction.inputs)
    if row.instruction.form == "element":
        return f"`pto.{row.instruction.mnemonic}`, pipe {row.instruction.pipe}"
    return f"`pto.{row.instruction.mnemonic}` ins({inputs}), pipe {row.instruction.pipe}, core {row.instruction.core}"


def _casts() -> str:
    lines = ["## Conversions\n", "What `cast` converts, by target.\n"]
    for target in BY_NAME.values():
        lines.extend((f"| {target.name} | to |", "| --- | --- |"))
        lines.extend(_conversion(target))
        lines.append("")
    return "\n".join(lines)


def _conversion(target: Target) -> list[str]:
    rows = []
    for source in ALL:
        goals = ", ".join(dtype.name for dtype in ALL if dtype in target.casts.get(source, ()))
        if goals:
            rows.append(f"| {source.name} | {goals} |")
    return rows


if __name__ == "__main__":
    print(page(), end="")
