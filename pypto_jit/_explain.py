"""Why a call found no specialization: the nearest one that there was, and what differs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pypto_jit.options import CompileOptions
from pypto_jit.runtime.arguments import constant_key
from pypto_jit.signature import Constant, ScalarSpec, TensorSpec

if TYPE_CHECKING:
    from pypto_jit.language.reads import Read

Argument = TensorSpec | ScalarSpec | Constant | None
Arguments = Mapping[str, Argument]

_SHOWN = 80  # characters of a value


class Known(Protocol):
    """An earlier specialization."""

    @property
    def arguments(self) -> Arguments:
        """What each parameter was given."""
        ...

    @property
    def options(self) -> CompileOptions:
        """What it was compiled with."""
        ...

    @property
    def reads(self) -> Sequence[Read]:
        """What it assumes of the Python world."""
        ...


def describe_miss(
    name: str,
    arguments: Arguments,
    options: CompileOptions,
    known: Sequence[Known],
    dropped: int | None,
    needs: Mapping[str, str],
) -> str:
    """What a call that found no specialization has that the others have not.

    Args:
        name: of the kernel.
        arguments: what each parameter is given.
        options: the options of the call.
        known: the specializations that there are, the likeliest first.
        dropped: how many are kept, if there was one for this call before others took its place.
        needs: why the kernel is specialized on the value of a scalar, by its name.
    """
    reasons = [f"  it is specialized on {each}: {why}" for each, why in needs.items()]
    if dropped is not None:
        return f"kernel '{name}' had this specialization, but keeps no more than {dropped}: others were called since"
    if not known:
        return "\n".join([f"kernel '{name}' had no specialization", *reasons])
    differences = [list(_differences(each, arguments, options)) for each in known]
    nearest = min(differences, key=len)
    lines = [f"kernel '{name}' had {len(known)} specialization(s), none for this call; in the nearest:"]
    return "\n".join([*lines, *(f"  {difference}" for difference in nearest), *reasons])


def _differences(known: Known, arguments: Arguments, options: CompileOptions) -> Iterator[str]:
    for name, argument in arguments.items():
        yield from _argument(name, known.arguments.get(name), argument)
    for field in dataclasses.fields(options):
        before, now = getattr(known.options, field.name), getattr(options, field.name)
        if field.metadata["role"] == "key" and before != now:
            yield f"option {field.name} was {before!r}, now {now!r}"
    for read in known.reads:
        if not read.holds():
            before, now = _shorten(read.shown()), _shorten(read.shown_now())
            other = " (another object)" if before == now else ""
            yield f"{read.name}, which the kernel reads, was {before}, now {now}{other}"


def _argument(name: str, before: Any, now: Any) -> Iterator[str]:
    if isinstance(before, TensorSpec) and isinstance(now, TensorSpec):
        if before.dtype != now.dtype:
            yield f"{name}: dtype was {before.dtype.name}, now {now.dtype.name}"
        if before.shape != now.shape:
            yield f"{name}: shape was {list(before.shape)}, now {list(now.shape)}"
        layouts = [_layout(spec) for spec in (before, now)]
        if layouts[0] != layouts[1]:
            yield f"{name}: was {layouts[0]}, now {layouts[1]}"
    elif isinstance(before, Constant) and isinstance(now, Constant):
        if constant_key(name, before.value) != constant_key(name, now.value):
            yield f"{name} was {_value(before)}, now {_value(now)}"
    elif type(before) is not type(now) or (isinstance(before, ScalarSpec) and before != now):
        yield f"{name} was {_value(before)}, now {_value(now)}"


def _layout(spec: TensorSpec) -> str:
    expected = 1
    for extent, stride in zip(reversed(spec.shape), reversed(spec.strides), strict=True):
        if stride != expected:
            return f"strided {list(spec.strides)} (-1: read at run time)"
        expected *= extent
    return "contiguous"


def _value(argument: Argument) -> str:
    if argument is None:
        return "left out"
    if isinstance(argument, ScalarSpec):
        return f"any {argument.dtype} scalar"
    return "a tensor" if isinstance(argument, TensorSpec) else _shorten(repr(argument.value))


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
