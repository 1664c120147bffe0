"""Compiled programs in the store: found by a request without a trace, or by a traced module; published when made."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pypto_jit.errors import Span
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.linking import link_shared
from pypto_jit.runtime.store.disk import Entry, Record
from pypto_jit.runtime.store.environment import host_cpu_text, is_from_source
from pypto_jit.runtime.store.files import DamagedError
from pypto_jit.runtime.store.keys import Key
from pypto_jit.runtime.store.locations import Frame, insert, separate
from pypto_jit.runtime.store.requests import Request, environment_sections
from pypto_jit.runtime.store.serialization import (
    SHARED,
    code_files,
    code_of,
    decode_program,
    decode_span,
    encode_program,
    encode_span,
)
from pypto_jit.signature import Constant, DynVar, ValueNeeded

# Between the parts of a need that is no name of a parameter.
_BOUND = "\t"


class Module(NamedTuple):
    """A traced module as far as the store cares.

    Attributes:
        key: of the artifact it leads to.
        places: of the source, by the number that the key's text has for each.
    """

    key: Key
    places: tuple[Span, ...]


def describe_module(request: Request, text: str, sections: Mapping[str, bytes]) -> Module:
    """What a traced module is looked up by.

    Args:
        request: what it was traced for.
        text: the module with its locations, as MLIR prints them in local scope.
        sections: what else decides what is made of it: options, passes, target.
    """
    numbered, places = separate(text)
    package = dict(request.key.parts)["package"].decode()
    parts = (*environment_sections(package), ("module", numbered.encode()), *sections.items())
    return Module(Key(parts), places)


def find_program(request: Request) -> CompiledProgram | None:
    """The program that an earlier trace led to, if it read what a trace would read now; None otherwise.

    Raises:
        ValueNeeded: that trace came to need the values of parameters.
    """
    current = request.reads.digests()
    frame = Frame(request.reads.functions)
    for record in request.store.records(request.key):
        if any(current.get(path) != value for path, value in record.reads.items()):
            continue
        try:
            places = tuple(frame.absolute(place) for place in record.places)
        except (TypeError, ValueError):
            continue
        if record.needs:
            try:
                dims = tuple(_decode_dim(need) for need in record.needs if _BOUND in need)
            except ValueError:
                continue
            names = frozenset(need for need in record.needs if _BOUND not in need)
            raise ValueNeeded(names, places[0] if places else None, record.why, dims=dims)
        program = _load(request, record.artifact, None, places)
        if program is not None:
            return program
    return None


def find_compiled(request: Request, module: Module) -> CompiledProgram | None:
    """The program of a traced module, if it was compiled before. The next request finds it without a trace."""
    program = _load(request, module.key.digest, module.key, module.places)
    if program is not None:
        _remember(request, module)
    return program


def publish_program(request: Request, module: Module, program: CompiledProgram) -> CompiledProgram:
    """Add a program to the store; the same program, with what the store made besides."""
    shared = program.shared or link_shared(program.code)
    program = dataclasses.replace(program, shared=shared)
    assembly, places = None, module.places
    if program.assembly is not None:
        assembly, places = separate(program.assembly, module.places)
        if insert(assembly, places) != program.assembly:
            return program  # its places could not be told from other text
    numbers = _Numbers(places)
    about = encode_program(program, numbers.number)
    about["origin"] = None  # the function at hand tells it
    about["places"] = [encode_span(span) for span in numbers.places[len(module.places) :]]
    files = code_files(program.code)
    if shared is not None:
        files[SHARED] = shared
    if assembly is not None:
        files[about["assembly"]] = assembly.encode("utf-8", "surrogateescape")
    request.store.publish_artifact(module.key, about, files)
    _remember(request, module)
    return program


def remember_need(request: Request, needed: ValueNeeded) -> None:
    """Add the record that says which values a trace came to need: the next process asks with these values at once."""
    needs = tuple(sorted(needed.names)) + tuple(_encode_dim(*bound) for bound in needed.dims)
    _record(request, "", [needed.span] if needed.span is not None else [], needs, needed.why)


def _encode_dim(name: str, axis: int, dim: DynVar) -> str:
    return _BOUND.join((name, str(axis), dim.name, str(dim.factor), str(dim.offset)))


def _decode_dim(text: str) -> tuple[str, int, DynVar]:
    name, axis, dim, factor, offset = text.split(_BOUND)
    return name, int(axis), DynVar(dim, int(factor), int(offset))


def _remember(request: Request, module: Module) -> None:
    """Add the record that leads from the request to the artifact."""
    _record(request, module.key.digest, module.places)


def _record(
    request: Request, artifact: str, places: Sequence[Span], needs: tuple[str, ...] = (), why: str = ""
) -> None:
    """Add a record to those of the request, unless the trace saw something else than it tells."""
    sources = {function.__code__ for function in request.reads.reached}
    if not request.still_holds() or not all(map(is_from_source, sources)):
        return
    frame = Frame(request.reads.functions)
    reads = request.reads
    shown = {path: read.shown for path, read in reads.values.items()}
    record = Record(reads.digests(), shown, artifact, [frame.relative(place) for place in places], needs, why)
    request.store.publish_record(request.key, record)


def _load(request: Request, key: str, expected: Key | None, places: Sequence[Span]) -> CompiledProgram | None:
    entry = request.store.artifact(key, expected)
    if entry is None:
        return None
    try:
        return _decode(request, entry, places)
    except DamagedError as error:
        request.store.discard(key, str(error))
        return None


def _decode(request: Request, entry: Entry, places: Sequence[Span]) -> CompiledProgram:
    constants = {name: a.value for name, a in request.arguments.items() if isinstance(a, Constant)}
    try:
        everything = [*places, *(decode_span(place) for place in entry.about["places"])]
        assembly = None
        if entry.about["assembly"] is not None:
            assembly = insert(entry.files[entry.about["assembly"]].decode("utf-8", "surrogateescape"), everything)
        code = code_of(entry.files)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedError(f"no program is in it: {error}") from error
    fields = decode_program(entry.about, code, assembly, everything.__getitem__, constants)
    origin = Span(request.function.__code__.co_filename, request.function.__code__.co_firstlineno)
    return CompiledProgram(**{**fields, "origin": origin}, shared=entry.files.get(SHARED), cpu=host_cpu_text())


class _Numbers:
    """Numbers of places; those that the module does not have follow."""

    def __init__(self, places: Sequence[Span]) -> None:
        self.places = list(places)
        self._exact = {span: k for k, span in reversed(list(enumerate(places)))}

    def number(self, span: Span) -> int:
        """The number of a place, a new one if need be."""
        if span not in self._exact:
            self._exact[span] = len(self.places)
            self.places.append(span)
        return self._exact[span]
