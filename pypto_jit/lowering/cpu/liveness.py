"""Which tile buffers are read again after each instruction."""

from __future__ import annotations

from pypto_jit.lowering.cpu.program import Block, Instruction, Nested

Live = frozenset[int]


def live_after(body: Block) -> dict[Instruction, Live]:
    """For each instruction the buffers that some later instruction reads before anything defines them anew.

    Inside a loop, later includes the next iteration. An instruction defines the whole of its destination's buffer: what
    it leaves outside of its valid region is unspecified, so nothing may read it.
    """
    found: dict[Instruction, Live] = {}
    _block(body, frozenset(), found)
    return found


def _block(block: Block, live: Live, found: dict[Instruction, Live]) -> Live:
    for item in reversed(block.items):
        if isinstance(item, Instruction):
            found[item] = live
            live = (live - item.writes) | item.reads
        else:
            live = _nested(item, live, found)
    return live


def _nested(item: Nested, live: Live, found: dict[Instruction, Live]) -> Live:
    # Neither a loop nor an if need run, so nothing that is live after it is certain to be defined by it.
    before = live
    while True:
        reached = before
        for block in item.blocks:
            reached |= _block(block, before if item.loops else live, found)
        if not item.loops or reached == before:
            return reached
        before = reached
