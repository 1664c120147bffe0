"""Which functions run block by block: a block of each, then the next, so that what they hand over stays in caches.

The parts of a function that `stage` cut hand tiles over through workspaces, which on the machine hold those of all
blocks. Where no block needs what another one leaves, a thread of the CPU may as well run all parts of one block before
the next block, and then it needs memory for one block only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import HANDED, STAGED, described_arguments, number, numbers, text

# Workspaces are aligned to cache lines, and with them the part of each block.
_ALIGNMENT = 64


@dataclass(frozen=True)
class Share:
    """A block's part of a workspace: ``size`` bytes, ``at`` bytes into what a thread has for all of them.

    Where there are no bytes the workspace is not used.
    """

    at: int
    size: int


@dataclass(frozen=True)
class Chain:
    """Functions that follow each other in a module.

    Attributes:
        functions: all with as many blocks; just one where nothing runs block by block.
        shares: of each workspace that need not be there as a whole, by its number.
    """

    functions: tuple[ir.Operation, ...]
    shares: Mapping[int, Share] = field(default_factory=dict)


def find_chains(functions: Sequence[ir.Operation]) -> list[Chain]:
    """All functions of a planned module, in order, those that run block by block together."""
    groups: list[list[ir.Operation]] = []
    for function in functions:
        name = text(function, STAGED)
        if groups and name is not None and name == text(groups[-1][-1], STAGED):
            groups[-1].append(function)
        else:
            groups.append([function])
    return [chain for group in groups for chain in _chains(group)]


def _chains(group: list[ir.Operation]) -> list[Chain]:
    blocks = {number(function, "pypto.trips") for function in group}
    shares = _shares(group[0], max((b for b in blocks if b is not None), default=0))
    if len(group) == 1 or len(blocks) > 1 or shares is None:
        return [Chain((function,)) for function in group]
    return [Chain(tuple(group), shares)]


def _shares(function: ir.Operation, blocks: int) -> dict[int, Share] | None:
    """The shares of the workspaces; None where blocks have no whole cache lines."""
    sizes = [
        ir.IntegerAttr(attributes["pypto.workspace"]).value
        for attributes in described_arguments(function, len(function.regions[0].blocks[0].arguments))
        if "pypto.workspace" in attributes
    ]
    shares = dict.fromkeys(range(len(sizes)), Share(0, 0))
    at = 0
    for workspace in numbers(function, HANDED) or ():
        if blocks <= 0 or sizes[workspace] % (blocks * _ALIGNMENT):
            return None
        shares[workspace] = Share(at, sizes[workspace] // blocks)
        at += shares[workspace].size
    return shares
