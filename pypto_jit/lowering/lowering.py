"""What a pass is told: the target, and the types of the context it runs in."""

from __future__ import annotations

from dataclasses import dataclass

from pypto_jit.lowering.types import TypeTable
from pypto_jit.targets import Target


@dataclass(frozen=True)
class Lowering:
    """One run of the pipeline."""

    target: Target
    types: TypeTable
