"""The specializations that a kernel keeps in memory: at most so many, those least recently called go first."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from pypto_jit._explain import Arguments, describe_miss
from pypto_jit.options import CompileOptions
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.caller import HotPath

if TYPE_CHECKING:
    from pypto_jit.language.reads import Read

MOST = 128

Key = tuple[Hashable, ...]


class CacheInfo(NamedTuple):
    """How a kernel's specializations serve.

    Attributes:
        hits: calls that found one.
        misses: calls and compiles that had to make one, or to load one from disk.
        size: how many are held.
        maxsize: how many may be; beyond, the least recently called is dropped.
    """

    hits: int
    misses: int
    size: int
    maxsize: int


@dataclass(eq=False)
class Specialization:
    """A compiled kernel, what it was made for, and the generated code that leads to it.

    Attributes:
        program: the compiled kernel.
        reads: what it assumes of the Python world.
        arguments: what each parameter was given.
        options: those that it was compiled with.
        first_calls: how many of its calls did not find it, but made it: 1, or 0 if it was compiled ahead.
        paths: generated code by the kinds of tensors it is for.
        evicted: whether it is held no more.
    """

    program: CompiledProgram
    reads: tuple[Read, ...]
    arguments: Arguments
    options: CompileOptions
    first_calls: int
    paths: dict[tuple[Any, ...], HotPath] = field(default_factory=dict)
    evicted: bool = False
    used: int = 0
    counted: int = 0

    @property
    def hits(self) -> int:
        """Calls that found it."""
        return max(0, self.program.calls - self.first_calls)

    def holds(self) -> bool:
        """Whether a trace would still read the same."""
        return all(read.holds() for read in self.reads)


class Specializations:
    """What one kernel keeps. Every method may be called by many threads at once."""

    def __init__(self, name: str, evicted: Callable[[Specialization], None], most: int = MOST) -> None:
        """Args:
        name: of the kernel.
        evicted: called with each specialization that is dropped to make room.
        most: how many are held.
        """
        self._name = name
        self._evicted = evicted
        self._most = most
        self._ticks = itertools.count(1)
        self.unlock()
        self.clear()

    def unlock(self) -> None:
        """Forget who holds which lock, as a forked child must."""
        self._lock = threading.Lock()
        self._making: dict[Key, threading.Lock] = {}

    def clear(self) -> None:
        """Drop all, and forget what was counted."""
        with self._lock:
            self._held: dict[Key, list[Specialization]] = {}
            self._dropped: dict[Key, None] = {}
            self._past_hits = self._misses = 0
            self._last_miss = f"kernel '{self._name}' has missed no specialization yet"

    def find(self, key: Key) -> Specialization | None:
        """The specialization of a key whose reads hold."""
        for each in self._held.get(key, ()):
            if each.holds():
                each.used = next(self._ticks)
                return each
        return None

    def find_or_make(
        self,
        key: Key,
        arguments: Arguments,
        options: CompileOptions,
        make: Callable[[], Specialization],
        needs: Mapping[str, str] | None = None,
    ) -> Specialization:
        """The specialization of a key; it is made once, whoever asks at the same time.

        Args:
            key: its key.
            arguments: what each parameter is given.
            options: those it is compiled with.
            make: makes it.
            needs: why the value of a scalar is part of the key.
        """
        found = self.find(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            found = self.find(key)
            if found is not None:
                return found
            with self._lock:
                known = sorted(self._all(), key=lambda each: -each.used)
                dropped = self._most if key in self._dropped else None
                self._last_miss = describe_miss(self._name, arguments, options, known, dropped, needs or {})
            try:
                made = make()
            except BaseException:
                with self._lock:
                    self._making.pop(key, None)
                raise
            self._add(key, made)
        return made

    def _all(self) -> list[Specialization]:
        return [each for those in self._held.values() for each in those]

    def _add(self, key: Key, made: Specialization) -> None:
        with self._lock:
            made.used = next(self._ticks)
            made.counted = made.first_calls
            self._held.setdefault(key, []).append(made)
            self._misses += 1
            self._making.pop(key, None)
            self._dropped.pop(key, None)
            dropped = self._shrink(made)
        for each in dropped:
            self._evicted(each)

    def _shrink(self, newest: Specialization) -> list[Specialization]:
        """Drop those least recently used. Generated code reports no use; the programs' own counters tell of it."""
        held = [(key, each) for key, those in self._held.items() for each in those if each is not newest]
        excess = len(held) + 1 - self._most
        if excess <= 0:
            return []
        calls = {id(each): each.program.calls for _, each in held}
        held.sort(key=lambda entry: (calls[id(entry[1])] != entry[1].counted, entry[1].used))
        oldest, kept = held[:excess], held[excess:]
        for _, each in kept:
            if calls[id(each)] != each.counted:
                each.counted, each.used = calls[id(each)], next(self._ticks)
        for key, each in oldest:
            remaining = [other for other in self._held[key] if other is not each]
            if remaining:
                self._held[key] = remaining
            else:
                del self._held[key]
            self._past_hits += each.hits
            self._dropped[key] = None
            if len(self._dropped) > self._most:
                del self._dropped[next(iter(self._dropped))]
        return [each for _, each in oldest]

    def info(self) -> CacheInfo:
        """How they serve."""
        with self._lock:
            held = self._all()
            hits = self._past_hits + sum(each.hits for each in held)
            return CacheInfo(hits, self._misses, len(held), self._most)

    def explain_last_miss(self) -> str:
        """What the last call that found no specialization was, against the nearest that there was."""
        return self._last_miss
