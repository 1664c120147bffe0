"""``python -m pypto_jit cache``: what the disk cache holds, how large it is, and why a kernel was compiled."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pypto_jit.runtime.store.eviction import items
from pypto_jit.runtime.store.files import MANIFEST, DamagedError, decode_manifest, read_own, remove_folder
from pypto_jit.runtime.store.keys import differing
from pypto_jit.runtime.store.location import cache_directory, size_budget

_SHORT = 12  # digits of a key that are shown


def add_parser(commands: Any) -> None:
    """Add the command to a parser's."""
    parser = commands.add_parser("cache", help="list, measure, explain or remove compiled kernels on disk")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    actions.add_parser("ls", help="list kernels, the last used first")
    actions.add_parser("stat", help="say where the cache is and how large")
    remove = actions.add_parser("rm", help="remove kernels")
    remove.add_argument("keys", nargs="*", metavar="KEY", help="keys, or what they start with")
    remove.add_argument("--all", action="store_true", help="remove everything")
    why = actions.add_parser("why", help="say what led to a kernel, and what tells it from the others of its name")
    why.add_argument("key", metavar="KEY", help="a key, or what it starts with")


def run(arguments: argparse.Namespace) -> int:
    """Run one action; the exit status."""
    root = cache_directory()
    if root is None:
        print("the disk cache is turned off (PYPTO_JIT_CACHE)")
        return 0 if arguments.action == "stat" else 1
    if arguments.action == "ls":
        return _list(root)
    if arguments.action == "stat":
        return _measure(root)
    if arguments.action == "rm":
        return _remove(root, arguments.keys, arguments.all)
    return _explain(root, arguments.key)


@dataclass(frozen=True)
class _Kernel:
    """An artifact: its key, its manifest (empty where it is damaged), its size and the time of its last use."""

    key: str
    path: Path
    about: dict[str, Any]
    size: int
    used: float

    @property
    def title(self) -> str:
        if "name" not in self.about:
            return str(self.about.get("kind", "damaged"))
        tensors = [_parameter(p) for p in self.about.get("parameters", ())]
        return f"{self.about['name']}({', '.join(tensors)}) on {self.about.get('platform')}"


def _parameter(about: dict[str, Any]) -> str:
    if "constant" in about:
        return f"{about['name']}={about['constant'][-1]}"
    return f"{about['name']}: {about['dtype']}{about['shape']}"


def _kernels(root: Path) -> list[_Kernel]:
    found = []
    for item in items(root):
        if item.path.parent.parent.name != "artifacts":
            continue
        try:
            about = decode_manifest(read_own(item.path / MANIFEST))
        except (OSError, DamagedError):
            about = {}
        found.append(_Kernel(item.path.name, item.path, about, item.size, item.used))
    return sorted(found, key=lambda kernel: -kernel.used)


def _list(root: Path) -> int:
    for kernel in _kernels(root):
        used = time.strftime("%Y-%m-%d %H:%M", time.localtime(kernel.used))
        print(f"{kernel.key[:_SHORT]}  {used}  {kernel.size / 1024:8.1f} KiB  {kernel.title}")
    return 0


def _measure(root: Path) -> int:
    found = list(items(root))
    total = sum(item.size for item in found)
    kernels = sum(item.path.parent.parent.name == "artifacts" for item in found)
    print(f"directory  {root}{'' if root.is_dir() else ' (not made yet)'}")
    print(f"kernels    {kernels}")
    print(f"size       {total / 2**20:.1f} MiB of {size_budget() / 2**20:.0f} MiB")
    return 0


def _matching(root: Path, prefix: str) -> list[_Kernel]:
    return [kernel for kernel in _kernels(root) if prefix and kernel.key.startswith(prefix)]


def _remove(root: Path, keys: Sequence[str], everything: bool) -> int:
    if everything == bool(keys):
        print("name the keys to remove, or --all", file=sys.stderr)
        return 2
    status = 0
    if everything:
        notes = [path for path in root.glob("*") if path.is_file()]
        for path in (*(item.path for item in items(root)), *notes):
            remove_folder(path, root / "staging")
    for key in keys:
        found = _matching(root, key)
        if not found:
            print(f"no kernel has a key that starts with '{key}'", file=sys.stderr)
            status = 1
        for kernel in found:
            remove_folder(kernel.path, root / "staging")
            print(f"removed {kernel.key[:_SHORT]}  {kernel.title}")
    return status


def _explain(root: Path, prefix: str) -> int:
    found = _matching(root, prefix)
    if len(found) != 1:
        what = "no kernel has" if not found else f"{len(found)} kernels have"
        print(f"{what} a key that starts with '{prefix}'", file=sys.stderr)
        return 1
    kernel = found[0]
    print(f"{kernel.key}\n{kernel.title}\n")
    sections = kernel.about.get("key", {})
    print("made from")
    for name, section in sections.items():
        shown = section.get("text") or f"{section['bytes']} bytes, sha256 {section['sha256'][:_SHORT]}"
        print(f"  {name}: {_one_line(shown)}")
    for number, record in enumerate(_records(root, kernel.key), 1):
        print(f"\nled to by a trace that read ({number})")
        for path, value in record.items():
            print(f"  {path} = {value}")
    others = [k for k in _kernels(root) if k.key != kernel.key and k.about.get("name") == kernel.about.get("name")]
    for other in others:
        names = differing(sections, other.about.get("key", {}))
        print(f"\n{other.key[:_SHORT]}  {other.title}\n  differs in: {', '.join(names)}")
    return 0


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:97] + "..."


def _records(root: Path, key: str) -> Iterator[dict[str, str]]:
    """The values read by the traces that led to an artifact."""
    for item in items(root):
        if item.path.suffix != ".json":
            continue
        try:
            content = decode_manifest(read_own(item.path))
            for record in content["records"]:
                if record["artifact"] == key:
                    yield record["shown"]
        except (OSError, DamagedError, KeyError, TypeError):
            continue
