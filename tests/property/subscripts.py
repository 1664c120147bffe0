"""Subscripts of torch's tensors that run backwards, which torch does not take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def taken(subscripts: Any, shape: Sequence[int]) -> tuple[Any, list[int]]:
    """Subscripts whose slices all run upwards, and the dimensions of the part that are then to be turned."""
    entries = list(subscripts) if isinstance(subscripts, tuple) else [subscripts]
    if entries == [slice(None)]:
        # ``x[:]`` is all of a tensor, also of one without dimensions.
        return ..., []
    given = sum(entry is not None and entry is not ... for entry in entries)
    place = entries.index(...) if ... in entries else len(entries)
    entries[place : place + 1] = [slice(None)] * (len(shape) - given)
    extents = iter(shape)
    upwards, backwards, dims = [], [], 0
    for entry in entries:
        extent = None if entry is None else next(extents)
        if isinstance(entry, slice) and (entry.step or 1) < 0:
            places = range(extent)[entry]
            entry = slice(places[-1], places[0] + 1, -entry.step) if places else slice(0, 0)
            backwards.append(dims)
        upwards.append(entry)
        dims += not isinstance(entry, int)
    return tuple(upwards), backwards
