"""Between the decorator and the compiler: a kernel that was compiled before, in whatever process, is loaded instead.

Where the disk cache is turned off, or cannot tell when a kernel would be stale, every process compiles for itself.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from pypto_jit.language.reads import Read, collect_reads
from pypto_jit.options import CompileOptions, RunConfig
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store.disk import open_store
from pypto_jit.runtime.store.programs import find_program
from pypto_jit.runtime.store.requests import Argument, Request, make_request
from pypto_jit.targets import BY_NAME


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel, and what its trace read of the Python world."""

    program: CompiledProgram
    reads: tuple[Read, ...]


def compile_cached(function: FunctionType, arguments: dict[str, Argument], config: RunConfig) -> Compiled:
    """The compiled kernel for these arguments, from the disk cache if it is there.

    Raises:
        PyptoError: the kernel is at fault; the error names the line.
    """
    options = config.compile_options()
    request = _request(function, arguments, options)
    if request is None:
        return _compile(function, arguments, config, None)
    program = find_program(request)
    if program is None:
        with request.store.exclusive(request.key.digest):
            # Another process may have compiled it while this one waited.
            program = find_program(request)
            if program is None:
                return _compile(function, arguments, config, request)
    return Compiled(program, collect_reads(function, request.reads.reached))


def key_options(options: CompileOptions) -> dict[str, Any]:
    """The options that decide what is compiled; the others only decide what is written beside it."""
    fields = dataclasses.fields(options)
    return {field.name: getattr(options, field.name) for field in fields if field.metadata["role"] == "key"}


def _request(function: FunctionType, arguments: dict[str, Argument], options: CompileOptions) -> Request | None:
    store = open_store()
    return make_request(store, function, arguments, key_options(options)) if store is not None else None


def _compile(
    function: FunctionType, arguments: dict[str, Argument], config: RunConfig, request: Request | None
) -> Compiled:
    from pypto_jit._compiler import compile_kernel

    return compile_kernel(function, arguments, BY_NAME[config.arch.value], config.platform, request)
