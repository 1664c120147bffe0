"""What an operator takes and returns: from one trace of its kernel to torch's schemas."""

from __future__ import annotations

import inspect
import itertools
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from pypto_jit._jit import JitFunction
from pypto_jit.errors import ArgumentError, PyptoError, RegistrationError, Span
from pypto_jit.runtime.arguments import OMITTED, canonical_spec, is_tensor, row_major, torch_dtype
from pypto_jit.runtime.artifact import Returns
from pypto_jit.runtime.binding import Parameter
from pypto_jit.runtime.scalars import scalar_dtype
from pypto_jit.signature import ParamInfo, TensorSpec

# A parameter without a default.
NONE_GIVEN = inspect.Parameter.empty
# torch's type of a constant, by Python's.
_CONSTANTS = {bool: "bool", int: "int", float: "float", str: "str", torch.dtype: "ScalarType"}
_LISTS = {int: "int[]", float: "float[]", bool: "bool[]", str: "str[]"}


@dataclass(frozen=True)
class Argument:
    """One parameter of an operator.

    Attributes:
        name: as the kernel has it.
        type: in torch's schemas.
        direction: ``in``, ``out`` or ``inout``.
        default: `NONE_GIVEN` where there is none.
        kind: as ``inspect.Parameter`` has it.
    """

    name: str
    type: str
    direction: str
    default: Any
    kind: Any

    @property
    def is_tensor(self) -> bool:
        """Whether it may be a tensor."""
        return self.type in ("Tensor", "Tensor?")


@dataclass(frozen=True)
class Signature:
    """What an operator takes and returns.

    Attributes:
        arguments: all parameters of the kernel, in order.
        returns: what the kernel returns: names of arguments and of results, nested.
        results: names of what is computed and returned, and is no parameter.
        leaves_out: whether a call may leave out the outputs.
        example: the specification of each tensor of the example, and of what it makes, by name.
    """

    arguments: tuple[Argument, ...]
    returns: Returns
    results: tuple[str, ...]
    leaves_out: bool
    example: Mapping[str, TensorSpec]

    @property
    def outs(self) -> tuple[str, ...]:
        """The parameters that are only written."""
        return tuple(a.name for a in self.arguments if a.direction == "out")

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """The parameters that every call gives."""
        return tuple(a for a in self.arguments if a.direction != "out" or not self.leaves_out)

    @property
    def fresh(self) -> tuple[str, ...]:
        """What the operator returns where nothing is given to write to: each tensor once."""
        named = dict.fromkeys(names(self.returns))
        return tuple(n for n in named if n in self.results or (n in self.outs and self.leaves_out))

    @property
    def mutates(self) -> bool:
        """Whether every call writes to what it is given."""
        return any(a.direction != "in" for a in self.inputs)

    @property
    def destinations(self) -> tuple[str, ...]:
        """What the overload ``out`` takes beyond the inputs, where results are written to tensors of the caller."""
        known = {a.name for a in self.arguments}
        if self.outs or not self.results or "out" in known:
            return ()
        several = (f"out{k}" for k in itertools.count() if f"out{k}" not in known)
        return ("out",) if len(self.results) == 1 else tuple(itertools.islice(several, len(self.results)))

    def schema(self) -> str:
        """Of the default overload."""
        return f"({', '.join(_shown(self.inputs))}) -> {_returned(len(self.fresh))}"

    def out_schema(self) -> str | None:
        """Of the overload that writes to tensors of the caller; None where there is none beside the default."""
        if self.outs and self.leaves_out:
            return f"({', '.join(_shown(self.arguments))}) -> {_returned(len(self.results))}"
        if not self.destinations:
            return None
        more = [Argument(name, "Tensor", "out", NONE_GIVEN, None) for name in self.destinations]
        return f"({', '.join(_shown([*self.arguments, *more]))}) -> ()"


def names(returns: Returns) -> list[str]:
    """The names in what a kernel returns, in order."""
    return [returns] if isinstance(returns, str) else [name for item in returns for name in names(item)]


def _shown(arguments: Sequence[Argument]) -> list[str]:
    letters = iter(string.ascii_lowercase + string.ascii_uppercase)
    # torch takes defaults at the end only.
    trailing = itertools.takewhile(lambda a: _default(a) is not None, reversed(arguments))
    optional = {a.name for a in trailing}
    shown = []
    for a in arguments:
        written = a.type.replace("Tensor", f"Tensor({next(letters)}!)") if a.direction != "in" else a.type
        shown.append(f"{written} {a.name}" + (f"={_default(a)}" if a.name in optional else ""))
    return shown


def _default(argument: Argument) -> str | None:
    """A default as schemas write it; None where it has none, or one that they cannot write."""
    value = argument.default
    if value is None:
        return "None"
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    return None


def _returned(count: int) -> str:
    return "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"


def sign(jit: JitFunction, example: Sequence[Any] | Mapping[str, Any]) -> Signature:
    """The signature of the operator that a kernel becomes.

    Raises:
        RegistrationError: the example is none, or leaves open what a parameter is; or torch has no such parameter.
        PyptoError: the trace fails.
    """
    written = inspect.signature(jit.original).parameters
    values = example_values(jit, example)
    declared = {p.name: p for p in jit.parameters}
    omitted = {name: OMITTED if declared[name].output else value for name, value in values.items()}
    leaves_out = True
    try:
        interface = jit.interface(omitted)
    except ArgumentError:
        if all(values[name] is OMITTED for name in values if declared[name].output):
            raise
        leaves_out, interface = False, jit.interface(values)
    infos = {info.name: info for info in interface.parameters}
    arguments = tuple(_argument(jit, declared[n], written[n], values[n], infos[n]) for n in values)
    returned = dict.fromkeys(names(interface.returns))
    for name in returned:
        if infos[name].direction == "in":
            raise RegistrationError(
                f"'{jit.original.__name__}' returns its input '{name}', and an operator of torch returns new tensors",
                span=span_of(jit),
                hint=f"do not return it, or return a copy: {name} + 0",
            )
    results = tuple(name for name in returned if name not in values)
    specs = {info.name: info.spec for info in interface.parameters if isinstance(info.spec, TensorSpec)}
    return Signature(arguments, interface.returns, results, leaves_out, specs)


def span_of(jit: JitFunction) -> Span:
    """Where a kernel is defined."""
    code = jit.original.__code__
    return Span(code.co_filename, code.co_firstlineno)


def example_values(jit: JitFunction, example: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """The example's value of each parameter: a specification for a tensor, `OMITTED` where nothing says any.

    Raises:
        RegistrationError: the example does not fit the parameters, or leaves open what one is.
    """
    written = inspect.signature(jit.original).parameters
    given = dict(example) if isinstance(example, Mapping) else dict(zip(written, example, strict=False))
    unknown = [name for name in given if name not in written]
    if unknown or (not isinstance(example, Mapping) and len(example) > len(written)):
        raise RegistrationError(
            f"example= does not fit the parameters of '{jit.original.__name__}'",
            span=span_of(jit),
            found=f"'{unknown[0]}'" if unknown else f"{len(example)} arguments",
            expected=f"{jit.original.__name__}({', '.join(written)})",
        )
    return {p.name: _value(jit, p, written[p.name], given) for p in jit.parameters}


def _value(jit: JitFunction, parameter: Parameter, written: inspect.Parameter, given: Mapping[str, Any]) -> Any:
    name = parameter.name
    if name in given:
        value = given[name]
        return spec_of(name, value) if is_tensor(value) else value
    if written.default is not NONE_GIVEN:
        return written.default
    if parameter.output or parameter.declared is not None:
        return parameter.declared or OMITTED
    if parameter.kind == "scalar" and parameter.dtype is not None:
        return 1.0 if parameter.dtype.is_float else 1
    raise RegistrationError(
        f"what '{name}' is, '{jit.original.__name__}' does not say: a kernel is registered with what it takes",
        span=span_of(jit),
        expected=f"{name}: pl.Tensor[[rows, columns], pl.FP32], or an example of the arguments",
        hint="pypto.torch_op(..., example=(...)) takes the arguments of a call, such as torch.empty(4, 8)",
    )


def spec_of(name: str, value: Any) -> TensorSpec:
    """The specification of a tensor as if it were contiguous, wherever it lies, and whether or not it has values.

    Raises:
        ArgumentError: kernels have no such dtype.
    """
    tensor = value if isinstance(value, torch.Tensor) else torch.from_dlpack(value)
    shape = tuple(tensor.shape)
    return canonical_spec(shape, torch_dtype(name, tensor), row_major(shape))


def _argument(
    jit: JitFunction, parameter: Parameter, written: inspect.Parameter, value: Any, info: ParamInfo
) -> Argument:
    kind = _type(parameter, value, info)
    if kind is None:
        raise RegistrationError(
            f"an operator of torch has no parameter like '{parameter.name}'",
            span=span_of(jit),
            found=f"a {type(value).__module__}.{type(value).__qualname__}",
            expected="a tensor, an int, float, bool, string or torch dtype, None, or a list of numbers",
            hint="read it in the kernel from a variable, or make a kernel for each value",
        )
    optional = written.default is None and not kind.endswith("?")
    return Argument(parameter.name, f"{kind}?" if optional else kind, info.direction, written.default, written.kind)


def _type(parameter: Parameter, value: Any, info: ParamInfo) -> str | None:
    """torch's type of a parameter; None where it has none."""
    if isinstance(info.spec, TensorSpec):
        return "Tensor"
    if value is None:
        return "Tensor?"
    if parameter.kind == "scalar" or (parameter.kind == "any" and scalar_dtype(value) is not None):
        dtype = parameter.dtype or scalar_dtype(value)
        assert dtype is not None
        return "float" if dtype.is_float else "bool" if dtype.name == "BOOL" else "SymInt"
    if isinstance(value, (tuple, list)) and value and len({type(item) for item in value}) == 1:
        return _LISTS.get(type(value[0]))
    return _CONSTANTS.get(type(value))


def fits(signature: Signature, returns: Returns, parameters: Sequence[ParamInfo]) -> PyptoError | None:
    """What is wrong with a trace for other arguments: it must write and return what the example's does."""
    directions = {info.name: info.direction for info in parameters}
    for argument in signature.arguments:
        found = directions[argument.name]
        if found != "in" and argument.direction == "in":
            return RegistrationError(
                f"the kernel writes '{argument.name}' here, but not with the arguments that it was registered for",
                found=found,
                expected=argument.direction,
                hint=f"declare it {argument.name}: pl.Tensor, pl.Out[pl.Tensor] or pl.InOut[pl.Tensor]",
            )
    if returns != signature.returns:
        return RegistrationError(
            "the kernel returns something else here than with the arguments that it was registered for",
            found=returns,
            expected=signature.returns,
            hint="make it a kernel for each number of results",
        )
    return None
