"""What a Python variable holds while control flow is traced: traced values in tuples, lists, dicts and dataclasses."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from pypto_jit.dtypes import BOOL, FP32, INDEX, DType
from pypto_jit.language.scalars import Scalar
from pypto_jit.language.values import Tensor, Tile


class Undefined:
    """The value of a variable that has none."""

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


def flatten(value: Any, leaves: list[Any]) -> Any:
    """Append the leaves of a value to a list; the result is its structure, equal for values of equal structure."""
    kind = type(value)
    if kind is list or isinstance(value, tuple):
        return (kind, tuple([flatten(item, leaves) for item in value]))
    if kind is dict:
        return (kind, tuple([(key, flatten(item, leaves)) for key, item in value.items()]))
    if _is_record(value):
        return (kind, tuple([(f.name, flatten(getattr(value, f.name, UNDEFINED), leaves)) for f in fields(value)]))
    leaves.append(value)
    return None


def _is_record(value: Any) -> bool:
    """Whether this is an object of a user's dataclass."""
    return is_dataclass(value) and not isinstance(value, type) and not type(value).__module__.startswith("pypto_jit.")


def unflatten(structure: Any, leaves: Any) -> Any:
    """The value of this structure with these leaves (an iterator)."""
    if structure is None:
        return next(leaves)
    kind, parts = structure
    if kind is dict:
        return {key: unflatten(part, leaves) for key, part in parts}
    if isinstance(kind, type) and is_dataclass(kind):
        return _record(kind, {name: unflatten(part, leaves) for name, part in parts})
    items = [unflatten(part, leaves) for part in parts]
    if kind is list:
        return items
    return kind._make(items) if hasattr(kind, "_make") else kind(items)


def _record(kind: type, values: dict[str, Any]) -> Any:
    """A dataclass object with these fields. Its ``__post_init__`` ran when the first one was made."""
    made = object.__new__(kind)
    for name, value in values.items():
        if value is not UNDEFINED:
            object.__setattr__(made, name, value)
    return made


def is_traced(value: Any) -> bool:
    """Whether this is a tile or a traced scalar."""
    return isinstance(value, (Tile, Scalar))


def is_plain_number(value: Any) -> bool:
    """Whether this is a Python number, which becomes a traced scalar where it has to."""
    return type(value) in (int, float, bool)


def number_dtype(value: float) -> DType:
    """The dtype of a Python number as a traced scalar."""
    return BOOL if isinstance(value, bool) else FP32 if isinstance(value, float) else INDEX


def same(a: Any, b: Any) -> bool:
    """Whether two values are interchangeable: the same object, or equal plain values of one type."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, (Tile, Scalar, Tensor)):
        return isinstance(a, Scalar) and isinstance(b, Scalar) and a.handle == b.handle
    if isinstance(a, float):
        return repr(a) == repr(b)
    try:
        return bool(a == b)
    except Exception:  # what an unknown object's comparison raises says only that it is no plain value
        return False


def describe(value: Any) -> str:
    """A value in an error message."""
    if isinstance(value, Undefined):
        return "no value"
    if isinstance(value, (Tile, Scalar, Tensor)):
        return repr(value)
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"


class Containers:
    """The lists, dicts, sets and dataclass objects that variables hold, to notice a change in place, which no recorded
    body can carry.
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self._found: list[tuple[str, Any, Any]] = []
        seen: set[int] = set()
        for name, value in values.items():
            self._collect(name, value, seen)

    def _collect(self, name: str, value: Any, seen: set[int]) -> None:
        record = _is_record(value)
        if not (record or isinstance(value, (list, dict, set, tuple))) or id(value) in seen:
            return
        seen.add(id(value))
        if not isinstance(value, tuple):
            self._found.append((name, value, _contents(value)))
        for item in value.values() if isinstance(value, dict) else _contents(value) if record else value:
            self._collect(name, item, seen)

    def changed(self) -> str | None:
        """The variable whose list, dict, set or object was changed in place, if any."""
        for name, value, before in self._found:
            now = _contents(value)
            if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
                return name
        return None


def _contents(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [part for item in value.items() for part in item]
    if _is_record(value):
        return [getattr(value, f.name, UNDEFINED) for f in fields(value)]
    return list(value)
