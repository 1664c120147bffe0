"""The arrows between packages run one way, and what must be cheap to import stays cheap."""

from __future__ import annotations

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import pypto_jit

PACKAGE = Path(pypto_jit.__file__).parent
LEAVES = {"abi", "dtypes", "targets", "errors", "signature", "options", "purity", "processor"}
# Who may import whom, besides itself and the leaves. `_jit` and `__init__` glue and may import all.
ALLOWED = {
    "_mlir": set(),
    "dialects": {"_mlir"},
    "language": {"dialects"},
    "frontend": {"_mlir", "dialects", "language"},
    "lowering": {"_mlir", "dialects"},
    "runtime": set(),
}
MODULES = sorted(
    m.name for m in pkgutil.walk_packages([str(PACKAGE)], prefix="pypto_jit.") if not m.name.endswith("__main__")
)


def _own_imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if (parts[0] == "pypto_jit" and len(parts) > 1 and (PACKAGE / parts[1]).exists()) or (
                parts[0] == "pypto_jit" and len(parts) > 1 and (PACKAGE / f"{parts[1]}.py").exists()
            ):
                found.add(parts[1])
    return found


@pytest.mark.parametrize("layer", sorted(ALLOWED))
def test_imports_follow_the_arrows(layer):
    paths = [PACKAGE / f"{layer}.py"] if (PACKAGE / f"{layer}.py").exists() else sorted((PACKAGE / layer).rglob("*.py"))
    for path in paths:
        foreign = _own_imports(path) - {layer} - LEAVES - ALLOWED[layer]
        # pl.jit is the decorator itself, fetched when first asked for.
        if path == PACKAGE / "language" / "__init__.py":
            foreign -= {"_jit"}
        assert not foreign, f"{path.relative_to(PACKAGE)} imports {sorted(foreign)}"


@pytest.mark.parametrize("leaf", sorted(LEAVES))
def test_leaves_import_only_leaves(leaf):
    path = PACKAGE / f"{leaf}.py"
    if path.exists():
        assert _own_imports(path) <= LEAVES


def test_mlir_is_imported_in_one_place():
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                assert node.module.split(".")[0] not in ("mlir", "torch_mlir") or path.name == "_mlir.py", path


# One process imports what others wrote, once, and forks a child for each module of ours.
_IMPORT_ALONE = """
import importlib, os, sys, traceback
import llvmlite.binding, mlir.ir, numpy, torch, tvm_ffi
failed = []
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        try:
            importlib.import_module(name)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        failed.append(name)
sys.exit(", ".join(failed) or 0)
"""


@pytest.mark.slow
def test_each_module_imports_alone():
    done = subprocess.run([sys.executable, "-c", _IMPORT_ALONE, *MODULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


_IMPORT_ALL = """
import importlib, random, sys
seed, *names = sys.argv[1:]
if seed == "blocked":
    # A None entry makes an import fail, as a package that is not installed does.
    sys.modules.update(dict.fromkeys(("mlir", "torch_mlir", "llvmlite", "ptoas", "torch_npu", "tvm_ffi")))
else:
    random.Random(int(seed)).shuffle(names)
for name in names:
    importlib.import_module(name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_modules_import_in_any_order(seed):
    done = subprocess.run([sys.executable, "-c", _IMPORT_ALL, str(seed), *MODULES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_runs_programs_imports_without_any_compiler():
    needed = [m for m in MODULES if m.split(".")[1:2] in (["runtime"], ["options"], ["errors"], ["_replay"], ["_jit"])]
    done = subprocess.run([sys.executable, "-c", _IMPORT_ALL, "blocked", *needed], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_loads_no_compiler():
    script = (
        "import sys, pypto_jit, pypto_jit.language\n"
        "print([m for m in ('mlir', 'torch_mlir', 'llvmlite', 'tvm_ffi', 'hypothesis', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
