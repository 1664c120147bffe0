"""From a planned ``pto`` module to functions that the CPU runs, in the module itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto_jit._mlir import ir
from pypto_jit.errors import InternalError
from pypto_jit.lowering.attributes import HOST, described_arguments, number, set_arguments
from pypto_jit.lowering.context import type_table
from pypto_jit.lowering.cpu import cube
from pypto_jit.lowering.cpu.agreement import check_agreement
from pypto_jit.lowering.cpu.description import CpuDescription
from pypto_jit.lowering.cpu.emitter import Emitter
from pypto_jit.lowering.cpu.frame import Check, Frame
from pypto_jit.lowering.cpu.fusion import MOST_STEPS, is_fusible
from pypto_jit.lowering.cpu.joined import Joined, find_joined
from pypto_jit.lowering.cpu.layout import emit_concat, emit_transpose
from pypto_jit.lowering.cpu.liveness import Live, live_after
from pypto_jit.lowering.cpu.nest import emit_group
from pypto_jit.lowering.cpu.numbering import emit_numbers
from pypto_jit.lowering.cpu.parts import check_limits, emit_extract, emit_fillpad, emit_insert
from pypto_jit.lowering.cpu.positions import emit_column_position, emit_row_position
from pypto_jit.lowering.cpu.predicates import emit_compare, emit_select
from pypto_jit.lowering.cpu.program import Block, Instruction, Nested, Program
from pypto_jit.lowering.cpu.ranges import Ranges
from pypto_jit.lowering.cpu.reduce import emit_column_reduction, emit_streamed_reduction
from pypto_jit.lowering.cpu.schedule import longest_group
from pypto_jit.lowering.cpu.single import ELEMENT_NAMES, emit_element
from pypto_jit.lowering.cpu.staging import Staging, find_staging
from pypto_jit.lowering.cpu.streams import Streams, find_streams
from pypto_jit.lowering.cpu.transfer import emit_transfer
from pypto_jit.lowering.cpu.within import check_offset, drop_certain
from pypto_jit.lowering.cpu.work import estimate, estimate_block
from pypto_jit.lowering.spans import span_of
from pypto_jit.lowering.tree import functions
from pypto_jit.lowering.types import TypeTable

# Instructions that are no part of a nest, by row: each is emitted on its own.
ALONE: dict[str, Callable[[Frame, Instruction], None]] = {
    "load": emit_transfer,
    "store": emit_transfer,
    "move": cube.emit_move,
    "matmul": cube.emit_product,
    "matmul_acc": cube.emit_product,
    "matmul_bias": cube.emit_product,
    "col_sum": emit_column_reduction,
    "col_max": emit_column_reduction,
    "col_min": emit_column_reduction,
    "col_prod": emit_column_reduction,
    "row_argmax": emit_row_position,
    "row_argmin": emit_row_position,
    "col_argmax": emit_column_position,
    "col_argmin": emit_column_position,
    "transpose": emit_transpose,
    "concat": emit_concat,
    "ci": emit_numbers,
    "cmp": emit_compare,
    "cmps": emit_compare,
    "sel": emit_select,
    "sels": emit_select,
    "fillpad": emit_fillpad,
    "extract": emit_extract,
    "insert": emit_insert,
    **dict.fromkeys(ELEMENT_NAMES, emit_element),
}


@dataclass(frozen=True)
class CpuModule:
    """A module for `codegen.emit_object`.

    Attributes:
        module: its kernels take pointers, index arguments, workspaces, then block index, block count, arena and
            status. They have the attributes ``pypto.arena`` (bytes of scratch a block needs), ``pypto.trips``
            (independent blocks), ``pypto.work`` and ``pypto.block_work`` (element operations in all, and of one block),
            the latter three -1 where unknown; functions without them are parts of kernels, or host functions, which
            stay as they are.
        checks: what a status of 1, 2, ... means: where in the user's source, and the message.
    """

    module: ir.Module
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class _Direct:
    """Which instructions read global memory where others would hand it to them, which wait for later ones to do their
    work, and which are left out.
    """

    staging: Staging
    streams: Streams
    joined: Joined
    skipped: set[Instruction]

    @staticmethod
    def of(program: Program, cpu: CpuDescription) -> _Direct:
        staging = find_staging(program)
        streams = find_streams(program, staging)
        joined = find_joined(program, cpu, streams)
        # What waits for a later product may run behind a store to the memory that it would read.
        waiting = {product.tile("lhs").buffer for product in joined.deferred}
        staging.in_place = {move for move in staging.in_place if move.result.buffer not in waiting}
        return _Direct(staging, streams, joined, staging.skipped | streams.skipped)


def lower_to_cpu(module: ir.Module, cpu: CpuDescription) -> CpuModule:
    """Lower a planned ``pto`` module, in place, to func, scf, arith, vector and llvm operations.

    Raises:
        InternalError: the module is not a planned ``pto`` module.
    """
    checks: list[Check] = []
    with module.context, ir.Location.unknown():
        types = type_table(module.context)
        for function in functions(module.operation):
            if HOST in function.attributes:
                continue
            _lower_function(function, types, cpu, checks)
        for name in list(module.operation.attributes):
            if name.startswith(("pto.", "pypto.")):
                del module.operation.attributes[name]
    return CpuModule(module, tuple(checks))


def _lower_function(function: ir.Operation, types: TypeTable, cpu: CpuDescription, checks: list[Check]) -> None:
    block = function.regions[0].blocks[0]
    given = described_arguments(function, len(block.arguments))
    extents = [value for value, attributes in zip(block.arguments, given, strict=True) if "pypto.dim" in attributes]
    drop_certain(function, Ranges(extents))
    program = Program(function, types)
    work = estimate(program, function), estimate_block(program)
    emitter = Emitter(function.context, block, cpu)
    for argument in block.arguments:
        if str(argument.type).startswith("!pto."):
            argument.set_type(emitter.pointer)
    index, count, arena, status = (
        block.add_argument(kind, function.location)
        for kind in (emitter.i64, emitter.i64, emitter.pointer, emitter.pointer)
    )
    frame = Frame(emitter, program, Ranges(extents), arena, status, checks)
    for op, tile, limits in program.limited:
        with ir.InsertionPoint(op):
            check_limits(frame, op, tile, limits)
    for op, *box in program.checked:
        with ir.InsertionPoint(op):
            check_offset(frame, op, *box)
    _lower_block(frame, program.body, live_after(program.body), _Direct.of(program, cpu))
    frame.finish()
    for op in reversed(program.handles):
        for result, argument in ((program.block_index, index), (program.block_count, count)):
            if op.results and op.results[0] in result:
                op.results[0].replace_all_uses_with(argument)
        op.erase()
    _finish(function, emitter, given, program.arena, work)


def _lower_block(frame: Frame, block: Block, live: dict[Instruction, Live], direct: _Direct) -> None:
    items = [item for item in block.items if item not in direct.skipped]
    position = 0
    while position < len(items):
        item = items[position]
        if not isinstance(item, Instruction):
            for inner in item.blocks:
                _lower_block(frame, inner, live, direct)
            position += 1
            continue
        run = [item]
        if is_fusible(item):
            run = _run(items[position : position + MOST_STEPS])
            group = longest_group(frame.program, run, live)
            run = run[: len(group.steps)]
            with ir.InsertionPoint(run[-1].op):
                for step in run:
                    check_agreement(frame, step)
                emit_group(frame, group)
        else:
            with ir.InsertionPoint(item.op):
                check_agreement(frame, item)
                _emit_alone(frame, item, direct)
        for done in run:
            # What gives a value goes when everything that refers to it is emitted.
            if not done.op.results:
                done.op.erase()
        position += len(run)
    for skipped in direct.skipped.intersection(block.items):
        skipped.op.erase()


def _run(items: list[Instruction | Nested]) -> list[Instruction]:
    """The leading instructions that can be part of a nest."""
    found = []
    for item in items:
        if not isinstance(item, Instruction) or not is_fusible(item):
            break
        found.append(item)
    return found


def _emit_alone(frame: Frame, instruction: Instruction, direct: _Direct) -> None:
    sources, products = direct.staging.sources, direct.streams.products
    if instruction in direct.joined.deferred:
        return
    if instruction in direct.joined.earlier:
        cube.emit_product(frame, instruction, direct.joined.earlier[instruction])
        return
    if instruction in products:
        move = products[instruction]
        cube.emit_streamed_product(frame, instruction, sources[move], move)
        return
    if instruction in direct.streams.reductions:
        emit_streamed_reduction(frame, instruction, direct.streams.reductions[instruction])
        return
    if instruction in direct.streams.lefts:
        cube.emit_rows_to_left(frame, instruction, sources.get(instruction))
        return
    if instruction in direct.staging.in_place:
        cube.emit_lent_left(frame, instruction, sources[instruction])
        return
    if instruction in sources:
        cube.emit_staged_move(frame, instruction, sources[instruction])
        return
    emit = ALONE.get(instruction.row.name)
    if emit is None:
        raise InternalError(
            f"the CPU engine has no code for {instruction.row.name} with these operands",
            span=span_of(instruction.op),
            found=str(instruction.op),
        )
    emit(frame, instruction)


def _finish(function: ir.Operation, e: Emitter, given: list[ir.DictAttr], arena: int, work: tuple[int, int]) -> None:
    """Give the function its new type and attributes."""
    own, plain = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()}), ir.DictAttr.get({})
    attributes = function.attributes
    set_arguments(function, [plain] * (len(given) + 2) + [own, own])
    trips = number(function, "pypto.trips")
    for name in list(attributes):
        if name.startswith(("pto.", "pypto.")):
            del attributes[name]
    attributes["pypto.arena"] = e.number(arena)
    attributes["pypto.trips"] = e.number(-1 if trips is None else trips)
    attributes["pypto.work"], attributes["pypto.block_work"] = map(e.number, work)
