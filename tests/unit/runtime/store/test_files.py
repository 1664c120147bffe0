"""Folders appear whole or not at all; what was changed, torn or put there by others is not read."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pypto_jit.runtime.store import files, location
from pypto_jit.runtime.store.files import (
    MANIFEST,
    DamagedError,
    decode_manifest,
    encode_manifest,
    read_folder,
    read_own,
    remove_folder,
    write_file,
    write_folder,
)

FILES = {"kernel.o": b"\x7fELF object", "kernels/f.pto": b"module {}", "empty": b""}
ABOUT = {"schema": 1, "name": "f", "work": 2**53, "rate": 0.1}


@pytest.fixture
def folder(tmp_path) -> Path:
    assert write_folder(tmp_path / "entries" / "one", FILES, ABOUT, tmp_path / "staging")
    return tmp_path / "entries" / "one"


def test_a_folder_is_read_as_it_was_written(folder):
    about, read = read_folder(folder)
    assert read == FILES
    assert {key: about[key] for key in ABOUT} == ABOUT
    assert read_folder(folder, frozenset({"empty", "absent"}))[1] == {"empty": b""}


def test_the_manifest_is_plain_json(folder):
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["name"] == "f"
    assert manifest["files"]["kernel.o"]["bytes"] == len(FILES["kernel.o"])


def test_nothing_is_left_in_staging(folder, tmp_path):
    assert list((tmp_path / "staging").iterdir()) == []


def test_only_the_user_may_read_what_is_written(folder, tmp_path):
    for path in (folder, folder / "kernels", tmp_path / "staging", *filter(Path.is_file, folder.rglob("*"))):
        assert path.stat().st_mode & 0o077 == 0


def test_whoever_is_second_leaves_the_first(folder, tmp_path):
    assert not write_folder(folder, {"kernel.o": b"other"}, ABOUT, tmp_path / "staging")
    assert read_folder(folder)[1] == FILES
    assert list((tmp_path / "staging").iterdir()) == []


def test_every_flipped_bit_is_found(folder):
    for name in (*FILES, MANIFEST):
        original = (folder / name).read_bytes()
        for position in range(0, len(original), 1 if name != MANIFEST else 7):
            damaged = bytearray(original)
            damaged[position] ^= 1 << (position % 8)
            (folder / name).write_bytes(damaged)
            try:
                about, read = read_folder(folder)
            except (DamagedError, FileNotFoundError):
                continue
            # Only white space, or an escape of the same character, can change unnoticed.
            assert name == MANIFEST
            assert (read, {key: about[key] for key in ABOUT}) == (FILES, ABOUT)
        (folder / name).write_bytes(original)
    assert read_folder(folder)[1] == FILES


@pytest.mark.parametrize("name", ["kernel.o", "kernels/f.pto", MANIFEST])
def test_a_truncated_file_is_found(folder, name):
    original = (folder / name).read_bytes()
    for length in (0, 1, len(original) // 2, len(original) - 1):
        (folder / name).write_bytes(original[:length])
        with pytest.raises(DamagedError):
            read_folder(folder)


def test_a_missing_file_is_damage_and_a_missing_folder_is_not(folder):
    (folder / "kernel.o").unlink()
    with pytest.raises(DamagedError, match=r"kernel\.o is missing"):
        read_folder(folder)
    with pytest.raises(FileNotFoundError):
        read_folder(folder.with_name("two"))


def test_a_folder_that_is_removed_while_it_is_read_is_missing(folder, tmp_path):
    def slow(path):
        if path.name != MANIFEST:
            remove_folder(folder, tmp_path / "staging")
        return read_own(path)

    with pytest.raises(FileNotFoundError):
        read_folder(folder, read=slow)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"content": {}}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_manifest_is_damage(content):
    with pytest.raises(DamagedError):
        decode_manifest(content)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", ""])
def test_a_manifest_reaches_no_file_elsewhere(folder, name):
    about = {**ABOUT, "files": {name: {"bytes": 0, "sha256": ""}}}
    (folder / MANIFEST).write_bytes(encode_manifest(about))
    with pytest.raises(DamagedError):
        read_folder(folder)


def test_files_of_other_users_are_refused(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(DamagedError, match="this user's alone"):
        read_folder(folder)


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_files_that_others_may_write_are_refused(folder, mode):
    (folder / "kernel.o").chmod(mode)
    with pytest.raises(DamagedError, match="this user's alone"):
        read_folder(folder)


def test_links_pipes_and_directories_are_refused(folder, tmp_path):
    target = folder / "kernel.o"
    target.rename(tmp_path / "elsewhere")
    target.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedError):
        read_own(target)
    target.unlink()
    target.mkdir()
    with pytest.raises(DamagedError):
        read_own(target)
    target.rmdir()
    os.mkfifo(target)
    with pytest.raises(DamagedError):  # without waiting for a writer
        read_own(target)


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(path, data):
        path.write_bytes(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_write", full)
    with pytest.raises(OSError, match="No space"):
        write_folder(tmp_path / "entries" / "one", FILES, ABOUT, tmp_path / "staging")
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "file", b"data")
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
    assert not (tmp_path / "entries" / "one").exists()


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    write_file(path, b"a" * 100_000)
    done = threading.Event()
    seen = set()

    def watch():
        while not done.is_set():
            seen.add(path.read_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    for k in range(50):
        write_file(path, b"ab"[k % 2 :][:1] * 100_000)
    done.set()
    watcher.join()
    assert seen <= {b"a" * 100_000, b"b" * 100_000}


def test_what_cannot_be_removed_stays_without_an_error(folder, tmp_path, monkeypatch):
    def busy(*_, **__):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr(os, "rename", busy)
    monkeypatch.setattr(os, "unlink", busy)
    monkeypatch.setattr(os, "rmdir", busy)
    remove_folder(folder, tmp_path / "staging")


KILLED = """if 1:
    import os, signal, sys, time
    from pathlib import Path
    from pypto_jit.runtime.store.files import write_file, write_folder
    for attempt in range(40):
        root = Path(sys.argv[1], str(attempt))
        root.mkdir()
        child = os.fork()
        if child == 0:
            k = 0
            while True:
                k += 1
                data = bytes([k % 251]) * 300_000
                write_folder(root / 'entries' / str(k), {'a': data, 'b/c': data}, {'k': k}, root / 'staging')
                write_file(root / 'file', data)
        time.sleep(0.002 * attempt)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_writes_leaves_only_whole_entries(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=True)
    entries = list(tmp_path.glob("*/entries/*"))
    for entry in entries:
        about, read = read_folder(entry)
        assert read["a"] == read["b/c"] == bytes([about["k"] % 251]) * 300_000
    for path in tmp_path.glob("*/file"):
        content = path.read_bytes()
        assert len(content) == 300_000
        assert len(set(content)) == 1
    assert entries
    assert list(tmp_path.glob("*/staging/*"))


def test_ownership_is_that_of_the_process(tmp_path):
    assert location.is_own(tmp_path.stat())
