"""The Python functions between torch, a kernel and those who call the operator, written for each operator.

Each has the parameters themselves instead of ``*args``: a call costs a third of it, torch.compile traces what is
written, and the signature that a caller sees is the kernel's.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from pypto_jit.errors import ArgumentError
from pypto_jit.runtime.arguments import OMITTED
from pypto_jit.runtime.artifact import Returns
from pypto_jit.torch_library.signature import NONE_GIVEN, Argument, Signature

# Names in the generated functions besides the parameters'.
_PREFIX = "_pypto_"


def kernel_function(
    signature: Signature, kernel: Callable[..., Any], given: Sequence[Argument], results: Sequence[str]
) -> Callable[..., Any]:
    """What torch calls to run the kernel.

    It does not keep the kernel: torch holds it for as long as the operator is registered.

    Args:
        signature: of the operator.
        kernel: the kernel.
        given: the parameters that the overload has.
        results: names of what the overload returns.
    """
    namespace: dict[str, Any] = {}
    lines = _kernel_lines(signature, kernel, given, results, namespace)
    return _compiled("kernel", ", ".join(_optional_after(given, namespace)), lines, namespace)


def autograd_function(
    signature: Signature,
    kernel: Callable[..., Any],
    recording: Callable[..., Any],
    ends_on_cpu: Callable[[int], bool],
) -> Callable[..., Any]:
    """torch's kernel for autograd, but straight to ours where nothing is to be recorded.

    To dispatch anew from Python takes longer than a call of a kernel. Where neither a mode nor a transform of torch
    would see it, the CPU's kernel is what it leads to.

    Args:
        signature: of the operator.
        kernel: the kernel.
        recording: is called otherwise, with the key set of the call first.
        ends_on_cpu: whether that is so, by the bits of the key set.
    """
    p, given = _PREFIX, signature.inputs
    namespace: dict[str, Any] = {f"{p}grad_enabled": torch.is_grad_enabled, f"{p}ends_on_cpu": ends_on_cpu}
    namespace[f"{p}recording"] = recording
    tensors = [a for a in given if a.is_tensor]
    wanted = [f"{a.name} is not None and {a.name}.requires_grad" for a in tensors if a.type == "Tensor?"]
    wanted += [f"{a.name}.requires_grad" for a in tensors if a.type == "Tensor"]
    lines = [
        f"if not ({p}grad_enabled() and ({' or '.join(wanted)})) and {p}ends_on_cpu({p}keys.raw_repr()):",
        *("    " + line for line in _kernel_lines(signature, kernel, given, signature.fresh, namespace)),
        f"return {p}recording({', '.join([f'{p}keys', *(a.name for a in given)])})",
    ]
    return _compiled("autograd", ", ".join([f"{p}keys", *_optional_after(given, namespace)]), lines, namespace)


def _kernel_lines(
    signature: Signature,
    kernel: Callable[..., Any],
    given: Sequence[Argument],
    results: Sequence[str],
    namespace: dict[str, Any],
) -> list[str]:
    """The lines that run the kernel, and return what an overload returns."""
    p = _PREFIX
    known = {a.name for a in given}
    parts = []
    for a in signature.arguments:
        value = a.name if a.name in known else f"{p}omitted"
        if a.type.rstrip("?").endswith("[]"):
            value = f"{p}tuple({value})" if a.default is not None else f"{value} and {p}tuple({value})"
        parts.append(f"{a.name}={value}" if a.kind is inspect.Parameter.KEYWORD_ONLY else value)
    call = f"{p}kernel()({', '.join(parts)})"
    namespace.update({f"{p}kernel": weakref.ref(kernel), f"{p}omitted": OMITTED, f"{p}tuple": tuple})
    if not results:
        return [call, "return"]
    if _as_is(signature.returns, results):
        return [f"return {call}"]
    places = dict(reversed(_places(signature.returns, f"{p}result")))
    return [f"{p}result = {call}", f"return {_listed([places[name] for name in results])}"]


def destination_function(signature: Signature, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """What torch calls to run the kernel with the results in tensors of the caller."""
    p = _PREFIX
    given = [f"{a.name}={a.name}" if a.kind is inspect.Parameter.KEYWORD_ONLY else a.name for a in signature.arguments]
    given.append(f"out={_listed(signature.destinations)}")
    namespace = {f"{p}kernel": weakref.ref(kernel)}
    header = ", ".join([*(a.name for a in signature.arguments), *signature.destinations])
    return _compiled("kernel", header, [f"{p}kernel()({', '.join(given)})"], namespace)


def caller_function(
    signature: Signature,
    name: str,
    default: Callable[..., Any],
    out: Callable[..., Any] | None,
    kernel: Callable[..., Any],
) -> Callable[..., Any]:
    """What the user calls: with the parameters of the kernel, and ``out`` where results may go to tensors.

    Args:
        signature: of the operator.
        name: of the function.
        default: the default overload.
        out: the one that writes to tensors of the caller.
        kernel: is kept for as long as the function is.
    """
    p = _PREFIX
    namespace: dict[str, Any] = {f"{p}default": default, f"{p}out": out, f"{p}keeps": kernel}
    lines = []
    outs = signature.outs if signature.leaves_out else ()
    plain = ", ".join(a.name for a in signature.inputs)
    everything = ", ".join(a.name for a in signature.arguments)
    fresh = _rebuilt(signature, signature.fresh, f"{p}default({plain})")
    for a in _late(signature.arguments, outs):
        lines += [f"if {a.name} is None:", f"    {p}missing({name!r}, {a.name!r})"]
        namespace[f"{p}missing"] = _missing
    if outs:
        written = _rebuilt(signature, signature.results, f"{p}out({everything})")
        lines += [f"if {' and '.join(f'{n} is None' for n in outs)}:", *("    " + line for line in fresh)]
        if len(outs) > 1:
            lines += [f"if {' or '.join(f'{n} is None' for n in outs)}:", f"    {p}partly({name!r}, {outs!r})"]
            namespace[f"{p}partly"] = _partly
        lines += written
    elif signature.destinations:
        places = signature.destinations
        lines += ["if out is None:", *("    " + line for line in fresh)]
        if len(places) > 1:
            lines += [f"{', '.join(places)} = {p}several({name!r}, out, {len(places)})"]
            namespace[f"{p}several"] = _several
        lines += [f"{p}out({', '.join(filter(None, [everything, *places]))})"]
        lines += [f"return {_nested(signature.returns, dict(zip(signature.results, places, strict=True)))}"]
    else:
        lines += fresh
    return _compiled(name, _header(signature, outs, namespace), lines, namespace)


def _header(signature: Signature, outs: Sequence[str], namespace: dict[str, Any]) -> str:
    """The parameters of the kernel, those after one with a default with a default as well; and ``out``."""
    parts, optional = [], False
    kinds = [a.kind for a in signature.arguments]
    for k, a in enumerate(signature.arguments):
        if a.kind is inspect.Parameter.KEYWORD_ONLY and (not k or kinds[k - 1] is not a.kind):
            parts.append("*")
        shown = f"{a.name}=None" if a.name in outs else _parameter(a, namespace)
        if a.kind is not inspect.Parameter.KEYWORD_ONLY:
            shown = f"{a.name}=None" if optional and "=" not in shown else shown
            optional = optional or "=" in shown
        parts.append(shown)
        if a.kind is inspect.Parameter.POSITIONAL_ONLY and kinds[k + 1 : k + 2] != [a.kind]:
            parts.append("/")
    if signature.destinations and not outs:
        parts += ["out=None"] if "*" in parts else ["*", "out=None"]
    return ", ".join(parts)


def _late(arguments: Sequence[Argument], outs: Sequence[str]) -> list[Argument]:
    """Positional parameters without a default that come after an output, which has one."""
    late, optional = [], False
    for a in arguments:
        if a.kind is inspect.Parameter.KEYWORD_ONLY:
            break
        if a.name not in outs and a.default is NONE_GIVEN and optional:
            late.append(a)
        optional = optional or a.name in outs or a.default is not NONE_GIVEN
    return late


def _as_is(returns: Returns, returned: Sequence[str]) -> bool:
    """Whether a kernel and an overload return the same thing."""
    return returns == (returned[0] if len(returned) == 1 else tuple(returned))


def _optional_after(arguments: Sequence[Argument], namespace: dict[str, Any]) -> list[str]:
    """Parameters for torch, which leaves out no other than those at the end that equal their defaults."""
    parts: list[str] = []
    for a in arguments:
        shown = _parameter(a, namespace)
        parts.append(f"{a.name}=None" if parts and "=" in parts[-1] and "=" not in shown else shown)
    return parts


def _parameter(argument: Argument, namespace: dict[str, Any]) -> str:
    if argument.default is NONE_GIVEN:
        return argument.name
    namespace[f"{_PREFIX}default_{argument.name}"] = argument.default
    return f"{argument.name}={_PREFIX}default_{argument.name}"


def _rebuilt(signature: Signature, returned: Sequence[str], call: str) -> list[str]:
    """The lines that return what the kernel returns, of what an overload returns."""
    if not returned:
        return [call, f"return {_nested(signature.returns, {})}"]
    if _as_is(signature.returns, returned):
        return [f"return {call}"]
    result = f"{_PREFIX}result"
    places = {name: result if len(returned) == 1 else f"{result}[{k}]" for k, name in enumerate(returned)}
    return [f"{result} = {call}", f"return {_nested(signature.returns, places)}"]


def _nested(returns: Returns, places: Mapping[str, str]) -> str:
    """An expression for what a kernel returns; a name that has no place is a variable."""
    if isinstance(returns, str):
        return places.get(returns, returns)
    return "(" + "".join(f"{_nested(item, places)}, " for item in returns) + ")"


def _places(returns: Returns, place: str) -> list[tuple[str, str]]:
    """Where each name is in what a kernel returns."""
    if isinstance(returns, str):
        return [(returns, place)]
    return [pair for k, item in enumerate(returns) for pair in _places(item, f"{place}[{k}]")]


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _compiled(name: str, header: str, lines: Sequence[str], namespace: dict[str, Any]) -> Callable[..., Any]:
    text = "\n".join([f"def {name}({header}):", *("    " + line for line in lines)])
    exec(compile(text, f"<pypto_jit operator {name}>", "exec", dont_inherit=True), namespace)
    return namespace[name]


def _missing(function: str, parameter: str) -> None:
    raise ArgumentError(f"{function}() misses '{parameter}'")


def _partly(function: str, outs: Sequence[str]) -> None:
    raise ArgumentError(
        f"{function}() is given some of its outputs", expected=f"all of {', '.join(outs)}, or none of them"
    )


def _several(function: str, out: Any, count: int) -> Any:
    if not isinstance(out, (tuple, list)) or len(out) != count:
        found = f"{len(out)} tensors" if isinstance(out, (tuple, list)) else f"a {type(out).__qualname__}"
        raise ArgumentError(
            f"out= of {function}() takes the results", found=found, expected=f"a tuple of {count} tensors"
        )
    return out
