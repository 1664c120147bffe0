"""Keys of cache entries: digests of named sections, which the entry lists, so that a hit is compared, not believed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pypto_jit.runtime.store.code import sections

_SHOWN = 2000  # bytes of a section up to which an entry holds it whole, for people to read


class Key:
    """What an entry is looked up by.

    Attributes:
        parts: name and content of each section, in order.
    """

    def __init__(self, parts: tuple[tuple[str, bytes], ...]) -> None:
        self.parts = parts

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the length-prefixed sections, in hexadecimal."""
        return hashlib.sha256(sections(*(sections(name.encode(), part) for name, part in self.parts))).hexdigest()

    @cached_property
    def about(self) -> dict[str, Any]:
        """Each section's size and checksum, and the section itself where it is short, as JSON."""
        return {name: _describe(part) for name, part in self.parts}

    def matches(self, about: Any) -> bool:
        """Whether an entry was made for these sections."""
        return about == self.about


def _describe(part: bytes) -> dict[str, Any]:
    described = {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()}
    if len(part) <= _SHOWN:
        described["text"] = part.decode("utf-8", "backslashreplace")
    return described


def differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Names of the sections that two entries do not share."""
    return [name for name in dict.fromkeys((*left, *right)) if left.get(name) != right.get(name)]
