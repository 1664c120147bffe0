"""What a host function says of its tasks: the boxes that they may touch."""

from __future__ import annotations

import re

import pytest

import pypto_jit.language as pl
from pypto_jit.dtypes import INT32
from pypto_jit.lowering.pipeline import PASSES, lower
from pypto_jit.targets import A2A3
from tests.tracing import spec, with_trace

_BEFORE = PASSES[: [entry.name for entry in PASSES].index("outline") + 1]


def boxes(kernel, *arguments):
    """The accesses of a kernel's tasks: mode, argument, and corners with constants spelled out."""

    def outlined(traced):
        text = str(lower(traced.module, A2A3, passes=_BEFORE))
        host = text[text.index("pypto.host") :]
        numbers = dict(re.findall(r"(%c[-\w]*) = arith.constant (-?\d+) : index", host))
        found = re.findall(r'"pypto.access"\(%arg(\d+), ([^)]*)\) \{mode = "(\w+)"\}', host)
        return [(mode, int(k), [numbers.get(v, "?") for v in corners.split(", ")]) for k, corners, mode in found]

    return with_trace(kernel, *arguments, then=outlined)


def test_boxes_cover_what_loops_reach():
    def kernel(x, out):
        with pl.at():
            for i in pl.range(1, 4):
                pl.store(pl.load(x, [i * 2, 8], [2, 8]), [12 - i * 4, 0], out)

    # i is 1 to 3: rows 2 to 7 of x, rows 0 to 9 of out.
    assert boxes(kernel, spec(16, 16), spec(16, 16)) == [
        ("read", 0, ["2", "8", "8", "16"]),
        ("write", 1, ["0", "0", "10", "8"]),
    ]


def test_views_and_blocks_are_boxes_of_the_tensor():
    def kernel(x, out):
        part = pl.transpose(x[4:12], 0, 1)
        with pl.spmd(2):
            tile = pl.load(part, [pl.get_block_idx() * 8, 2], [8, 4])
            pl.store(tile, [pl.get_block_idx() % 2 * 8, 0], out)

    assert boxes(kernel, spec(16, 16), spec(16, 16)) == [
        ("read", 0, ["6", "0", "10", "16"]),
        ("write", 1, ["0", "0", "16", "4"]),
    ]


def test_what_is_read_in_the_task_may_be_anywhere():
    def kernel(x, table, out):
        with pl.at():
            pl.store(pl.load(x, [table[1], 4], [1, 8]), [0, 0], out)

    assert boxes(kernel, spec(16, 16), spec(4, dtype=INT32), spec(1, 8)) == [
        ("read", 1, ["1", "2"]),
        ("read", 0, ["0", "4", "16", "12"]),
        ("write", 2, ["0", "0", "1", "8"]),
    ]


def test_many_boxes_are_joined():
    def kernel(x, out):
        with pl.at():
            for k in range(12):
                pl.store(pl.load(x, [k, 0], [1, 16]), [k, 0], out)

    found = boxes(kernel, spec(16, 16), spec(16, 16))
    assert len([box for box in found if box[0] == "read"]) <= 8
    assert min(int(corners[0]) for _, _, corners in found) == 0
    assert max(int(corners[2]) for _, _, corners in found) == 12


@pytest.mark.parametrize("name", ["a b", "a-b", "a.b"])
def test_names_of_kernels_are_symbols(name):
    def kernel(x, out):
        for _ in range(2):
            with pl.at(name_hint=name):
                pl.store(pl.load(x, [0, 0], [16, 16]), [0, 0], out)

    def functions(traced):
        return re.findall(r"func.func @(\w+)\(", str(lower(traced.module, A2A3, passes=_BEFORE)))

    names = with_trace(kernel, spec(16, 16), spec(16, 16), then=functions)
    assert sorted(names) == ["kernel", "kernel_a_b", "kernel_a_b_2"]
