"""Shared functions: what is known is compiled in, what is not is passed."""

from __future__ import annotations

import numpy as np

from pypto_jit._mlir import ir
from pypto_jit.lowering.cpu.description import host_cpu
from pypto_jit.lowering.cpu.emitter import Emitter, Extent
from pypto_jit.lowering.cpu.outline import call_shared
from tests.unit.lowering.cpu.cube_harness import compile_function, fenced, module_text


def _put(inner: Emitter, arguments: list[Extent]) -> None:
    """Store the product of two extents."""
    place, a, b = arguments
    assert isinstance(place, ir.Value)
    inner.store(inner.value(inner.mul(a, b)), place)


def _three_calls(e: Emitter, arguments: list[ir.Value]) -> None:
    first, second, third, count = arguments
    call_shared(e, "put", [first, 3, count], _put)
    call_shared(e, "put", [second, 3, count], _put)
    call_shared(e, "put", [third, count, 3], _put)


def test_calls_with_equal_known_extents_share_a_function():
    text = module_text(_three_calls, host_cpu(), 3, 1)
    assert text.count("func.func private") == 2
    assert "@__put_x_3_x" in text
    assert "@__put_x_x_3" in text


def test_values_are_passed():
    function = compile_function(_three_calls, host_cpu(), 3, 1)
    places = [fenced(1, np.int64) for _ in range(3)]
    function(*(p.ctypes.data for p in places), 7)
    assert [int(p[0]) for p in places] == [21, 21, 21]
