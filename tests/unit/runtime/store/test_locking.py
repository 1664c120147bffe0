"""Locks exclude threads and processes, are given up in time, and never outlive their holder."""

from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import threading

import pytest

from pypto_jit.runtime.store.locking import exclusive


def test_threads_exclude_each_other(tmp_path):
    inside, most = [0], [0]

    def work():
        for _ in range(5):
            with exclusive(tmp_path / "lock", 30) as held:
                assert held
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_stays_held_is_given_up(tmp_path):
    with exclusive(tmp_path / "lock") as first, exclusive(tmp_path / "lock", 0.05) as second:
        assert (first, second) == (True, False)
    with exclusive(tmp_path / "lock", 0.05) as again:
        assert again


def test_other_keys_are_not_held_up(tmp_path):
    with exclusive(tmp_path / "one"), exclusive(tmp_path / "two", 0.05) as held:
        assert held


def test_a_killed_holder_holds_nothing(tmp_path):
    script = """if 1:
        import sys, time
        from pathlib import Path
        from pypto_jit.runtime.store.locking import exclusive
        with exclusive(Path(sys.argv[1])) as held:
            print(held, flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "True"
    with exclusive(tmp_path / "lock", 0.05) as held:
        assert not held
    process.kill()
    process.wait()
    with exclusive(tmp_path / "lock", 10) as held:
        assert held


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_lock(tmp_path):
    script = """if 1:
        import os, sys, time
        from pathlib import Path
        from pypto_jit.runtime.store.locking import exclusive
        with exclusive(Path(sys.argv[1])):
            child = os.fork()
            if child == 0:
                time.sleep(60)
        with exclusive(Path(sys.argv[1]), 0.5) as held:
            print(held)
        os.kill(child, 9)
    """
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "lock")], capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr


def test_an_exception_releases(tmp_path):
    with pytest.raises(KeyError), exclusive(tmp_path / "lock"):
        raise KeyError
    with exclusive(tmp_path / "lock", 0.05) as held:
        assert held


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_locks_nothing(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with exclusive(tmp_path / "lock") as held:
        assert not held


def test_a_directory_that_is_missing_locks_nothing(tmp_path):
    with exclusive(tmp_path / "absent" / "lock") as held:
        assert not held
