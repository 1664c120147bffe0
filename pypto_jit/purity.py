"""Which functions of libraries give another result each time, whatever they are given. A leaf: only data."""

from __future__ import annotations

import re
from functools import lru_cache

# What gives another result each time, by module; "*": all of it, and of its submodules.
_IMPURE: dict[str, frozenset[str]] = {
    "builtins": frozenset(
        {"compile", "eval", "exec", "globals", "hash", "id", "input", "locals", "open", "__import__", "breakpoint"}
    ),
    "datetime": frozenset({"datetime.now", "datetime.today", "datetime.utcnow", "date.today"}),
    "importlib": frozenset({"*"}),
    "inspect": frozenset({"currentframe", "stack", "trace"}),
    "_io": frozenset({"open"}),
    "io": frozenset({"open"}),
    "numpy.random": frozenset({"*"}),
    "os": frozenset({"getenv", "cpu_count"}),
    "platform": frozenset({"*"}),
    "posix": frozenset({"*"}),
    "random": frozenset({"*"}),
    "secrets": frozenset({"*"}),
    "socket": frozenset({"*"}),
    "subprocess": frozenset({"*"}),
    "sys": frozenset({"_getframe"}),
    "time": frozenset({"*"}),
    "uuid": frozenset({"*"}),
}
_IMPURE_TORCH = r"rand|bernoulli|multinomial|normal(?!ize)|seed|^get_|^is_.*enabled|is_available|_count$"


@lru_cache(maxsize=1024)
def is_impure(module: str, name: str) -> bool:
    """Whether the result of a module's function, or of what a class of it does, does not follow from its arguments."""
    parts = module.split(".")
    whole = any("*" in _IMPURE.get(".".join(parts[: k + 1]), ()) for k in range(len(parts)))
    of_torch = parts[0] == "torch" and re.search(_IMPURE_TORCH, name.rpartition(".")[2]) is not None
    return whole or name in _IMPURE.get(module, ()) or of_torch
