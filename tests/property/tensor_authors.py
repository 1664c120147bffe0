"""Draws functions of whole tensors, statement by statement, each run with error bounds as it is drawn.

What a statement gives is known when the next one is drawn, so that operands fit, and no statement stays whose result
says nothing: one that may be anything within its bound.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT16, INT32, UINT8, DType
from tests.property import bounded_language
from tests.property.bounded import Bounded, IllConditionedError, given, limits

FLOATS = (FP32, FP32, FP16, BF16)
DTYPES = (FP32, FP32, FP32, FP32, FP16, BF16, INT32, INT16, INT8, UINT8)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 17, 31, 32, 33, 64, 65, 97, 127, 128, 130, 257)
LONG = (1000, 4099, 9001, 20011)
MOST_ELEMENTS = 1 << 16
MOST_RANK = 5
LAYOUTS = ("plain", "plain", "plain", "turned", "stepped", "inside")


@dataclass
class Argument:
    """A tensor argument.

    Attributes:
        name: of the parameter.
        tensor: what it holds before the call.
        written: whether the function writes to it.
        layout: how it lies in memory.
    """

    name: str
    tensor: torch.Tensor
    written: bool
    layout: str

    def made(self) -> torch.Tensor:
        """A new tensor of this layout."""
        tensor = self.tensor
        if self.layout == "turned" and tensor.dim() > 1:
            return tensor.transpose(-1, -2).clone(memory_format=torch.contiguous_format).transpose(-1, -2)
        if self.layout == "stepped" and tensor.dim():
            wide = tensor.new_zeros(*tensor.shape[:-1], tensor.shape[-1] * 2 + 1)
            view = wide[..., 1 : 1 + 2 * tensor.shape[-1] : 2]
        elif self.layout == "inside" and tensor.dim():
            wide = tensor.new_zeros(*(extent + 2 for extent in tensor.shape))
            view = wide[tuple(slice(1, 1 + extent) for extent in tensor.shape)]
        else:
            return tensor.clone()
        view.copy_(tensor)
        return view


class Author:
    """Writes one function."""

    def __init__(self, numbers: random.Random, extents: Sequence[int], *, top: bool) -> None:
        self.numbers = numbers
        self.extents = extents
        self.top = top
        self.environment: dict[str, Any] = {"pl": bounded_language}
        self.functions: list[str] = []
        self.lines: list[str] = []
        self.arguments: list[Argument] = []
        self.values: list[str] = []
        self.memory: list[str] = []
        self.count: int | None = None
        self.made = 0

    # Drawing

    def one(self, choices: Sequence[Any]) -> Any:
        return self.numbers.choice(choices)

    def chance(self, one_in: int) -> bool:
        return self.numbers.randrange(one_in) == 0

    def number(self, low: int, high: int) -> int:
        """One of these, the last included."""
        return self.numbers.randint(low, high)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.environment[name].shape

    def shape_of(self, expression: str) -> tuple[int, ...] | None:
        """The shape of what an expression gives; None where that is of no use."""
        try:
            return eval(expression, self.environment).shape
        except IllConditionedError:
            return None

    def dtype(self, name: str) -> DType:
        return self.environment[name].dtype

    def drawn_shape(self) -> tuple[int, ...]:
        rank = self.number(0, MOST_RANK)
        return tuple(1 if self.chance(5) else extent for extent in self.extents[MOST_RANK - rank :])

    def some_extents(self, rank: int) -> tuple[int, ...]:
        return tuple(self.one(EXTENTS) for _ in range(rank))

    def argument(self, shape: tuple[int, ...], dtype: DType, written: bool = False) -> str:
        number = len(self.arguments)
        name, kind = f"x{number}", self.one(("usual", "usual", "positive", "whole", "any"))
        tensor = contents(shape, dtype, number, kind)
        self.arguments.append(Argument(name, tensor, written, self.one(LAYOUTS)))
        self.environment[name] = given(tensor, dtype)
        self.values.append(name)
        if written:
            self.memory.append(name)
        return name

    def pick(self, fits: Callable[[Bounded], bool], make: Callable[[], str] | None = None) -> str | None:
        """A value that fits, sometimes a new argument."""
        found = [name for name in self.values if fits(self.environment[name])]
        if make is not None and self.top and (not found or self.chance(6)) and len(self.arguments) < 7:
            return make()
        # Of the newest more is left to be seen.
        return self.one(found[-4:] if self.chance(2) else found) if found else None

    def computed(self, dtypes: Sequence[DType] = DTYPES) -> str | None:
        return self.pick(
            lambda value: value.dtype in dtypes, lambda: self.argument(self.drawn_shape(), self.one(dtypes))
        )

    def partner(self, shape: tuple[int, ...], dtypes: Sequence[DType] = DTYPES) -> str | None:
        """A value that broadcasts with a shape."""

        def new() -> str:
            some = shape[self.number(0, len(shape)) :]
            return self.argument(tuple(1 if self.chance(4) else extent for extent in some), self.one(dtypes))

        return self.pick(lambda value: value.dtype in dtypes and together(value.shape, shape) is not None, new)

    # Writing

    def state(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        held = {name: self.environment[name] for name in self.memory}
        return {name: (value.value.clone(), value.radius.clone()) for name, value in held.items()}

    def write(self, lines: list[str]) -> bool:
        """Write statements, unless what they give is of no use."""
        before = self.state()
        try:
            exec("\n".join(lines), self.environment)
        except IllConditionedError:
            for name, (value, radius) in before.items():
                self.environment[name].value.copy_(value)
                self.environment[name].radius.copy_(radius)
            return False
        self.lines += lines
        return True

    def name(self, expression: str | None) -> None:
        """Give the value of an expression a name."""
        if expression is None:
            return
        name = f"t{self.made}"
        if self.write([f"{name} = {expression}"]):
            self.made += 1
            self.values.append(name)


def together(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...] | None:
    """What two shapes broadcast to; None where they do not, or it is too large."""
    try:
        shape = tuple(torch.broadcast_shapes(first, second))
    except RuntimeError:
        return None
    return shape if len(shape) <= MOST_RANK and math.prod(shape) <= MOST_ELEMENTS else None


def contents(shape: tuple[int, ...], dtype: DType, seed: int, kind: str) -> torch.Tensor:
    """Numbers of a dtype: ``usual`` ones around zero, ``positive`` ones, ``whole`` ones with many equal, or ``any``."""
    generator = torch.Generator().manual_seed(seed)
    held = getattr(torch, dtype.torch)
    if dtype.is_float:
        if kind == "whole":
            return torch.randint(-3, 4, shape, generator=generator).to(held)
        numbers = torch.rand(shape, generator=generator) * 4 - (0 if kind == "positive" else 2)
        return (numbers * (10 if kind == "any" else 1)).to(held)
    low, high = limits(dtype)
    if kind == "any":
        return torch.randint(low, high + 1, shape, generator=generator).to(held)
    low, high = max(low, 0 if kind == "positive" else -9), min(high, 2 if kind == "whole" else 9)
    return torch.randint(low, high + 1, shape, generator=generator).to(held)
