"""What the native engine knows of the processor it compiles for, as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pypto_jit.processor import tile_registers_allowed


@dataclass(frozen=True)
class CpuDescription:
    """A processor.

    Attributes:
        name: LLVM's name of the processor (``cascadelake``).
        features: LLVM's feature string (``+avx512f,-sse4a,...``).
        vector_bytes: width of the widest vector register that code may use; 16, 32 or 64.
        tiles: whether it has tile registers that multiply BF16 and INT8, which the process may use.
    """

    name: str
    features: str
    vector_bytes: int
    tiles: bool = False

    @property
    def registers(self) -> int:
        """Vector registers: 32 where they have 64 bytes (AVX-512); of others 16 are counted on."""
        return 32 if self.vector_bytes == 64 else 16

    @property
    def lanes(self) -> int:
        """Elements of one vector of 32-bit floats: the number of lanes every tile loop works in."""
        return self.vector_bytes // 4


@cache
def host_cpu() -> CpuDescription:
    """The processor this process runs on."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if all(features.get(name) for name in ("avx512f", "avx512bw", "avx512vl", "avx512dq")):
        width = 64
    elif features.get("avx2") and features.get("fma"):
        width = 32
    else:
        width = 16
    tiles = all(features.get(name) for name in ("amx-tile", "amx-bf16", "amx-int8")) and tile_registers_allowed()
    return CpuDescription(llvm.get_host_cpu_name(), features.flatten(), width, tiles)
