"""Registers the two dialects with MLIR: the operator table becomes IRDL, and IRDL becomes verified operations.

``pypto`` has values: a tile is what an operation returns. ``pto`` is what the machine executes: one operation is one
PTO instruction that writes the tile buffer given as its last operand.
"""

from __future__ import annotations

from functools import cache

from pypto_jit._mlir import ir, irdl
from pypto_jit.dialects.operators import INSTRUCTIONS, ROWS, Operand, Operator

_TYPES = {
    "pypto": {
        "tensor": ("shape", "dtype", "strides"),
        "tile": ("shape", "dtype", "space", "valid"),
        "array": ("size", "dtype"),
    },
    "pto": {
        "ptr": ("dtype",),
        "tensor_view": ("shape", "dtype"),
        "partition_tensor_view": ("shape", "dtype"),
        "tile_buf": ("space", "dtype", "shape", "valid", "layout", "box"),
        "local_array": ("size", "dtype"),
    },
}
# Operations of ``pypto`` that are not operators of the table: name -> (operands, results), each with its constraint.
# ``lowering.passes.outline`` says what those of tasks mean.
_STRUCTURE_OF_VALUES: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    # The extent of a tensor (attribute axis) that is only known at run time.
    "dim": ([("tensor", "base @pypto::@tensor")], [("extent", "is index")]),
    "create_tensor": ([("extents", "variadic is index")], [("tensor", "base @pypto::@tensor")]),
    "view": (
        [("tensor", "base @pypto::@tensor"), ("numbers", "variadic is index")],
        [("view", "base @pypto::@tensor")],
    ),
    # An offset, checked: what is of a size there lies in an extent. Attribute message: of the error where it does not.
    "within": ([("offset", "is index"), ("size", "is index"), ("extent", "is index")], [("checked", "is index")]),
    "submit": ([("dependencies", "variadic is index")], [("task", "is index")]),
    "access": ([("tensor", "base @pypto::@tensor"), ("corners", "variadic is index")], []),
    # One operand each, since those of a variadic one would all have one type.
    "argument": ([("value", "any")], []),
    "call": ([], []),
}
_OPERAND_TYPES = {kind: f"base @pypto::@{kind}" for kind in ("tile", "tensor", "array")}

# Operations of ``pto`` that are not instructions of the table: name -> (operands, results). A trailing * is variadic.
STRUCTURE = {
    "alloc_tile": (("valid*",), ("tile",)),  # dynamic valid extents; attributes addr (bytes), buffer (plan's id)
    "treshape": (("tile", "valid*"), ("view",)),  # the same buffer under another type, before addresses are known
    "make_tensor_view": (("pointer", "shape_and_strides*"), ("view",)),  # attribute layout: "nd" or "dn"
    "partition_view": (("view", "offsets_and_sizes*"), ("partition",)),
    "get_block_idx": ((), ("index",)),
    "get_block_num": ((), ("count",)),
    # Orders reads and writes of single elements of global memory and those of boxes.
    "fence": ((), ()),
    # As in ``pypto``; the CPU checks, and the assembly has the offset itself.
    "within": (("offset", "size", "extent"), ("checked",)),
    # Single elements, at an offset in elements. The bounds are index and extent for each dimension of a tensor, row and
    # column of a tile: what the CPU checks, and the assembly leaves out.
    "load_scalar": (("pointer", "offset", "bounds*"), ("value",)),
    "store_scalar": (("value", "pointer", "offset", "bounds*"), ()),
    "tgetval": (("tile", "offset", "bounds*"), ("value",)),
    "tsetval": (("offset", "value", "tile", "bounds*"), ()),
    "declare_local_array": ((), ("array",)),
    "local_array_get": (("array", "index"), ("value",)),
    "local_array_set": (("array", "index", "value"), ()),
}
# Tensor-level operations of ``pypto``: name -> (operands, whether there is a result). A trailing ? is optional, a
# trailing * any number of indices: the new extents that are only known at run time.
# `pypto_jit.dialects.rules.tensors` gives their results' types.
TENSOR_LEVEL = {
    "map": (("lhs", "rhs?"), True),  # elementwise and broadcasting; attribute row, and those of the table's row
    "select": (("mask", "lhs", "rhs"), True),  # lhs where the mask is not zero, rhs elsewhere; broadcasting
    "reduce": (("source",), True),  # attributes row (sum, max, argmax, ...) and axes
    "cumulate": (("source",), True),  # the sums up to each element; attribute axis
    "product": (("lhs", "rhs"), True),  # attributes a_trans, b_trans
    "fill": (("scalar", "extents*"), True),
    "count": ((), True),  # 0, 1, ... along its only dimension
    # Attributes dims: the source's dimension of each of the result's, or -1; flipped: of the result, those that run
    # from their last element to their first.
    "rearrange": (("source", "extents*"), True),
    "assign": (("value", "tensor"), False),  # writes to memory
}


def _bare(constraint: str) -> str:
    """A constraint without how many times it holds."""
    return constraint.removeprefix("variadic ").removeprefix("optional ")


def _operation(name: str, operands: list[tuple[str, str]], results: list[tuple[str, str]]) -> str:
    lines = [f"  irdl.operation @{name} {{"]
    for kind, entries in (("operands", operands), ("results", results)):
        for k, (_, constraint) in enumerate(entries):
            lines.append(f"    %{kind}{k} = irdl.{_bare(constraint)}")
        if entries:
            counts = [c.removesuffix(_bare(c)) for _, c in entries]
            listed = ", ".join(f"{entry[0]}: {counts[k]}%{kind}{k}" for k, entry in enumerate(entries))
            lines.append(f"    irdl.{kind}({listed})")
    lines.append("  }")
    return "\n".join(lines)


def _value_operand(operand: Operand) -> tuple[str, str]:
    if operand.kind == "indices":
        return operand.name, "variadic is index"
    return operand.name, _OPERAND_TYPES.get(operand.kind, "any")


def _value_operation(row: Operator) -> str:
    result = ("result", _OPERAND_TYPES.get(row.result, "any"))
    return _operation(row.name, [_value_operand(o) for o in row.operands], [result] * row.results)


def _structure_operation(name: str) -> str:
    operands, results = STRUCTURE[name]
    named = [(o.rstrip("*"), "variadic is index" if o.endswith("*") else "any") for o in operands]
    return _operation(name, named, [(r, "any") for r in results])


def _tensor_operation(name: str) -> str:
    operands, has_result = TENSOR_LEVEL[name]
    kinds = {"?": "optional any", "*": "variadic is index"}
    named = [(o.rstrip("?*"), kinds.get(o[-1], "any")) for o in operands]
    return _operation(name, named, [("result", "base @pypto::@tensor")] if has_result else [])


def _instruction_operation(name: str) -> str:
    instruction = INSTRUCTIONS[name][0].instruction
    assert instruction is not None
    return _operation(name, [(o, "any") for o in (*instruction.inputs, "dst")], [])


@cache
def irdl_text() -> str:
    """The IRDL module that defines both dialects."""
    parts = []
    for dialect, types in _TYPES.items():
        parts.append(f"irdl.dialect @{dialect} {{")
        for name, parameters in types.items():
            parts.append(f"  irdl.type @{name} {{")
            parts.extend(f"    %{p} = irdl.any" for p in parameters)
            parts.append("    irdl.parameters(" + ", ".join(f"{p}: %{p}" for p in parameters) + ")\n  }")
        if dialect == "pypto":
            parts.extend(_value_operation(row) for row in ROWS)
            parts.extend(_operation(name, *sides) for name, sides in _STRUCTURE_OF_VALUES.items())
            parts.extend(_tensor_operation(name) for name in TENSOR_LEVEL)
        else:
            parts.extend(_structure_operation(name) for name in STRUCTURE)
            parts.extend(_instruction_operation(name) for name in INSTRUCTIONS)
        parts.append("}")
    return "\n".join(parts) + "\n"


def register(context: ir.Context) -> None:
    """Load both dialects into a context. Takes about a millisecond; once per context."""
    with context, ir.Location.unknown():
        irdl.load_dialects(ir.Module.parse(irdl_text()))  # pyright: ignore[reportAttributeAccessIssue]
