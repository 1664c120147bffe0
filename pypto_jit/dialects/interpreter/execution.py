"""Runs a module of the ``pypto`` dialect: decodes each block once into steps, then runs the steps over plain values.

A value at run time is a NumPy array (a tensor in global memory), a `Tile`, a Python int or a NumPy floating-point
scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from pypto_jit._mlir import ir
from pypto_jit.dialects.interpreter import scalars
from pypto_jit.dialects.interpreter.expressions import EXPRESSION_STEPS
from pypto_jit.dialects.interpreter.races import READ, WRITE, Watch
from pypto_jit.dialects.interpreter.tensors import STEPS
from pypto_jit.dialects.interpreter.tiles import MEANINGS, Array, Call, poison
from pypto_jit.dialects.locations import span_of
from pypto_jit.dialects.operators import BY_NAME, Operator
from pypto_jit.dialects.types import DYNAMIC, ArrayType, TensorType, TileType, parse_type
from pypto_jit.errors import ArgumentError, InternalError, ShapeError, TraceError

# Attributes of functions, as the pass ``outline`` sets them.
_HOST, _KERNEL = "pypto.host", "pypto.kernel"
_Values = list[Any]
_Step = Callable[[_Values], None]
_TERMINATORS = frozenset({"scf.yield", "scf.condition", "func.return"})


def interpret(module: ir.Module, arguments: Sequence[Any], watch: Watch | None = None) -> None:
    """Run every function of a module, in order, on NumPy arrays; what the kernel stores is written into them.

    Args:
        module: tiles as values: the module as traced, or after any pass before destination passing.
        arguments: one array per tensor parameter of the kernel, of any strides, and one number per scalar parameter,
            in their order.
        watch: takes note of every access to a tensor.

    Raises:
        RaceError: the watch has seen iterations of a parallel loop that depend on their order.
        BoundsError: the box of a load or store leaves its tensor; carries the line.
        ArgumentError: an array does not fit its parameter.
        InternalError: an operation that has no meaning here.
    """
    with module.context, ir.Location.unknown(), numpy.errstate(all="ignore"):
        program = _Program([op.operation for op in module.body.operations if op.operation.name == "func.func"], watch)
        program.run(program.entries, list(arguments))


class _Program:
    """The functions of a module: a call runs them all, or the host function, which calls the others."""

    def __init__(self, functions: list[ir.Operation], watch: Watch | None = None) -> None:
        self.watch = watch
        hosts = [function for function in functions if _HOST in function.attributes]
        self.entries = [_Function(function, self) for function in hosts or functions]
        self._kernels: dict[str, list[_Function]] = {}
        for function in functions:
            if hosts and function not in hosts:
                kernel = ir.StringAttr(function.attributes[_KERNEL]).value
                self._kernels.setdefault(kernel, []).append(_Function(function, self))

    def run(self, functions: Sequence[_Function], arguments: list[Any]) -> None:
        """Run the functions of one kernel in order."""
        workspaces: list[Array] = []
        for function in functions:
            function.run(arguments, workspaces)

    def call_step(self, operation: ir.Operation, operands: list[int]) -> _Step:
        """The step that runs a kernel."""
        callee = ir.StringAttr(operation.attributes["callee"]).value

        def run(values: _Values) -> None:
            self.run(self._kernels[callee], [values[slot] for slot in operands])

        return run


class _Function:
    """A function, decoded when it first runs."""

    def __init__(self, function: ir.Operation, program: _Program) -> None:
        self._block = function.regions[0].blocks[0]
        self._types = [parse_type(str(argument.type)) for argument in self._block.arguments]
        self._program = program
        self._steps: list[_Step] | None = None
        self._slots: list[int] = []
        self._size = 0

    def run(self, arguments: list[Any], workspaces: list[Array]) -> None:
        """Run it; a staged kernel's functions share the workspaces that follow the parameters."""
        for type_ in self._types[len(arguments) + len(workspaces) :]:
            assert isinstance(type_, TensorType)
            workspaces.append(numpy.full(type_.shape, poison(type_.dtype), type_.dtype.numpy))
        values = [*arguments, *workspaces][: len(self._types)]
        for k, (type_, argument) in enumerate(zip(self._types, self._block.arguments, strict=True)):
            if type_ is None:
                values[k] = scalars.constant(values[k], str(argument.type))
            else:
                _check_argument(k, type_, values[k])
        steps = self._decoded()
        environment: _Values = [None] * self._size
        for slot, value in zip(self._slots, values, strict=True):
            environment[slot] = value
        for step in steps:
            step(environment)

    def _decoded(self) -> list[_Step]:
        if self._steps is None:
            decoder = _Decoder(self._program)
            self._slots = [decoder.slot(argument) for argument in self._block.arguments]
            self._steps, _ = decoder.block(self._block)
            self._size = len(decoder.slots)
        return self._steps


def _check_argument(position: int, type_: object, array: Array) -> None:
    if type_ is None and not isinstance(array, numpy.ndarray):
        return
    if not isinstance(type_, TensorType):
        raise InternalError(f"argument {position} of the kernel is no tensor", found=type_)
    fits = len(type_.shape) == array.ndim and all(
        static in (DYNAMIC, extent) for static, extent in zip(type_.shape, array.shape, strict=True)
    )
    if not fits or array.dtype != type_.dtype.numpy:
        raise ArgumentError(
            f"argument {position} does not fit the kernel",
            found=f"shape {list(array.shape)}, dtype {array.dtype}",
            expected=f"shape {list(type_.shape)}, dtype {type_.dtype.numpy}",
        )


def _attribute(attribute: ir.Attribute) -> object:
    if isinstance(attribute, ir.StringAttr | ir.BoolAttr | ir.IntegerAttr | ir.FloatAttr):
        return attribute.value
    return tuple(attribute) if isinstance(attribute, ir.DenseI64ArrayAttr) else attribute


def _attributes(operation: ir.Operation, row: Operator) -> dict[str, object]:
    present = operation.attributes
    names = [*(attribute.name for attribute in row.attributes), "box"]
    return {name: _attribute(present[name]) for name in names if name in present}


class _Decoder:
    """Turns blocks into steps; every SSA value has a slot in the list of run-time values."""

    def __init__(self, program: _Program) -> None:
        self.slots: dict[ir.Value, int] = {}
        self._program = program
        self._arguments: list[int] = []

    def slot(self, value: ir.Value) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def block(self, block: ir.Block) -> tuple[list[_Step], list[int]]:
        """The steps of a block, and the slots of what its terminator yields."""
        steps: list[_Step] = []
        for view in block.operations:
            operation = view.operation
            if operation.name in _TERMINATORS:
                return steps, [self.slot(operand) for operand in operation.operands]
            steps.append(self.step(operation))
        return steps, []

    def step(self, operation: ir.Operation) -> _Step:
        dialect, _, name = operation.name.partition(".")
        operands = [self.slot(operand) for operand in operation.operands]
        results = [self.slot(result) for result in operation.results]
        if operation.name in STEPS:
            return STEPS[operation.name](operation, operands, results)
        if operation.name in EXPRESSION_STEPS:
            return self._watched(operation, EXPRESSION_STEPS[operation.name](operation, operands, results), operands)
        if operation.name == "pypto.argument":
            self._arguments += operands
            return _nothing
        if operation.name == "pypto.call":
            if "extern" in operation.attributes:
                raise TraceError(
                    "the interpreter knows the language, not assembly",
                    span=span_of(operation.location),
                    found="a call of a pl.jit.extern kernel",
                    hint="run it compiled; or write the kernel in the language to compare with",
                )
            arguments, self._arguments = self._arguments, []
            return self._program.call_step(operation, arguments)
        if dialect == "pypto" and name in MEANINGS:
            return _operator_step(operation, name, operands, results, self._program.watch)
        if dialect == "arith":
            return _scalar_step(operation, name, operands, results[0])
        if operation.name == "scf.for":
            return self.loop(operation, operands, results)
        if operation.name == "scf.while":
            return self.repetition(operation, operands, results)
        if operation.name == "scf.if":
            return self.branch(operation, operands[0], results)
        raise _unknown(operation)

    def _watched(self, operation: ir.Operation, step: _Step, operands: list[int]) -> _Step:
        """A step on whole tensors, each of which it reads, but for the one that it assigns to."""
        watch, span = self._program.watch, span_of(operation.location)
        if watch is None:
            return step
        *read, last = operands
        assigned = [last] if operation.name == "pypto.assign" else []

        def run(values: _Values) -> None:
            for kind, slots in ((READ, read if assigned else operands), (WRITE, assigned)):
                for value in (values[slot] for slot in slots):
                    if isinstance(value, numpy.ndarray):
                        watch.access(kind, value, span)
            step(values)

        return run

    def loop(self, operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
        block = operation.regions[0].blocks[0]
        index, *carried = (self.slot(argument) for argument in block.arguments)
        steps, yielded = self.block(block)
        lower, upper, stride, *initial = operands
        span = span_of(operation.location)
        watch, kind = self._program.watch, _independent(operation)

        def run(values: _Values) -> None:
            if values[stride] <= 0:
                raise ShapeError("the step of a loop must be positive", span=span, found=values[stride])
            current = [values[slot] for slot in initial]
            watched = None if watch is None or kind is None else watch.enter(kind, span)
            for k in range(values[lower], values[upper], values[stride]):
                values[index] = k
                if watched is not None:
                    watched.values.append(k)
                _assign(values, carried, current)
                for step in steps:
                    step(values)
                current = [values[slot] for slot in yielded]
            if watch is not None and watched is not None:
                watch.leave()
            _assign(values, results, current)

        return run

    def repetition(self, operation: ir.Operation, operands: list[int], results: list[int]) -> _Step:
        """A loop that runs until it says so: its first region decides, and gives the second one its arguments."""
        blocks = [region.blocks[0] for region in operation.regions]
        before, after = ([self.slot(argument) for argument in block.arguments] for block in blocks)
        (deciding, (decision, *passed)), (steps, yielded) = (self.block(block) for block in blocks)

        def run(values: _Values) -> None:
            current = [values[slot] for slot in operands]
            while True:
                _assign(values, before, current)
                for step in deciding:
                    step(values)
                current = [values[slot] for slot in passed]
                if not values[decision]:
                    break
                _assign(values, after, current)
                for step in steps:
                    step(values)
                current = [values[slot] for slot in yielded]
            _assign(values, results, current)

        return run

    def branch(self, operation: ir.Operation, condition: int, results: list[int]) -> _Step:
        arms = [self.block(region.blocks[0]) if len(region.blocks) else ([], []) for region in operation.regions]

        def run(values: _Values) -> None:
            steps, yielded = arms[0 if values[condition] else 1]
            for step in steps:
                step(values)
            _assign(values, results, [values[slot] for slot in yielded])

        return run


def _independent(operation: ir.Operation) -> str | None:
    """What declares the iterations of a loop independent; None where nothing does."""
    attributes = operation.attributes
    return "pl.spmd" if "pypto.task" in attributes else "pl.parallel" if "pypto.parallel" in attributes else None


def _nothing(values: _Values) -> None:
    """An operation that only says something of others."""


def _assign(values: _Values, slots: list[int], new: list[Any]) -> None:
    for slot, value in zip(slots, new, strict=True):
        values[slot] = value


def _unknown(operation: ir.Operation) -> InternalError:
    return InternalError(
        f"the interpreter has no meaning for {operation.name}", span=span_of(operation.location), found=str(operation)
    )


def _operator_step(
    operation: ir.Operation, name: str, operands: list[int], results: list[int], watch: Watch | None
) -> _Step:
    function = MEANINGS[name]
    parsed = [parse_type(str(operand.type)) for operand in operation.operands]
    types = tuple(type_ if isinstance(type_, TensorType | TileType | ArrayType) else None for type_ in parsed)
    result = parse_type(str(operation.results[0].type)) if results else None
    assert result is None or isinstance(result, TileType | ArrayType)
    attributes = _attributes(operation, BY_NAME[name])
    span = span_of(operation.location)

    def run(values: _Values) -> None:
        made = function(Call(tuple(values[slot] for slot in operands), types, result, attributes, span, watch))
        if results:
            values[results[0]] = made

    return run


def _scalar_step(operation: ir.Operation, name: str, operands: list[int], result: int) -> _Step:
    target = str(operation.results[0].type)
    if name == "constant":
        constant = scalars.constant(_attribute(operation.attributes["value"]), target)

        def run_constant(values: _Values) -> None:
            values[result] = constant

        return run_constant
    sources = [str(operand.type) for operand in operation.operands]
    predicate = ir.IntegerAttr(operation.attributes["predicate"]).value if name.startswith("cmp") else 0
    if not scalars.known(name):
        raise _unknown(operation)

    def run(values: _Values) -> None:
        values[result] = scalars.evaluate(name, [values[slot] for slot in operands], sources, target, predicate)

    return run
