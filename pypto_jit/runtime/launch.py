"""Runs a compiled program on tensors whose fit is already known or is found out here; explains every refusal."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy
import torch

from pypto_jit import abi
from pypto_jit.dtypes import BF16
from pypto_jit.errors import ArgumentError, BoundsError, InternalError, LaunchError
from pypto_jit.options import DfxOptions, RunConfig
from pypto_jit.runtime.acceptance import check_built_for, check_platform, check_run, take_config, take_profiling
from pypto_jit.runtime.arguments import (
    FOREIGN,
    NUMPY,
    OMITTED,
    SUBCLASS,
    TORCH,
    TensorArgument,
    allocator,
    describe,
    inspect_tensor,
    is_tensor,
)
from pypto_jit.runtime.artifact import CompiledProgram, returned
from pypto_jit.runtime.caller import count_versions
from pypto_jit.runtime.extents import Given, numbers, resolve
from pypto_jit.runtime.scalars import Number, scalar_value
from pypto_jit.runtime.threads import thread_count
from pypto_jit.signature import Constant, ParamInfo, ScalarSpec, TensorSpec

# numpy.shares_memory solves a Diophantine equation; past this much work two tensors are taken to overlap.
_OVERLAP_WORK = 100_000


class OverlappingInputs(Exception):
    """Inputs that share memory with an output must be copied, and the call be made again with the copies.

    Attributes:
        copies: index of each such tensor parameter, and its copy.
    """

    def __init__(self, copies: dict[int, Any]) -> None:
        super().__init__(copies)
        self.copies = copies


def check_autograd(names: Sequence[str], values: Sequence[Any]) -> None:
    """Raise where autograd would have to record the call.

    Raises:
        ArgumentError: a tensor requires grad while gradients are recorded.
    """
    if not torch.is_grad_enabled():
        return
    for name, value in zip(names, values, strict=True):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            raise ArgumentError(
                f"'{name}' requires grad, and a kernel has no gradient",
                found=f"{name}.requires_grad, while gradients are recorded",
                hint=f"call it under torch.no_grad(), or pass {name}.detach(); or pypto.torch_op(..., backward=...)",
            )


def exchangeable(name: str, value: Any, argument: TensorArgument, written: bool) -> Any:
    """The value in a form that the entry takes, over the same memory.

    A negative view of torch's is materialized where it is only read.

    Raises:
        ArgumentError: it is to be written and cannot be: a read-only array, a negative view, an expanded tensor.
    """
    if written:
        check_writable(name, value, argument)
    if argument.kind in (TORCH, SUBCLASS):
        return value if argument.plain else value.resolve_neg()
    if argument.kind == FOREIGN:
        return value
    if value.dtype == argument.spec.dtype.numpy and argument.spec.dtype.name == "BF16":
        # NumPy does not export a dtype it does not own.
        return _as_torch(value.view(numpy.int16)).view(torch.bfloat16)
    if not value.flags.writeable:
        return _frozen(value)
    return value


def _frozen(value: numpy.ndarray) -> Any:
    """A read-only array as a tensor; NumPy exports one only to those who ask for DLPack 1.0."""
    import tvm_ffi

    try:
        return tvm_ffi.from_dlpack(value.__dlpack__(max_version=(1, 0)))
    except (TypeError, BufferError):
        return _as_torch(value)


def _as_torch(value: numpy.ndarray) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of arrays that are not writable
        return torch.from_numpy(value if all(stride >= 0 for stride in value.strides) else value.copy())


def check_writable(name: str, value: Any, argument: TensorArgument) -> None:
    """Raise an ArgumentError where a tensor cannot be written, as `exchangeable` says."""
    spec = argument.spec
    if isinstance(value, numpy.ndarray) and not value.flags.writeable:
        raise ArgumentError(f"'{name}' is written, but is a read-only array", hint="pass a copy, or a new array")
    if not argument.plain:
        raise ArgumentError(
            f"'{name}' is written, but is a negative view: its memory holds the negated values",
            hint=f"pass {name}.resolve_neg(), or a new tensor",
        )
    if isinstance(value, (torch.Tensor, numpy.ndarray)) and min(spec.strides, default=0) < 0:
        strides = value.stride() if isinstance(value, torch.Tensor) else [s // value.itemsize for s in value.strides]
        if overlaps_itself(argument.shape, strides):
            raise ArgumentError(
                f"'{name}' is written, but several of its elements share memory",
                found=f"shape {list(argument.shape)} with strides {list(strides)}",
                hint=f"pass {name}.clone() or a new tensor" if isinstance(value, torch.Tensor) else "pass a copy",
            )


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may share memory: a stride does not exceed the span of the dimensions of smaller stride."""
    if 0 in shape:
        return False
    longer = sorted((abs(stride), extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1)
    span = 0
    for stride, extent in longer:
        if stride <= span:
            return True
        span += stride * (extent - 1)
    return False


def launch(
    program: CompiledProgram,
    values: Sequence[Any],
    arguments: Sequence[TensorArgument],
    threads: int | None,
    scalars: Sequence[Number] = (),
) -> None:
    """Run a program on tensors that fit its specification.

    Args:
        values: one per tensor parameter.
        arguments: what `inspect_tensor` says of each.
        threads: None: as many as torch uses.
        scalars: one per scalar parameter, in the range of its dtype.

    Raises:
        ArgumentError: a written tensor cannot be written, or two written ones overlap.
        BoundsError: a box left its tensor.
        LaunchError: no memory.
        OverlappingInputs: an input must be copied first.
    """
    passed = [
        exchangeable(info.name, value, argument, info.direction != "in")
        for info, value, argument in zip(program.tensors, values, arguments, strict=True)
    ]
    count = (threads or thread_count()) if program.parallel else 1
    passed += scalars
    plain = all(argument.kind == TORCH and argument.plain for argument in arguments)
    door = program.torch_entry if plain else None
    result = door(*passed, count) if door is not None else abi.ARITY
    if result is None:
        return
    if result == abi.ARITY:
        result = program.entry(*passed, count)
    if result == abi.OVERLAP:
        copies = _harmful_overlaps(program.tensors, values)
        if copies:
            raise OverlappingInputs(copies)
        result = program.entry(*passed, count, abi.OVERLAP_RESOLVED)
    if result is not None:
        raise failure(program, result)
    written = [v for info, v in zip(program.tensors, values, strict=True) if info.direction != "in"]
    count_versions([value for value in written if isinstance(value, torch.Tensor)])


def failure(program: CompiledProgram, result: int) -> Exception:
    """The error that an entry's result stands for."""
    if result == abi.OUT_OF_MEMORY:
        return LaunchError(f"no memory for a call of kernel '{program.name}'", span=program.origin)
    if result < 0:
        span, message = program.checks[-result - 1]
        return BoundsError(message, span=span)
    known = len(program.tensors)
    if known < result <= known + len(program.scalars):
        info = program.scalars[result - known - 1]
        assert isinstance(info.spec, ScalarSpec)
        return ArgumentError(
            f"'{info.name}' does not fit the compiled kernel '{program.name}'", expected=f"a {info.spec.dtype} scalar"
        )
    if 1 <= result <= known:
        info = program.tensors[result - 1]
        assert isinstance(info.spec, TensorSpec)
        return ArgumentError(
            f"'{info.name}' does not fit the compiled kernel '{program.name}'", expected=describe(info.spec)
        )
    return InternalError(f"kernel '{program.name}' answered {result}")


def as_array(value: Any) -> numpy.ndarray:
    """A NumPy array over the memory of a tensor of any library; bfloat16 as ml_dtypes has it."""
    if isinstance(value, numpy.ndarray):
        return value
    tensor = value if isinstance(value, torch.Tensor) else torch.from_dlpack(value)
    tensor = tensor.detach().resolve_neg()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(BF16.numpy)
    return tensor.numpy()


def share_memory(left: numpy.ndarray, right: numpy.ndarray) -> bool:
    """Whether two arrays have an element in common; also where that takes too long to tell."""
    try:
        return numpy.shares_memory(left, right, max_work=_OVERLAP_WORK)  # type: ignore[arg-type]
    except (RuntimeError, OverflowError):
        return True


def _copy(value: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        return numpy.ascontiguousarray(value).copy()
    tensor = value if isinstance(value, torch.Tensor) else torch.from_dlpack(value)
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _harmful_overlaps(infos: Sequence[ParamInfo], values: Sequence[Any]) -> dict[int, Any]:
    """Copies of the inputs that share elements with an output.

    Raises:
        ArgumentError: two written tensors share elements.
    """
    layouts = [as_array(value) for value in values]
    copies: dict[int, Any] = {}
    for b, written in enumerate(infos):
        if written.direction == "in":
            continue
        for a, other in enumerate(infos):
            if a == b or a in copies or not share_memory(layouts[a], layouts[b]):
                continue
            if other.direction != "in":
                raise ArgumentError(
                    f"'{other.name}' and '{written.name}' are both written and share memory", hint="pass a clone of one"
                )
            copies[a] = _copy(values[a])
    return copies


def separated(arrays: Sequence[numpy.ndarray], infos: Sequence[ParamInfo]) -> list[numpy.ndarray]:
    """The arrays of a call, with copies of the inputs that share elements with an output.

    Raises:
        ArgumentError: two written tensors share elements.
    """
    copies = _harmful_overlaps(infos, arrays)
    return [copies.get(k, array) for k, array in enumerate(arrays)]


def call_program(
    program: CompiledProgram, given: Sequence[Any], config: RunConfig | None, dfx: DfxOptions | None = None
) -> Any:
    """Call a compiled program directly: see `CompiledProgram.__call__`."""
    check_platform(program.platform, program.name)
    if config is not None:
        check_built_for(take_config(config), program.platform, program.options, program.name)
    if config is not None or dfx is not None:
        run = (config or RunConfig(platform=program.platform)).run_options()  # type: ignore[call-arg]
        check_run(replace(run, dfx=take_profiling(dfx, config)), program.name)
    threads = config.thread_limit if config is not None else None
    named = _named(program, given)
    scalars = [_scalar(info, named[info.name]) for info in program.scalars]
    infos = program.tensors
    values = [named[info.name] for info in infos]
    present = [value for value in values if value is not OMITTED]
    kind = NUMPY if present and all(isinstance(value, numpy.ndarray) for value in present) else TORCH
    known: list[Given] = []
    for info, value in zip(infos, values, strict=True):
        if is_tensor(value):
            argument = _inspect(info, value)
            _check_fit(program, info, argument)
            known.append((info.name, argument.spec, argument.shape))
    extents = numbers(known)
    for index, info in enumerate(infos):
        assert isinstance(info.spec, TensorSpec)
        if values[index] is OMITTED and info.direction == "out":
            values[index] = allocator(info.spec, kind, resolve(info.name, info.spec, extents))()
        if not is_tensor(values[index]):
            found = None if values[index] is OMITTED else f"a {type(values[index]).__qualname__}"
            raise ArgumentError(f"'{info.name}' is missing or no tensor", found=found, expected=describe(info.spec))
    arguments = [_inspect(info, value) for info, value in zip(infos, values, strict=True)]
    check_autograd([info.name for info in infos], values)
    try:
        launch(program, values, arguments, threads, scalars)
    except OverlappingInputs as overlap:
        copied = [overlap.copies.get(k, value) for k, value in enumerate(values)]
        inspected = [_inspect(info, value) for info, value in zip(infos, copied, strict=True)]
        launch(program, copied, inspected, threads, scalars)
    return returned(program.returns, {info.name: value for info, value in zip(infos, values, strict=True)})


def _inspect(info: ParamInfo, value: Any) -> TensorArgument:
    assert isinstance(info.spec, TensorSpec)
    return inspect_tensor(info.name, value, info.spec.dims)


def _check_fit(program: CompiledProgram, info: ParamInfo, argument: TensorArgument) -> None:
    assert isinstance(info.spec, TensorSpec)
    if argument.spec != info.spec:
        raise ArgumentError(
            f"'{info.name}' is not what kernel '{program.name}' was compiled for",
            found=describe(argument.spec),
            expected=describe(info.spec),
        )


def _named(program: CompiledProgram, given: Sequence[Any]) -> dict[str, Any]:
    """The arguments of a program's call by parameter, `OMITTED` for those left out."""
    infos = [info for info in program.parameters if not isinstance(info.spec, Constant)]
    if len(given) > len(infos):
        what = "arguments" if program.scalars else "tensors"
        raise ArgumentError(
            f"too many {what} for kernel '{program.name}'",
            found=len(given),
            expected=", ".join(info.name for info in infos),
        )
    values = [OMITTED if value is None else value for value in given]
    values += [OMITTED] * (len(infos) - len(values))
    return {info.name: value for info, value in zip(infos, values, strict=True)}


def _scalar(info: ParamInfo, value: Any) -> Number:
    assert isinstance(info.spec, ScalarSpec)
    dtype = info.spec.dtype
    if value is OMITTED and info.default is not None:
        value = info.default
    if value is OMITTED or is_tensor(value):
        found = None if value is OMITTED else f"a {type(value).__qualname__}"
        raise ArgumentError(f"'{info.name}' is missing or no number", found=found, expected=f"a {dtype} scalar")
    return scalar_value(info.name, value, dtype)
