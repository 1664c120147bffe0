"""Folders for people: one compiled program each, with its assembly, code and a manifest, loadable anywhere.

NAME/manifest.json      schema, options, tools, parameters, run-time checks, and the other files with checksums
NAME/kernels/*.pto      PTO assembly, which may be edited
NAME/kernel*.o, .so     code of the processor that the manifest describes
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pypto_jit.errors import AssemblyError, Span
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.runtime.store.environment import runs_here, tools_text
from pypto_jit.runtime.store.files import MANIFEST, DamagedError, read_folder, remove_folder, was_edited, write_folder
from pypto_jit.runtime.store.serialization import (
    ASSEMBLY_SUFFIX,
    SHARED,
    code_files,
    code_of,
    decode_options,
    decode_program,
    encode_options,
    encode_program,
    safe_name,
)

# The comment at a function's head that says which task it is of.
_CALLED = re.compile(r'// pypto:.*\bpypto\.kernel = "([^"]*)"')
_DIGITS = 16  # of a content digest in a folder's name

Relower = Callable[[CompiledProgram, Path], CompiledProgram]


def content_digest(program: CompiledProgram) -> str:
    """SHA-256 of all that a program is and was compiled with, in hexadecimal."""
    about = [encode_program(program), encode_options(program.options)]
    content = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    content.update((program.assembly or "").encode("utf-8", "surrogateescape"))
    for each in program.code:
        content.update(each)
    return content.hexdigest()


def folder_name(program: CompiledProgram) -> str:
    """A name for a program's folder, the same for the same content."""
    return f"{safe_name(program.name)}-{program.key[:_DIGITS]}"


def save_program(
    program: CompiledProgram,
    folder: str | os.PathLike[str],
    extra: Mapping[str, bytes] | None = None,
) -> Path:
    """Write a program's folder, whole or not at all. A folder of an earlier program is replaced.

    Args:
        program: the program.
        folder: where; its parents are made.
        extra: more files by relative name, such as the module after each pass.

    Returns:
        The folder.

    Raises:
        FileExistsError: something else than a program is there.
        OSError: it cannot be written.
    """
    path = Path(folder).absolute()
    about = {**encode_program(program), "cpu": program.cpu, "tools": json.loads(tools_text())}
    about["options"] = encode_options(program.options)
    files = {**code_files(program.code), **(extra or {})}
    if program.shared is not None:
        files[SHARED] = program.shared
    if program.assembly is not None:
        texts = {**split_kernels(program.assembly), about["assembly"]: program.assembly}
        files.update((name, text.encode("utf-8", "surrogateescape")) for name, text in texts.items())
    staging = path.parent / f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        if path.is_dir() and not any(path.iterdir()):
            path.rmdir()
        elif path.exists() and not (path / MANIFEST).is_file():
            raise FileExistsError(f"{path} exists and is no compiled program")
        elif path.exists():
            remove_folder(path, staging)
        write_folder(path, files, about, staging)
    finally:
        if staging.is_dir() and not any(staging.iterdir()):
            staging.rmdir()
    return path


def split_kernels(assembly: str) -> dict[str, str]:
    """The assembly of each task's kernel, by the name of its file; none where a program has no tasks."""
    first, *rest = assembly.splitlines(keepends=True)
    kernels: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in rest:
        if line.startswith("  func.func "):
            called = _CALLED.search(line)
            lines = kernels.setdefault(called.group(1), []) if called else []
        lines.append(line)
        if line.startswith("  }"):
            lines = []
    return {f"kernels/{safe_name(name)}.pto": "".join([first, *text, "}\n"]) for name, text in kernels.items()}


def load_program(folder: str | os.PathLike[str], relower: Relower | None = None) -> CompiledProgram:
    """The program of a folder that `save_program` wrote. Its code is loaded at the first call, not before.

    Whoever names a folder trusts what is in it, as with any other program; the checksums find damage, not malice.

    Args:
        folder: where.
        relower: compiles the program that it is given from its assembly, which lies at that path. It is asked where
            the assembly was edited, or the code is of another processor.

    Raises:
        AssemblyError: the assembly was edited, and there is no `relower`; or what that raises; or it is of a program
            with tasks, whose host code is not assembly.
        FileNotFoundError: there is no program.
        DamagedError: the folder is not as it was written.
    """
    path = Path(folder).absolute()
    if not (path / MANIFEST).exists():
        raise FileNotFoundError(f"{path} holds no {MANIFEST}")
    about, files = read_folder(path, read=Path.read_bytes, editable=ASSEMBLY_SUFFIX)
    try:
        name = about["assembly"]
        assembly = files[name].decode("utf-8", "surrogateescape") if name is not None else None
        fields = decode_program(about, code_of(files), assembly)
        options = decode_options(about["options"])
        edited = [
            each for each in sorted(files) if each.endswith(ASSEMBLY_SUFFIX) and was_edited(about, each, files[each])
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"no program is in {path}: {error}") from error
    fields = {**fields, "options": options}
    program = CompiledProgram(**fields, shared=files.get(SHARED), cpu=str(about.get("cpu", "")), folder=path)
    tasks = [each for each in files if each.endswith(ASSEMBLY_SUFFIX) and each != name]
    if edited and tasks:
        raise AssemblyError(
            f"kernel '{program.name}' submits tasks: it cannot be compiled from its assembly, which was edited",
            span=Span(str(path / edited[0]), 1),
            found=f"kernels of tasks in {', '.join(sorted(tasks))}; the code that submits them is not assembly",
            hint="undo the edit, and change the Python function; or give the task a kernel of its own, and edit that",
        )
    # What tasks are submitted by is in the code alone, so code of another processor is refused when it is to run.
    if name is None or tasks or not (edited or (relower is not None and not runs_here(program.cpu))):
        return program
    if relower is None:
        raise AssemblyError(
            f"the assembly of kernel '{program.name}' was edited since it was compiled",
            span=Span(str(path / name), 1),
            hint="load it with pypto_jit.load(folder), which compiles it as it is now",
        )
    return replace(relower(program, path / name), folder=path)
