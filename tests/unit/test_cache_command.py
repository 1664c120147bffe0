"""The cache command lists, measures, explains and removes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pypto_jit.__main__ import main
from pypto_jit.runtime.store.disk import Record, Store
from pypto_jit.runtime.store.files import MANIFEST
from pypto_jit.runtime.store.keys import Key
from pypto_jit.runtime.store.location import prepare_directory

PARAMETERS = [{"name": "x", "direction": "in", "shape": [4, 8], "dtype": "FP32", "strides": [8, 1]}]
ABOUT = {
    "name": "softmax",
    "platform": "a2a3sim",
    "parameters": [*PARAMETERS, {"name": "k", "constant": ["int", "0x3"]}],
}
KEYS = [Key((("module", b"func @softmax"), ("options", f"level {k}".encode()))) for k in range(3)]


@pytest.fixture
def store(monkeypatch, tmp_path) -> Store:
    """A store of three artifacts: two of one kernel, the first used last; and one that is damaged."""
    monkeypatch.setenv("PYPTO_JIT_CACHE", "1")
    monkeypatch.setenv("PYPTO_JIT_CACHE_DIR", str(tmp_path))
    root = tmp_path / "v1"
    assert prepare_directory(root)
    store = Store(root, 1 << 30)
    for number, key in enumerate(KEYS):
        store.publish_artifact(key, ABOUT, {"kernel.o": bytes(2048)})
        manifest = store.artifact_path(key.digest) / MANIFEST
        os.utime(manifest, (2e9 - number, 2e9 - number))
    (store.artifact_path(KEYS[2].digest) / MANIFEST).write_text("{")
    os.utime(store.artifact_path(KEYS[2].digest) / MANIFEST, (1e9, 1e9))
    store.publish_record(KEYS[0], Record({"softmax: N": "d"}, {"softmax: N": "4"}, KEYS[0].digest, []))
    return store


def test_kernels_are_listed_the_last_used_first(store, capsys):
    assert main(["cache", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [key.digest[:12] for key in KEYS]
    assert lines[0].endswith("softmax(x: FP32[4, 8], k=0x3) on a2a3sim")
    assert lines[2].endswith("damaged")


def test_the_cache_is_measured(store, capsys):
    assert main(["cache", "stat"]) == 0
    out = capsys.readouterr().out
    assert str(store.root) in out
    assert "kernels    3" in out
    assert "of 1024 MiB" in out


def test_why_shows_sections_reads_and_the_nearest(store, capsys):
    assert main(["cache", "why", KEYS[0].digest[:10]]) == 0
    out = capsys.readouterr().out
    assert "options: level 0" in out
    assert "softmax: N = 4" in out
    assert f"{KEYS[1].digest[:12]}  softmax" in out
    assert "differs in: options" in out


@pytest.mark.parametrize("key", ["zzz", ""])
def test_why_of_no_or_several_kernels_is_an_error(store, capsys, key):
    assert main(["cache", "why", key]) == 1
    assert "starts with" in capsys.readouterr().err


def test_kernels_are_removed_by_key(store, capsys):
    assert main(["cache", "rm", KEYS[0].digest[:12], KEYS[2].digest]) == 0
    assert [key for key in KEYS if store.artifact_path(key.digest).exists()] == [KEYS[1]]
    assert main(["cache", "rm", KEYS[0].digest]) == 1


def test_everything_is_removed(store, tmp_path):
    assert main(["cache", "rm", "--all"]) == 0
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("arguments", [[], ["--all", "key"]])
def test_nothing_is_removed_by_mistake(store, arguments):
    assert main(["cache", "rm", *arguments]) == 2
    assert all(store.artifact_path(key.digest).exists() for key in KEYS)


def test_a_cache_that_is_turned_off_is_said_to_be(monkeypatch, capsys):
    monkeypatch.setenv("PYPTO_JIT_CACHE", "0")
    assert main(["cache", "stat"]) == 0
    assert "turned off" in capsys.readouterr().out
    assert main(["cache", "ls"]) == 1


def test_an_empty_cache_is_no_error(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PYPTO_JIT_CACHE", "1")
    monkeypatch.setenv("PYPTO_JIT_CACHE_DIR", str(tmp_path / "absent"))
    assert main(["cache", "ls"]) == 0
    assert main(["cache", "stat"]) == 0
    assert "not made yet" in capsys.readouterr().out
    assert not Path(tmp_path / "absent").exists()
