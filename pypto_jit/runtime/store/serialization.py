"""Compiled programs as files, and back: JSON, assembly and code. Nothing here runs or imports what a file names."""

from __future__ import annotations

import dataclasses
import itertools
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from pypto_jit.dtypes import BOOL, BY_NAME, INDEX, DType
from pypto_jit.errors import Span
from pypto_jit.options import CompileOptions, MemoryPlanner, OptimizationStrategy
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store.files import DamagedError
from pypto_jit.signature import Constant, DynVar, ParamInfo, ScalarSpec, TensorSpec

SCHEMA = 2
_SCALARS = {**BY_NAME, INDEX.name: INDEX, BOOL.name: BOOL}
SHARED = "kernel.so"
ASSEMBLY_SUFFIX = ".pto"
_NAME_LENGTH = 48

EncodePlace = Callable[[Span], Any]
DecodePlace = Callable[[Any], Span]


class Opaque(NamedTuple):
    """Stands for a constant that has no text form, such as a function, in a program that was loaded from files."""

    text: str

    def __repr__(self) -> str:
        return self.text


def encode_span(span: Span) -> list[Any]:
    """A place as it is."""
    return [span.filename, span.line, span.column, span.end_column]


def decode_span(value: Any) -> Span:
    """The inverse of `encode_span`."""
    filename, line, column, end = value
    return Span(str(filename), int(line), int(column), int(end))


def encode_program(program: CompiledProgram, place: EncodePlace = encode_span) -> dict[str, Any]:
    """All of a program but its code and its assembly, as JSON.

    Args:
        program: the program.
        place: how a place is written.
    """
    return {
        "schema": SCHEMA,
        "name": program.name,
        "platform": program.platform,
        "parameters": encode_parameters(program.parameters),
        "returns": _encode_returns(program.returns),
        "assembly": assembly_name(program.name) if program.assembly is not None else None,
        "assembly_error": program.assembly_error,
        "parallel": program.parallel,
        "work": program.work,
        "checks": [[place(span) if span is not None else None, message] for span, message in program.checks],
        "origin": place(program.origin) if program.origin is not None else None,
    }


def code_files(code: Sequence[bytes]) -> dict[str, bytes]:
    """The files that object code is kept in: ``kernel.o``, then ``kernel.1.o`` and so on where there are more."""
    return {_object_name(k): content for k, content in enumerate(code)}


def code_of(files: Mapping[str, bytes]) -> tuple[bytes, ...]:
    """The inverse of `code_files`.

    Raises:
        KeyError: there is none.
    """
    first = files[_object_name(0)]
    more = itertools.takewhile(files.__contains__, map(_object_name, itertools.count(1)))
    return (first, *map(files.__getitem__, more))


def _object_name(number: int) -> str:
    return f"kernel.{number}.o" if number else "kernel.o"


def encode_parameters(parameters: Sequence[ParamInfo]) -> list[dict[str, Any]]:
    """Parameters as JSON."""
    return [_encode_parameter(info) for info in parameters]


def decode_program(
    about: Mapping[str, Any],
    code: tuple[bytes, ...],
    assembly: str | None,
    place: DecodePlace = decode_span,
    constants: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The fields of the program that `encode_program` described.

    Args:
        about: what it gave.
        code: object files.
        assembly: PTO assembly.
        place: how a place is read.
        constants: values of the constant parameters, where they are at hand.

    Raises:
        DamagedError: it describes no program, or one of another schema.
    """
    try:
        if about["schema"] != SCHEMA:
            raise DamagedError(f"schema {about['schema']} is not {SCHEMA}")
        return {
            "name": _text(about["name"]),
            "platform": _text(about["platform"]),
            "parameters": tuple(_decode_parameter(entry, constants or {}) for entry in about["parameters"]),
            "returns": _decode_returns(about["returns"]),
            "assembly": assembly,
            "assembly_error": about["assembly_error"],
            "code": code,
            "parallel": bool(about["parallel"]),
            "work": int(about["work"]),
            "checks": tuple((place(s) if s is not None else None, _text(message)) for s, message in about["checks"]),
            "origin": place(about["origin"]) if about["origin"] is not None else None,
        }
    except (KeyError, TypeError, ValueError, IndexError, struct.error) as error:
        raise DamagedError(f"the manifest describes no program: {error}") from error


def encode_options(options: CompileOptions) -> dict[str, Any]:
    """Options as JSON."""
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return {name: value.name if isinstance(value, Enum) else value for name, value in values.items()}


def decode_options(value: Mapping[str, Any]) -> CompileOptions:
    """The inverse of `encode_options`.

    Raises:
        KeyError, TypeError: it describes no options.
    """
    decoded = dict(value)
    for name, kind in (("strategy", OptimizationStrategy), ("memory_planner", MemoryPlanner)):
        decoded[name] = kind[decoded[name]] if decoded[name] is not None else None
    if decoded["disabled_diagnostics"] is not None:
        decoded["disabled_diagnostics"] = tuple(decoded["disabled_diagnostics"])
    return CompileOptions(**decoded)


def assembly_name(kernel: str) -> str:
    """Where the assembly of a kernel lies in its folder."""
    return f"kernels/{safe_name(kernel)}{ASSEMBLY_SUFFIX}"


def safe_name(name: str) -> str:
    """A kernel's name as that of a file."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:_NAME_LENGTH] or "_"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _encode_parameter(info: ParamInfo) -> dict[str, Any]:
    encoded = {"name": info.name, "direction": info.direction, **_encode_spec(info.spec)}
    return encoded if info.default is None else {**encoded, "default": _encode_constant(info.default)}


def _encode_spec(spec: TensorSpec | ScalarSpec | Constant) -> dict[str, Any]:
    if isinstance(spec, TensorSpec):
        encoded = {"shape": list(spec.shape), "dtype": spec.dtype.name, "strides": list(spec.strides)}
        return {**encoded, "dims": encode_dims(spec)} if spec.dims else encoded
    if isinstance(spec, ScalarSpec):
        return {"scalar": spec.dtype.name, "converts": spec.converts}
    return {"constant": _encode_constant(spec.value)}


def encode_dims(spec: TensorSpec) -> list[list[Any] | None]:
    """What names the extents of a specification, for JSON."""
    return [None if dim is None else [dim.name, dim.factor, dim.offset] for dim in spec.dims]


def _decode_parameter(entry: Mapping[str, Any], constants: Mapping[str, Any]) -> ParamInfo:
    name, direction = _text(entry["name"]), entry["direction"]
    if direction not in ("in", "out", "inout"):
        raise ValueError(f"direction {direction!r}")
    if "constant" in entry:
        value = constants[name] if name in constants else _decode_constant(entry["constant"])
        return ParamInfo(name, direction, Constant(value))
    if "scalar" in entry:
        default = _decode_constant(entry["default"]) if "default" in entry else None
        return ParamInfo(name, direction, ScalarSpec(_SCALARS[entry["scalar"]], bool(entry["converts"])), default)
    shape, strides = (tuple(int(extent) for extent in entry[key]) for key in ("shape", "strides"))
    dims = tuple(None if d is None else DynVar(_text(d[0]), int(d[1]), int(d[2])) for d in entry.get("dims", ()))
    if len(dims) not in (0, len(shape)):
        raise ValueError(f"dims {entry['dims']!r}")
    return ParamInfo(name, direction, TensorSpec(shape, BY_NAME[entry["dtype"]], strides, dims))


def _encode_constant(value: Any) -> list[Any]:
    kind = type(value)
    if value is None:
        return ["none"]
    if kind is bool or kind is str:
        return [kind.__name__, value]
    if kind is int:
        return ["int", hex(value)]
    if kind is float:
        return ["float", struct.pack("<d", value).hex()]
    if kind in (tuple, list):
        return [kind.__name__, [_encode_constant(item) for item in value]]
    if kind is DType:
        return ["dtype", value.name]
    if isinstance(value, Opaque):
        return ["opaque", value.text]
    # repr of anything else may hold an address, and then differ from process to process.
    return ["opaque", getattr(value, "__qualname__", None) or f"<{kind.__module__}.{kind.__qualname__}>"]


def _decode_constant(entry: Any) -> Any:
    kind = entry[0]
    if kind == "none":
        return None
    value = entry[1]
    if kind == "bool":
        return bool(value)
    if kind == "str":
        return _text(value)
    if kind == "int":
        return int(value, 16)
    if kind == "float":
        return struct.unpack("<d", bytes.fromhex(value))[0]
    if kind in ("tuple", "list"):
        items = [_decode_constant(item) for item in value]
        return tuple(items) if kind == "tuple" else items
    if kind == "dtype":
        return BY_NAME[value]
    if kind == "opaque":
        return Opaque(_text(value))
    raise ValueError(f"constant of kind {kind!r}")


def _encode_returns(returns: Any) -> Any:
    return returns if isinstance(returns, str) else [_encode_returns(item) for item in returns]


def _decode_returns(value: Any) -> Any:
    return value if isinstance(value, str) else tuple(_decode_returns(item) for item in value)
