"""The cache stays within its budget, and what was used last stays longest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_jit.runtime.store.eviction import Sweeper, items, sweep
from pypto_jit.runtime.store.files import MANIFEST, write_folder

NOW = 1_800_000_000.0


def artifact(root: Path, name: str, size: int, used: float) -> Path:
    path = root / "artifacts" / name[:2] / name
    write_folder(path, {"kernel.o": bytes(size)}, {}, root / "staging")
    os.utime(path / MANIFEST, (used, used))
    return path


@pytest.fixture
def root(tmp_path) -> Path:
    for k in range(5):
        artifact(tmp_path, f"a{k}", 10_000, NOW - 100 * k)
    records = tmp_path / "records" / "ab"
    records.mkdir(parents=True)
    (records / "ab.json").write_text("{}")
    os.utime(records / "ab.json", (NOW - 1000, NOW - 1000))
    return tmp_path


def test_everything_is_counted_with_its_size_and_last_use(root):
    found = {item.path.name: item for item in items(root)}
    assert set(found) == {"a0", "a1", "a2", "a3", "a4", "ab.json"}
    assert found["a3"].used == NOW - 300
    assert 10_000 < found["a3"].size < 11_000


def test_within_the_budget_nothing_is_removed(root):
    assert sweep(root, 10**9, NOW) == sum(item.size for item in items(root))
    assert len(list(items(root))) == 6


def test_what_was_used_least_recently_goes_first(root):
    remaining = sweep(root, 35_000, NOW)
    assert {item.path.name for item in items(root)} == {"a0", "a1"} | ({"a2"} if remaining > 30_000 else set())
    assert remaining <= 35_000


def test_a_budget_of_nothing_empties_the_cache(root):
    assert sweep(root, 0, NOW) == 0
    assert list(items(root)) == []


def test_what_dead_processes_left_is_removed_and_what_is_being_written_is_not(root):
    staging = root / "staging"
    for name, age in (("dead", 7200), ("alive", 10)):
        (staging / name).mkdir()
        (staging / name / "kernel.o").write_bytes(b"x")
        os.utime(staging / name, (NOW - age, NOW - age))
    sweep(root, 10**9, NOW)
    assert {path.name for path in staging.iterdir()} == {"alive"}


def test_a_missing_cache_is_empty(tmp_path):
    assert sweep(tmp_path / "absent", 100, NOW) == 0


def test_a_process_sweeps_where_nobody_did_and_whenever_it_has_added_much(root):
    Sweeper(root, 40_000).added(1)
    assert len(list(items(root))) < 6
    artifact(root, "b0", 39_000, NOW + 100)
    sweeper = Sweeper(root, 40_000)
    sweeper.added(100)
    assert len(list(items(root))) > 1
    sweeper.added(39_000)
    assert {item.path.name for item in items(root)} <= {"b0"}
