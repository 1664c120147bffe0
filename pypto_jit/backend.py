"""The names of PyPTO's ``pypto.backend`` that exist here. There is no backend to set: a config names its platform."""

from __future__ import annotations

from typing import Any

from pypto_jit.options import BackendType

_OF_THE_CALL = "the target belongs to a call: config=RunConfig(platform='a5sim')"
_INSTEAD: dict[str, str] = dict.fromkeys(
    ("set_backend_type", "get_backend_type", "reset_for_testing", "is_backend_configured", "Backend"), _OF_THE_CALL
)


def __getattr__(name: str) -> Any:
    instead = _INSTEAD.get(name, "what there is: " + ", ".join(__all__))
    raise AttributeError(f"pypto_jit.backend has no '{name}': {instead}", name=name, obj=None)


__all__ = ["BackendType"]
