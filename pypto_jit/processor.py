"""What the system lets this process use of its processor."""

from __future__ import annotations

import ctypes
import os
from functools import cache

_ARCH_PRCTL = 158
_REQUEST_PERMISSION = 0x1023
_TILE_DATA = 18


@cache
def tile_registers_allowed() -> bool:
    """Whether Linux, once asked, lets this process use the tile registers of an x86 processor (Intel AMX)."""
    if os.uname().sysname != "Linux" or os.uname().machine != "x86_64":
        return False
    try:
        return ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) == 0
    except (OSError, AttributeError):
        return False
