from __future__ import annotations

import os
import threading

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import TileType
from pypto_jit.dtypes import FP32
from pypto_jit.lowering import context as contexts
from pypto_jit.lowering.context import ContextPool, borrowed_context, make_context, type_table
from pypto_jit.targets import Space

TILE = TileType((4, 8), FP32, Space.VEC, (4, 8))


def test_a_context_knows_both_dialects_and_no_others():
    with make_context():
        assert str(ir.Type.parse(str(TILE))) == str(TILE)
        with pytest.raises(ir.MLIRError):
            ir.Module.parse('"unknown.op"() : () -> ()')


def test_a_context_is_used_again():
    with borrowed_context() as first:
        pass
    with borrowed_context() as second:
        assert second is first


def test_borrowed_contexts_differ_while_both_are_held():
    with borrowed_context() as first, borrowed_context() as second:
        assert first is not second


def test_a_context_whose_block_raised_is_not_used_again():
    with pytest.raises(ValueError, match="mine"), borrowed_context() as first:
        raise ValueError("mine")
    with borrowed_context() as second:
        assert second is not first


def test_a_worn_context_is_dropped(monkeypatch):
    monkeypatch.setattr(contexts, "USES", 2)
    pool = ContextPool()
    seen = []
    for _ in range(3):
        pooled = pool.take()
        seen.append(pooled)
        pool.give_back(pooled)
    assert seen[0] is seen[1]
    assert seen[2] is not seen[0]


def test_the_types_of_a_context_are_remembered():
    with borrowed_context() as context:
        table = type_table(context)
        built = table.build(TILE)
        assert type_table(context) is table
        assert table.parse(built) == TILE
        assert table.parse(ir.IndexType.get()) is None


def test_threads_borrow_different_contexts():
    held: list[ir.Context] = []
    barrier = threading.Barrier(3)

    def borrow():
        with borrowed_context() as context:
            held.append(context)
            barrier.wait(timeout=60)

    threads = [threading.Thread(target=borrow) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(context) for context in held}) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_with_an_empty_pool():
    with borrowed_context() as parents:
        pass
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with borrowed_context() as own:
                status = 0 if own is not parents else 2
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
