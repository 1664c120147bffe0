"""Matches a call's arguments with a kernel's parameters, and says what is wrong with a call that does not match."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy

from pypto_jit.dtypes import INDEX, DType
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
    renamed_spec,
    tensor_argument,
)
from pypto_jit.runtime.extents import numbers
from pypto_jit.runtime.scalars import Number, scalar_dtype, scalar_value
from pypto_jit.signature import Constant, DynVar, Runtime, ScalarSpec, TensorSpec


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, as its signature declares it.

    Attributes:
        name: as written.
        keyword_only: whether it must be named in a call.
        kind: ``tensor``, ``constant``, ``scalar``, or ``any`` where the argument decides.
        output: whether it is declared an output, which a call may leave out.
        written: whether it is declared to be written.
        dtype: of a scalar; None: that of the number given.
        runtime: whether it is a scalar that is never specialized on.
        declared: what a tensor is declared to be, where that is all of it.
        dims: of each dimension of a tensor, what names its extent, if that is only known at run time.
    """

    name: str
    keyword_only: bool = False
    kind: str = "any"
    output: bool = False
    written: bool = False
    dtype: DType | None = None
    runtime: bool = False
    declared: TensorSpec | None = None
    dims: tuple[DynVar | None, ...] = ()


Argument = TensorSpec | ScalarSpec | Constant | None


@dataclass(frozen=True)
class BoundCall:
    """A call whose arguments match the parameters.

    Attributes:
        values: each argument, or `OMITTED`.
        tensors: what is known of each tensor argument.
        scalars: what the kernel is given for each scalar argument that has a value.
        arguments: what each parameter is specialized on; None for an output left out.
        outputs: the parameters that are declared to be written.
        fixed: the scalars that must not be specialized on.
        key: of the specialization.
    """

    values: Mapping[str, Any]
    tensors: Mapping[str, TensorArgument]
    scalars: Mapping[str, Number]
    arguments: dict[str, Argument]
    outputs: tuple[str, ...]
    fixed: frozenset[str]
    key: tuple[Any, ...]

    def specialized_on(self, names: Collection[str]) -> BoundCall:
        """The same call, with the values of these scalars made part of the specialization."""
        if not names:
            return self
        values = {name: Constant(self.scalars[name]) for name in self.arguments if name in names}
        key = (*self.key, *((name, constant_key(name, constant.value)) for name, constant in values.items()))
        return replace(self, arguments={**self.arguments, **values}, key=key)

    @property
    def family(self) -> tuple[Any, ...]:
        """What is known of the arguments but for extents and layouts."""
        pairs = zip(self.arguments.values(), self.key, strict=True)
        return tuple((len(a.shape), a.dtype) if isinstance(a, TensorSpec) else part for a, part in pairs)

    def with_dims(self, dims: Mapping[str, Mapping[int, DynVar]]) -> BoundCall:
        """The same call, with these extents no part of the specialization; of a call not specialized on values.

        Args:
            dims: of parameters, by dimension, the names of the extents.

        Raises:
            ArgumentError: two extents of one name differ.
        """
        tensors, arguments, key = dict(self.tensors), dict(self.arguments), list(self.key)
        for position, (name, argument) in enumerate(self.arguments.items()):
            if name not in dims or not isinstance(argument, TensorSpec):
                continue
            known = argument.dims or (None,) * len(argument.shape)
            all_dims = tuple(dims[name].get(axis, dim) for axis, dim in enumerate(known))
            if name in tensors:
                tensors[name] = inspect_tensor(name, self.values[name], all_dims)
                arguments[name] = tensors[name].spec
            else:
                arguments[name] = renamed_spec(argument, all_dims)
            key[position] = tensor_argument(arguments[name], TORCH).number
        call = replace(self, tensors=tensors, arguments=arguments, key=tuple(key))
        call.check_extents()
        return call

    @property
    def writes_nothing(self) -> bool:
        """Whether the kernel declares outputs, and all were given and have no elements."""
        given = [self.tensors.get(name) for name in self.outputs]
        return bool(given) and all(each is not None and 0 in each.shape for each in given)

    def check_extents(self) -> None:
        """Raise an ArgumentError where two extents of one name differ."""
        if any(each.spec.dims for each in self.tensors.values()):
            _ = self.extents

    @property
    def extents(self) -> dict[str, int]:
        """What each name of a dimension stands for, of the tensors that were given."""
        return numbers((name, each.spec, each.shape) for name, each in self.tensors.items() if each.spec.dims)

    @property
    def library(self) -> str:
        """Which library omitted outputs are allocated by."""
        given = [value for name, value in self.values.items() if name in self.tensors]
        return NUMPY if given and all(isinstance(value, numpy.ndarray) for value in given) else TORCH


class Binder:
    """Matches calls of one kernel.

    Attributes:
        parameters: the kernel's, in order.
    """

    def __init__(self, name: str, parameters: Sequence[Parameter]) -> None:
        self._name = name
        self.parameters = tuple(parameters)
        self._signature = f"{name}({', '.join(p.name for p in parameters)})"

    def bind(
        self,
        values: Sequence[Any],
        extra: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
        ahead: bool = False,
    ) -> BoundCall:
        """Match the values of all parameters in order, `OMITTED` where none was given.

        Args:
            extra: surplus positional arguments.
            named: arguments by a name that is no parameter's.
            ahead: whether nothing is to run: what the signature tells need not be given, and scalars may be RUNTIME.

        Raises:
            ArgumentError: surplus, unknown or missing arguments, or one that is not what its parameter takes.
        """
        if extra or named:
            raise self._surplus(len(values) + len(extra), named or {})
        if ahead:
            values = [_told(p) if v is OMITTED else v for p, v in zip(self.parameters, values, strict=True)]
        missing = [p.name for p, v in zip(self.parameters, values, strict=True) if v is OMITTED and not p.output]
        undeclared = [p.name for p in self.parameters if p.name in missing and p.kind == "tensor"]
        if ahead and undeclared:
            name = undeclared[0]
            raise ArgumentError(
                f"there is nothing to compile '{self._name}' for: '{name}' has no declared shape",
                found=f"{name}: pl.Tensor",
                expected=f"{name}: pl.Tensor[[rows, columns], pl.FP32], or tensors as arguments",
            )
        if missing:
            raise ArgumentError(
                f"{self._name}() misses " + ", ".join(f"'{name}'" for name in missing), expected=self._signature
            )
        tensors: dict[str, TensorArgument] = {}
        scalars: dict[str, Number] = {}
        arguments: dict[str, Argument] = {}
        fixed = frozenset(p.name for p in self.parameters if p.runtime)
        key: list[Any] = []
        for parameter, value in zip(self.parameters, values, strict=True):
            name = parameter.name
            if value is OMITTED and parameter.declared is not None:
                # What it will be is known: the same as if it were given.
                arguments[name] = parameter.declared
                key.append(tensor_argument(parameter.declared, TORCH).number)
            elif value is OMITTED:
                arguments[name] = None
                key.append(OMITTED)
            elif isinstance(value, TensorSpec):
                arguments[name] = value
                key.append(tensor_argument(value, TORCH).number)
            elif isinstance(value, Runtime):
                arguments[name] = self._runtime(parameter, value, ahead)
                fixed |= {name}
                key.append(arguments[name])
            elif is_tensor(value):
                tensors[name] = self._tensor(parameter, value)
                arguments[name] = tensors[name].spec
                key.append(tensors[name].number)
            elif parameter.kind == "scalar" or (parameter.kind == "any" and scalar_dtype(value) is not None):
                arguments[name], scalars[name] = self._scalar(parameter, value)
                key.append(arguments[name])
            else:
                key.append(self._constant(parameter, value))
                arguments[name] = Constant(value)
        named_values = {p.name: v for p, v in zip(self.parameters, values, strict=True)}
        outputs = tuple(p.name for p in self.parameters if p.written)
        call = BoundCall(named_values, tensors, scalars, arguments, outputs, fixed, tuple(key))
        call.check_extents()
        return call

    def _surplus(self, count: int, named: Mapping[str, Any]) -> ArgumentError:
        if named:
            unknown = next(iter(named))
            near = difflib.get_close_matches(unknown, [p.name for p in self.parameters] + ["config"], 1, 0.5)
            return ArgumentError(
                f"{self._name}() has no parameter '{unknown}'",
                expected=self._signature,
                hint=f"did you mean '{near[0]}'?" if near else None,
            )
        positional = sum(not p.keyword_only for p in self.parameters)
        given = count - (len(self.parameters) - positional)
        return ArgumentError(
            f"{self._name}() takes {positional} positional arguments", found=given, expected=self._signature
        )

    def _tensor(self, parameter: Parameter, value: Any) -> TensorArgument:
        name = parameter.name
        if parameter.kind in ("constant", "scalar"):
            what = "constant" if parameter.kind == "constant" else "number"
            hint = f"pass {name}.item()" if getattr(value, "ndim", None) == 0 else None
            raise ArgumentError(f"'{name}' is a {what}, not a tensor", found=f"a {type(value).__qualname__}", hint=hint)
        return inspect_tensor(name, value, parameter.dims)

    def _scalar(self, parameter: Parameter, value: Any) -> tuple[ScalarSpec, Number]:
        dtype = parameter.dtype or scalar_dtype(value) or INDEX
        number = scalar_value(parameter.name, value, dtype)
        return ScalarSpec(dtype, converts=dtype.is_float and parameter.dtype is not None), number

    def _runtime(self, parameter: Parameter, value: Runtime, ahead: bool) -> ScalarSpec:
        name, dtype = parameter.name, value.dtype or parameter.dtype
        if not ahead:
            raise ArgumentError(
                f"'{name}' is called with pl.RUNTIME", expected="a number", hint="only compile() and lower() take it"
            )
        if parameter.kind in ("tensor", "constant"):
            raise ArgumentError(f"'{name}' is a {parameter.kind}", found="pl.RUNTIME, which stands for a number")
        if dtype is None or parameter.dtype not in (None, dtype):
            expected = f"pl.RUNTIME[pl.{parameter.dtype or INDEX}]"
            raise ArgumentError(f"the dtype of '{name}' is not known", found=repr(value), expected=expected)
        return ScalarSpec(dtype, converts=dtype.is_float and parameter.dtype is not None)

    def _constant(self, parameter: Parameter, value: Any) -> Any:
        if parameter.kind == "tensor":
            raise ArgumentError(
                f"'{parameter.name}' is a tensor",
                found=type(value).__qualname__,
                expected="a torch tensor, a NumPy array, or any array with __dlpack__",
            )
        return constant_key(parameter.name, value)


def _told(parameter: Parameter) -> Any:
    """What stands for an argument that is not given, where the signature tells all of it."""
    if parameter.declared is not None and not parameter.output:
        return parameter.declared
    return Runtime(parameter.dtype) if parameter.dtype is not None else OMITTED


def explain_spec(arguments: Mapping[str, Argument]) -> str:
    """Arguments in the user's words."""
    parts = []
    for name, argument in arguments.items():
        if isinstance(argument, TensorSpec):
            parts.append(f"{name}: {describe(argument)}")
        elif isinstance(argument, ScalarSpec):
            parts.append(f"{name}: a {argument.dtype} scalar")
        else:
            parts.append(f"{name}: omitted" if argument is None else f"{name}={argument.value!r}")
    return ", ".join(parts)
