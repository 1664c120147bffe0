"""Matches a call's arguments with a kernel's parameters, and says what is wrong with a call that does not match."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from pypto_jit.errors import ArgumentError
from pypto_jit.runtime.arguments import (
    NUMPY,
    OMITTED,
    TORCH,
    TensorArgument,
    constant_key,
    describe,
    inspect_tensor,
    is_tensor,
)
from pypto_jit.signature import Constant, TensorSpec


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, as its signature declares it.

    Attributes:
        name: as written.
        keyword_only: whether it must be named in a call.
        kind: ``tensor``, ``constant``, or ``any`` where the argument decides.
        output: whether it is declared an output, which a call may leave out.
        written: whether it is declared to be written.
    """

    name: str
    keyword_only: bool = False
    kind: str = "any"
    output: bool = False
    written: bool = False


@dataclass(frozen=True)
class BoundCall:
    """A call whose arguments match the parameters.

    Attributes:
        values: each argument, or `OMITTED`.
        tensors: what is known of each tensor argument.
        arguments: what each parameter is specialized on; None for an output left out.
        outputs: the parameters that are declared to be written.
        key: of the specialization.
    """

    values: Mapping[str, Any]
    tensors: Mapping[str, TensorArgument]
    arguments: dict[str, TensorSpec | Constant | None]
    outputs: tuple[str, ...]
    key: tuple[Any, ...]

    @property
    def writes_nothing(self) -> bool:
        """Whether the kernel declares outputs, and all were given and have no elements."""
        specs = [self.arguments[name] for name in self.outputs]
        return bool(specs) and all(isinstance(spec, TensorSpec) and 0 in spec.shape for spec in specs)

    @property
    def library(self) -> str:
        """Which library omitted outputs are allocated by."""
        given = [value for name, value in self.values.items() if name in self.tensors]
        return NUMPY if given and all(isinstance(value, numpy.ndarray) for value in given) else TORCH


class Binder:
    """Matches calls of one kernel."""

    def __init__(self, name: str, parameters: Sequence[Parameter]) -> None:
        self._name = name
        self._parameters = tuple(parameters)
        self._signature = f"{name}({', '.join(p.name for p in parameters)})"

    def bind(
        self, values: Sequence[Any], extra: Sequence[Any] = (), named: Mapping[str, Any] | None = None
    ) -> BoundCall:
        """Match the values of all parameters in order, `OMITTED` where none was given.

        Args:
            extra: surplus positional arguments.
            named: arguments by a name that is no parameter's.

        Raises:
            ArgumentError: surplus, unknown or missing arguments, or one that is not what its parameter takes.
        """
        if extra or named:
            raise self._surplus(len(values) + len(extra), named or {})
        missing = [p.name for p, v in zip(self._parameters, values, strict=True) if v is OMITTED and not p.output]
        if missing:
            raise ArgumentError(
                f"{self._name}() misses " + ", ".join(f"'{name}'" for name in missing), expected=self._signature
            )
        tensors: dict[str, TensorArgument] = {}
        arguments: dict[str, TensorSpec | Constant | None] = {}
        key: list[Any] = []
        for parameter, value in zip(self._parameters, values, strict=True):
            name = parameter.name
            if value is OMITTED:
                arguments[name] = None
                key.append(OMITTED)
            elif is_tensor(value):
                tensors[name] = self._tensor(parameter, value)
                arguments[name] = tensors[name].spec
                key.append(tensors[name].number)
            else:
                key.append(self._constant(parameter, value))
                arguments[name] = Constant(value)
        named_values = {p.name: v for p, v in zip(self._parameters, values, strict=True)}
        outputs = tuple(p.name for p in self._parameters if p.written)
        return BoundCall(named_values, tensors, arguments, outputs, tuple(key))

    def _surplus(self, count: int, named: Mapping[str, Any]) -> ArgumentError:
        if named:
            unknown = next(iter(named))
            near = difflib.get_close_matches(unknown, [p.name for p in self._parameters] + ["config"], 1, 0.5)
            return ArgumentError(
                f"{self._name}() has no parameter '{unknown}'",
                expected=self._signature,
                hint=f"did you mean '{near[0]}'?" if near else None,
            )
        positional = sum(not p.keyword_only for p in self._parameters)
        given = count - (len(self._parameters) - positional)
        return ArgumentError(
            f"{self._name}() takes {positional} positional arguments", found=given, expected=self._signature
        )

    def _tensor(self, parameter: Parameter, value: Any) -> TensorArgument:
        name = parameter.name
        if parameter.kind == "constant":
            raise ArgumentError(f"'{name}' is a constant, not a tensor", found=f"a {type(value).__qualname__}")
        return inspect_tensor(name, value)

    def _constant(self, parameter: Parameter, value: Any) -> Any:
        if parameter.kind == "tensor":
            raise ArgumentError(
                f"'{parameter.name}' is a tensor",
                found=type(value).__qualname__,
                expected="a torch tensor, a NumPy array, or any array with __dlpack__",
            )
        return constant_key(parameter.name, value)


def explain_spec(arguments: dict[str, TensorSpec | Constant | None]) -> str:
    """Arguments in the user's words."""
    parts = []
    for name, argument in arguments.items():
        if isinstance(argument, TensorSpec):
            parts.append(f"{name}: {describe(argument)}")
        else:
            parts.append(f"{name}: omitted" if argument is None else f"{name}={argument.value!r}")
    return ", ".join(parts)
