"""Between the decorator and the compiler: a kernel that was compiled before, in whatever process, is loaded instead.

Where the disk cache is turned off, or cannot tell when a kernel would be stale, every process compiles for itself.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any

from pypto_jit.errors import TraceError
from pypto_jit.language.reads import Read, collect_reads
from pypto_jit.options import CompileOptions
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store.disk import open_store
from pypto_jit.runtime.store.programs import find_program
from pypto_jit.runtime.store.requests import Argument, Request, make_request

if TYPE_CHECKING:
    from pypto_jit._compiler import Observation


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel, and what its trace read of the Python world."""

    program: CompiledProgram
    reads: tuple[Read, ...]


def compile_cached(
    function: FunctionType,
    arguments: dict[str, Argument],
    options: CompileOptions,
    observation: Observation | None = None,
) -> Compiled:
    """The compiled kernel for these arguments, from the disk cache if it is there.

    Args:
        function: the kernel.
        arguments: what each parameter is given.
        options: with a platform.
        observation: takes note of every step of a compile; the kernel is compiled, wherever it may be found.

    Raises:
        ValueNeeded: the value of a scalar is needed.
        PyptoError: the kernel is at fault; the error names the line.
    """
    start = time.perf_counter()
    request = _request(function, arguments, options)
    if request is None or observation is not None:
        return _compile(function, arguments, options, request, observation)
    program = find_program(request)
    if program is None:
        with request.store.exclusive(request.key.digest):
            # Another process may have compiled it while this one waited.
            program = find_program(request)
            if program is None:
                return _compile(function, arguments, options, request)
    try:
        # Functions that no trace reached are among these.
        reads = collect_reads(function, request.reads.reached)
    except TraceError:
        return _compile(function, arguments, options, request)
    timings = MappingProxyType({"load": time.perf_counter() - start})
    return Compiled(dataclasses.replace(program, timings=timings), reads)


def key_options(options: CompileOptions) -> dict[str, Any]:
    """The options that decide what is compiled; the others only decide what is written beside it."""
    fields = dataclasses.fields(options)
    return {field.name: getattr(options, field.name) for field in fields if field.metadata["role"] == "key"}


def _request(function: FunctionType, arguments: dict[str, Argument], options: CompileOptions) -> Request | None:
    store = open_store()
    return make_request(store, function, arguments, key_options(options)) if store is not None else None


def _compile(
    function: FunctionType,
    arguments: dict[str, Argument],
    options: CompileOptions,
    request: Request | None,
    observation: Observation | None = None,
) -> Compiled:
    from pypto_jit._compiler import compile_kernel

    return compile_kernel(function, arguments, options, request, observation)
