"""Borrowed MLIR contexts: making one takes about ten milliseconds, so a pool keeps a few.

One compile owns one context from the first traced operation to the LLVM text and then gives it back. A context grows
with every new type and location, so it is dropped after `USES` compiles. Contexts are single-threaded: worker threads
would not survive a fork, and a forked child starts with an empty pool.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pypto_jit._mlir import ir
from pypto_jit.dialects.registration import register
from pypto_jit.lowering.types import TypeTable

# About 15 KiB stay behind per compile of 200 operations; at this many uses a context has grown by some megabytes.
USES = 256
# Contexts kept idle: more than this many compiles at once are rare, and each idle context holds about 2 MiB.
IDLE = 4


class PooledContext:
    """A context with what is remembered about it."""

    def __init__(self) -> None:
        self.context = make_context()
        self.types = TypeTable(self.context)
        self.uses = 0


class ContextPool:
    """A thread-safe stack of idle contexts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[PooledContext] = []
        self._borrowed: dict[int, PooledContext] = {}

    def take(self) -> PooledContext:
        """An idle context, or a new one."""
        with self._lock:
            pooled = self._idle.pop() if self._idle else None
        pooled = pooled or PooledContext()
        with self._lock:
            self._borrowed[id(pooled.context)] = pooled
        return pooled

    def give_back(self, pooled: PooledContext) -> None:
        """Keep the context for the next compile, unless it is worn or enough are idle."""
        pooled.uses += 1
        with self._lock:
            self._borrowed.pop(id(pooled.context), None)
            if pooled.uses < USES and len(self._idle) < IDLE:
                self._idle.append(pooled)

    def types_of(self, context: ir.Context) -> TypeTable:
        """The remembered types of a borrowed context, or a fresh table for any other context."""
        with self._lock:
            pooled = self._borrowed.get(id(context))
        return pooled.types if pooled is not None else TypeTable(context)

    def clear(self) -> None:
        """Forget everything, as a forked child must: the lock may be held by a thread that does not exist there."""
        self.__init__()


_POOL = ContextPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_POOL.clear)


def make_context() -> ir.Context:
    """A context of its own: both dialects registered, single-threaded, unknown dialects refused."""
    context = ir.Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = False
    register(context)
    return context


@contextmanager
def borrowed_context() -> Iterator[ir.Context]:
    """A context from the pool, entered, for the length of the ``with`` block.

    A context whose block raised is not used again: the module that failed may still hold operations in it.
    """
    pooled = _POOL.take()
    try:
        with pooled.context:
            yield pooled.context
    except BaseException:
        pooled.uses = USES
        raise
    finally:
        _POOL.give_back(pooled)


def type_table(context: ir.Context) -> TypeTable:
    """The `TypeTable` of a context; shared by all compiles that borrow it."""
    return _POOL.types_of(context)
