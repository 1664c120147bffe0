"""A drawn program as the Python source of a kernel, as a person would write it."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Sequence
from typing import Any

import pypto_jit
import pypto_jit.language
from pypto_jit.dialects.types import DYNAMIC
from tests.property.programs import Program, Step

_numbers = itertools.count()


def kernel(program: Program) -> Callable[..., Any]:
    """The program as a kernel of inputs, then outputs, which it returns."""
    text = source(program)
    filename = f"<program {next(_numbers)}>"
    # Loops are rewritten from the source, which inspect finds here.
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"pypto": pypto_jit, "pl": pypto_jit.language, "__name__": "program"}
    exec(compile(text, filename, "exec"), namespace)
    return namespace["kernel"]


def source(program: Program) -> str:
    """The Python text of a program."""
    inputs = [f"x{k}" for k in range(len(program.inputs))]
    outputs = [f"out{k}" for k in range(len(program.stored))]
    parameters = ", ".join([f"{x}: pl.Tensor" for x in inputs] + [f"{out}: pl.Out[pl.Tensor]" for out in outputs])
    if program.carried:
        body = _carried(program)
    elif program.rows:
        body = _blocks(program)
    else:
        body = [_load(program, k, "0") for k in range(len(inputs))]
        body += [_step(program, k) for k in range(len(program.steps))]
        body += [f"pl.store(t{k}, [0, 0], {out})" for k, out in zip(program.stored, outputs, strict=True)]
    lines = [f'@pypto.jit(config=pypto.RunConfig(platform="{program.target.name}sim"))', f"def kernel({parameters}):"]
    lines += ["    " + line for line in [*body, f"return {', '.join(outputs)}"]]
    return "\n".join(lines) + "\n"


def _load(program: Program, k: int, row: str) -> str:
    kind = program.inputs[k]
    valid = ["valid" if extent == DYNAMIC else str(extent) for extent in kind.valid]
    return f"t{k} = pl.load(x{k}, [{row}, 0], {list(kind.shape)}, valid_shape=[{', '.join(valid)}])"


def _step(program: Program, number: int) -> str:
    step = program.steps[number]
    operands = [f"t{k}" for k in step.operands]
    return f"t{len(program.inputs) + number} = pl.{step.operator}({', '.join(operands + _arguments(step))})"


def _arguments(step: Step) -> list[str]:
    result = step.result
    if step.operator == "full":
        assert step.scalar is not None
        return [str(list(result.shape)), f"pl.{result.dtype}", step.scalar[0]]
    if step.operator == "cast":
        return [f"pl.{result.dtype}", f'mode="{step.attributes["mode"]}"']
    if step.operator == "reshape":
        return [str(list(result.shape))]
    return [step.scalar[0]] if step.scalar is not None else []


def _indented(lines: Sequence[str]) -> list[str]:
    return ["    " + line for line in lines]


def _blocks(program: Program) -> list[str]:
    body = [f"valid = pl.min({program.block}, {program.rows} - i)"]
    body += [_load(program, k, "i") for k in range(len(program.inputs))]
    body += [_step(program, k) for k in range(len(program.steps))]
    for number, k in enumerate(program.stored):
        valid = program.tiles[k].valid
        offsets = "[i, 0]" if valid[0] == DYNAMIC else "[0, i]" if valid[1] == DYNAMIC else f"[i // {program.block}, 0]"
        body.append(f"pl.store(t{k}, {offsets}, out{number})")
    return [f"for i in pl.parallel(0, {program.rows}, {program.block}):", *_indented(body)]


def _carried(program: Program) -> list[str]:
    carried = range(program.carried)
    names = ", ".join(f"t{k}" for k in carried)
    body = [_load(program, k, "i") for k in range(program.carried, len(program.inputs))]
    body += [_step(program, k) for k in range(len(program.steps))]
    body.append(f"{names} = {', '.join(f't{k}' for k in program.stored)}")
    return [
        *(_load(program, k, "0") for k in carried),
        f"for i in pl.range(0, {program.rows}, {program.block}):",
        *_indented(body),
        *(f"pl.store(t{k}, [0, 0], out{k})" for k in carried),
    ]
