"""Draws functions of whole tensors: expressions, writes, loops around writes, branches, and calls of functions."""

from __future__ import annotations

import itertools
import linecache
import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import pypto_jit
import pypto_jit.language
from pypto_jit.dtypes import ALL
from tests.property import bounded_language
from tests.property.bounded import Bounded, given
from tests.property.tensor_authors import DTYPES, EXTENTS, LONG, MOST_ELEMENTS, MOST_RANK, Argument, Author, together
from tests.property.tensor_expressions import EXPRESSIONS, NUMBERS, spelled
from tests.property.tensor_parts import part

_numbers = itertools.count()
# Steps, and other shapes.
NEEDS_STRIDES = re.compile(r"\[[^]]*:[^],]*:|reshape|view|einsum")
BY_TORCH = {getattr(torch, dtype.torch): dtype for dtype in ALL}


@dataclass
class TensorProgram:
    """A function, and what it gives.

    Attributes:
        text: its source, and that of the functions it calls; it is named ``kernel``.
        arguments: its tensor parameters.
        count: the value of its last parameter, an integer; None where there is none.
        results: what it returns.
        memory: what its arguments hold after the call.

    Raises:
        IllConditionedError: too little is known of what it gives.
    """

    text: str
    arguments: list[Argument]
    count: int | None
    results: list[Bounded] = field(init=False)
    memory: list[Bounded] = field(init=False)

    def __post_init__(self) -> None:
        namespace: dict[str, Any] = {"pl": bounded_language}
        exec(self.text, namespace)
        self.memory = [given(argument.tensor, BY_TORCH[argument.tensor.dtype]) for argument in self.arguments]
        results = namespace["kernel"](*self.memory, *([] if self.count is None else [self.count]))
        self.results = list(results) if isinstance(results, tuple) else [results]

    def kernel(self, platform: str) -> Any:
        """The function as a kernel."""
        filename = f"<tensors {next(_numbers)}>"
        # Loops are rewritten from the source, which inspect finds here.
        linecache.cache[filename] = (len(self.text), None, self.text.splitlines(keepends=True), filename)
        namespace: dict[str, Any] = {"pypto": pypto_jit, "pl": pypto_jit.language, "__name__": "tensors"}
        exec(compile(self.text, filename, "exec"), namespace)
        return pypto_jit.jit(namespace["kernel"], config=pypto_jit.RunConfig(platform=platform))


def _indented(lines: Sequence[str]) -> list[str]:
    return ["    " + line for line in lines]


def _expression(author: Author) -> str | None:
    expression = EXPRESSIONS[author.one(tuple(EXPRESSIONS))](author)
    return spelled(author, expression) if expression is not None and author.chance(4) else expression


def _named(author: Author) -> None:
    author.name(_expression(author))


# Writes


def _memory(author: Author) -> str:
    """A tensor that may be written to: an argument, or one that the function makes."""
    if author.memory and not author.chance(4):
        return author.one(author.memory)
    shape, dtype = author.drawn_shape(), author.one(DTYPES)
    if author.chance(2) and len(author.arguments) < 7 and author.top:
        return author.argument(shape, dtype, written=True)
    if 0 in shape or not author.top:
        return author.one(author.memory) if author.memory else author.argument(shape, dtype, written=True)
    name = f"m{len(author.memory)}"
    initial = author.one((", init_value=0", ", init_value=2", ""))
    author.write([f"{name} = pl.create_tensor({list(shape)}, pl.{dtype}{initial})"])
    author.memory.append(name)
    if initial:
        author.values.append(name)
    return name


def _write(author: Author, loops: Sequence[tuple[str, int]] = (), memory: Sequence[str] = ()) -> list[str] | None:
    """A statement that writes to a part of a tensor."""
    name = author.one(memory) if memory else _memory(author)
    shape = author.shape(name)
    whole = not shape or (author.chance(3) and not loops)
    subscripts = ":" if whole else part(author, shape, loops)
    for loop, _ in loops:
        author.environment[loop] = 0
    place = f"{name}[{subscripts}]"
    target = eval(place, author.environment)
    value = author.one(NUMBERS) if author.chance(6) else author.partner(target.shape)
    if value is None or (value[0] not in "-0123456789" and together(author.shape(value), target.shape) != target.shape):
        return None
    if not target.shape and not whole:
        # An element is a scalar, not a tensor.
        return None
    held = name if whole else place
    forms = ["{p} = {v}"]
    if name in author.values:
        forms += ["{p} = {v} * 0.5", "{p} = {h} + {v}", "{p} = pl.maximum({h}, {v}) - 0.25"]
        forms += ["{p} += {v}"] if shape else []
    return [author.one(forms).format(p=place, v=value, h=held)]


def _written(author: Author) -> None:
    lines = _write(author)
    if lines is not None and author.write(lines):
        name = lines[0].partition("[")[0]
        if lines[0].startswith(f"{name}[:] =") and name not in author.values:
            author.values.append(name)


def _loop(author: Author, depth: int = 0) -> None:
    """A loop around writes; its bound is a number, or the function's last parameter."""
    if not author.memory:
        return
    count = author.number(0, 4)
    head = f"range({count})"
    if author.top and author.chance(2):
        author.count = author.count or author.number(1, 4)
        author.environment["n"] = count = author.count
        head = author.one(("range(n)", "pl.range(n)"))
    variables = [(f"i{depth}", count)]
    body = []
    for _ in range(author.number(1, 3)):
        lines = _write(author, variables if count else (), [name for name in author.memory if name in author.values])
        if lines is not None:
            body += lines
    if author.count and author.chance(4) and body:
        body = [f"if i{depth} < {author.number(0, 3)}:", *_indented(body)]
    if body:
        author.write([f"for i{depth} in {head}:", *_indented(body)])


def _branch(author: Author) -> None:
    """A branch on the last parameter around a write."""
    held = [name for name in author.memory if name in author.values]
    if not held or not author.top:
        return
    author.count = author.count or author.number(1, 4)
    author.environment["n"] = author.count
    arms = [_write(author, (), held) for _ in range(2)]
    if arms[0] is None:
        return
    lines = [f"if n {author.one(('<', '>', '=='))} {author.number(0, 4)}:", *_indented(arms[0])]
    if arms[1] is not None:
        lines += ["else:", *_indented(arms[1])]
    author.write(lines)


def _call(author: Author) -> None:
    """A function of some values, and its call."""
    names = [author.computed() for _ in range(author.number(1, 2))]
    if not author.top or any(name is None for name in names):
        return
    inner = Author(author.numbers, author.extents, top=False)
    number = len(author.functions)
    for k, name in enumerate(names):
        inner.environment[f"a{k}"] = author.environment[str(name)].seen(lambda tensor: tensor.clone())
        inner.values.append(f"a{k}")
    for _ in range(author.number(1, 4)):
        _named(inner)
    if not inner.lines:
        return
    results = [author.one(inner.values[-2:]) for _ in range(author.number(1, 2))]
    decorator = author.one(("", "@pl.jit.inline\n"))
    parameters = ", ".join(f"a{k}" for k in range(len(names)))
    body = _indented([*inner.lines, f"return {', '.join(results)}"])
    text = "\n".join([f"{decorator}def f{number}({parameters}):", *body, ""])
    exec(text, author.environment)
    given = [f"t{author.made + k}" for k in range(len(results))]
    if author.write([f"{', '.join(given)} = f{number}({', '.join(map(str, names))})"]):
        author.functions.append(text)
        author.made += len(results)
        author.values += given


STATEMENTS: dict[str, Callable[[Author], None]] = {
    **{f"expression {k}": _named for k in range(12)},
    **{f"write {k}": _written for k in range(3)},
    "loop": _loop,
    "branch": _branch,
    "call": _call,
}


def _extents(numbers: random.Random) -> list[int]:
    """Extents that the shapes of a function are made of, few enough elements in all."""
    result = [numbers.choice(LONG)] if numbers.random() < 0.08 else []
    while len(result) < MOST_RANK:
        # Some room is left for the others.
        left = MOST_ELEMENTS / math.prod(result) / 4 ** (MOST_RANK - len(result) - 1)
        result.insert(0, numbers.choice([extent for extent in EXTENTS if extent <= left] or [1]))
    if numbers.random() < 0.08:
        result[numbers.randrange(MOST_RANK)] = 0
    return result


def _reached(lines: Sequence[str]) -> list[str]:
    """The lines but those of loops that are known to run not once: what only these write is no output."""
    result, inside = [], False
    for line in lines:
        inside = line.endswith("range(0):") or (inside and line.startswith(" "))
        if not inside:
            result.append(line)
    return result


def _computed(author: Author) -> list[str]:
    """The values that are no arguments, under no other name either: a function may return what it is given."""
    arguments = [author.environment[argument.name] for argument in author.arguments]
    return [name for name in author.values if not any(author.environment[name] is given for given in arguments)]


def drawn(seed: int, statements: int = 12) -> TensorProgram:
    """The function that a number stands for, of at most so many statements."""
    numbers = random.Random(seed)
    author = Author(numbers, _extents(numbers), top=True)
    for _ in range(numbers.randint(statements // 3, statements)):
        STATEMENTS[numbers.choice(tuple(STATEMENTS))](author)
    while not (computed := _computed(author)):
        _named(author)
    used = re.findall(r"\w+", " ".join(author.lines))
    results = [name for name in computed if used.count(name) == 1] or computed[-1:]
    results += numbers.sample(computed, min(len(computed), numbers.randint(0, 2)))
    numbers.shuffle(results)
    reached = _reached(author.lines)
    for argument in author.arguments:
        argument.written = any(re.search(rf"\b{argument.name}\[[^]=]*\] \+?= ", line) for line in reached)
        if any(NEEDS_STRIDES.search(line) for line in [*author.lines, *author.functions]):
            # These need the strides when the kernel is compiled.
            argument.layout = "plain"
    parameters = [f"{a.name}: pl.InOut[pl.Tensor]" if a.written else a.name for a in author.arguments]
    if author.count is not None:
        parameters.append("n: int")
    lines = [*author.lines, f"return {', '.join(results)}"]
    text = "\n".join([*author.functions, f"def kernel({', '.join(parameters)}):", *_indented(lines), ""])
    return TensorProgram(text, author.arguments, author.count)
