"""Attributes that tensors, tiles and scalars do not have are errors at the user's line, with the nearest names."""

from __future__ import annotations

import difflib
from typing import Any

from pypto_jit.errors import MissingAttributeError
from pypto_jit.language.tracing import here


class Attributed:
    """A value whose unknown attributes raise `MissingAttributeError`, which Python's protocols take as absence."""

    __slots__ = ()
    # What an error calls it.
    _called = "a value"

    def __getattr__(self, name: str) -> Any:
        message = f"{type(self)._called} has no attribute '{name}'"
        if name.startswith("_"):
            # Asked for by protocols, of values that are still being made too.
            raise MissingAttributeError(message, span=here())
        near = difflib.get_close_matches(name, _public(type(self)), 1)
        raise MissingAttributeError(
            message, span=here(), found=f".{name}", hint=f"did you mean '.{near[0]}'?" if near else None
        )


def _public(kind: type[Any]) -> list[str]:
    return [name for name in dir(kind) if not name.startswith("_")]
