"""The target rows against the published numbers, and against each other."""

import pytest

from pypto_jit.dtypes import BF16, FP16, FP32, INT8, INT32, UINT8
from pypto_jit.targets import A2A3, A5, BY_NAME, NZ, ZZ, Space


def test_capacities():
    assert [A2A3.capacity[s] // 1024 for s in Space] == [184, 512, 64, 64, 128, 1]
    assert [A5.capacity[s] // 1024 for s in Space] == [240, 512, 64, 64, 256, 4]


@pytest.mark.parametrize("target", BY_NAME.values(), ids=lambda t: t.name)
def test_moves_leave_global_memory_to_loads_and_stores(target):
    assert not target.moves & target.crossings
    assert (Space.MAT, Space.LEFT) in target.moves
    assert (Space.LEFT, Space.VEC) not in target.moves | target.crossings
    assert all(FP32 in targets or FP16 in targets for targets in target.casts.values())


def test_what_tells_the_targets_apart():
    assert A2A3.layouts[Space.LEFT] == ZZ
    assert A5.layouts[Space.LEFT] == NZ
    assert FP16 in A2A3.casts[INT32]
    assert FP16 not in A5.casts[INT32]
    assert UINT8 in A5.casts[INT32]
    assert FP16 in A5.casts[BF16]
    assert FP16 not in A2A3.casts[BF16]
    assert A2A3.casts[INT8] == {FP16}
