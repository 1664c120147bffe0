"""The result of a compile: immutable, and usable without the compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pypto_jit.errors import AssemblyError, LaunchError, Span
from pypto_jit.options import CompileOptions, DfxOptions, RunConfig
from pypto_jit.runtime.native import LoadedEntry, load_entry
from pypto_jit.signature import ParamInfo, ScalarSpec, TensorSpec

if TYPE_CHECKING:
    from pypto_jit.runtime.store.folders import Relower

Returns = str | tuple["Returns", ...]

# A kernel of less work than this many element operations takes microseconds: giving up the GIL for it only costs.
GIL_WORK = 16 * 1024


@dataclass(frozen=True)
class CompiledProgram:
    """One specialization of a kernel.

    Attributes:
        name: of the kernel.
        platform: what it was built for, as in ``a2a3sim``.
        parameters: every parameter in order: tensors with direction and specification, scalars with their dtype,
            constants with their value.
        returns: name of the parameter that a call returns, or a tuple of them, nested as the kernel returns them.
        assembly: the PTO assembly, or None where it has none.
        assembly_error: why it has none.
        code: object files of this processor, which belong together.
        shared: the same as a shared object, which loads without LLVM; None where no linker made one.
        cpu: the processor that the code is for, as `pypto_jit.runtime.store.environment` describes it.
        parallel: whether a call takes a thread count.
        work: estimated element operations of a call; -1 where unknown.
        checks: place and message of each run-time check; a call that fails the k-th raises it.
        timings: seconds of each step of the compile: trace, passes, assembly, cpu, codegen; or load, of one from disk.
        origin: where the kernel is defined.
        options: what it was compiled with.
        folder: where it was written to or loaded from.
    """

    name: str
    platform: str
    parameters: tuple[ParamInfo, ...]
    returns: Returns
    assembly: str | None = field(repr=False)
    assembly_error: str | None
    code: tuple[bytes, ...] = field(repr=False)
    parallel: bool
    work: int
    checks: tuple[tuple[Span | None, str], ...] = field(repr=False)
    timings: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    origin: Span | None = None
    shared: bytes | None = field(default=None, repr=False)
    cpu: str = field(default="", repr=False)
    options: CompileOptions = field(default_factory=CompileOptions, repr=False)
    folder: Path | None = field(default=None, compare=False)

    @property
    def pto(self) -> str:
        """The PTO assembly.

        Raises:
            AssemblyError: the kernel has none; it says why.
        """
        if self.assembly is None:
            raise AssemblyError(f"kernel '{self.name}' has no PTO assembly: {self.assembly_error}", span=self.origin)
        return self.assembly

    @cached_property
    def tensors(self) -> tuple[ParamInfo, ...]:
        """The tensor parameters in order: what the entry takes first."""
        return tuple(p for p in self.parameters if isinstance(p.spec, TensorSpec))

    @cached_property
    def scalars(self) -> tuple[ParamInfo, ...]:
        """The scalar parameters in order: what the entry takes after the tensors."""
        return tuple(p for p in self.parameters if isinstance(p.spec, ScalarSpec))

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that the program is and was compiled with: the same in every process that compiles it."""
        from pypto_jit.runtime.store.folders import content_digest

        return content_digest(self)

    @cached_property
    def _loaded(self) -> LoadedEntry:
        from pypto_jit.runtime.store.environment import runs_here

        if not runs_here(self.cpu):
            raise LaunchError(
                f"kernel '{self.name}' was compiled for another processor",
                found=self.cpu,
                hint="compile it on this machine",
            )
        return load_entry(self.code, self.shared, release_gil=not 0 <= self.work < GIL_WORK)

    @property
    def entry(self) -> Any:
        """The loaded entry: a ``tvm_ffi.Function`` of the tensors and scalars, as `pypto_jit.abi` describes it.

        Raises:
            LaunchError: the code does not load here.
        """
        return self._loaded.function

    @cached_property
    def torch_entry(self) -> Any:
        """A faster entry for torch tensors and scalars alone (`pypto_jit.runtime.door`); None where there is none."""
        from pypto_jit.runtime.door import open_door

        written = [info.direction != "in" for info in self.tensors]
        release = not 0 <= self.work < GIL_WORK
        return open_door(self.name, self._loaded, written, release_gil=release, scalars=len(self.scalars))

    @property
    def calls(self) -> int:
        """How often this process has run the kernel through this object."""
        return self._loaded.calls if "_loaded" in self.__dict__ else 0

    def __call__(self, *arguments: Any, config: RunConfig | None = None, dfx: DfxOptions | None = None) -> Any:
        """Run on tensors and scalars, given in order; outputs may be left out at the end and are then allocated.

        Args:
            arguments: tensors of any library, and numbers.
            config: how to run it; what it says of the compile must be what the program was compiled with.
            dfx: what to profile, in place of the config's flags. None of it is built for the CPU yet.

        Raises:
            OptionError: an option that the launch cannot honour.
            ArgumentError: the arguments are not those it was compiled for.
            BoundsError: a box left its tensor.
            LaunchError: no memory.
        """
        from pypto_jit.runtime.launch import call_program

        return call_program(self, arguments, config, dfx)

    def written_to(self, folder: Path, options: CompileOptions) -> CompiledProgram:
        """The same program, which knows the folder it was written to and the options that asked for it."""
        program = replace(self, folder=folder, options=options)
        if "_loaded" in self.__dict__:
            program.__dict__["_loaded"] = self._loaded
        return program

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write a folder that `load` reads, whole or not at all; a program that is there already is replaced.

        Raises:
            FileExistsError: something else is there.
        """
        from pypto_jit.runtime.store.folders import save_program

        return save_program(self, folder)

    @classmethod
    def load(cls, folder: str | PathLike[str], relower: Relower | None = None) -> CompiledProgram:
        """The program of a folder, without the compiler and without the kernel's source.

        Args:
            folder: as `save` or an output option wrote it. It is trusted like any program that is run.
            relower: compiles the program that it is given from its assembly, which lies at the given path; it is asked
                where that was edited, or the code is of another processor. `pypto_jit.load` has one.

        Raises:
            AssemblyError: the assembly was edited, and there is nothing to compile it with; or it is malformed.
            FileNotFoundError: there is no program.
            DamagedError: the folder is not as it was written.
        """
        from pypto_jit.runtime.store.folders import load_program

        return load_program(folder, relower)

    from_dir = load

    def __getstate__(self) -> dict[str, Any]:
        state = {
            key: value
            for key, value in self.__dict__.items()
            if key not in ("_loaded", "tensors", "scalars", "torch_entry")
        }
        return {**state, "timings": dict(self.timings)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({**state, "timings": MappingProxyType(state["timings"])})


def returned(returns: Returns, values: Mapping[str, Any]) -> Any:
    """What a call returns, given the value of every tensor parameter."""
    if isinstance(returns, str):
        return values[returns]
    return tuple(returned(item, values) for item in returns)
