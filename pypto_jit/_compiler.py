"""From a Python function and what it is called with to a compiled program: the order of the layers, no more."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple

from pypto_jit._cached import Compiled
from pypto_jit._costs import Explanation
from pypto_jit._hints import Hint, lowered_hints, traced_hints
from pypto_jit._mlir import ir
from pypto_jit._native import in_place_pairs, native_text
from pypto_jit.dialects.assembly import print_assembly
from pypto_jit.errors import AssemblyError, Span
from pypto_jit.frontend.trace import Returns, Traced, trace
from pypto_jit.language.reads import Read
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.cpu.codegen import compile_llvm_ir
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.entry import Launch, is_parallel
from pypto_jit.lowering.passes.plan import planned_bytes
from pypto_jit.lowering.passes.tensors import costs_of
from pypto_jit.lowering.pipeline import PASSES, lower
from pypto_jit.options import CompileOptions, parse_platform
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store.environment import host_cpu_text
from pypto_jit.runtime.store.programs import Module, describe_module, find_compiled, publish_program, remember_need
from pypto_jit.runtime.store.requests import Request
from pypto_jit.runtime.store.serialization import encode_parameters
from pypto_jit.signature import Constant, ParamInfo, ScalarSpec, TensorSpec, ValueNeeded
from pypto_jit.targets import BY_NAME, Target

Arguments = dict[str, TensorSpec | ScalarSpec | Constant | None]


@dataclass
class Clock:
    """Seconds of each step of a compile."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what is inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


class Interface(NamedTuple):
    """What calls of a kernel take and return.

    Attributes:
        parameters: as in a compiled program.
        returns: as in a compiled program.
        reads: the globals and closure variables that this depends on.
    """

    parameters: tuple[ParamInfo, ...]
    returns: Returns
    reads: tuple[Read, ...]

    def holds(self) -> bool:
        """Whether a trace would still find the same."""
        return all(read.holds() for read in self.reads)


class Source(NamedTuple):
    """A traced kernel as text: what `pypto_jit.compile` goes on from.

    Attributes:
        name: of the kernel.
        text: the module with its locations.
        parameters: as in a compiled program.
        returns: as in a compiled program.
        origin: where the kernel is defined.
        target: the machine it was traced for.
    """

    name: str
    text: str
    parameters: tuple[ParamInfo, ...]
    returns: Returns
    origin: Span | None
    target: str


class Stages(Mapping[str, str]):
    """The text of a kernel at each stage of the compile, by the stage's name, in order.

    ``"pto"`` is the PTO assembly. Where a kernel has none, reading it raises the AssemblyError that says why.
    """

    def __init__(
        self, texts: dict[str, str], assembly_error: AssemblyError | None, source: Source | None = None
    ) -> None:
        self._texts = texts
        self._error = assembly_error
        self.source = source

    def __getitem__(self, name: str) -> str:
        if name == "pto" and self._error is not None:
            raise self._error
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __repr__(self) -> str:
        return f"Stages({', '.join(self._texts)})"


@dataclass
class Observation:
    """What one compile goes through, for those who ask to see.

    Attributes:
        dump: whether texts are wanted.
        texts: of the module, by the name of the stage.
        passes: seconds of each pass, by its name.
        seconds: of each step.
        hints: advice about the kernel.
    """

    dump: bool = False
    texts: dict[str, str] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    hints: list[Hint] = field(default_factory=list)

    def record_pass(self, name: str, seconds: float) -> None:
        """Note how long a pass took."""
        self.passes[name] = seconds


@dataclass(frozen=True)
class Lowered:
    """A kernel on its way to object code, when MLIR is done with it."""

    assembly: str | None
    error: AssemblyError | None
    text: str
    launches: list[Launch]
    checks: tuple[tuple[Span | None, str], ...]


def compile_kernel(
    function: FunctionType,
    arguments: Arguments,
    options: CompileOptions,
    request: Request | None = None,
    observation: Observation | None = None,
) -> Compiled:
    """Compile a kernel for the CPU, and to PTO assembly.

    Args:
        function: the kernel.
        arguments: what each parameter is given.
        options: with a platform.
        request: what it is compiled for, if the disk cache is to be asked for the traced module and given the result.
        observation: takes note of every step; the disk cache is then not asked.

    Raises:
        ValueNeeded: the value of a scalar is needed.
        PyptoError: the kernel is at fault; the error names the line.
    """
    clock, target = Clock(), target_of(options)
    with borrowed_context() as context:
        with clock.step("trace"):
            traced = _traced(function, arguments, target, context, request)
        module = _describe(request, traced, target) if request is not None else None
        if request is not None and module is not None and observation is None:
            known = find_compiled(request, module)
            if known is not None:
                return Compiled(known, traced.reads)
        lowered = lower_traced(traced, target, options, clock, observation)
    origin = Span(function.__code__.co_filename, function.__code__.co_firstlineno)
    program = generate(function.__name__, traced, lowered, options, clock, origin)
    if observation is not None:
        observation.seconds = clock.seconds
    if request is not None and module is not None:
        program = publish_program(request, module, program)
    return Compiled(program, traced.reads)


def _traced(
    function: FunctionType, arguments: Arguments, target: Target, context: ir.Context, request: Request | None
) -> Traced:
    try:
        return trace(function, arguments, target, context)
    except ValueNeeded as needed:
        if request is not None:
            remember_need(request, needed)
        raise


def target_of(options: CompileOptions) -> Target:
    """The machine of a platform."""
    arch, _ = parse_platform(options.platform)
    return BY_NAME[arch.value]


def lower_traced(
    traced: Traced, target: Target, options: CompileOptions, clock: Clock, observation: Observation | None = None
) -> Lowered:
    """Lower a traced module, which is consumed, as far as MLIR goes.

    Raises:
        PyptoError: the kernel is at fault; the error names the line.
    """
    dump = timing = None
    if observation is not None:
        timing = observation.record_pass
        observation.hints.extend(traced_hints(traced.module))
        if observation.dump:
            dump = observation.texts.__setitem__
            dump("trace", str(traced.module))
    in_place = in_place_pairs(traced)
    with clock.step("passes"):
        lower(traced.module, target, dump=dump, verify=options.verification_level > 0, timing=timing)
    lowered = lower_planned(traced, in_place, options, clock)
    if observation is not None:
        observation.hints.extend(lowered_hints(traced, lowered.error, lowered.launches, lowered.checks))
        if dump is not None:
            dump("llvm", lowered.text)
    return lowered


def lower_planned(
    traced: Traced, in_place: frozenset[tuple[int, int]], options: CompileOptions, clock: Clock
) -> Lowered:
    """Lower a module whose tile buffers have addresses, which is consumed, as far as MLIR goes.

    Args:
        traced: the module, and what a call of it takes.
        in_place: pairs of an input and an output that may be the same tensor.
        options: of the compile.
        clock: takes the time.
    """
    with clock.step("assembly"):
        assembly, error = _assembly(traced.module, options.emit_source_loc)
    with clock.step("cpu"):
        text, launches, checks = native_text(traced, in_place)
    return Lowered(assembly, error, text, launches, checks)


def generate(
    name: str, traced: Traced, lowered: Lowered, options: CompileOptions, clock: Clock, origin: Span | None
) -> CompiledProgram:
    """The program of a lowered kernel.

    Args:
        name: of the kernel.
        traced: what a call takes and returns.
        lowered: the kernel.
        options: with a platform.
        clock: has timed the steps before.
        origin: where the kernel is defined.
    """
    with clock.step("codegen"):
        code = compile_llvm_ir(lowered.text, host_cpu(), options.opt_level)
    launches = lowered.launches
    assert options.platform is not None
    return CompiledProgram(
        name=name,
        platform=options.platform,
        parameters=traced.parameters,
        returns=traced.returns,
        assembly=lowered.assembly,
        assembly_error=lowered.error.message if lowered.error else None,
        code=code,
        parallel=is_parallel(launches),
        work=-1 if any(launch.work < 0 for launch in launches) else sum(launch.work for launch in launches),
        checks=lowered.checks,
        timings=MappingProxyType(clock.seconds),
        origin=origin,
        cpu=host_cpu_text(),
    )


def _describe(request: Request, traced: Traced, target: Target) -> Module:
    """What the disk cache knows a traced module by: the module, and all that turns it into a program."""
    interface = [encode_parameters(traced.parameters), traced.returns]
    sections = {
        "interface": json.dumps(interface).encode(),
        "target": target.name.encode(),
        "pipeline": " ".join(stage_names()).encode(),
        "options": dict(request.key.parts)["options"],
    }
    return describe_module(request, _located_text(traced.module), sections)


def _located_text(module: ir.Module) -> str:
    """A module with its locations, each where it is used."""
    return str(module.operation.get_asm(enable_debug_info=True, use_local_scope=True))


def lower_kernel(function: FunctionType, arguments: Arguments, options: CompileOptions) -> Stages:
    """The text of each stage of compiling a kernel.

    Raises:
        PyptoError: the kernel is at fault; the error names the line.
    """
    observation, target = Observation(dump=True), target_of(options)
    with borrowed_context() as context:
        traced = trace(function, arguments, target, context)
        origin = Span(function.__code__.co_filename, function.__code__.co_firstlineno)
        source = Source(
            function.__name__, _located_text(traced.module), traced.parameters, traced.returns, origin, target.name
        )
        lowered = lower_traced(traced, target, options, Clock(), observation)
    texts = {**observation.texts, "pto": lowered.assembly or "", "llvm": lowered.text}
    return Stages({name: texts[name] for name in stage_names()}, lowered.error, source)


def interface_of(function: FunctionType, arguments: Arguments, target: Target) -> Interface:
    """What calls of a kernel take and return, from its trace alone.

    Raises:
        ValueNeeded: the value of a scalar is needed.
        PyptoError: the kernel is at fault; the error names the line.
    """
    with borrowed_context() as context:
        traced = trace(function, arguments, target, context)
        return Interface(traced.parameters, traced.returns, traced.reads)


def explain_kernel(function: FunctionType, arguments: Arguments, options: CompileOptions) -> Explanation:
    """The kernels that a function becomes, and what they cost.

    Raises:
        PyptoError: the kernel is at fault; the error names the line.
    """
    target = target_of(options)
    with borrowed_context() as context:
        module = trace(function, arguments, target, context).module
        simplified = tuple(each for each in PASSES if each.name == "cse")
        costs = costs_of(lower(module, target, passes=simplified), target)
        lower(module, target, passes=tuple(each for each in PASSES if each not in simplified))
        planned = planned_bytes(module, target)
    # What a kernel becomes has its name, behind that of its function where it is a task.
    known = tuple(start for cost in costs for start in (cost.name, f"{function.__name__}_{cost.name}"))
    tiles = {name: spaces for name, spaces in planned.items() if spaces and not name.startswith(known)}
    return Explanation(function.__name__, target, tuple(costs), tiles)


def stage_names() -> tuple[str, ...]:
    """Names of the stages, in order."""
    return ("trace", *(entry.name for entry in PASSES), "pto", "llvm")


def interpret_kernel(
    function: FunctionType,
    arguments: Arguments,
    target: Target,
    operands: Callable[[Sequence[ParamInfo]], Sequence[Any]],
    check: bool = False,
) -> Returns:
    """Run a kernel in NumPy.

    Args:
        operands: given the tensor and scalar parameters, the arrays and numbers to run on.
        check: whether to look for races and for outputs that stay partly unwritten.

    Returns:
        Names of the parameters that a call returns.

    Raises:
        RaceError, DirectionError: what was looked for is there.
        PyptoError: the kernel is at fault, or a box left its tensor.
    """
    from pypto_jit.dialects.interpreter import interpret
    from pypto_jit.dialects.interpreter.races import Argument, Watch

    with borrowed_context() as context:
        traced = trace(function, arguments, target, context)
        infos = [info for info in traced.parameters if not isinstance(info.spec, Constant)]
        given = operands(infos)
        if not check:
            interpret(traced.module, given)
            return traced.returns
        tensors = [(info, value) for info, value in zip(infos, given, strict=True) if isinstance(info.spec, TensorSpec)]
        watch = Watch([Argument(info.name, info.direction, array) for info, array in tensors])
        interpret(traced.module, given, watch)
        watch.check_written(Span(function.__code__.co_filename, function.__code__.co_firstlineno))
        return traced.returns


def _assembly(module: ir.Module, locations: bool) -> tuple[str | None, AssemblyError | None]:
    try:
        return print_assembly(module, locations=locations), None
    except AssemblyError as error:
        # The traceback would keep the module, and with it the context, alive.
        return None, error.with_traceback(None)
