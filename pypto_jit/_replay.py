"""`load()`: the program of a folder, compiled anew where its assembly was edited.

Programs load without a compiler. What they need one for is handed to them here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from pypto_jit.errors import AssemblyError, Span
from pypto_jit.runtime.arguments import describe
from pypto_jit.runtime.artifact import CompiledProgram
from pypto_jit.signature import ParamInfo, ScalarSpec, TensorSpec


class Assembled(NamedTuple):
    """Where assembly comes from: the file it is in, and the program that it was made of."""

    filename: str
    program: CompiledProgram

    def check(self, found: Sequence[ParamInfo]) -> None:
        """Refuse assembly that does not take the program's tensors, or uses one against its direction.

        Raises:
            AssemblyError: it does not.
        """
        before = {info.name: info for info in (*self.program.tensors, *self.program.scalars)}
        now = {info.name: info for info in found}
        for name in dict.fromkeys((*before, *now)):
            if name not in before or name not in now or not _agree(before[name], now[name]):
                raise AssemblyError(
                    f"'{name}' is not what kernel '{self.program.name}' was compiled for",
                    span=Span(self.filename, 1),
                    found=_describe(now.get(name)),
                    expected=_describe(before.get(name)),
                    hint="edit what is done to the tensors, and keep what they are",
                )
            used, declared = now[name].direction, before[name].direction
            if used != declared and (used, declared) != ("out", "inout"):
                raise AssemblyError(
                    f"'{name}' is used in another direction than kernel '{self.program.name}' has it",
                    span=Span(self.filename, 1),
                    found=used,
                    expected=declared,
                )


def _agree(before: ParamInfo, now: ParamInfo) -> bool:
    # The assembly does not say whether an integer scalar has a sign.
    if isinstance(before.spec, ScalarSpec) and isinstance(now.spec, ScalarSpec):
        return before.spec.dtype.signless == now.spec.dtype.signless
    if isinstance(before.spec, TensorSpec) and isinstance(now.spec, TensorSpec):
        # Nor how an extent that is read at run time is called.
        return replace(before.spec, dims=()) == replace(now.spec, dims=())
    return before.spec == now.spec


def _describe(info: ParamInfo | None) -> str:
    if info is not None and isinstance(info.spec, ScalarSpec):
        return f"a {info.spec.dtype} scalar"
    return describe(info.spec) if info is not None and isinstance(info.spec, TensorSpec) else "no such argument"


def load(folder: str | PathLike[str]) -> CompiledProgram:
    """The program of an output folder: ``load(f.compile(x, config=RunConfig(save_kernels_dir="out")).folder)``.

    Where its ``kernels/*.pto`` was edited, or its code is of another processor, the assembly is compiled as it is now;
    the folder stays as it is. Otherwise nothing is compiled, and no compiler is imported.

    Raises:
        AssemblyError: the assembly is malformed, at that line of the file, or takes other tensors than the program.
        FileNotFoundError: there is no program.
        DamagedError: another file of the folder is not as it was written.
        PyptoError: the assembly asks for what the machine cannot do.
    """
    return CompiledProgram.load(folder, relower)


def relower(program: CompiledProgram, path: Path) -> CompiledProgram:
    """A program compiled from its assembly, which lies at a path.

    Raises:
        PyptoError: the assembly is at fault.
    """
    from pypto_jit._texts import architecture, compile_assembly, platform_for

    text = program.pto
    platform_for(architecture(text, is_assembly=True), program.platform)
    made = compile_assembly(text, program.options, Assembled(str(path), program))
    return replace(made, name=program.name, assembly=text, assembly_error=None, origin=program.origin)
