"""Traces a kernel: runs the function once over stand-ins and returns what it recorded as an MLIR module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DIMS, DYNAMIC, TensorType, row_major_strides
from pypto_jit.dtypes import FP32
from pypto_jit.errors import ArgumentError, DirectionError, InternalError, PyptoError, UndefinedError
from pypto_jit.frontend.bounds import Store, depended_on, derive_shape
from pypto_jit.frontend.builder import Builder
from pypto_jit.frontend.calls import caller_of, rewritten
from pypto_jit.frontend.hooks import REWRITER
from pypto_jit.frontend.recursion import explain_recursion
from pypto_jit.frontend.results import Results, Returns
from pypto_jit.language.functions import EXTERN, TASKS, role_of
from pypto_jit.language.location import code_span, is_internal
from pypto_jit.language.parameters import Declaration, check_argument, declarations, definition_span
from pypto_jit.language.reads import Read, collect_reads
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.tracing import CURRENT
from pypto_jit.language.values import Tensor
from pypto_jit.signature import Constant, ParamInfo, ScalarSpec, TensorSpec, known_extents
from pypto_jit.targets import Target

# What a parameter is given; None for an output that the call leaves out.
Argument = TensorSpec | ScalarSpec | Constant | None


@dataclass(frozen=True)
class Traced:
    """A traced kernel.

    Attributes:
        module: the ``trace`` stage: one function of the ``pypto`` dialect.
        parameters: every parameter in order, with the direction that the kernel uses it in.
        returns: which parameters a call returns: those the kernel returns, or all outputs in order.
        reads: the globals and closure variables that the trace depends on.
    """

    module: ir.Module
    parameters: tuple[ParamInfo, ...]
    returns: Returns
    reads: tuple[Read, ...]


def trace(
    function: FunctionType, arguments: Mapping[str, Argument], target: Target, context: ir.Context | None = None
) -> Traced:
    """Trace a kernel for one specialization.

    Args:
        function: the kernel as its author wrote it.
        arguments: what each parameter is given, in the order of the parameters.
        target: the machine.
        context: an MLIR context with our dialects loaded, used by no other thread meanwhile (default: the current one).

    Raises:
        PyptoError: the kernel or its arguments are wrong.
        ValueNeeded: the trace needs the value of a scalar.
        Exception: whatever the kernel's own code raises, unchanged.
    """
    declared = declarations(function)
    for name, argument in arguments.items():
        check_argument(name, declared[name], argument)
    context = context or ir.Context.current
    assert context is not None
    session = _Session(function, arguments, declared, target, context)
    with context:
        return session.run()


class _Session:
    """One run of `trace`."""

    def __init__(
        self,
        function: FunctionType,
        arguments: Mapping[str, Argument],
        declared: dict[str, Declaration],
        target: Target,
        context: ir.Context,
    ) -> None:
        self._function = function
        self._arguments = arguments
        self._declared = declared
        self._target = target
        self._context = context
        self._builder = Builder(target, context, REWRITER)
        self._tensors: dict[str, Tensor] = {}
        self._scalars: dict[str, Scalar] = {}
        self._results: dict[str, Tensor] = {}

    def run(self) -> Traced:
        builder, function = self._builder, self._function
        span = definition_span(function)
        location = ir.Location.file(span.filename, span.line, 1, self._context)
        module = ir.Module.create(loc=location)
        module.operation.attributes["pypto.target"] = ir.StringAttr.get(self._target.name)
        recorded = self._open(module, location)
        is_extern = hasattr(function, EXTERN)
        kernel = caller_of(builder, function) if is_extern else rewritten(builder, function)
        builder.kernel_code = function.__code__ if is_extern else rewritten(builder, function).__code__
        builder.in_core = role_of(function) in TASKS
        result = self._call(kernel)
        builder.needs.check()
        results = Results(builder, self._tensors, function)
        returned = None if result is None else results.returned(result)
        builder.operation("func.return", [], [], location=location)
        builder.close_region(builder.regions[0])
        self._results = results.tensors
        self._tensors.update(results.tensors)
        directions = {name: self._direction(name) for name in self._tensors}
        self._check_written(directions)
        self._settle(recorded)
        if not module.operation.verify():
            raise InternalError("the traced module does not verify", span=span, notes=tuple(str(module).splitlines()))
        parameters = tuple(self._parameter(name, directions) for name in (*self._arguments, *self._results))
        called = {getattr(function, "__func__", function), *builder.helpers}
        unseen = [each for each in called if builder.rewriter.rewrite(each) is each]
        reads = collect_reads(function, builder.helpers, unseen)
        if returned is None:
            outputs = tuple(name for name, direction in directions.items() if direction != "in")
            returned = outputs[0] if len(outputs) == 1 else outputs
        return Traced(module, parameters, returned, reads)

    def _open(self, module: ir.Module, location: ir.Location) -> ir.Operation:
        builder = self._builder
        name = self._function.__name__
        kernel = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(name if name.isidentifier() else "kernel"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [])),
            },
            regions=1,
            loc=location,
            ip=ir.InsertionPoint(module.body),
        )
        block = ir.Block.create_at_start(kernel.regions[0], [])
        region = builder.open_region(block, "kernel", None)
        builder.outputs = frozenset(name for name, declared in self._declared.items() if declared.direction == "out")
        for name, argument in self._arguments.items():
            if isinstance(argument, Constant):
                continue
            if isinstance(argument, ScalarSpec):
                handle = block.add_argument(builder.type(argument.dtype.signless), location)
                self._scalars[name] = Scalar(handle, argument.dtype, region, frozenset({name}))
                continue
            kind = self._tensor_type(name, argument)
            if kind is None:
                builder.access.omitted[name] = []
            text = str(kind or TensorType((DYNAMIC,), FP32, (DYNAMIC,)))
            handle = block.add_argument(builder.type(text), location)
            self._tensors[name] = Tensor(handle, name, kind, region)
            if isinstance(argument, TensorSpec):
                builder.needs.dims[name] = argument.dims
        return kernel

    def _tensor_type(self, name: str, argument: TensorSpec | None) -> TensorType | None:
        if isinstance(argument, TensorSpec):
            return TensorType(argument.shape, argument.dtype, argument.strides)
        declared = self._declared[name]
        if declared.shape is None or declared.dtype is None:
            return None
        shape = known_extents(declared.shape)
        return TensorType(shape, declared.dtype, row_major_strides(shape))

    def _call(self, kernel: Callable[..., Any]) -> Any:
        positional, keywords = [], {}
        for name, parameter in inspect.signature(self._function).parameters.items():
            argument = self._arguments[name]
            value = argument.value if isinstance(argument, Constant) else self._traced(name)
            if parameter.kind is parameter.KEYWORD_ONLY:
                keywords[name] = value
            else:
                positional.append(value)
        token = CURRENT.set(self._builder)
        try:
            return kernel(*positional, **keywords)
        except NameError as error:
            explained = self._explain(error)
            if explained is None:
                raise
            self._builder.needs.arm(explained)
            raise explained from None
        except RecursionError as error:
            explained = explain_recursion(error)
            if explained is None:
                raise
            self._builder.needs.arm(explained)
            raise explained from None
        except PyptoError as error:
            self._builder.needs.arm(error)
            raise
        finally:
            CURRENT.reset(token)

    def _traced(self, name: str) -> Tensor | Scalar:
        return self._scalars[name] if name in self._scalars else self._tensors[name]

    def _explain(self, error: NameError) -> UndefinedError | None:
        """The error for a variable that recorded control flow left without a value; None for any other NameError."""
        found = re.search(r"variable '([^']+)'", str(error))
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        if found is None or place is None:
            return None
        name = found.group(1)
        reason = self._builder.undefined.get((place.tb_frame.f_code.co_filename, name))
        if reason is None or is_internal(place.tb_frame.f_code.co_filename):
            return None
        explained = UndefinedError(
            f"reading an undefined tile or value: '{name}'",
            span=code_span(place.tb_frame.f_code, place.tb_lasti, place.tb_lineno),
            found=reason,
            hint=f"give '{name}' a value before, for example with pl.create_tile or pl.full",
        )
        self._builder.needs.undefined(place.tb_frame.f_code.co_filename, name, explained)
        return explained

    # After the kernel has run

    def _direction(self, name: str) -> str:
        if name in self._results:
            return "out"
        access, declared = self._builder.access, self._declared[name].direction
        loaded, stored = name in access.loads, name in access.stores
        if stored and declared == "in":
            raise DirectionError(
                f"'{name}' is an input, and the kernel writes it",
                span=access.stores[name],
                found=f"{name}: pl.Tensor",
                hint=f"declare it {name}: pl.Out[pl.Tensor], or pl.InOut[pl.Tensor] if the kernel also reads it",
            )
        if loaded and declared == "out":
            raise DirectionError(
                f"'{name}' is an output, and the kernel reads it",
                span=access.loads[name],
                found=f"{name}: pl.Out[pl.Tensor]",
                hint=f"declare it {name}: pl.InOut[pl.Tensor]",
            )
        if declared in ("out", "inout") and not stored:
            raise DirectionError(
                f"the kernel never writes '{name}'",
                span=self._builder.rebound.get(name) or definition_span(self._function),
                found=f"{name}: pl.{'Out' if declared == 'out' else 'InOut'}[pl.Tensor]",
                expected=f"a store to '{name}'",
                hint=f"write it: pl.store(tile, offsets, {name})",
            )
        if declared is not None:
            return declared
        return ("inout" if loaded or name in access.added else "out") if stored else "in"

    def _check_written(self, directions: dict[str, str]) -> None:
        if any(direction != "in" for direction in directions.values()):
            return
        rebound = [f"'{name}' is bound to a tile at {span}" for name, span in self._builder.rebound.items()]
        raise DirectionError(
            f"kernel '{self._function.__name__}' writes nothing",
            span=definition_span(self._function),
            hint="write a tile to an output parameter: pl.store(tile, offsets, out)",
            notes=tuple(rebound),
        )

    def _settle(self, kernel: ir.Operation) -> None:
        """Give omitted outputs their types, and the function its own."""
        for name, stores in self._builder.access.omitted.items():
            if not stores:
                raise ArgumentError(
                    f"'{name}' is missing: the kernel does not write it", span=definition_span(self._function)
                )
            access = self._builder.access
            if name in access.added and name not in access.replaced:
                raise ArgumentError(
                    f"the kernel adds to '{name}', which the call leaves out",
                    span=access.added[name],
                    hint="pass a tensor that holds what is added to",
                )
            tensor = self._tensors[name]
            assert tensor.type is not None
            try:
                shape = derive_shape(name, stores)
            except ArgumentError as error:
                parameters = self._deciding(stores)
                if parameters:
                    self._builder.needs.need(
                        parameters, error.span, f"the shape of '{name}', which is left out,", error
                    )
                raise
            tensor.type = TensorType(shape, tensor.type.dtype, row_major_strides(shape))
            tensor.handle.set_type(self._builder.type(str(tensor.type)))
        traced = [name for name, argument in self._arguments.items() if not isinstance(argument, Constant)]
        traced += self._results
        kinds = [self._traced(name).handle.type for name in traced]
        kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
        names = [ir.StringAttr.get(name) for name in traced]
        kernel.attributes["pypto.parameters"] = ir.ArrayAttr.get(names)
        dims = [self._builder.needs.dims.get(name, ()) for name in traced]
        if any(dims):
            shown = [[ir.StringAttr.get("" if dim is None else str(dim)) for dim in each] for each in dims]
            kernel.attributes[DIMS] = ir.ArrayAttr.get([ir.ArrayAttr.get(each) for each in shown])

    def _deciding(self, stores: list[Store]) -> frozenset[str]:
        """The scalar parameters that the places and extents of stores depend on."""
        names = {scalar.handle: name for name, scalar in self._scalars.items()}
        values = [each for offsets, tile, _ in stores for each in (*offsets, *tile.valid_extents)]
        reached = depended_on(value.handle for value in values if isinstance(value, Scalar))
        return frozenset(name for handle, name in names.items() if handle in reached)

    def _parameter(self, name: str, directions: dict[str, str]) -> ParamInfo:
        argument = self._arguments.get(name)
        if isinstance(argument, Constant):
            return ParamInfo(name, "in", argument)
        if isinstance(argument, ScalarSpec):
            default = inspect.signature(self._function).parameters[name].default
            number = isinstance(default, (int, float)) and type(default) in (int, float, bool)
            return ParamInfo(name, "in", argument, default if number else None)
        if isinstance(argument, TensorSpec):
            return ParamInfo(name, directions[name], argument)
        kind = self._tensors[name].type
        assert kind is not None
        dims = self._builder.needs.dims.get(name, ())
        return ParamInfo(name, directions[name], TensorSpec(kind.shape, kind.dtype, kind.strides, dims))
