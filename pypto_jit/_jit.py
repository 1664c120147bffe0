"""A kernel: its calls go to its specialization, which is traced, lowered and compiled when first needed."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from pypto_jit._acceptance import INTERPRET, LOWER, Acceptance, Accepted, check_compile, check_only
from pypto_jit._allocation import allocators, complete
from pypto_jit._cached import Compiled, compile_cached
from pypto_jit._declaration import declared_parameters
from pypto_jit._destinations import OUT, Destinations, destinations
from pypto_jit._outputs import check_outputs, plain, to_observe, write_outputs
from pypto_jit._specializations import CacheInfo, Specialization, Specializations
from pypto_jit._statics import Statics
from pypto_jit.errors import PyptoError
from pypto_jit.options import CompileOptions, RunConfig
from pypto_jit.runtime.acceptance import check_run, take_config
from pypto_jit.runtime.arguments import OMITTED, TORCH, TensorArgument
from pypto_jit.runtime.artifact import CompiledProgram, returned
from pypto_jit.runtime.binding import Binder, BoundCall, Parameter
from pypto_jit.runtime.caller import ALLOCATED, GeneratedCaller, Guard, HotPath, HotPaths, constant_guard
from pypto_jit.runtime.launch import OverlappingInputs, as_array, check_autograd, launch, separated
from pypto_jit.signature import Constant, ParamInfo, TensorSpec
from pypto_jit.targets import BY_NAME

if TYPE_CHECKING:
    from pypto_jit._compiler import Interface, Observation, Stages
    from pypto_jit._costs import Explanation
    from pypto_jit.runtime.artifact import Returns


_NOTHING: Mapping[str, Any] = MappingProxyType({})


_Made = TypeVar("_Made")


class JitFunction:
    """One kernel and its specializations. Every method may be called by many threads at once.

    Attributes:
        original: the function as written.
        function: what the decorator returns.
        operators: those of torch that the kernel is registered as, by name.
    """

    def __init__(self, original: FunctionType, config: RunConfig) -> None:
        self.original = original
        # A RunConfig can be changed; what the kernel was decorated with cannot.
        self._config = dataclasses.replace(config)
        self._caller = GeneratedCaller(original, self._call)
        # Binds arguments as a call would, and returns them.
        self._collect = GeneratedCaller(original, lambda *bound: bound).function
        self._acceptance = Acceptance()
        self._default: Accepted | None = None
        self._specializations = Specializations(original.__name__, self._forget)
        self._statics = Statics(original.__name__)
        self._hot = HotPaths()
        self._lock = threading.Lock()
        # What torch knows of the kernel, by name; it forgets a kernel that is no more.
        self.operators: dict[str, Any] = {}
        self.function = functools.update_wrapper(self._caller.function, original)
        for name in ("lower", "compile", "interpret", "cache_info", "explain", "explain_last_miss", "cache_clear"):
            setattr(self.function, name, getattr(self, name))
        self.function.__pypto_kernel__ = original  # type: ignore[attr-defined]
        self.function.__pypto_jit__ = self  # type: ignore[attr-defined]
        # torch.compile must call a kernel, not look into the generated code.
        self.function._torchdynamo_disable = True  # type: ignore[attr-defined]
        self.function._torchdynamo_disable_msg = "a kernel is already compiled"  # type: ignore[attr-defined]
        _KERNELS.add(self)

    def _unlock(self) -> None:
        self._lock = threading.Lock()
        self._specializations.unlock()
        self._statics.unlock()

    @cached_property
    def _binder(self) -> Binder:
        return Binder(self.original.__name__, declared_parameters(self.original))

    # What a call does when the generated code gives up

    def _call(self, values: tuple[Any, ...], extra: tuple[Any, ...], named: dict[str, Any]) -> Any:
        from pypto_jit.language.tracing import CURRENT

        if CURRENT.get() is not None:
            return self._inline(values, extra, named)
        with _blaming_the_caller():
            config = self._chosen(named)
            out = named.pop(OUT, None)
            call = self._binder.bind(values, extra, named)
            check_autograd(list(call.tensors), [call.values[name] for name in call.tensors])
            if config.check_races:
                accepted = self._accept(config)
                check_run(dataclasses.replace(accepted.run, check_races=False), self.original.__name__)
                return self._interpret(call, config, out)
            if os.environ.get("PYPTO_JIT_INTERPRET", "0") not in ("", "0"):
                return self._interpret(call, config, out)
            return self._run(call, config, out=out)

    def _inline(self, values: tuple[Any, ...], extra: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A call by a kernel that is being traced, from code of others: kernel code goes there by itself."""
        from pypto_jit.frontend.builder import Builder
        from pypto_jit.frontend.calls import call_kernel
        from pypto_jit.language.tracing import CURRENT

        builder = CURRENT.get()
        assert isinstance(builder, Builder)
        parameters = inspect.signature(self.original).parameters.values()
        given = [(p, v) for p, v in zip(parameters, values, strict=True) if v is not OMITTED]
        positional = tuple(v for p, v in given if p.kind is p.POSITIONAL_ONLY)
        by_name = {p.name: v for p, v in given if p.kind is not p.POSITIONAL_ONLY}
        if extra:
            positional, by_name = (*(v for _, v in given), *extra), {}
        return call_kernel(builder, self.original, positional, {**by_name, **named})

    def _chosen(self, named: dict[str, Any]) -> RunConfig:
        config = named.pop("config", None)
        return self._config if config is None else take_config(config)

    def _run(self, call: BoundCall, config: RunConfig, results: Mapping[str, Any] = _NOTHING, out: Any = None) -> Any:
        accepted = self._accept(config)
        check_run(accepted.run, self.original.__name__)
        try:
            specialization, _ = self._specialize(call, accepted, first_calls=1)
        except Exception:
            if call.writes_nothing:
                # No tile has a zero extent; but there is nothing to compute either.
                outputs = tuple(call.values[name] for name in call.outputs)
                return outputs[0] if len(outputs) == 1 else outputs
            raise
        program = specialization.program
        call = self._statics.named(accepted.key, call)
        into = None if out is None else self._destinations(program.tensors, call, out)
        values, arguments = complete(program.tensors, call, results if into is None else into.written)
        try:
            scalars = [call.scalars[info.name] for info in program.scalars]
            tensors = [values[info.name] for info in program.tensors]
            launch(program, tensors, arguments, config.thread_limit, scalars)
        except OverlappingInputs as overlap:
            copies = {program.tensors[k].name: copy for k, copy in overlap.copies.items()}
            with_copies = [copies.get(name, values.get(name, value)) for name, value in call.values.items()]
            self._run(self._binder.bind(with_copies), config, values)
        else:
            if config is self._config:
                self._make_hot(specialization, call, arguments, into)
        return _settled(program.returns, values, into)

    def _destinations(self, tensors: Sequence[ParamInfo], call: BoundCall, out: Any) -> Destinations:
        return destinations(self.original.__name__, tensors, call.values, call.extents, out)

    def _make_hot(
        self,
        specialization: Specialization,
        call: BoundCall,
        arguments: Sequence[TensorArgument],
        into: Destinations | None,
    ) -> None:
        """Let the generated code try this specialization for calls like this one, before it takes the slow path."""
        tensors = specialization.program.tensors
        given = {} if into is None else into.given
        kinds = tuple(
            (info.name, argument.kind if {**call.values, **given}.get(info.name, OMITTED) is not OMITTED else ALLOCATED)
            for info, argument in zip(tensors, arguments, strict=True)
        )
        if into is not None and not (into.direct and all(kind == TORCH for _, kind in kinds)):
            return
        key = (kinds, call.library, *given)
        with self._lock:
            if specialization.evicted:
                return
            path = specialization.paths.get(key)
            if path is None:
                path = specialization.paths[key] = self._hot_path(specialization, call, kinds, tuple(given))
            if self._hot.admit(path):
                self._caller.install(self._hot.paths)

    def _forget(self, specialization: Specialization) -> None:
        """Take no more calls to a specialization that is held no more."""
        with self._lock:
            specialization.evicted = True
            if self._hot.drop(specialization.paths.values()):
                self._caller.install(self._hot.paths)

    def _hot_path(
        self,
        specialization: Specialization,
        call: BoundCall,
        kinds: tuple[tuple[str, str], ...],
        destinations: tuple[str, ...],
    ) -> HotPath:
        program, library = specialization.program, call.library
        only_torch = all(kind in (TORCH, ALLOCATED) for _, kind in kinds) and library == TORCH
        door = program.torch_entry if only_torch else None
        constants = {n: a.value for n, a in specialization.arguments.items() if isinstance(a, Constant)}
        guards = [constant_guard(name, value) for name, value in constants.items()]
        return HotPath(
            entry=door or program.entry,
            tensors=kinds,
            guards=(*guards, *(Guard(*read.guard()) for read in specialization.reads)),
            written=frozenset(info.name for info in program.tensors if info.direction != "in"),
            returns=program.returns,
            parallel=program.parallel,
            sees_torch=door is not None,
            allocators=allocators(program.tensors, kinds, library),
            threads=self._config.thread_limit,
            scalars=tuple(info.name for info in program.scalars),
            destinations=destinations,
        )

    # Specializations

    def _accept(self, config: RunConfig) -> Accepted:
        if config is not self._config:
            return self._acceptance.accept(config)
        if self._default is None:
            self._default = self._acceptance.accept(config)
        return self._default

    def _specialize(self, call: BoundCall, accepted: Accepted, first_calls: int) -> tuple[Specialization, Path | None]:
        """The specialization for a call, and the folder that the options ask for; both made if need be."""
        return self._statics.settle(
            accepted.key,
            call,
            lambda named, call: self._find_or_make((*accepted.key, *named.key), call, accepted, first_calls),
        )

    def _find_or_make(
        self, signature: tuple[Any, ...], call: BoundCall, accepted: Accepted, first_calls: int
    ) -> tuple[Specialization, Path | None]:
        options, key = accepted.options, (*accepted.key, *call.key)
        if accepted.asked:
            check_outputs(options)
        else:
            found = self._specializations.find(key)
            if found is not None:
                return found, None
        observed: list[Observation] = []

        def compile_observed() -> Compiled:
            from pypto_jit._compiler import Observation

            observed.append(Observation(dump=options.dump_passes))
            return compile_cached(self.original, call.arguments, options, observed[0])

        def make() -> Specialization:
            compiled = compile_observed() if to_observe(options) else self._compile(call, options)
            program = dataclasses.replace(compiled.program, options=plain(options))
            return Specialization(program, compiled.reads, call.arguments, options, first_calls)

        def observe() -> Observation:
            if not observed:
                compile_observed()
            return observed[0]

        needs = {name: str(need) for name, need in self._statics.needs(signature).items()}
        found = self._specializations.find_or_make(key, call.arguments, options, make, needs)
        return found, write_outputs(found.program, options, observe) if accepted.asked else None

    def _compile(self, call: BoundCall, options: CompileOptions) -> Compiled:
        return compile_cached(self.original, call.arguments, options)

    def _interpret(self, call: BoundCall, config: RunConfig, out: Any = None) -> Any:
        from pypto_jit._compiler import interpret_kernel

        values: dict[str, Any] = dict(call.scalars)
        into: Destinations | None = None

        def operands(call: BoundCall, parameters: Sequence[ParamInfo]) -> list[Any]:
            nonlocal into
            tensors = [info for info in parameters if isinstance(info.spec, TensorSpec)]
            values.update(complete(tensors, call, _NOTHING)[0])
            if out is not None:
                # The results are new here: a tensor that is read as well is written when all is computed.
                into = Destinations(self._destinations(tensors, call, out).given, values)
            arrays = [as_array(values[info.name]) for info in tensors]
            arrays = separated(arrays, tensors) if config.check_races else arrays
            given = {**call.scalars, **{info.name: array for info, array in zip(tensors, arrays, strict=True)}}
            return [given[info.name] for info in parameters]

        target = BY_NAME[config.arch.value]
        returns = self._statics.settle(
            (target.name,),
            call,
            lambda named, call: interpret_kernel(
                self.original, call.arguments, target, functools.partial(operands, named), config.check_races
            ),
        )
        return _settled(returns, values, into)

    # What the user may ask for

    def _bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], entry: str = "", honoured: frozenset[str] | None = None
    ) -> tuple[BoundCall, RunConfig]:
        values, extra, named = self._collect(*args, **kwargs)
        config = self._chosen(named)
        ahead = entry != "interpret()"
        # The options that a kernel is decorated with are for its calls; those given here are for here.
        if honoured is not None and config is not self._config:
            check_only(config, entry, honoured)
        return self._binder.bind(values, extra, named, ahead), config

    def lower(self, *args: Any, **kwargs: Any) -> Stages:
        """The text of the kernel at each stage, for these arguments: see `Kernel.lower`."""
        from pypto_jit._compiler import lower_kernel

        return self._of_specialization("lower()", lower_kernel, args, kwargs)

    def interface(self, values: Mapping[str, Any]) -> Interface:
        """What a call takes and returns, from a trace: nothing is compiled.

        Args:
            values: of every parameter: a specification of a tensor, `OMITTED`, or as in a call.
        """
        from pypto_jit._compiler import interface_of

        call = self._binder.bind(list(values.values()), ahead=True)
        target = BY_NAME[self._config.arch.value]
        return self._statics.settle(
            (target.name,), call, lambda _, call: interface_of(self.original, call.arguments, target)
        )

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters as calls are matched with them.

        Raises:
            DecoratorError: an annotation cannot be evaluated.
        """
        return self._binder.parameters

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """The kernels for these arguments, and what they cost: see `Kernel.explain`."""
        from pypto_jit._compiler import explain_kernel

        return self._of_specialization("explain()", explain_kernel, args, kwargs)

    def _of_specialization(
        self, entry: str, make: Callable[..., _Made], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> _Made:
        """What is made of the function, the arguments and the options, without a program."""
        with _blaming_the_caller():
            call, config = self._bind(args, kwargs, entry, LOWER)
            options = config.compile_options()
            check_compile(options)
            return self._statics.settle(
                (options.platform,), call, lambda _, call: make(self.original, call.arguments, options)
            )

    def compile(self, *args: Any, **kwargs: Any) -> CompiledProgram:
        """The compiled program for these arguments: see `Kernel.compile`."""
        with _blaming_the_caller():
            call, config = self._bind(args, kwargs)
            accepted = self._accept(config)
            specialization, folder = self._specialize(call, accepted, first_calls=0)
            program = specialization.program
            return program if folder is None else program.written_to(folder, accepted.options)

    def interpret(self, *args: Any, **kwargs: Any) -> Any:
        """Run in NumPy: see `Kernel.interpret`."""
        with _blaming_the_caller():
            out = None if OUT in inspect.signature(self.original).parameters else kwargs.pop(OUT, None)
            call, config = self._bind(args, kwargs, "interpret()", INTERPRET)
            check_autograd(list(call.tensors), [call.values[name] for name in call.tensors])
            return self._interpret(call, config, out)

    def cache_info(self) -> CacheInfo:
        """See `Kernel.cache_info`."""
        return self._specializations.info()

    def explain_last_miss(self) -> str:
        """See `Kernel.explain_last_miss`."""
        return self._specializations.explain_last_miss()

    def cache_clear(self) -> None:
        """See `Kernel.cache_clear`."""
        with self._lock:
            self._hot = HotPaths()
            self._caller.install(())
            self._specializations.clear()
            self._statics.clear()


_KERNELS: weakref.WeakSet[JitFunction] = weakref.WeakSet()


def _unlock_kernels() -> None:
    # A lock that another thread held at the fork would stay held in the child for ever.
    for kernel in _KERNELS:
        kernel._unlock()


os.register_at_fork(after_in_child=_unlock_kernels)


def _settled(returns: Returns, values: Mapping[str, Any], into: Destinations | None) -> Any:
    """What a call returns, when the tensors that it was given for its results have them."""
    if into is not None:
        into.settle()
        values = {**values, **into.given}
    return returned(returns, values)


class _blaming_the_caller:
    """Gives an error that names no line the line of the user's call."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, PyptoError) and error.span is None:
            from pypto_jit.language.location import user_span

            error.span = user_span()


def interpret(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The function that runs a kernel in NumPy, operation by operation: ``interpret(f)(*args)``.

    Raises:
        TypeError: it is no kernel.
    """
    run = getattr(kernel, "interpret", None)
    if run is None or not hasattr(kernel, "__pypto_kernel__"):
        raise TypeError(f"interpret() takes a function decorated with @pypto.jit, not {kernel!r}")
    return run
