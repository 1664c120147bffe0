"""Code that several places of a module share, as private functions: the same work is compiled once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.emitter import Emitter, Extent

Body = Callable[[Emitter, list[Extent]], None]


def call_shared(e: Emitter, name: str, arguments: Sequence[Extent], body: Body) -> None:
    """Call the function that does what ``body`` emits; the module at the insertion point gets it where it has none yet.

    Args:
        name: tells apart bodies that differ in more than their arguments.
        arguments: addresses and extents. Known extents are compiled into the function and are part of its name; values
            are passed to it.
        body: emits into the function, and gets the known extents as they are and a parameter for each value. It uses no
            other values.
    """
    symbol = "_".join([f"__{name}", *("x" if isinstance(a, ir.Value) else str(a) for a in arguments)])
    passed = [a for a in arguments if not isinstance(a, int)]
    module = module_around()
    if symbol not in ir.SymbolTable(module):
        _define(module, symbol, e, arguments, body)
    e.effect("func.call", *passed, callee=ir.FlatSymbolRefAttr.get(symbol))


def _define(module: ir.Operation, symbol: str, e: Emitter, arguments: Sequence[Extent], body: Body) -> None:
    inputs = [a.type for a in arguments if not isinstance(a, int)]
    function = ir.Operation.create(
        "func.func",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(symbol),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, [])),
            "llvm.linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
        },
        ip=ir.InsertionPoint.at_block_begin(module.regions[0].blocks[0]),
    )
    block = function.regions[0].blocks.append(*inputs)
    with ir.InsertionPoint(block):
        parameters = iter(block.arguments)
        inner = [a if isinstance(a, int) else next(parameters) for a in arguments]
        body(Emitter(module.context, block, e.cpu), inner)
        ir.Operation.create("func.return")


def module_around() -> ir.Operation:
    """The module around the insertion point."""
    operation = ir.InsertionPoint.current.block.owner.operation
    while operation.name != "builtin.module":
        parent = operation.parent
        assert parent is not None, "code outside of a module"
        operation = parent.operation
    return operation
