"""Reading attributes of operations as Python values."""

from __future__ import annotations

from collections.abc import Sequence

from pypto_jit._mlir import ir

# On a function that was cut from another one: the name of the kernel that it is of. Where there is a host function it
# stays; else it goes when the functions get their final names.
KERNEL = "pypto.kernel"
# On a function that was cut from another one: the name of that, where a block of a later part needs nothing of earlier
# parts but what the same block of them left, and the numbers of the workspaces it lies in.
STAGED, HANDED = "pypto.staged", "pypto.handed"
# On a pointer: extents and strides of the tensor, where it is accessed in other shapes too.
TENSOR = "pypto.tensor"
# On a call of a kernel that comes as assembly: its text. Beside it are the file, the core, and the parameters.
EXTERN = "extern"
# On a loop: how many of its turns may overlap.
STAGES = "pypto.stages"
# On a function that calls kernels, and is none.
HOST = "pypto.host"


def text(op: ir.Operation, name: str) -> str | None:
    """A string attribute; None where there is none of the name."""
    attributes = op.attributes
    return ir.StringAttr(attributes[name]).value if name in attributes else None


def symbol(function: ir.Operation) -> str:
    """The name of a function."""
    return ir.StringAttr(function.attributes["sym_name"]).value


def number(op: ir.Operation, name: str) -> int | None:
    """An integer attribute; None where there is none of the name."""
    attributes = op.attributes
    return ir.IntegerAttr(attributes[name]).value if name in attributes else None


def numbers(op: ir.Operation, name: str) -> tuple[int, ...] | None:
    """An array of integers; None where there is none of the name."""
    attributes = op.attributes
    return tuple(ir.DenseI64ArrayAttr(attributes[name])) if name in attributes else None


def parameters(function: ir.Operation) -> list[str]:
    """The names of a kernel's tensor parameters."""
    return [ir.StringAttr(name).value for name in ir.ArrayAttr(function.attributes["pypto.parameters"])]


def described_arguments(function: ir.Operation, count: int) -> list[ir.DictAttr]:
    """The attributes of a function's arguments, empty ones where it has none."""
    attributes = function.attributes
    if "arg_attrs" not in attributes:
        return [ir.DictAttr.get({})] * count
    return [ir.DictAttr(described) for described in ir.ArrayAttr(attributes["arg_attrs"])]


def set_arguments(function: ir.Operation, described: Sequence[ir.DictAttr]) -> None:
    """Give a function the type of its block's arguments, and these attributes of them."""
    kinds = [argument.type for argument in function.regions[0].blocks[0].arguments]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(list(described))
