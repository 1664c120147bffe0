"""The host's description."""

from __future__ import annotations

import dataclasses

from pypto_jit.lowering.cpu import description
from pypto_jit.lowering.cpu.description import host_cpu


def test_lanes_follow_the_register_width():
    host = host_cpu()
    assert host.vector_bytes in (16, 32, 64)
    assert dataclasses.replace(host, vector_bytes=32).lanes == 8
    assert host_cpu() is host


def test_tile_registers_that_the_system_refuses_are_not_used(monkeypatch):
    monkeypatch.setattr(description, "tile_registers_allowed", lambda: False)
    assert not description.host_cpu.__wrapped__().tiles
