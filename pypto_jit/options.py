"""What a user may choose of a compile or a call. A leaf module, and the only map between targets and platform names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import Enum
from typing import Any


class BackendType(str, Enum):
    """An architecture; the value is its wire name."""

    Ascend910B = "a2a3"
    Ascend950 = "a5"


Arch = BackendType


class ExecutionMode(str, Enum):
    """Where a kernel runs: on the device, or natively on this machine's CPU."""

    ONBOARD = "onboard"
    SIM = "sim"


PLATFORMS: dict[str, tuple[BackendType, ExecutionMode]] = {
    "a2a3": (BackendType.Ascend910B, ExecutionMode.ONBOARD),
    "a2a3sim": (BackendType.Ascend910B, ExecutionMode.SIM),
    "a5": (BackendType.Ascend950, ExecutionMode.ONBOARD),
    "a5sim": (BackendType.Ascend950, ExecutionMode.SIM),
}
DEFAULT_PLATFORM = "a2a3sim"


def parse_platform(platform: str) -> tuple[BackendType, ExecutionMode]:
    """The two axes of a platform name.

    Raises:
        ValueError: there is no such platform.
    """
    if platform in PLATFORMS:
        return PLATFORMS[platform]
    near = difflib.get_close_matches(str(platform), PLATFORMS, 1, 0.3)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise ValueError(f"unknown platform {platform!r}: it is one of {', '.join(PLATFORMS)}{hint}")


def _axis(name: str, value: Any, kind: type[Enum]) -> Any:
    if not isinstance(value, kind):
        raise TypeError(
            f"{name}={value!r} is no {kind.__name__}; a platform is named with platform='{DEFAULT_PLATFORM}'"
        )
    return value


@dataclass(frozen=True, init=False)
class RunConfig:
    """Options of a call.

    Attributes:
        arch: the architecture compiled for.
        execution_mode: on the device or on the CPU.
        threads: CPU threads of a call; None: as many as torch uses.
    """

    arch: BackendType
    execution_mode: ExecutionMode
    threads: int | None

    def __init__(
        self,
        *,
        platform: str | None = None,
        arch: BackendType = BackendType.Ascend910B,
        execution_mode: ExecutionMode = ExecutionMode.SIM,
        threads: int | None = None,
    ) -> None:
        """Args: see the class; ``platform`` names both axes at once and wins over them.

        Raises:
            ValueError: an unknown platform, or a thread count below one.
            TypeError: an axis of another type.
        """
        arch = _axis("arch", arch, BackendType)
        execution_mode = _axis("execution_mode", execution_mode, ExecutionMode)
        if platform is not None:
            arch, execution_mode = parse_platform(platform)
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
            raise ValueError(f"threads={threads!r} is no positive integer")
        for name, value in (("arch", arch), ("execution_mode", execution_mode), ("threads", threads)):
            object.__setattr__(self, name, value)

    @property
    def platform(self) -> str:
        """``a2a3``, ``a2a3sim``, ``a5`` or ``a5sim``."""
        return next(name for name, axes in PLATFORMS.items() if axes == (self.arch, self.execution_mode))

    @property
    def backend_type(self) -> BackendType:
        """The architecture, under PyPTO's name."""
        return self.arch
