"""The host's description."""

from __future__ import annotations

import dataclasses

from pypto_jit.lowering.cpu.description import host_cpu


def test_lanes_follow_the_register_width():
    host = host_cpu()
    assert host.vector_bytes in (16, 32, 64)
    assert dataclasses.replace(host, vector_bytes=32).lanes == 8
    assert host_cpu() is host
