"""`compile()`: from a kernel that was lowered before, or that comes as text, to a compiled program."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pypto_jit._acceptance import check_compile
from pypto_jit._outputs import check_outputs, is_asked, plain, to_observe, write_outputs
from pypto_jit._programs import Program
from pypto_jit.errors import ArgumentError, AssemblyError, OptionError, PyptoError, Span
from pypto_jit.options import (
    FIELDS,
    BackendType,
    CompileOptions,
    ExecutionMode,
    MemoryPlanner,
    OptimizationStrategy,
    RunConfig,
    parse_platform,
    platform_name,
)
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.signature import TensorSpec

if TYPE_CHECKING:
    from pypto_jit._compiler import Observation, Source, Stages
    from pypto_jit._replay import Assembled

# What MLIR calls a text that is in no file, and what we call it.
_NAMELESS, _TEXT = "-", "<module>"
_STAGE_PART = re.compile(r"_\d+_(cube|vector)$")


def compile(
    program: Stages | str | Program,
    *,
    output_dir: str | None = None,
    dump_passes: bool = False,
    profiling: bool = False,
    strategy: OptimizationStrategy = OptimizationStrategy.Default,
    memory_planner: MemoryPlanner | None = None,
    diagnostic_phase: str | None = None,
    disabled_diagnostics: tuple[str, ...] | None = None,
    distributed_config: object | None = None,
    analyze_auto_scopes_for_deps: bool = False,
    dump_ptoas_passes: bool = False,
    verification_level: int = 1,
    emit_source_loc: bool = True,
    runtime: str | None = None,
    opt_level: int = 2,
    platform: str | None = None,
    backend_type: BackendType | None = None,
) -> Any:
    """Compile a program, or a kernel that was lowered before: ``compile(f.lower(x), **config.compile_kwargs())``.

    Args:
        program: a class decorated with ``pl.program``, for the shapes that its annotations declare; or what
            ``f.lower(...)`` returned; or the text of its stage ``trace``; or PTO assembly, as its stage ``pto`` has it.
            Assembly has no passes to dump, and no advice.
        output_dir, dump_passes, ...: as in `RunConfig`, under the names of `CompileOptions`.
        platform: that of the program, on an NPU or simulated (default: simulated).
        backend_type: the architecture, where no platform is given.

    Returns:
        The `CompiledProgram`; of a program with several entries, `CompiledEntries`.

    Raises:
        ArgumentError: it is none of these.
        AssemblyError: the text is malformed, or holds what no kernel has.
        OptionError: an option that cannot be honoured, such as a platform of another architecture than the program's.
        PyptoError: the kernel is at fault; the error names the line.
    """
    from pypto_jit._compiler import Stages

    if not isinstance(program, (Stages, str, Program)):
        raise ArgumentError(
            "compile() takes a program, what f.lower(...) returns, or the text of a module",
            found=f"a {type(program).__qualname__}",
            hint="a kernel compiles itself: f.compile(...)" if hasattr(program, "__pypto_kernel__") else None,
        )
    options = CompileOptions(
        platform=platform,
        output_dir=output_dir,
        dump_passes=dump_passes,
        profiling=profiling,
        strategy=strategy,
        memory_planner=memory_planner,
        diagnostic_phase=diagnostic_phase,
        disabled_diagnostics=disabled_diagnostics,
        distributed_config=distributed_config,
        analyze_auto_scopes_for_deps=analyze_auto_scopes_for_deps,
        dump_ptoas_passes=dump_ptoas_passes,
        verification_level=verification_level,
        emit_source_loc=emit_source_loc,
        runtime=runtime,
        opt_level=opt_level,
    )
    check_compile(options)
    check_outputs(options)
    if isinstance(program, Program):
        return program.compile(config=_config(options, backend_type))
    return _compile(program, options, backend_type)


def _config(options: CompileOptions, backend_type: BackendType | None) -> RunConfig:
    """The config whose compile half these options are."""
    fields: dict[str, Any] = {m: getattr(options, name) for m, (view, name) in FIELDS.items() if view == "compile"}
    arch, mode = parse_platform(platform_for(None, options.platform, backend_type))
    return RunConfig(**fields, arch=arch, execution_mode=mode)


def _compile(program: Stages | str, options: CompileOptions, backend_type: BackendType | None) -> CompiledProgram:
    from pypto_jit._compiler import Observation

    if isinstance(program, str):
        source, text = None, program
    else:
        assert program.source is not None
        source, text = program.source, program.source.text
    is_assembly = source is None and "!pypto." not in text
    if is_assembly and '"pto.' in text:
        raise AssemblyError("this is a module between two passes", hint="compile the stage 'trace', or the stage 'pto'")
    arch = architecture(text, is_assembly)
    options = replace(options, platform=platform_for(arch, options.platform, backend_type))
    if is_assembly and to_observe(options):
        raise OptionError("assembly has been through the passes", hint="leave out dump_passes, profiling, diagnostics")
    observation = Observation(dump=options.dump_passes) if to_observe(options) else None
    try:
        made = compile_assembly(text, options) if is_assembly else _from_module(text, source, options, observation)
    except PyptoError as error:
        error.span = _renamed(error.span)
        raise
    made = replace(made, options=plain(options))
    if not is_asked(options):
        return made

    def observe() -> Observation:
        assert observation is not None
        return observation

    return made.written_to(write_outputs(made, options, observe), options)


def architecture(text: str, is_assembly: bool) -> BackendType:
    """That of a program: the assembly and the traced module each say it in an attribute.

    Raises:
        AssemblyError: there is no such one.
    """
    key = r"pto\.target_arch" if is_assembly else r"pypto\.target"
    found = re.search(rf'\b{key} *= *"([^"]*)"', text)
    if found is None:
        return BackendType.Ascend910B
    try:
        return BackendType(found.group(1))
    except ValueError:
        names = ", ".join(repr(each.value) for each in BackendType)
        raise AssemblyError("no such architecture", found=repr(found.group(1)), expected=names) from None


def platform_for(arch: BackendType | None, platform: str | None, backend_type: BackendType | None = None) -> str:
    """The platform to compile a program of an architecture for.

    Raises:
        OptionError: the one asked for is of another architecture.
    """
    if platform is None and backend_type is not None and not isinstance(backend_type, BackendType):
        raise ArgumentError("backend_type= takes a BackendType", found=repr(backend_type), hint="or write platform=")
    if platform is None:
        platform = platform_name(backend_type or arch or BackendType.Ascend910B, ExecutionMode.SIM)
    chosen, _ = parse_platform(platform)
    if arch is not None and chosen is not arch:
        raise OptionError(
            f"the program is for '{arch.value}', the platform is '{platform}'",
            hint=f"lower it for that: f.lower(..., config=RunConfig(platform='{platform}'))",
        )
    return platform


def _from_module(
    text: str, source: Source | None, options: CompileOptions, observation: Observation | None
) -> CompiledProgram:
    """Compile a module in the ``pypto`` dialect."""
    from pypto_jit._compiler import Clock, generate, lower_traced, target_of
    from pypto_jit._mlir import ir
    from pypto_jit.frontend.trace import Traced
    from pypto_jit.lowering.context import borrowed_context, type_table
    from pypto_jit.lowering.interface import traced_interface
    from pypto_jit.lowering.lowering import Lowering
    from pypto_jit.lowering.verify import verify_values

    clock, target = Clock(), target_of(options)
    with borrowed_context() as context:
        with clock.step("parse"):
            module = _parse(text, context)
            if source is None:
                with context, ir.Location.unknown():
                    parameters = traced_interface(module)
                    verify_values(module.operation, Lowering(target, type_table(context)), flat=False, placed=False)
                source = _source(_kernel_name(module), text, parameters, target.name)
        traced = Traced(module, source.parameters, source.returns, ())
        located = replace(options, emit_source_loc=options.emit_source_loc and "loc(" in text)
        lowered = lower_traced(traced, target, located, clock, observation)
    checks = tuple((_renamed(span), message) for span, message in lowered.checks)
    made = generate(source.name, traced, replace(lowered, checks=checks), options, clock, source.origin)
    if observation is not None:
        observation.seconds = clock.seconds
    return made


def _parse(text: str, context: Any) -> Any:
    from pypto_jit._mlir import MLIRError, ir

    try:
        return ir.Module.parse(text, context)
    except MLIRError as error:
        details = getattr(error, "error_diagnostics", ())
        message = details[0].message if details else str(error)
        from pypto_jit.dialects.locations import span_of

        span = span_of(details[0].location) if details else None
        raise AssemblyError(f"this is no MLIR text of ours: {message}", span=span) from None


def compile_assembly(text: str, options: CompileOptions, origin: Assembled | None = None) -> CompiledProgram:
    """Compile PTO assembly.

    Args:
        text: level-3 assembly, for the platform of the options.
        options: of the compile.
        origin: the file it is in, and the program that it is of, where it is known.

    Raises:
        AssemblyError: it is malformed, or is not of that program.
        PyptoError: it asks for what the machine cannot do.
    """
    from pypto_jit._compiler import Clock, generate, lower_planned, target_of
    from pypto_jit._mlir import ir
    from pypto_jit.dialects.assembly import parse_assembly
    from pypto_jit.dialects.assembly.parser import DEFAULT_FILENAME
    from pypto_jit.frontend.trace import Traced
    from pypto_jit.lowering.context import borrowed_context, type_table
    from pypto_jit.lowering.interface import planned_interface
    from pypto_jit.lowering.lowering import Lowering
    from pypto_jit.lowering.verify_buffers import verify_buffers

    clock, target = Clock(), target_of(options)
    filename = origin.filename if origin is not None else DEFAULT_FILENAME
    tensors = origin.program.tensors if origin is not None else ()
    known = {info.name: info.spec for info in tensors if isinstance(info.spec, TensorSpec)}
    with borrowed_context() as context:
        with clock.step("parse"):
            module = parse_assembly(text, context, filename=filename, own_places=origin is not None)
            with context, ir.Location.unknown():
                parameters = planned_interface(module, known)
                verify_buffers(module.operation, Lowering(target, type_table(context)), planned=True)
            source = _source(_kernel_name(module), text, parameters, target.name)
        if origin is not None:
            origin.check(parameters)
            source = source._replace(parameters=origin.program.parameters, returns=origin.program.returns)
        traced = Traced(module, source.parameters, source.returns, ())
        lowered = lower_planned(traced, frozenset(), options, clock)
    return generate(source.name, traced, lowered, options, clock, None)


def _source(name: str, text: str, parameters: Any, target: str) -> Source:
    from pypto_jit._compiler import Source

    outputs = tuple(info.name for info in parameters if info.direction != "in")
    return Source(name, text, parameters, outputs[0] if len(outputs) == 1 else outputs, None, target)


def _kernel_name(module: Any) -> str:
    """The name of the kernel that the functions of a module are of."""
    from pypto_jit.lowering.attributes import symbol
    from pypto_jit.lowering.interface import functions

    found = functions(module)
    name = symbol(found[0])
    return _STAGE_PART.sub("", name) if len(found) > 1 else name


def _renamed(span: Span | None) -> Span | None:
    """A place in a text that is in no file, as such."""
    return replace(span, filename=_TEXT) if span is not None and span.filename == _NAMELESS else span
