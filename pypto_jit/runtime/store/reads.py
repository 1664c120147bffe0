"""What a kernel's code reads from the Python world, each read as a digest.

The code of the kernel, and of every function of the user's that it reaches, is searched for the variables it names
outside of itself. That finds at least all that any trace can read by name, so a kernel whose reads are all unchanged
would be traced to the same module again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from pypto_jit.runtime.store.attributes import follow
from pypto_jit.runtime.store.bytecode import Chain, annotation_chains, chains
from pypto_jit.runtime.store.digest import digest
from pypto_jit.runtime.store.scope import Scope, UnguardableError, module_of, top_package

_SHOWN = 80  # characters of a value that are kept for people to read


class Read(NamedTuple):
    """One read.

    Attributes:
        path: ``kernel/helper: config.tile``: the functions that lead to it, and the variable with what is read of it.
        digest: of the value.
        shown: the value, shortened, for people to read.
    """

    path: str
    digest: str
    shown: str


class Unguarded(NamedTuple):
    """A read of a value that cannot be guarded.

    Attributes:
        path: as in `Read`.
        reason: what the value is.
        filename, line: where it is read.
    """

    path: str
    reason: str
    filename: str
    line: int


class Reads:
    """All reads of a kernel.

    Attributes:
        values: by path.
        unguarded: those that no digest can stand for.
        functions: path and code of the kernel and of each function it reaches by name.
        reached: the functions of the user's that any of its reads reaches.
    """

    def __init__(self) -> None:
        self.values: dict[str, Read] = {}
        self.unguarded: list[Unguarded] = []
        self.functions: list[tuple[str, CodeType]] = []
        self.reached: list[FunctionType] = []

    def same(self, other: Reads) -> bool:
        """Whether the Python world looks the same."""
        return not self.unguarded and not other.unguarded and self.digests() == other.digests()

    def digests(self) -> dict[str, str]:
        """Digest of each read by path."""
        return {path: read.digest for path, read in self.values.items()}


def scope_of(function: FunctionType) -> Scope:
    """The scope of a kernel."""
    return Scope(top_package(module_of(function)))


def collect_reads(function: FunctionType) -> Reads:
    """The reads of a kernel, as its variables stand now."""
    collector = _Collector(scope_of(function))
    collector.kernel(function)
    return collector.reads


def digest_code(function: FunctionType) -> str:
    """The digest of a function's own code, whatever it reads."""
    return digest(function.__code__, scope_of(function))


class _Collector:
    def __init__(self, scope: Scope) -> None:
        self.reads = Reads()
        self._scope = scope
        self._met: dict[int, str] = {}

    def kernel(self, function: FunctionType) -> None:
        """Collect the reads of a kernel: its code, and what its annotations name."""
        name, code = function.__name__, function.__code__
        receiver = getattr(function, "__self__", None)
        if receiver is not None:
            # A function of a program reads of it what it likes.
            contents = getattr(receiver, "__pypto_contents__", receiver)
            self._record(f"{name}: self", contents, code.co_filename, code.co_firstlineno)
            function = getattr(function, "__func__", function)
        role = getattr(function, "__pypto_role__", None)
        if role is not None:
            self._record(f"{name}: role", role, code.co_filename, code.co_firstlineno)
        assembly = getattr(function, "__pypto_extern__", None)
        if assembly is not None:
            self._record(f"{name}: assembly", assembly, code.co_filename, code.co_firstlineno)
        self._function(name, function, code.co_filename, code.co_firstlineno)
        for parameter, annotation in function.__annotations__.items():
            self._record(f"{name}: annotation of {parameter}", annotation, code.co_filename, code.co_firstlineno)
            if isinstance(annotation, str):
                for chain in annotation_chains(function, annotation):
                    self._chain(name, chain._replace(line=code.co_firstlineno), code.co_filename)

    def _function(self, path: str, function: FunctionType, filename: str, line: int) -> None:
        met = self._met.get(id(function))
        if met is not None:
            self._record(path, met, filename, line)
            return
        self._met[id(function)] = path
        code = function.__code__
        self.reads.functions.append((path, code))
        self.reads.reached.append(function)
        self._guard(path, lambda: digest(code, self._scope), f"the function {function.__qualname__}", filename, line)
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items())
        if defaults:
            self._record(f"{path}: defaults", defaults, code.co_filename, code.co_firstlineno)
        for chain in chains(function):
            self._chain(path, chain, code.co_filename)

    def _chain(self, owner: str, chain: Chain, filename: str) -> None:
        path = f"{owner}: {chain}"
        try:
            _, value = follow(chain, self._scope)
        except UnguardableError as error:
            self.reads.unguarded.append(Unguarded(path, str(error), filename, chain.line))
            return
        if isinstance(value, MethodType) and self._followed(value.__func__):
            self._record(f"{path}: self", value.__self__, filename, chain.line)
            value = value.__func__
        if isinstance(value, functools.partial) and self._followed(value.func):
            self._record(f"{path}: arguments", (value.args, value.keywords), filename, chain.line)
            value = value.func
        if self._followed(value):
            self._function(f"{owner}/{chain}", value, filename, chain.line)
        else:
            self._record(path, value, filename, chain.line)

    def _followed(self, value: Any) -> bool:
        """Whether a function is searched by name of its own, rather than as part of a value."""
        return isinstance(value, FunctionType) and not value.__dict__ and self._scope.owns_function(value)

    def _record(self, path: str, value: Any, filename: str, line: int) -> None:
        self._guard(path, lambda: digest(value, self._scope, self.reads.reached), value, filename, line)

    def _guard(self, path: str, compute: Callable[[], str], shown: Any, filename: str, line: int) -> None:
        if path in self.reads.values:
            return
        try:
            self.reads.values[path] = Read(path, compute(), show(shown))
        except UnguardableError as error:
            self.reads.unguarded.append(Unguarded(path, str(error), filename, line))


def show(value: Any) -> str:
    """A value in a few words. Only built-in values show themselves: others might run code, or name addresses."""
    if isinstance(value, (FunctionType, type)):
        return value.__qualname__
    if value is None or type(value) in (bool, int, float, complex, str, bytes):
        text = repr(value) if type(value) is not int or value.bit_length() < 10_000 else hex(value)
    else:
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def changes(before: dict[str, str], after: Reads) -> Iterator[str]:
    """Paths of the reads that are not what they were."""
    now = after.digests()
    yield from (path for path, value in before.items() if now.get(path) != value)
