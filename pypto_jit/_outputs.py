"""What a compile writes beside its result when it is asked to: a folder of the program, with texts, times and advice.

A folder's name follows from what is in it. A program that is compiled again, or found in a cache, with the same wishes
has the same folder, which is then left as it is; with others, another one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pypto_jit.errors import OptionError
from pypto_jit.options import CompileOptions
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store.folders import folder_name, save_program

if TYPE_CHECKING:
    from pypto_jit._compiler import Observation

# As PyPTO names it, and the variable that moves it.
_FOLDER, _FOLDER_VARIABLE = "build_output", "PYPTO_PROG_BUILD_DIR"
_DIGITS = 8


def is_asked(options: CompileOptions) -> bool:
    """Whether anything is to be written."""
    return options.output_dir is not None or bool(_wishes(options))


def to_observe(options: CompileOptions) -> bool:
    """Whether a compile must be observed for what is to be written."""
    return options.dump_passes or options.profiling or _wants_hints(options)


def plain(options: CompileOptions) -> CompileOptions:
    """The options without what only writes something: what a cached program was compiled with."""
    defaults = {f.name: f.default for f in dataclasses.fields(options) if f.metadata["role"] == "output"}
    return dataclasses.replace(options, **defaults)


def check_outputs(options: CompileOptions) -> None:
    """Refuse what cannot be written.

    Raises:
        OptionError: a hint of that name does not exist, or the assembler is needed and is not there.
    """
    if options.dump_ptoas_passes and _assembler() is None:
        raise OptionError(
            "dump_ptoas_passes needs the vendor's assembler",
            found="no ptoas on the PATH",
            hint="install it, set PTOAS_ROOT, or leave dump_ptoas_passes out",
        )
    disabled = options.disabled_diagnostics
    if disabled is None:
        return
    if isinstance(disabled, str) or not all(isinstance(each, str) for each in disabled):
        raise OptionError("disabled_diagnostics is a tuple of identifiers", found=repr(disabled))
    if disabled:
        from pypto_jit._hints import HINTS

        unknown = [each for each in disabled if each not in HINTS]
        if unknown:
            raise OptionError(f"no diagnostic {unknown[0]!r}", expected=", ".join(HINTS))


def write_outputs(program: CompiledProgram, options: CompileOptions, observe: Callable[[], Observation]) -> Path:
    """Write what is asked for, unless it is there.

    Args:
        program: the program.
        options: what is asked for.
        observe: compiles the kernel under observation, or gives what was observed when it was.

    Returns:
        The folder.

    Raises:
        OptionError: the assembler refuses to dump its passes.
        OSError: it cannot be written.
    """
    root = Path(options.output_dir or os.environ.get(_FOLDER_VARIABLE) or _FOLDER)
    folder = root / _name(program, options)
    if folder.exists():
        return folder.absolute()
    files: dict[str, bytes] = {}
    if to_observe(options):
        files.update(_observed(observe(), options))
    if options.dump_ptoas_passes:
        files["report/ptoas_passes.txt"] = _assembler_passes(program)
    return save_program(dataclasses.replace(program, options=options), folder, files)


def _wishes(options: CompileOptions) -> list[str]:
    wishes = [name for name in ("dump_passes", "profiling", "dump_ptoas_passes") if getattr(options, name)]
    if _wants_hints(options):
        wishes += [f"phase {options.diagnostic_phase}", *sorted(options.disabled_diagnostics or ())]
    return wishes


def _wants_hints(options: CompileOptions) -> bool:
    asked = options.diagnostic_phase is not None or options.disabled_diagnostics is not None
    return asked and options.diagnostic_phase != "none"


def _name(program: CompiledProgram, options: CompileOptions) -> str:
    wishes = _wishes(options)
    suffix = hashlib.sha256("\n".join(wishes).encode()).hexdigest()[:_DIGITS]
    return folder_name(program) + (f"-{suffix}" if wishes else "")


def _observed(observation: Observation, options: CompileOptions) -> dict[str, bytes]:
    files: dict[str, str] = {}
    if options.dump_passes:
        for number, (name, text) in enumerate(observation.texts.items()):
            files[f"passes/{number:02}_{name}.{'ll' if name == 'llvm' else 'mlir'}"] = text
    if options.profiling:
        steps = {**observation.seconds, "passes": sum(observation.passes.values())}
        profile = {"unit": "s", "steps": steps, "passes": observation.passes, "total": sum(steps.values())}
        files["report/pipeline_profile.json"] = json.dumps(profile, indent=1) + "\n"
    if _wants_hints(options):
        files["report/perf_hints.log"] = "".join(f"{hint}\n" for hint in _chosen_hints(observation, options))
    return {name: text.encode("utf-8", "surrogateescape") for name, text in files.items()}


def _chosen_hints(observation: Observation, options: CompileOptions) -> Sequence[object]:
    from pypto_jit._hints import HINTS

    disabled = options.disabled_diagnostics or ()
    phases = ("pre", "post") if options.diagnostic_phase is None else (options.diagnostic_phase,)
    return [h for h in observation.hints if h.identifier not in disabled and HINTS[h.identifier][0] in phases]


def _assembler() -> str | None:
    root = os.environ.get("PTOAS_ROOT")
    inside = shutil.which("ptoas", path=os.pathsep.join((root, os.path.join(root, "bin")))) if root else None
    return inside or shutil.which("ptoas")


def _assembler_passes(program: CompiledProgram) -> bytes:
    """What the vendor's assembler prints after each of its passes over the kernel's assembly."""
    assembler = _assembler()
    assert assembler is not None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.pto"
        source.write_text(program.pto, encoding="utf-8", errors="surrogateescape")
        command = [assembler, str(source), "--pto-level=level3", "--mlir-print-ir-after-all", "-o", f"{folder}/out.cpp"]
        done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OptionError(
            "the vendor's assembler does not dump its passes", found=reason[-1] if reason else f"exit {done.returncode}"
        )
    return done.stderr
