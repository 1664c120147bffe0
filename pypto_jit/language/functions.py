"""What a function of a program is for: an entry, a kernel on the cores, a piece of its caller."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from pypto_jit.errors import TraceError
from pypto_jit.language.tracing import current, here

# The attribute of a function that says what it is for, where it is no plain kernel.
ROLE = "__pypto_role__"
# The attribute of a function that stands for assembly: text, filename and core, as strings, so that they are digested.
EXTERN = "__pypto_extern__"


class FunctionType(Enum):
    """``type=`` of `function`: what a function of a program is for."""

    Opaque = "opaque"
    Orchestration = "orchestration"
    InCore = "incore"
    AIC = "aic"
    AIV = "aiv"
    Group = "group"
    Spmd = "spmd"
    Inline = "inline"
    Graph = "graph"
    Host = "host"


# A call of one of these, from an entry, is a task.
TASKS = frozenset({FunctionType.InCore, FunctionType.AIC, FunctionType.AIV, FunctionType.Group})
# A program is entered through these.
ENTRIES = frozenset({FunctionType.Orchestration, FunctionType.Graph, FunctionType.Host})


def role_of(function: Any) -> FunctionType:
    """What a function is for: an entry, unless it was decorated otherwise."""
    return getattr(function, ROLE, FunctionType.Orchestration)


def func_attr(attributes: Mapping[str, Any]) -> None:
    """Attributes of the function whose body starts with this. None changes what is computed; they are accepted.

    Raises:
        TraceError: they are no dictionary with names as keys, or this is not in a kernel.
    """
    current("pl.func_attr")
    if not isinstance(attributes, Mapping) or not all(isinstance(name, str) for name in attributes):
        raise TraceError("pl.func_attr takes a dictionary of attributes by name", span=here(), found=attributes)
