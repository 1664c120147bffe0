"""Traces kernels for tests, without the decorator: to text, and through the NumPy interpreter to numbers."""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy

from pypto_jit.dialects.interpreter import interpret
from pypto_jit.dialects.types import row_major_strides
from pypto_jit.dtypes import FP32, DType
from pypto_jit.frontend.trace import Traced, trace
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.signature import Constant, TensorSpec
from pypto_jit.targets import A2A3, Target

# Python 3.10 knows the line of an instruction, not its columns.
COLUMNS = sys.version_info >= (3, 11)
BY_NUMPY = {"float32": FP32}


def spec(*shape: int, dtype: DType = FP32) -> TensorSpec:
    """A contiguous tensor argument."""
    return TensorSpec(shape, dtype, row_major_strides(shape))


def with_trace(kernel: Any, *arguments: Any, target: Target = A2A3, then: Callable[[Traced], Any]) -> Any:
    """What ``then`` makes of a traced kernel, while its context is alive.

    Args:
        kernel: the function.
        arguments: one per parameter: specs, None for an output left out, anything else a constant.
        target: the machine.
        then: called with the trace.
    """
    given = {
        name: argument if argument is None or isinstance(argument, TensorSpec) else Constant(argument)
        for name, argument in zip(inspect.signature(kernel).parameters, arguments, strict=True)
    }
    with borrowed_context():
        return then(trace(kernel, given, target))


def lines(kernel: Any, *arguments: Any, target: Target = A2A3) -> list[str]:
    """The operations of a traced kernel, without types, constants and the final return."""

    def text(traced: Traced) -> list[str]:
        body = str(traced.module).splitlines()[2:-2]
        kept = [line[4:] for line in body if "arith.constant" not in line and line.strip() not in ("return", "}", "")]
        without = [re.sub(r" -> \(.*\) \{$", " {", re.sub(r" : .*(?<!\{)$", "", line)) for line in kept]
        return [line.replace('"pypto.', "").replace('"', "") for line in without]

    return with_trace(kernel, *arguments, target=target, then=text)


def result_types(kernel: Any, *arguments: Any, target: Target = A2A3) -> list[str]:
    """The types of the tiles that a kernel makes, in order."""
    pattern = re.compile(r"-> (!pypto\.tile<[^>]*>)$")
    return with_trace(
        kernel,
        *arguments,
        target=target,
        then=lambda traced: [m.group(1) for line in str(traced.module).splitlines() if (m := pattern.search(line))],
    )


def evaluate(kernel: Any, *arrays: numpy.ndarray, target: Target = A2A3) -> None:
    """Run a kernel on float32 arrays in the interpreter; it writes into the last ones."""
    specs = [TensorSpec(a.shape, BY_NUMPY[str(a.dtype)], row_major_strides(a.shape)) for a in arrays]
    with_trace(kernel, *specs, target=target, then=lambda traced: interpret(traced.module, list(arrays)))


def excerpt(kernel: Any, offset: int, marked: str) -> str:
    """The two parts of an error's text that show a line of a kernel: the arrow, and the source with its caret.

    Args:
        kernel: the function.
        offset: of the line from the first one of the function.
        marked: what the caret is under.
    """
    line = kernel.__code__.co_firstlineno + offset
    text = linecache.getline(kernel.__code__.co_filename, line).rstrip()
    column = text.index(marked)
    margin = " " * len(str(line))
    place = f"{kernel.__code__.co_filename}:{line}" + (f":{column + 1}" if COLUMNS else "")
    caret = f"  {margin} | {' ' * column}{'^' * len(marked)}\n" if COLUMNS else ""
    return f"  --> {place}\n  {margin} |\n  {line} | {text}\n{caret}"
