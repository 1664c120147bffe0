"""Whatever happens to the directory, the store misses or hits rightly, repairs, and warns once."""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from pathlib import Path

import pytest

from pypto_jit.runtime.store import files
from pypto_jit.runtime.store.disk import Record, Store, open_store
from pypto_jit.runtime.store.files import MANIFEST
from pypto_jit.runtime.store.keys import Key, differing
from pypto_jit.runtime.store.location import CacheWarning, cache_directory, prepare_directory, size_budget

KEY = Key((("format", b"1"), ("module", b"func @f"), ("options", b"{}")))
FILES = {"kernel.o": b"code", "kernels/f.pto": b"text"}


@pytest.fixture
def store(tmp_path) -> Store:
    root = tmp_path / "cache" / "v1"
    assert prepare_directory(root)
    return Store(root, 1 << 30)


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def record(**changes) -> Record:
    return Record(**{"reads": {"f: N": "1"}, "shown": {"f: N": "4"}, "artifact": KEY.digest, "places": [], **changes})


def test_an_artifact_is_found_by_its_key(store):
    assert store.artifact(KEY.digest) is None
    store.publish_artifact(KEY, {"name": "f"}, FILES)
    entry = store.artifact(KEY.digest, KEY)
    assert entry is not None
    assert entry.files == FILES
    assert entry.about["name"] == "f"


def test_keys_differ_where_any_section_does_however_they_are_joined():
    keys = [
        KEY,
        Key((("format", b"2"), *KEY.parts[1:])),
        Key((("formatm", b"1"), *KEY.parts[1:])),
        Key(KEY.parts[:2]),
        Key((("format", b"1module"), ("", b"func @f"), ("options", b"{}"))),
        Key(tuple(reversed(KEY.parts))),
    ]
    assert len({key.digest for key in keys}) == len(keys)
    assert differing(keys[0].about, keys[1].about) == ["format"]


def test_long_sections_are_not_kept_in_entries(store):
    key = Key((("module", b"x" * 100_000),))
    store.publish_artifact(key, {}, {})
    assert (store.artifact_path(key.digest) / MANIFEST).stat().st_size < 1000


def test_an_entry_of_another_key_is_not_taken(store):
    other = Key((("format", b"1"), ("module", b"func @g")))
    store.publish_artifact(other, {"name": "g"}, FILES)
    store.artifact_path(KEY.digest).parent.mkdir(parents=True)
    shutil.move(store.artifact_path(other.digest), store.artifact_path(KEY.digest))
    with pytest.warns(CacheWarning, match="another key"):
        assert store.artifact(KEY.digest, KEY) is None
    assert not store.artifact_path(KEY.digest).exists()


def test_records_are_found_the_latest_first(store):
    store.publish_record(KEY, record())
    store.publish_record(KEY, record(reads={"f: N": "2"}))
    assert [each.reads["f: N"] for each in store.records(KEY)] == ["2", "1"]
    store.publish_record(KEY, record(artifact="0" * 64))
    assert [each.artifact for each in store.records(KEY)] == ["0" * 64, KEY.digest]


def test_the_number_of_records_is_bounded(store):
    for k in range(40):
        store.publish_record(KEY, record(reads={"f: N": str(k)}))
    assert [each.reads["f: N"] for each in store.records(KEY)] == [str(k) for k in range(39, 23, -1)]


def damaged_paths(store: Store) -> list[Path]:
    folder = store.artifact_path(KEY.digest)
    return [folder / "kernel.o", folder / MANIFEST, store.record_path(KEY.digest)]


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "missing", "mode", "owner"])
@pytest.mark.parametrize("which", range(3))
def test_damage_is_a_miss_with_one_warning_and_is_repaired(store, damage, which, monkeypatch):
    store.publish_artifact(KEY, {}, FILES)
    store.publish_record(KEY, record())
    path = damaged_paths(store)[which]
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
        if which > 0:
            return  # no entry at all: a plain miss, as the other tests show
    elif damage == "mode":
        path.chmod(0o666)
    elif damage == "owner":
        monkeypatch.setattr(files, "is_own", lambda found: found.st_ino != path.stat().st_ino)
    else:
        length = len(content)
        path.write_bytes({"truncate": content[: length // 2], "flip": content[:-3] + b"~~~", "empty": b""}[damage])
    with pytest.warns(CacheWarning, match="made anew") as caught:
        found = store.records(KEY) if which == 2 else store.artifact(KEY.digest, KEY)
    assert not found
    assert len(caught) == 1
    monkeypatch.undo()
    store.publish_artifact(KEY, {}, FILES)
    store.publish_record(KEY, record())
    assert store.artifact(KEY.digest, KEY).files == FILES
    assert store.records(KEY) == [record()]


def test_an_entry_that_is_damaged_again_and_again_warns_once(store):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            store.publish_artifact(KEY, {}, FILES)
            (store.artifact_path(KEY.digest) / "kernel.o").write_bytes(b"x")
            assert store.artifact(KEY.digest) is None
    assert len(caught) == 1


def test_an_entry_without_a_manifest_is_a_miss_and_gives_way(store):
    path = store.artifact_path(KEY.digest)
    path.mkdir(parents=True)
    (path / "kernel.o").write_bytes(b"code")
    with pytest.warns(CacheWarning, match="no manifest"):
        assert store.artifact(KEY.digest, KEY) is None
    store.publish_artifact(KEY, {}, FILES)
    assert store.artifact(KEY.digest, KEY).files == FILES


def test_a_file_in_the_place_of_an_entry_is_a_miss_and_gives_way(store):
    path = store.artifact_path(KEY.digest)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")
    with pytest.warns(CacheWarning):
        assert store.artifact(KEY.digest, KEY) is None
    store.publish_artifact(KEY, {}, FILES)
    assert store.artifact(KEY.digest, KEY).files == FILES


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EIO, errno.ESTALE])
def test_a_directory_that_cannot_be_written_changes_nothing(store, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, "_write", refuse)
    store.publish_artifact(KEY, {}, FILES)
    store.publish_record(KEY, record())
    assert store.artifact(KEY.digest) is None
    assert store.records(KEY) == []
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_read_only_directory_is_read(store):
    store.publish_artifact(KEY, {}, FILES)
    for path in (store.root, *filter(Path.is_dir, store.root.rglob("*"))):
        path.chmod(0o500)
    try:
        assert prepare_directory(store.root)
        assert store.artifact(KEY.digest).files == FILES
        store.publish_artifact(Key((("module", b"other"),)), {}, FILES)
    finally:
        for path in (store.root, *filter(Path.is_dir, store.root.rglob("*"))):
            path.chmod(0o700)


def test_a_directory_that_disappears_is_made_again(store):
    store.publish_artifact(KEY, {}, FILES)
    shutil.rmtree(store.root)
    assert store.artifact(KEY.digest) is None
    with store.exclusive("key", 0.01) as held:
        assert held in (True, False)
    store.publish_artifact(KEY, {}, FILES)
    assert store.artifact(KEY.digest) is not None


def test_use_is_noted(store):
    store.publish_artifact(KEY, {}, FILES)
    manifest = store.artifact_path(KEY.digest) / MANIFEST
    os.utime(manifest, (1000, 1000))
    store.artifact(KEY.digest)
    assert manifest.stat().st_mtime > 1000


def test_the_environment_names_the_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("PYPTO_JIT_CACHE_DIR", str(tmp_path / "here"))
    assert cache_directory() == tmp_path / "here" / "v1"
    monkeypatch.delenv("PYPTO_JIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "pypto-jit" / "v1"
    monkeypatch.setenv("PYPTO_JIT_CACHE", "0")
    assert cache_directory() is None
    assert open_store() is None


def test_the_environment_bounds_the_size(monkeypatch):
    monkeypatch.setenv("PYPTO_JIT_CACHE_SIZE", "2")
    assert size_budget() == 2 << 20
    monkeypatch.setenv("PYPTO_JIT_CACHE_SIZE", "much")
    assert size_budget() == 1 << 30


def test_the_directory_is_made_for_the_user_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("PYPTO_JIT_CACHE_DIR", str(tmp_path / "a" / "b"))
    store = open_store()
    assert store is not None
    assert store.root.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["open", "foreign", "link"])
def test_a_directory_of_others_is_not_used(tmp_path, monkeypatch, how):
    root = tmp_path / "v1"
    root.mkdir(mode=0o700)
    if how == "open":
        root.chmod(0o777)
    elif how == "foreign":
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    else:
        root.rename(tmp_path / "real")
        root.symlink_to(tmp_path / "real")
    with pytest.warns(CacheWarning, match="this user's alone"):
        assert not prepare_directory(root)


def test_a_directory_that_cannot_be_made_is_not_used(tmp_path):
    (tmp_path / "file").write_text("")
    assert not prepare_directory(tmp_path / "file" / "v1")
