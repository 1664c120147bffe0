"""From a planned module to the LLVM IR of its kernels and of the entry that launches them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pypto_jit._mlir import ir
from pypto_jit.errors import Span
from pypto_jit.frontend.trace import Traced
from pypto_jit.lowering.aliasing import safe_in_place
from pypto_jit.lowering.cpu.chains import Chain, Share, find_chains
from pypto_jit.lowering.cpu.codegen import to_llvm_ir
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.entry import EntryTensor, Host, Launch, Operand, entry_text
from pypto_jit.lowering.cpu.entry_scalars import llvm_type
from pypto_jit.lowering.cpu.kernel import lower_to_cpu
from pypto_jit.lowering.cpu.tasks.calls import Argument
from pypto_jit.lowering.cpu.tasks.module import find_host, lower_tasks
from pypto_jit.signature import Constant, ScalarSpec, TensorSpec

# Kernel symbols are set apart from those of libraries: a kernel may be called exp, or free.
_SYMBOL_PREFIX = "kernel."


def _functions(module: ir.Module) -> list[ir.Operation]:
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def in_place_pairs(traced: Traced) -> frozenset[tuple[int, int]]:
    """Pairs of an input and an output, by their places among the tensors, that may be the same tensor."""
    functions = _functions(traced.module)
    if len(functions) != 1:
        return frozenset()
    # Positions among all arguments, as those among the tensors.
    given = [info for info in traced.parameters if not isinstance(info.spec, Constant)]
    tensors = [k for k, info in enumerate(given) if isinstance(info.spec, TensorSpec)]
    return frozenset((tensors.index(a), tensors.index(b)) for a, b in safe_in_place(functions[0]))


def native_text(
    traced: Traced, in_place: frozenset[tuple[int, int]]
) -> tuple[str, list[Launch], tuple[tuple[Span | None, str], ...]]:
    """LLVM IR of the kernels and their entry; consumes the module.

    Args:
        traced: a planned module, and what a call of it takes.
        in_place: from `in_place_pairs`, of the module as traced.

    Returns:
        The text, what the entry launches, and what a status of 1, 2, ... means.
    """
    tensors = [info for info in traced.parameters if isinstance(info.spec, TensorSpec)]
    scalars = {info.name: info.spec for info in traced.parameters if isinstance(info.spec, ScalarSpec)}
    names = [info.name for info in tensors]
    entry_tensors = [
        EntryTensor(info.spec, info.direction != "in", frozenset(b for a, b in in_place if a == k))
        for k, info in enumerate(tensors)
        if isinstance(info.spec, TensorSpec)
    ]
    host = find_host(traced.module.operation)
    if host is not None:
        # Tasks are ordered by the tensors that they name, not by where those lie.
        entry_tensors = [replace(tensor, in_place=frozenset()) for tensor in entry_tensors]
        return _llvm_of_tasks(traced.module, host, entry_tensors, names, scalars)
    chains = find_chains(_functions(traced.module))
    planned = [[_operands(f, names, scalars, chain.shares) for f in chain.functions] for chain in chains]
    workspaces = _workspaces([each for given in planned for each in given])
    checks = lower_to_cpu(traced.module, host_cpu()).checks
    launches = [_launch(chain, [operands for operands, _ in each]) for chain, each in zip(chains, planned, strict=True)]
    text = to_llvm_ir(traced.module) + entry_text(entry_tensors, launches, workspaces, scalars=list(scalars.values()))
    return text, launches, checks


def _llvm_of_tasks(
    module: ir.Module,
    host: ir.Operation,
    tensors: list[EntryTensor],
    names: list[str],
    scalars: Mapping[str, ScalarSpec],
) -> tuple[str, list[Launch], tuple[tuple[Span | None, str], ...]]:
    """As `native_text`, of a host function and the kernels it calls: to the entry it is the only launch."""
    lowered = lower_tasks(module, host, host_cpu(), _SYMBOL_PREFIX)
    operands = tuple(_host_operand(argument, names, scalars) for argument in lowered.host.arguments)
    entry = Host(lowered.host.symbol, operands, lowered.kernels, lowered.host.table)
    launch = Launch(lowered.host.symbol, operands, 0, -1, lowered.work)
    text = lowered.text + entry_text(tensors, [], host=entry, scalars=list(scalars.values()))
    return text, [launch], lowered.checks


def _host_operand(argument: Argument, names: list[str], scalars: Mapping[str, ScalarSpec]) -> Operand:
    if argument.kind == "scalar":
        return _scalar_operand(argument.name, scalars)
    kind = {"argument": "data", "dim": "extent"}.get(argument.kind, argument.kind)
    return Operand(kind, names.index(argument.name), argument.number)


def _scalar_operand(name: str, scalars: Mapping[str, ScalarSpec]) -> Operand:
    return Operand("scalar", list(scalars).index(name), type=llvm_type(scalars[name].dtype))


def _operands(
    function: ir.Operation, names: list[str], scalars: Mapping[str, ScalarSpec], shares: Mapping[int, Share]
) -> tuple[tuple[Operand, ...], list[int]]:
    """What each argument of a planned function is, and the bytes of its workspaces."""
    operands: list[Operand] = []
    sizes: list[int] = []
    for attributes in ir.ArrayAttr(function.attributes["arg_attrs"]):
        known = {named.name: named.attr for named in ir.DictAttr(attributes)}
        if "pypto.argument" in known:
            operands.append(Operand("data", names.index(ir.StringAttr(known["pypto.argument"]).value)))
        elif "pypto.scalar" in known:
            operands.append(_scalar_operand(ir.StringAttr(known["pypto.scalar"]).value, scalars))
        elif "pypto.workspace" in known:
            operands.append(Operand("workspace", len(sizes), share=shares.get(len(sizes))))
            sizes.append(ir.IntegerAttr(known["pypto.workspace"]).value)
        else:
            kind = "extent" if "pypto.dim" in known else "stride"
            name, axis = ir.ArrayAttr(known["pypto.dim" if kind == "extent" else "pypto.stride"])
            operands.append(Operand(kind, names.index(ir.StringAttr(name).value), ir.IntegerAttr(axis).value))
    return tuple(operands), sizes


def _workspaces(planned: list[tuple[tuple[Operand, ...], list[int]]]) -> list[int]:
    """Bytes of each workspace for a whole call, 0 where all functions have a share of it."""
    whole = {
        operand.index
        for operands, _ in planned
        for operand in operands
        if operand.kind == "workspace" and operand.share is None
    }
    return [
        size if k in whole else 0 for k, size in enumerate(max((sizes for _, sizes in planned), key=len, default=[]))
    ]


def _launch(chain: Chain, operands: list[tuple[Operand, ...]]) -> Launch:
    symbols, numbers = [], []
    for function in chain.functions:
        attributes = function.attributes
        symbol = _SYMBOL_PREFIX + ir.StringAttr(attributes["sym_name"]).value
        attributes["sym_name"] = ir.StringAttr.get(symbol, context=function.context)
        symbols.append(symbol)
        numbers.append([ir.IntegerAttr(attributes[f"pypto.{key}"]).value for key in ("arena", "trips", "work")])
    arenas, trips, works = zip(*numbers, strict=True)
    (symbol, first), *following = zip(symbols, operands, strict=True)
    work = -1 if min(works) < 0 else sum(works)
    return Launch(symbol, first, max(arenas), trips[0], work, tuple(following))
