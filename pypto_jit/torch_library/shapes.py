"""The results of an operator for tensors that have no values: their shapes and dtypes, from a trace.

An extent that torch only knows as a symbol is given a name in the trace, and an extent of a result that has the name
is the symbol again. Where the kernel does not trace with names, because it looks at the number, the symbols are
replaced by their numbers, which torch guards.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from pypto_jit._jit import JitFunction
from pypto_jit.dtypes import BOOL, FP32, INDEX, DType
from pypto_jit.errors import PyptoError
from pypto_jit.runtime.arguments import OMITTED, constant_key, row_major, tensor_argument, torch_dtype
from pypto_jit.runtime.binding import Parameter
from pypto_jit.runtime.extents import resolve
from pypto_jit.runtime.launch import check_autograd
from pypto_jit.signature import DynVar, Runtime, TensorSpec, known_extents, named_extents
from pypto_jit.torch_library.signature import Signature, fits

if TYPE_CHECKING:
    from pypto_jit._compiler import Interface

# Interfaces remembered; one that is forgotten is traced again.
_MOST = 256

Extent = Any  # int or torch.SymInt


class Names:
    """Names for the extents of one call, and what they stand for.

    Attributes:
        numbers: of each name, the extent.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, Extent] = {}

    def name(self, extent: torch.SymInt) -> DynVar:
        """The name of an extent: the same for extents that torch knows to be equal."""
        from torch.fx.experimental.symbolic_shapes import statically_known_true

        for name, number in self.numbers.items():
            if statically_known_true(number == extent):
                return DynVar(name)
        name = f"torch_extent{len(self.numbers)}"
        self.numbers[name] = extent
        return DynVar(name)

    def declare(self, dim: DynVar, extent: Extent) -> None:
        """Take note of an extent whose name the kernel declares."""
        self.numbers.setdefault(dim.name, (extent - dim.offset) // dim.factor)


@dataclass
class Shapes:
    """Infers the results of one operator.

    Attributes:
        kernel: the kernel; torch holds what infers its results, and must not hold it.
        signature: of the operator.
    """

    kernel: weakref.ref[JitFunction]
    signature: Signature
    _known: dict[Any, Interface] = field(default_factory=dict)

    @property
    def _jit(self) -> JitFunction:
        jit = self.kernel()
        assert jit is not None
        return jit

    def results(
        self, values: Mapping[str, Any], wanted: Sequence[str], destinations: Sequence[Any] = ()
    ) -> list[torch.Tensor]:
        """New tensors for the results of a call.

        Args:
            values: of every parameter, `OMITTED` for an output that is left out.
            wanted: names of outputs and results.
            destinations: tensors that results are written to.

        Raises:
            ArgumentError: a tensor requires grad while gradients are recorded; or as for a call of the kernel.
        """
        given = {**values, **{f"out{k}": value for k, value in enumerate(destinations)}}
        tensors = [value for value in values.values() if isinstance(value, torch.Tensor)]
        check_autograd(list(given), list(given.values()))
        symbolic = any(_symbols(value) for value in values.values())
        try:
            specs, numbers = self._specs(values, wanted, keep=True)
        except PyptoError:
            if not symbolic:
                raise
            specs, numbers = self._specs(values, wanted, keep=False)
        shapes = [_extents(name, spec, numbers) for name, spec in zip(wanted, specs, strict=True)]
        device = tensors[0].device if tensors else torch.device("cpu")
        return [
            torch.empty(shape, dtype=getattr(torch, spec.dtype.torch), device=device)
            for shape, spec in zip(shapes, specs, strict=True)
        ]

    def _specs(
        self, values: Mapping[str, Any], wanted: Sequence[str], keep: bool
    ) -> tuple[list[TensorSpec], dict[str, Extent]]:
        names = Names()
        declared = {p.name: p for p in self._jit.parameters}
        given = {name: _stand_in(declared[name], value, names, keep) for name, value in values.items()}
        found = self._interface(given)
        specs = {info.name: info.spec for info in found.parameters}
        return [specs[name] for name in wanted], names.numbers  # type: ignore[return-value]

    def _interface(self, given: Mapping[str, Any]) -> Interface:
        key = tuple(_key(name, value) for name, value in given.items())
        found = self._known.get(key)
        if found is None or not found.holds():
            found = self._jit.interface(given)
            wrong = fits(self.signature, found.returns, found.parameters)
            if wrong is not None:
                raise wrong
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = found
        return found


def _symbols(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return any(isinstance(extent, torch.SymInt) for extent in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


# Symbols for numbers: what they become, and the dtype that such a number has in a kernel that declares none.
_SYMBOLS: tuple[tuple[type, Callable[[Any], Any], DType], ...] = (
    (torch.SymInt, int, INDEX),
    (torch.SymFloat, float, FP32),
    (torch.SymBool, bool, BOOL),
)


def _stand_in(parameter: Parameter, value: Any, names: Names, keep: bool) -> Any:
    """What the trace is given for an argument.

    Args:
        keep: whether symbols keep their names, or become the numbers that they have in this call.
    """
    if isinstance(value, torch.Tensor):
        return _spec(parameter, value, names, keep)
    for kind, number, dtype in _SYMBOLS:
        if isinstance(value, kind):
            return Runtime(parameter.dtype or dtype) if keep and parameter.kind != "constant" else number(value)
    return tuple(value) if isinstance(value, list) else value


def _spec(parameter: Parameter, value: torch.Tensor, names: Names, keep: bool) -> TensorSpec:
    dims = parameter.dims if len(parameter.dims) == value.dim() else (None,) * value.dim()
    shape: list[int | DynVar] = []
    for dim, extent in zip(dims, value.shape, strict=True):
        if dim is not None:
            names.declare(dim, extent)
            shape.append(dim)
        elif isinstance(extent, torch.SymInt) and keep:
            shape.append(names.name(extent))
        else:
            shape.append(int(extent))
    known = known_extents(shape)
    return TensorSpec(known, torch_dtype(parameter.name, value), row_major(known), named_extents(shape))


def _extents(name: str, spec: TensorSpec, numbers: Mapping[str, Extent]) -> tuple[Extent, ...]:
    """The shape of a result.

    Raises:
        ArgumentError: no tensor of the call tells one of its extents.
    """
    dims = spec.dims or (None,) * len(spec.shape)
    if any(dim is not None and dim.name not in numbers for dim in dims):
        return resolve(name, spec, numbers)
    return tuple(e if dim is None else dim.value(numbers[dim.name]) for dim, e in zip(dims, spec.shape, strict=True))


def _key(name: str, value: Any) -> Any:
    if value is OMITTED or isinstance(value, Runtime):
        return value
    if isinstance(value, TensorSpec):
        return tensor_argument(value, "torch").number
    return constant_key(name, value)
