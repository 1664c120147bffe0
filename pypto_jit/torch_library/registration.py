"""Registers a kernel with ``torch.library``, for as long as the kernel is in use."""

from __future__ import annotations

import inspect
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pypto_jit._jit import JitFunction
from pypto_jit.errors import LaunchError, RegistrationError
from pypto_jit.runtime.arguments import OMITTED
from pypto_jit.torch_library.functions import autograd_function, caller_function, destination_function, kernel_function
from pypto_jit.torch_library.gradients import (
    Gradients,
    Save,
    check_backward,
    differentiable,
    ends_on_cpu,
    example_of,
    knows_key_sets,
)
from pypto_jit.torch_library.shapes import Shapes
from pypto_jit.torch_library.signature import NONE_GIVEN, Argument, Signature, example_values, sign, span_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*::[A-Za-z_][A-Za-z0-9_]*")
_TORCHS_OWN = ("aten", "prim", "prims")


class TorchOperator(Protocol):
    """An operator of torch that runs a kernel: called with torch tensors, as the kernel is.

    Attributes:
        name: ``namespace::name``.
        default: the overload that returns new tensors; where an output cannot be left out, it writes to that.
        out: the overload that writes to tensors of the caller; None where there is none beside the default.
    """

    name: str
    default: Any
    out: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def unregister(self) -> None:
        """Take the operator out of torch; it cannot be called any more, and its name is free."""
        ...


@dataclass(eq=False)
class Registered:
    """An operator that is in torch.

    Attributes:
        signature: what it takes and returns.
        asked: the backward, the hook and the inputs that it was registered with.
        library: takes the operator out of torch when it is dropped.
        function: what the user calls.
        gradients: None where it has none.
        backward: the operator that was registered for them.
    """

    signature: Signature
    asked: tuple[Any, ...]
    library: _Interposed | None
    function: Any = None
    gradients: Gradients | None = None
    backward: TorchOperator | None = None

    def drop(self) -> None:
        """Take all of it out of torch."""
        self.library = None
        if self.backward is not None:
            self.backward.unregister()


def register(
    kernel: Callable[..., Any],
    name: str,
    example: Sequence[Any] | Mapping[str, Any],
    backward: Callable[..., Any] | None,
    save: Save | None,
    wrt: Sequence[str] | None,
) -> TorchOperator:
    """See `pypto_jit.torch_op`."""
    jit = getattr(kernel, "__pypto_jit__", None)
    if not isinstance(jit, JitFunction):
        raise RegistrationError(
            "torch_op() takes a kernel",
            found=f"a {type(kernel).__qualname__}",
            expected="a function decorated with @pypto.jit",
        )
    _check_name(name)
    if backward is None and (save is not None or wrt is not None):
        raise RegistrationError("save= and wrt= are for a backward", found="backward=None", span=span_of(jit))
    for option, value in (("backward", backward), ("save", save)):
        if value is not None and not callable(value):
            raise RegistrationError(f"{option}= takes a function", found=f"a {type(value).__qualname__}")
    signature = sign(jit, example)
    asked = (signature.schema(), signature.out_schema(), backward, save, None if wrt is None else tuple(wrt))
    known = jit.operators.get(name)
    if known is not None:
        if known.asked != asked:
            raise RegistrationError(
                f"'{name}' is this kernel already, but registered in another way",
                found=_difference(asked, known.asked),
                hint="choose another name, or call unregister() on what was registered",
            )
        return known.function
    _check_free(name)
    registration = _Registration(jit, name, signature, asked)
    try:
        made = registration.make(example, backward, save, wrt)
    except BaseException:
        registration.made.drop()
        raise
    jit.operators[name] = made
    return made.function


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RegistrationError(
            "an operator of torch has a name in a namespace",
            found=repr(name),
            expected="'namespace::name', both of letters, digits and underscores",
        )
    namespace = name.partition("::")[0]
    if namespace in _TORCHS_OWN:
        raise RegistrationError(
            f"the namespace '{namespace}' is torch's own", found=repr(name), hint="use a namespace of yours"
        )


def _check_free(name: str) -> None:
    namespace, _, short = name.partition("::")
    if hasattr(getattr(torch.ops, namespace), short):
        raise _taken(name)


def _taken(name: str) -> RegistrationError:
    return RegistrationError(
        f"torch has an operator '{name}' already, and it is not this kernel",
        hint="choose another name, or call unregister() on the operator if torch_op() made it",
    )


def _difference(asked: Sequence[Any], known: Sequence[Any]) -> str:
    labels = ("schema", "schema of the overload out", "backward=", "save=", "wrt=")
    pairs = [
        f"{label} {new!r} instead of {old!r}"
        for label, new, old in zip(labels, asked, known, strict=True)
        if new != old
    ]
    return "; ".join(pairs)


class _Interposed(torch.library.Library):
    """A library that gives the autograd kernel of one operator a quick way to that of the CPU.

    Attributes:
        around: gives what is registered in place of the autograd kernel.
    """

    around: Callable[[Callable[..., Any]], Callable[..., Any]]

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        """As torch's."""
        if dispatch_key == "Autograd" and options.get("with_keyset") and knows_key_sets():
            fn = self.around(fn)
        super().impl(op_name, fn, dispatch_key, **options)


class _Registration:
    """One registration, on its way."""

    def __init__(self, jit: JitFunction, name: str, signature: Signature, asked: tuple[Any, ...]) -> None:
        self._jit = jit
        self._name = name
        self._signature = signature
        namespace, _, self._short = name.partition("::")
        self.made = Registered(signature, asked, _Interposed(namespace, "FRAGMENT"))

    @property
    def _library(self) -> _Interposed:
        assert self.made.library is not None
        return self.made.library

    def make(
        self,
        example: Sequence[Any] | Mapping[str, Any],
        backward: Callable[..., Any] | None,
        save: Save | None,
        wrt: Sequence[str] | None,
    ) -> Registered:
        """Register the overloads, their shapes and their gradient."""
        made, signature, jit = self.made, self._signature, self._jit
        if backward is not None:
            made.gradients = self._gradients(example, backward, save, wrt)
        kernel = kernel_function(signature, jit.function, signature.inputs, signature.fresh)
        function = jit.function
        self._library.around = lambda recording: autograd_function(signature, function, recording, ends_on_cpu)
        self._define("", signature.schema(), kernel, signature.inputs, signature.fresh)
        out_schema = signature.out_schema()
        if signature.destinations:
            more = [Argument(name, "Tensor", "out", NONE_GIVEN, None) for name in signature.destinations]
            write = destination_function(signature, jit.function)
            self._define(".out", out_schema, write, [*signature.arguments, *more], ())
        elif out_schema is not None:
            write = kernel_function(signature, jit.function, signature.arguments, signature.results)
            self._define(".out", out_schema, write, signature.arguments, signature.results)
        packet = getattr(getattr(torch.ops, self._name.partition("::")[0]), self._short)
        out = packet.out if out_schema is not None else None
        made.function = caller_function(signature, jit.original.__name__, packet.default, out, jit.function)
        self._describe(made.function, packet.default, out)
        if made.gradients is not None:
            reference = weakref.ref(made)
            torch.library.register_autograd(
                self._name,
                lambda ctx, *grads: _alive(reference).compute(ctx, *grads),
                setup_context=lambda ctx, inputs, output: _alive(reference).setup_context(ctx, inputs, output),
                lib=self._library,
            )
        return made

    def _define(
        self,
        overload: str,
        schema: str | None,
        kernel: Callable[..., Any],
        given: Sequence[Argument],
        results: Sequence[str],
    ) -> None:
        library, name = self._library, f"{self._short}{overload}"
        try:
            library.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        except RuntimeError as error:
            if "multiple times" in str(error):
                raise _taken(self._name) from None
            raise RegistrationError(
                f"torch does not take the schema of '{self._name}'",
                span=span_of(self._jit),
                found=f"{name}{schema}",
                notes=tuple(str(error).splitlines()[:2]),
            ) from None
        library.impl(name, kernel, "CPU")
        if overload or self.made.gradients is None:
            # Nothing is recorded, so there is nothing to do there; the kernel refuses what requires grad.
            library.impl(name, torch.library.fallthrough_kernel, "Autograd")
        shapes = Shapes(weakref.ref(self._jit), self._signature)
        library._register_fake(name, _fake_function(shapes, self._signature, given, results))

    def _gradients(
        self,
        example: Sequence[Any] | Mapping[str, Any],
        backward: Callable[..., Any],
        save: Save | None,
        wrt: Sequence[str] | None,
    ) -> Gradients:
        jit, signature = self._jit, self._signature
        chosen = differentiable(jit, signature, wrt)
        inputs = tuple(a.name for a in signature.inputs)
        gradients = Gradients(self._name, inputs, chosen, backward, save)
        if not isinstance(getattr(backward, "__pypto_jit__", None), JitFunction):
            return gradients
        values = example_values(jit, example)
        called = example_of(gradients, signature, {name: values[name] for name in inputs})
        taken = _inputs_of(backward, called, self._name)
        inputs_of_backward = dict(zip(taken, called, strict=True))
        of: JitFunction = backward.__pypto_jit__  # type: ignore[attr-defined]
        check_backward(self._name, sign(of, inputs_of_backward), signature, chosen)
        name = f"{self._name}_backward"
        is_new = name not in of.operators
        operator = register(backward, name, inputs_of_backward, None, None, None)
        self.made.backward = operator if is_new else None
        gradients.backward = lambda *args: operator(**dict(zip(taken, args, strict=True)))
        return gradients

    def _describe(self, function: Any, default: Any, out: Any) -> None:
        jit, made = self._jit, self.made
        function.name, function.default, function.out = self._name, default, out
        # A kernel that calls the operator has the kernel's code in its own.
        function.__pypto_kernel__ = jit.original
        function.__doc__ = jit.original.__doc__
        function.__qualname__, function.__module__ = jit.original.__qualname__, jit.original.__module__
        name = self._name

        def unregister() -> None:
            """Take the operator out of torch; it cannot be called any more, and its name is free."""
            if jit.operators.get(name) is made:
                del jit.operators[name]
            made.drop()
            for overload in ("_pypto_default", "_pypto_out"):
                function.__globals__[overload] = gone

        def gone(*_: Any) -> None:
            raise LaunchError(f"the operator '{name}' is not registered any more", hint="register the kernel again")

        function.unregister = unregister


def _alive(reference: weakref.ref[Registered]) -> Gradients:
    made = reference()
    if made is None or made.gradients is None:
        raise LaunchError("the operator of this gradient is not registered any more")
    return made.gradients


def _inputs_of(backward: Any, called: Sequence[Any], name: str) -> list[str]:
    """The parameters that a backward is called with.

    Raises:
        RegistrationError: it takes more or fewer.
    """
    jit: JitFunction = backward.__pypto_jit__
    inputs = [p.name for p in jit.parameters if not p.output]
    written = inspect.signature(jit.original).parameters
    needed = [n for n in inputs if written[n].default is NONE_GIVEN]
    if not len(needed) <= len(called) <= len(inputs):
        raise RegistrationError(
            f"the backward of '{name}' takes other inputs than it is called with",
            span=span_of(jit),
            found=f"{jit.original.__name__}({', '.join(inputs)})",
            expected=f"{len(called)} inputs: the gradient of each result, then what is saved",
            hint="save= chooses what is saved",
        )
    return inputs[: len(called)]


def _fake_function(
    shapes: Shapes, signature: Signature, given: Sequence[Argument], results: Sequence[str]
) -> Callable[..., Any]:
    """What torch calls for tensors that have no values."""
    known = {a.name for a in signature.arguments}

    def fake(*args: Any) -> Any:
        values = {a.name: a.default for a in given if a.default is not NONE_GIVEN}
        values.update(zip((a.name for a in given), args, strict=False))
        every = {a.name: values.get(a.name, OMITTED) for a in signature.arguments}
        extra = [value for name, value in values.items() if name not in known]
        made = shapes.results(every, results, extra)
        return made[0] if len(made) == 1 else tuple(made) if made else None

    return fake
