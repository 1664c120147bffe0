"""``run``: a program on tensors, with an outcome instead of an exception."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pypto_jit.errors import ArgumentError
from pypto_jit.options import FIELDS, DfxOptions, RunConfig
from pypto_jit.runtime.acceptance import take_config, take_profiling
from pypto_jit.runtime.artifact import CompiledProgram


@dataclass(frozen=True)
class RunResult:
    """How a run went.

    Attributes:
        passed: whether it ended without an error.
        test_name: the program's name.
        error: what went wrong; None where nothing did.
        execution_time: seconds of the whole call, compiling included.
        profile: None: launches on the CPU are not profiled.
        outputs: what the call returned.
    """

    passed: bool
    test_name: str
    error: str | None
    execution_time: float
    profile: None = None
    outputs: Any = None

    def __bool__(self) -> bool:
        return self.passed


def run(
    program: Callable[..., Any], *tensors: Any, config: RunConfig | None = None, dfx: DfxOptions | None = None
) -> RunResult:
    """Compile a program if need be, and run it on tensors.

    Args:
        program: a kernel, a program, or a compiled one.
        tensors: its arguments; outputs may be left out at the end.
        config: how to compile and run it.
        dfx: what to profile, in place of the config's flags. None of it is built for the CPU yet.

    Raises:
        ArgumentError: it is no program, the config no RunConfig, or what is to be profiled no DfxOptions.
    """
    if not callable(program) or isinstance(program, type):
        raise ArgumentError(
            "run() takes a kernel, a program or a compiled one", found=f"a {type(program).__qualname__}"
        )
    options: dict[str, Any] = {} if config is None else {"config": take_config(config)}
    profiling = take_profiling(dfx, config)
    if profiling.any() and isinstance(program, CompiledProgram):
        options["dfx"] = profiling
    elif profiling.any():
        flags = {name: getattr(profiling, mine) for name, (view, mine) in FIELDS.items() if view == "dfx"}
        options["config"] = replace(config or RunConfig(), **flags)
    name = getattr(program, "__name__", None) or getattr(program, "name", type(program).__name__)
    start = time.perf_counter()
    try:
        outputs = program(*tensors, **options)
    except Exception as error:  # whatever goes wrong is the outcome
        return RunResult(False, name, f"{type(error).__name__}: {error}", time.perf_counter() - start)
    return RunResult(True, name, None, time.perf_counter() - start, outputs=outputs)
