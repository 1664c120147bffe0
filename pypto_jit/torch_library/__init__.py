"""Kernels as operators of torch: registered with ``torch.library`` on request, and not before.

- `signature`: what an operator takes and returns, as torch's schemas say it.
- `shapes`: what it returns for tensors that have no values, with symbolic extents.
- `gradients`: its gradient, which another kernel computes.
- `functions`: the Python functions between torch, the kernel and the caller.
- `registration`: puts these together, and takes them away again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pypto_jit.torch_library.registration import TorchOperator


def torch_op(
    kernel: Callable[..., Any],
    /,
    *,
    name: str,
    example: Sequence[Any] | Mapping[str, Any] = (),
    backward: Callable[..., Any] | None = None,
    save: Callable[..., Any] | None = None,
    wrt: Sequence[str] | None = None,
) -> TorchOperator:
    """Register a kernel with ``torch.library``, so that torch.compile, torch.export, vmap and autograd know of it.

    The operator is called as the kernel is, with torch tensors, and is ``torch.ops.<namespace>.<name>`` as well. What
    the kernel writes and returns is found out by tracing it; nothing is compiled. A result, and an output that a call
    leaves out, is a new tensor. The overload ``out`` writes into tensors that the caller has.

    The operator is registered for as long as the kernel or what is returned here is in use.

    Args:
        kernel: a function decorated with ``@pypto.jit``.
        name: ``namespace::name``.
        example: arguments of a call, in order or by name: tensors (their values are not looked at), specifications
            of tensors, numbers. What the kernel's signature tells need not be given. Only their kinds, and the number
            and directions of what is written, are taken from it: the operator takes any extents and dtypes that the
            kernel takes.
        backward: computes the gradients: called with those of the results, and then with what was saved, it returns
            one gradient for each input in `wrt`, in order. A kernel is registered as ``<name>_backward``; any other
            function must consist of what torch knows.
        save: called with the tuple of inputs and the result (or the tuple of results), it returns what is saved for
            the backward: a tuple of tensors and numbers. By default all inputs are.
        wrt: the inputs that have a gradient. By default all that are tensors of floats.

    Returns:
        The function to call. The same call again returns the same function.

    Raises:
        RegistrationError: the name is malformed or taken, or the kernel or its backward cannot be registered.
        PyptoError: the kernel's trace fails for the example.
    """
    from pypto_jit.torch_library.registration import register

    return register(kernel, name, example, backward, save, wrt)


__all__ = ["torch_op"]
