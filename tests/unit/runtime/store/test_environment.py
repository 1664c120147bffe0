"""What keys say of this package and machine changes with what it stands for, and not with time stamps."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from pypto_jit.runtime.store import environment

LATER = 10**12


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """A small package in place of ours, older than this process."""
    root = tmp_path / "package"
    (root / "sub").mkdir(parents=True)
    (root / "one.py").write_text("a = 1\n")
    (root / "sub" / "two.py").write_text("b = 2\n")
    (root / "data.txt").write_text("not code")
    monkeypatch.setattr(environment, "_PACKAGE", root)
    monkeypatch.setattr(environment, "_STARTED", time.time_ns() + LATER)
    environment.package_digest.cache_clear()
    yield root
    environment.package_digest.cache_clear()


def fresh(memory: Path | None = None) -> str | None:
    environment.package_digest.cache_clear()
    return environment.package_digest(memory)


def test_sources_count_by_name_and_content(package):
    digests = [fresh()]
    (package / "one.py").write_text("a = 2\n")
    digests.append(fresh())
    (package / "one.py").rename(package / "three.py")
    digests.append(fresh())
    (package / "four.py").write_text("")
    digests.append(fresh())
    assert len(set(digests)) == 4


def test_time_stamps_and_other_files_do_not_count(package):
    before = fresh()
    os.utime(package / "one.py", (1, 1))
    (package / "data.txt").write_text("changed")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "one.py").write_text("x")
    assert fresh() == before


def test_the_place_of_the_package_does_not_count(package, tmp_path, monkeypatch):
    before = fresh()
    shutil.copytree(package, tmp_path / "copy")
    monkeypatch.setattr(environment, "_PACKAGE", tmp_path / "copy")
    assert fresh() == before


def test_what_is_remembered_is_not_read_again(package, tmp_path, monkeypatch):
    memory = tmp_path / "sources.json"
    monkeypatch.setattr(environment, "_SETTLED", -1)
    before = fresh(memory)
    monkeypatch.setattr(Path, "read_bytes", only(memory))
    assert fresh(memory) == before


def only(allowed: Path):
    read = Path.read_bytes

    def read_bytes(path):
        assert path == allowed
        return read(path)

    return read_bytes


def test_an_edit_that_keeps_size_and_time_is_seen(package, tmp_path, monkeypatch):
    memory = tmp_path / "sources.json"
    monkeypatch.setattr(environment, "_SETTLED", -1)
    found = (package / "one.py").stat()
    before = fresh(memory)
    time.sleep(0.02)
    (package / "one.py").write_text("a = 3\n")
    os.utime(package / "one.py", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert fresh(memory) != before


def test_files_written_a_moment_ago_are_not_remembered(package, tmp_path):
    fresh(tmp_path / "sources.json")
    assert not (tmp_path / "sources.json").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"state": 1}', '{"state": "S", "digest": "short"}'])
def test_a_damaged_memory_is_not_believed(package, tmp_path, content):
    memory = tmp_path / "sources.json"
    expected = fresh()
    memory.write_text(content)
    assert fresh(memory) == expected


def test_sources_that_changed_under_a_running_process_have_no_digest(package, monkeypatch):
    monkeypatch.setattr(environment, "_STARTED", time.time_ns() - LATER)
    assert fresh() is None


def test_the_processor_is_described_without_llvm():
    described = json.loads(environment.host_cpu_text())
    assert described["machine"]
    if sys.platform == "linux" and described["machine"] == "x86_64":
        assert "sse2" in described["flags"].split()


def test_another_processor_is_another_text(monkeypatch, tmp_path):
    real = open

    def other(path, *arguments, **keywords):
        return real(tmp_path / "cpuinfo" if path == "/proc/cpuinfo" else path, *arguments, **keywords)

    monkeypatch.setattr("builtins.open", other)
    texts = []
    for flags in ("sse2 avx2", "sse2 avx2 avx512f"):
        entry = f"processor\t: 0\nmodel name\t: X\nflags\t\t: {flags}\nbogomips\t: 5\n\n"
        (tmp_path / "cpuinfo").write_text(entry + entry.replace("X", "second"))
        environment.host_cpu_text.cache_clear()
        texts.append(environment.host_cpu_text())
    environment.host_cpu_text.cache_clear()
    assert texts[0] != texts[1]
    assert "second" not in texts[0]
    assert "bogomips" not in texts[0]


def test_tile_registers_that_the_system_refuses_are_not_described(monkeypatch, tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nflags\t\t: sse2 amx_bf16 avx2 amx_tile\n\n")
    real = open

    def other(path, *arguments, **keywords):
        return real(tmp_path / "cpuinfo" if path == "/proc/cpuinfo" else path, *arguments, **keywords)

    monkeypatch.setattr("builtins.open", other)
    texts = []
    for allowed in (True, False):
        monkeypatch.setattr(environment, "tile_registers_allowed", lambda allowed=allowed: allowed)
        environment.host_cpu_text.cache_clear()
        texts.append(json.loads(environment.host_cpu_text())["flags"])
    environment.host_cpu_text.cache_clear()
    assert texts == ["sse2 amx_bf16 avx2 amx_tile", "sse2 avx2"]


def test_the_compilers_are_named_with_version_and_contents():
    tools = json.loads(environment.tools_text())
    assert tools["llvmlite"].startswith("llvmlite-0.")
    assert len(tools["llvmlite"].split()[1]) == 64
    assert any(name.endswith(("mlir_python_bindings", "torch_mlir")) for name in tools)


def test_naming_the_compilers_imports_none_of_them():
    import subprocess

    script = """if 1:
        import sys
        from pypto_jit.runtime.store import environment
        environment.tools_text(), environment.host_cpu_text(), environment.package_digest(None)
        print([m for m in ('mlir', 'torch_mlir', 'llvmlite') if m in sys.modules])
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
