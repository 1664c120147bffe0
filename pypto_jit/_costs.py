"""What ``f.explain(...)`` gives: the kernels that a function becomes, and what each costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pypto_jit.lowering.tensors.cost import KernelCost
from pypto_jit.targets import Space, Target

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_MEMORIES = {
    Space.VEC: "Vec",
    Space.MAT: "Mat",
    Space.LEFT: "L0A",
    Space.RIGHT: "L0B",
    Space.ACC: "L0C",
    Space.BIAS: "Bias",
}
_AT_RUN_TIME = "known at run time"


@dataclass(frozen=True)
class Explanation:
    """The kernels that a function becomes; as text, a report.

    Attributes:
        name: of the function.
        target: the machine.
        kernels: those of tensor-level work, in the order that they run in.
        tiles: of the kernels of tiles, by name, the bytes of each memory that their buffers take.
    """

    name: str
    target: Target
    kernels: tuple[KernelCost, ...]
    tiles: Mapping[str, Mapping[Space, int]]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    __repr__ = __str__

    def _lines(self) -> Iterator[str]:
        count = len(self.kernels) + len(self.tiles)
        made = [kernel.workspace for kernel in self.kernels if kernel.why and not kernel.shares]
        head = f"'{self.name}' on {self.target.name}: {count} kernel{'s' if count != 1 else ''}"
        if made:
            total = _AT_RUN_TIME if None in made else _bytes(sum(size or 0 for size in made))
            head += f", {len(made)} workspace{'s' if len(made) != 1 else ''} ({total})"
        yield head
        for kernel in self.kernels:
            yield f"{kernel.name}: {_operations(kernel)}"
            yield f"  tiles: {_tile(kernel)}; blocks: {_AT_RUN_TIME if kernel.blocks is None else kernel.blocks}"
            yield f"  on chip: {self._on_chip(kernel.on_chip)}"
            yield f"  global memory: {_traffic(kernel)}"
            if kernel.why:
                size = _AT_RUN_TIME if kernel.workspace is None else _bytes(kernel.workspace)
                where = f"the workspace of {kernel.shares}" if kernel.shares else "a workspace"
                yield f"  result in {where} ({size}): {kernel.why}"
        for name, spaces in self.tiles.items():
            yield f"{name}: tiles as written"
            yield f"  on chip: {self._on_chip(spaces)}"

    def _on_chip(self, spaces: Mapping[Space, int]) -> str:
        parts = []
        for space, size in spaces.items():
            capacity = self.target.capacity[space]
            parts.append(f"{_MEMORIES[space]} {_bytes(size)} of {_bytes(capacity)} ({100 * size / capacity:.0f} %)")
        return ", ".join(parts) or "nothing"


def _operations(kernel: KernelCost) -> str:
    """The operations by lines, in order."""
    groups: list[tuple[int | None, list[str]]] = []
    for name, span in kernel.operations:
        line = span.line if span is not None else None
        if not groups or groups[-1][0] != line:
            groups.append((line, []))
        groups[-1][1].append(name)
    texts = [" ".join(names) + (f" (line {line})" if line is not None else "") for line, names in groups]
    return ", ".join(texts) or "copy"


def _tile(kernel: KernelCost) -> str:
    rows, columns, *depth = kernel.tile
    return f"[{rows}, {columns}]" + (f", K in pieces of {depth[0]}" if depth else "")


def _traffic(kernel: KernelCost) -> str:
    if kernel.read is None or kernel.written is None or kernel.flops is None or kernel.intensity is None:
        return _AT_RUN_TIME
    moved = f"{_bytes(kernel.read)} read, {_bytes(kernel.written)} written"
    return f"{moved}; {kernel.flops:,} FLOP; {kernel.intensity:.2f} FLOP/byte"


def _bytes(size: int) -> str:
    """A number of bytes, in the largest unit of which there is one."""
    amount, unit = float(size), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.4g} {_UNITS[unit]}"
