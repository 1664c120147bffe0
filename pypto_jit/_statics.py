"""What a kernel has found out to need the values of: scalars that it is specialized on, signature by signature.

A trace that comes to where it needs the value of a scalar gives up (`ValueNeeded`), and is made again with the scalar a
constant. The kernel remembers that, so that the next call with the same signature starts from there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple, TypeVar

from pypto_jit.errors import InternalError, PyptoError, Span, TraceError
from pypto_jit.runtime.binding import BoundCall
from pypto_jit.signature import DynVar, ScalarSpec, TensorSpec, ValueNeeded

# Signatures remembered; one that is forgotten is found out about again.
MOST = 1024

T = TypeVar("T")


class Need(NamedTuple):
    """Why the value of a parameter is needed.

    Attributes:
        why: what needs it.
        span: where in the user's source.
    """

    why: str
    span: Span | None

    def __str__(self) -> str:
        where = f" at {PurePath(self.span.filename).name}:{self.span.line}" if self.span is not None else ""
        return f"{self.why}{where} needs its value"


class Statics:
    """The needs of one kernel. Every method may be called by many threads at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.unlock()
        self.clear()

    def unlock(self) -> None:
        """Forget who holds the lock, as a forked child must."""
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget all."""
        self._needs: dict[tuple[Any, ...], dict[str, Need]] = {}
        # Of calls that differ in extents only: by parameter and dimension, the names of the extents.
        self._dims: dict[tuple[Any, ...], dict[str, dict[int, DynVar]]] = {}

    def needs(self, key: tuple[Any, ...]) -> Mapping[str, Need]:
        """What the calls of a signature are specialized on, and why."""
        return self._needs.get(key, {})

    def named(self, options: tuple[Any, ...], call: BoundCall) -> BoundCall:
        """A call with the extents that its kernel is known to make dynamic no part of its signature."""
        dims = self._dims.get((*options, *call.family)) if self._dims else None
        return call.with_dims(dims) if dims else call

    def settle(self, options: tuple[Any, ...], call: BoundCall, attempt: Callable[[BoundCall, BoundCall], T]) -> T:
        """Try with what is known, and again with each parameter whose value turns out to be needed.

        Args:
            options: what else than the call's key decides what is needed.
            call: the call.
            attempt: is given the call as `named` gives it, and with the values that are known to be needed.

        Raises:
            TraceError: the value of a parameter is needed that has none, or that may not be specialized on.
            ArgumentError: two extents of one name differ.
        """
        while True:
            named = self.named(options, call)
            key = (*options, *named.key)
            specialized = named.specialized_on(self.needs(key))
            try:
                return attempt(named, specialized)
            except ValueNeeded as needed:
                found = needed
            if found.dims:
                self._learn_dims((*options, *call.family), named, found)
            else:
                self._learn(key, specialized, found)

    def _learn_dims(self, family: tuple[Any, ...], call: BoundCall, needed: ValueNeeded) -> None:
        with self._lock:
            if family not in self._dims and len(self._dims) >= MOST:
                del self._dims[next(iter(self._dims))]
            known = {name: dict(dims) for name, dims in self._dims.get(family, {}).items()}
            for name, axis, dim in needed.dims:
                if not isinstance(call.arguments.get(name), TensorSpec):
                    raise InternalError(f"kernel '{self._name}' names extents it has not", found=needed.dims)
                known.setdefault(name, {})[axis] = dim
            self._dims[family] = known

    def _learn(self, key: tuple[Any, ...], call: BoundCall, needed: ValueNeeded) -> None:
        new = [name for name in sorted(needed.names) if isinstance(call.arguments.get(name), ScalarSpec)]
        if not new:
            raise InternalError(f"kernel '{self._name}' asks for values it has", span=needed.span, found=needed.names)
        for name in new:
            if name in call.fixed or name not in call.scalars:
                raise self._refused(name, needed)
        with self._lock:
            if key not in self._needs and len(self._needs) >= MOST:
                del self._needs[next(iter(self._needs))]
            known = self._needs.get(key, {})
            self._needs[key] = {**known, **{name: Need(needed.why, needed.span) for name in new}}

    def _refused(self, name: str, needed: ValueNeeded) -> PyptoError:
        if needed.cause is not None:
            return needed.cause
        return TraceError(
            f"the kernel needs the value of '{name}' while it is traced, and '{name}' is only known when it runs",
            span=needed.span,
            found=f"{needed.why} that depends on '{name}'",
            hint=f"leave out pl.RUNTIME, or declare it {name}: pl.constexpr",
        )
