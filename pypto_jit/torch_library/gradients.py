"""The gradient of an operator: what is saved for it, the backward that computes it, and where none is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import torch

from pypto_jit._jit import JitFunction
from pypto_jit.errors import ArgumentError, RegistrationError
from pypto_jit.signature import TensorSpec
from pypto_jit.torch_library.signature import Signature, names, span_of

Save = Callable[[tuple[Any, ...], Any], Any]


@dataclass
class Gradients:
    """The gradient of one operator.

    Attributes:
        name: of the operator.
        inputs: names of its parameters.
        wrt: those that have a gradient.
        backward: given the gradients of the results and what was saved, gives those of `wrt`.
        save: gives what is saved of the inputs and the results; None: the inputs.
    """

    name: str
    inputs: tuple[str, ...]
    wrt: tuple[str, ...]
    backward: Callable[..., Any]
    save: Save | None

    def saved(self, inputs: tuple[Any, ...], result: Any) -> tuple[Any, ...]:
        """What is saved of a call.

        Raises:
            ArgumentError: the hook gives something else than tensors and constants.
        """
        if self.save is None:
            return inputs
        kept = self.save(inputs, result)
        if not isinstance(kept, (tuple, list)):
            raise ArgumentError(
                f"save= of '{self.name}' returns what is saved",
                found=f"a {type(kept).__qualname__}",
                expected="a tuple of tensors and numbers",
            )
        return tuple(kept)

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what the backward needs, as ``torch.library.register_autograd`` asks."""
        kept = self.saved(inputs, output)
        ctx.save_for_backward(*(value for value in kept if isinstance(value, torch.Tensor)))
        ctx.constants = [None if isinstance(value, torch.Tensor) else (value,) for value in kept]

    def compute(self, ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradient of every parameter, None where it has none.

        Raises:
            ArgumentError: the backward gives another number of gradients, or something else.
        """
        tensors = iter(ctx.saved_tensors)
        kept = [next(tensors) if constant is None else constant[0] for constant in ctx.constants]
        found = self.backward(*grads, *kept)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(self.wrt) or not all(g is None or isinstance(g, torch.Tensor) for g in found):
            raise ArgumentError(
                f"the backward of '{self.name}' does not return the gradients",
                found=", ".join(type(each).__qualname__ for each in found) or "nothing",
                expected=f"a tensor for each of {', '.join(self.wrt)}",
            )
        by_name = dict(zip(self.wrt, found, strict=True))
        return tuple(by_name.get(name) for name in self.inputs)


def differentiable(jit: JitFunction, signature: Signature, wrt: Sequence[str] | None) -> tuple[str, ...]:
    """The parameters that have a gradient.

    Raises:
        RegistrationError: one of those asked for is no tensor that is read, or there are none; the kernel writes to
            what it is given.
    """
    function = jit.original.__name__
    if signature.mutates:
        raise RegistrationError(
            f"'{function}' writes to what it is given, and torch records the gradient of what returns new tensors",
            span=span_of(jit),
            found=signature.schema(),
            hint="return what is computed",
        )
    tensors = [a.name for a in signature.inputs if a.is_tensor]
    floats = [n for n in tensors if n in signature.example and signature.example[n].dtype.is_float]
    chosen = tuple(floats if wrt is None else [wrt] if isinstance(wrt, str) else wrt)
    unknown = [name for name in chosen if name not in tensors]
    if unknown or not chosen:
        raise RegistrationError(
            f"'{function}' has no such input to give a gradient to",
            span=span_of(jit),
            found=f"wrt={list(chosen)}" if wrt is not None else "no tensor of floats",
            expected=f"some of {', '.join(tensors)}" if tensors else "a tensor",
        )
    return chosen


def check_backward(name: str, found: Signature, forward: Signature, wrt: Sequence[str]) -> None:
    """Raise where a kernel does not return one gradient for each input, of its shape.

    Raises:
        RegistrationError: it does not.
    """
    returned = names(found.returns)
    if len(returned) != len(wrt):
        raise RegistrationError(
            f"the backward of '{name}' returns {len(returned)} tensors",
            expected=f"a gradient for each of {', '.join(wrt)}",
            hint="wrt= says which inputs have one",
        )
    for gradient, of in zip(returned, wrt, strict=True):
        spec, expected = found.example[gradient], forward.example.get(of)
        if expected is not None and spec.shown != expected.shown:
            raise RegistrationError(
                f"the backward of '{name}' returns a gradient of '{of}' that has another shape than '{of}'",
                found=spec.shown,
                expected=expected.shown,
            )


def example_of(gradients: Gradients, signature: Signature, values: dict[str, Any]) -> list[Any]:
    """What the backward is called with, for the example that the operator is registered with.

    Args:
        gradients: of the operator.
        signature: of the operator.
        values: of its inputs: specifications of tensors, and constants.
    """
    specs = [signature.example[name] for name in signature.fresh]
    if gradients.save is None:
        return [*specs, *values.values()]
    results = tuple(_meta(spec) for spec in specs)
    inputs = tuple(_meta(value) if isinstance(value, TensorSpec) else value for value in values.values())
    return [*specs, *gradients.saved(inputs, results[0] if len(results) == 1 else results)]


def _meta(spec: TensorSpec) -> torch.Tensor:
    shape = [max(extent, 1) for extent in spec.shape]
    return torch.empty(shape, dtype=getattr(torch, spec.dtype.torch), device="meta")


@lru_cache(maxsize=256)
def ends_on_cpu(keys: int) -> bool:
    """Whether all that is left to dispatch on after autograd, given as the bits of a key set, is the CPU's kernel."""
    from_raw = torch._C.DispatchKeySet.from_raw_repr
    view = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    rest = (from_raw(keys) & torch._C._after_autograd_keyset) - view
    return rest.highestPriorityTypeId() == torch._C.DispatchKey.CPU


@cache
def knows_key_sets() -> bool:
    """Whether this torch answers that."""
    try:
        return ends_on_cpu(torch._C._dispatch_keys(torch.zeros(())).raw_repr())
    except (AttributeError, TypeError):
        return False
