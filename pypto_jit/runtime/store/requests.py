"""What a call needs a program for, as a key: the kernel's code, its arguments and options, and all that compiles it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from pypto_jit.runtime.store import environment
from pypto_jit.runtime.store.digest import digest
from pypto_jit.runtime.store.disk import Store
from pypto_jit.runtime.store.keys import Key
from pypto_jit.runtime.store.location import FORMAT
from pypto_jit.runtime.store.reads import Reads, collect_reads, digest_code, scope_of
from pypto_jit.runtime.store.scope import UnguardableError
from pypto_jit.runtime.store.serialization import encode_dims
from pypto_jit.signature import Constant, ScalarSpec, TensorSpec

_log = logging.getLogger("pypto_jit.cache")

Argument = TensorSpec | ScalarSpec | Constant | None


class Request:
    """What a call needs a program for.

    Attributes:
        store: where it may be.
        function: the kernel.
        arguments: what each parameter is given.
        key: of the records.
        reads: what the kernel reads, as it stands.
    """

    def __init__(
        self, store: Store, function: FunctionType, arguments: Mapping[str, Argument], key: Key, reads: Reads
    ) -> None:
        self.store = store
        self.function = function
        self.arguments = arguments
        self.key = key
        self.reads = reads

    def still_holds(self) -> bool:
        """Whether the Python world is what it was when the request was made: a trace may change it."""
        return self.reads.same(collect_reads(self.function))


def make_request(
    store: Store, function: FunctionType, arguments: Mapping[str, Argument], options: Mapping[str, Any]
) -> Request | None:
    """The request for a program; None where the cache cannot tell when it would be stale.

    Args:
        store: where to look.
        function: the kernel.
        arguments: what each parameter is given.
        options: every option that the program depends on.
    """
    try:
        return _make_request(store, function, arguments, options)
    except Exception as error:
        # Objects of the user's may do anything when they are looked at; a cache is no reason for a call to fail.
        _log.info("%s: not cached on disk: %s: %s", function.__qualname__, type(error).__name__, error)
        return None


def _make_request(
    store: Store, function: FunctionType, arguments: Mapping[str, Argument], options: Mapping[str, Any]
) -> Request | None:
    package = environment.package_digest(store.root / "sources.json")
    reads = collect_reads(function)
    if package is None or reads.unguarded:
        for each in reads.unguarded:
            _log.info("%s:%d: not cached on disk: %s is %s", each.filename, each.line, each.path, each.reason)
        return None
    try:
        signature = encode_arguments(arguments, function)
    except UnguardableError as error:
        _log.info("%s: not cached on disk: an argument is %s", function.__qualname__, error)
        return None
    key = Key(
        (
            *environment_sections(package),
            ("python", environment.python_text().encode()),
            ("code", digest_code(function).encode()),
            ("signature", signature.encode()),
            ("options", encode_options(options)),
        )
    )
    return Request(store, function, arguments, key, reads)


def environment_sections(package: str) -> tuple[tuple[str, bytes], ...]:
    """The sections that every key starts with.

    Args:
        package: digest of this package's sources.
    """
    return (
        ("format", FORMAT.encode()),
        ("package", package.encode()),
        ("tools", environment.tools_text().encode()),
        ("cpu", environment.host_cpu_text().encode()),
    )


def encode_options(options: Mapping[str, Any]) -> bytes:
    """Options as a section of a key."""
    return json.dumps(options, sort_keys=True, default=str).encode()


def encode_arguments(arguments: Mapping[str, Argument], function: FunctionType) -> str:
    """What each parameter is given, as text: tensors by specification, constants by digest.

    Raises:
        UnguardableError: a constant has no digest.
    """
    scope, encoded = scope_of(function), []
    for name, argument in arguments.items():
        if isinstance(argument, TensorSpec):
            told = [list(argument.shape), argument.dtype.name, list(argument.strides), encode_dims(argument)]
            encoded.append([name, *told])
        elif isinstance(argument, ScalarSpec):
            encoded.append([name, argument.dtype.name, argument.converts])
        else:
            encoded.append([name, None if argument is None else digest(argument.value, scope)])
    return json.dumps(encoded)
