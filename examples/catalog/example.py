"""What an example is: a kernel, inputs for it, and the torch computation that it replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

F32, F16, BF16, I32 = torch.float32, torch.float16, torch.bfloat16, torch.int32


@dataclass(frozen=True)
class Example:
    """A kernel beside the torch computation it replaces.

    Attributes:
        name: unique, readable.
        kernel: the jitted function; what it computes is its last parameter, or a new tensor that it returns.
        inputs: makes the input tensors from a seeded generator.
        reference: the torch computation.
        output: shape and dtype of the output.
        tolerance: largest absolute error against the reference computed in float64 (0: equal).
        returns: whether the kernel returns a new tensor; an output is the last argument otherwise.
        machines: which can compute it.
    """

    name: str
    kernel: Any
    inputs: Callable[[torch.Generator], tuple[torch.Tensor, ...]]
    reference: Callable[..., torch.Tensor]
    output: tuple[tuple[int, ...], torch.dtype]
    tolerance: float
    returns: bool = False
    machines: tuple[str, ...] = ("a2a3", "a5")

    def arguments(self, seed: int = 0) -> tuple[torch.Tensor, ...]:
        """What the kernel is called with: the inputs, and an output to write to where it takes one."""
        inputs = self.inputs(torch.Generator().manual_seed(seed))
        return inputs if self.returns else (*inputs, torch.full(self.output[0], 77, dtype=self.output[1]))

    def expected(self, arguments: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The reference, computed in float64 (in int32 for integers)."""
        wide = [t.double() if t.is_floating_point() else t.int() for t in self.given(arguments)]
        return self.reference(*wide)

    def given(self, arguments: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """The inputs among the arguments."""
        return arguments if self.returns else arguments[:-1]


def normal(*shapes: tuple[int, ...], dtype: torch.dtype = F32):
    """Makes tensors of standard normal numbers."""
    return lambda g: tuple(torch.randn(shape, generator=g).to(dtype) for shape in shapes)


def integers(*shapes: tuple[int, ...]):
    """Makes tensors of any INT8 numbers."""
    return lambda g: tuple(torch.randint(-128, 128, shape, generator=g, dtype=torch.int8) for shape in shapes)


def weights(*shapes: tuple[int, ...], dtype: torch.dtype = F32):
    """Makes matrices ``[K, N]`` that keep the size of what they multiply: normal numbers divided by the root of K."""
    return lambda g: tuple((torch.randn(shape, generator=g) / shape[-2] ** 0.5).to(dtype) for shape in shapes)


def both(*makers: Callable[[torch.Generator], tuple[torch.Tensor, ...]]):
    """Makes the tensors of several makers."""
    return lambda g: tuple(tensor for maker in makers for tensor in maker(g))


def sum_error(depth: int, size: float = 1.0) -> float:
    """What an FP32 sum of ``depth`` products may be off by, in any order.

    Each addition rounds by half an ulp, 2^-24 of a partial sum, and no partial sum is above the sum of all magnitudes.
    That is below ``depth`` times ``size``, the mean magnitude of a product (0.64 for standard normal numbers).
    """
    return depth * 2.0**-24 * depth * size
