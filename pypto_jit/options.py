"""What a user may ask of a compile and of a launch: `RunConfig`, and the views that each consumer sees of it.

`RunConfig` is the one object a user writes. `CompileOptions` is its compile half, in the vocabulary of `compile()`, and
what cache keys are built from; `DfxOptions` its profiling flags; `RunOptions`, which only the dispatcher sees, its run
half. `FIELDS` assigns every field to exactly one of them. A leaf module: it imports nothing of ours.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from enum import Enum
from functools import partial
from typing import Any


class BackendType(Enum):
    """The architecture that code is generated for; the value is its name on the wire and the ``pto.target_arch``."""

    Ascend910B = "a2a3"
    Ascend950 = "a5"


Arch = BackendType


class ExecutionMode(Enum):
    """Where a kernel runs: on an NPU, or on this machine's CPU."""

    ONBOARD = "onboard"
    SIM = "sim"


class OptimizationStrategy(Enum):
    """PyPTO's optimization strategies; there is one."""

    Default = "Default"


class MemoryPlanner(Enum):
    """Who gives tile buffers their addresses."""

    PYPTO = "PYPTO"


# The only map between the axes and the names on the wire.
_MODE_SUFFIXES = {ExecutionMode.ONBOARD: "", ExecutionMode.SIM: "sim"}
PLATFORMS: dict[str, tuple[BackendType, ExecutionMode]] = {
    arch.value + suffix: (arch, mode) for arch in BackendType for mode, suffix in _MODE_SUFFIXES.items()
}
DEFAULT_PLATFORM = "a2a3sim"


def parse_platform(platform: object) -> tuple[BackendType, ExecutionMode]:
    """The two axes of a platform string.

    Raises:
        ValueError: it is none of the four, which the message lists, with the nearest.
    """
    if isinstance(platform, str) and platform in PLATFORMS:
        return PLATFORMS[platform]
    near = difflib.get_close_matches(str(platform), PLATFORMS, n=1, cutoff=0.3)
    suggestion = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown platform {platform!r}: it is one of {', '.join(map(repr, PLATFORMS))}{suggestion}")


def platform_name(arch: BackendType, mode: ExecutionMode) -> str:
    """The platform string of the two axes."""
    return arch.value + _MODE_SUFFIXES[mode]


@dataclass(frozen=True)
class DfxOptions:
    """Profiling and debugging outputs of a launch.

    Attributes:
        chip_swimlane: 0 to 4, how much of the schedule is recorded.
        dump_args: 0 none, 1 tagged, 2 all tensor arguments.
        pmu: event group of the performance counters, 0 for none.
        dep_gen: whether the task dependency graph is written.
        scope_stats: whether the use of runtime scopes is measured.

    Raises:
        ValueError: a level outside of its range.
    """

    chip_swimlane: int = 0
    dump_args: int = 0
    pmu: int = 0
    dep_gen: bool = False
    scope_stats: bool = False

    def __post_init__(self) -> None:
        for name, (view, mine) in FIELDS.items():
            if view == "dfx":
                object.__setattr__(self, mine, _CHECKS[name](mine, getattr(self, mine)))

    def any(self) -> bool:
        """Whether anything is asked for."""
        return bool(self.asked())

    def asked(self) -> list[str]:
        """The flags that ask for something, under their names in `RunConfig`."""
        return [name for name, (view, mine) in FIELDS.items() if view == "dfx" and getattr(self, mine)]


@dataclass(frozen=True)
class RunOptions:
    """The run half of a `RunConfig`. Internal: every public entry takes a `RunConfig`."""

    platform: str = DEFAULT_PLATFORM
    device_id: int = 0
    aicpu_thread_num: int | None = None
    ring_task_window: int | list[int] | None = None
    ring_heap: int | list[int] | None = None
    ring_dep_pool: int | list[int] | None = None
    threads: int | None = None
    deterministic: bool = False
    check_races: bool = False
    dfx: DfxOptions = field(default_factory=DfxOptions)


@dataclass(frozen=True)
class CompileOptions:
    """The compile half of a `RunConfig`, in the vocabulary of `compile()`.

    A field's ``role`` says what it does to a cached artifact: a ``key`` field is part of its key; an ``output`` field
    changes only what is written beside it, and is applied again on a hit.
    """

    platform: str | None = field(default=DEFAULT_PLATFORM, metadata={"role": "key"})
    output_dir: str | None = field(default=None, metadata={"role": "output"})
    dump_passes: bool = field(default=False, metadata={"role": "output"})
    profiling: bool = field(default=False, metadata={"role": "output"})
    strategy: OptimizationStrategy = field(default=OptimizationStrategy.Default, metadata={"role": "key"})
    memory_planner: MemoryPlanner | None = field(default=None, metadata={"role": "key"})
    diagnostic_phase: str | None = field(default=None, metadata={"role": "output"})
    disabled_diagnostics: tuple[str, ...] | None = field(default=None, metadata={"role": "output"})
    distributed_config: object | None = field(default=None, metadata={"role": "key"})
    analyze_auto_scopes_for_deps: bool = field(default=False, metadata={"role": "key"})
    dump_ptoas_passes: bool = field(default=False, metadata={"role": "output"})
    verification_level: int = field(default=1, metadata={"role": "key"})
    emit_source_loc: bool = field(default=True, metadata={"role": "key"})
    runtime: str | None = field(default=None, metadata={"role": "key"})
    opt_level: int = field(default=2, metadata={"role": "key"})

    def as_compile_kwargs(self) -> dict[str, Any]:
        """The keyword arguments of `compile()` that say the same; an unset platform is left out."""
        return {
            f.name: getattr(self, f.name) for f in fields(self) if f.name != "platform" or self.platform is not None
        }


# RunConfig field -> (view, name there). Harness fields are read by the golden harness only and ignored at dispatch.
FIELDS: dict[str, tuple[str, str]] = {
    "arch": ("platform", "platform"),
    "execution_mode": ("platform", "platform"),
    "save_kernels_dir": ("compile", "output_dir"),
    "dump_passes": ("compile", "dump_passes"),
    "compile_profiling": ("compile", "profiling"),
    "strategy": ("compile", "strategy"),
    "memory_planner": ("compile", "memory_planner"),
    "diagnostic_phase": ("compile", "diagnostic_phase"),
    "disabled_diagnostics": ("compile", "disabled_diagnostics"),
    "distributed_config": ("compile", "distributed_config"),
    "analyze_auto_scopes_for_deps": ("compile", "analyze_auto_scopes_for_deps"),
    "dump_ptoas_passes": ("compile", "dump_ptoas_passes"),
    "verification_level": ("compile", "verification_level"),
    "emit_source_loc": ("compile", "emit_source_loc"),
    "runtime": ("compile", "runtime"),
    "opt_level": ("compile", "opt_level"),
    "device_id": ("run", "device_id"),
    "aicpu_thread_num": ("run", "aicpu_thread_num"),
    "ring_task_window": ("run", "ring_task_window"),
    "ring_heap": ("run", "ring_heap"),
    "ring_dep_pool": ("run", "ring_dep_pool"),
    "threads": ("run", "threads"),
    "deterministic": ("run", "deterministic"),
    "check_races": ("run", "check_races"),
    "enable_chip_swimlane": ("dfx", "chip_swimlane"),
    "enable_dump_args": ("dfx", "dump_args"),
    "enable_pmu": ("dfx", "pmu"),
    "enable_dep_gen": ("dfx", "dep_gen"),
    "enable_scope_stats": ("dfx", "scope_stats"),
    "rtol": ("harness", "rtol"),
    "atol": ("harness", "atol"),
    "golden_data_dir": ("harness", "golden_data_dir"),
    "save_kernels": ("harness", "save_kernels"),
    "codegen_only": ("harness", "codegen_only"),
}


@dataclass(kw_only=True)
class RunConfig:
    """How to compile and run a kernel.

    ``platform="a2a3" | "a2a3sim" | "a5" | "a5sim"`` in the constructor sets ``arch`` and ``execution_mode``, and wins
    over both. Field names and defaults are PyPTO's. Ours are ``verification_level`` (0: off, 1: after each pass),
    ``emit_source_loc``, ``runtime``, ``opt_level`` (0 to 3), ``threads`` (None: torch's number), ``deterministic``
    (one thread, so that atomic additions happen in one order) and ``check_races`` (run in NumPy, and look for
    iterations that depend on their order and for outputs that stay partly unwritten).

    Raises:
        TypeError: an axis of another type.
        ValueError: an unknown platform, or a level or ring size outside of its range.
    """

    arch: BackendType = BackendType.Ascend910B
    execution_mode: ExecutionMode = ExecutionMode.SIM
    device_id: int = 0
    rtol: float = 1e-5
    atol: float = 1e-5
    strategy: OptimizationStrategy = OptimizationStrategy.Default
    dump_passes: bool = False
    save_kernels: bool = False
    save_kernels_dir: str | None = None
    codegen_only: bool = False
    enable_chip_swimlane: int = 0
    enable_dump_args: int = 0
    enable_pmu: int = 0
    enable_dep_gen: bool = False
    enable_scope_stats: bool = False
    compile_profiling: bool = False
    diagnostic_phase: str | None = None
    disabled_diagnostics: tuple[str, ...] | None = None
    golden_data_dir: str | None = None
    aicpu_thread_num: int | None = None
    ring_task_window: int | list[int] | None = None
    ring_heap: int | list[int] | None = None
    ring_dep_pool: int | list[int] | None = None
    distributed_config: object | None = None
    analyze_auto_scopes_for_deps: bool = False
    memory_planner: MemoryPlanner | None = None
    dump_ptoas_passes: bool = False
    verification_level: int = 1
    emit_source_loc: bool = True
    runtime: str | None = None
    opt_level: int = 2
    threads: int | None = None
    deterministic: bool = False
    check_races: bool = False

    def __post_init__(self) -> None:
        if self.distributed_config is not None:
            raise ValueError("distributed_config is not built yet: kernels run on one device; leave it None")
        if self.deterministic and self.threads not in (None, 1):
            raise ValueError(f"deterministic=True runs on one thread, not on threads={self.threads}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field, here and in the constructor, to what is a value of it."""
        check = _CHECKS.get(name)
        object.__setattr__(self, name, value if check is None else check(name, value))
        # Profiling writes beside the kernels.
        if name == "save_kernels" or FIELDS.get(name, ("",))[0] == "dfx":
            object.__setattr__(self, "save_kernels", bool(self.save_kernels) or self.any_dfx_enabled())

    @property
    def platform(self) -> str:
        """``a2a3``, ``a2a3sim``, ``a5`` or ``a5sim``."""
        return platform_name(self.arch, self.execution_mode)

    @platform.setter
    def platform(self, platform: str) -> None:
        self.arch, self.execution_mode = parse_platform(platform)

    @property
    def thread_limit(self) -> int | None:
        """How many threads a call may use; None for as many as torch uses."""
        return 1 if self.deterministic else self.threads

    @property
    def backend_type(self) -> BackendType:
        """The architecture, under PyPTO's name."""
        return self.arch

    @property
    def enable_l2_swimlane(self) -> int:
        """The old name of ``enable_chip_swimlane``."""
        return self.enable_chip_swimlane

    @enable_l2_swimlane.setter
    def enable_l2_swimlane(self, level: int) -> None:
        # Two frames above the property is the `__setattr__` that it is assigned through.
        warnings.warn("enable_l2_swimlane is now enable_chip_swimlane", DeprecationWarning, stacklevel=3)
        self.enable_chip_swimlane = level

    def _view(self, view: str) -> dict[str, Any]:
        return {name: getattr(self, mine) for mine, (of, name) in FIELDS.items() if of == view}

    def dfx_options(self) -> DfxOptions:
        """The profiling flags."""
        return DfxOptions(**self._view("dfx"))

    def any_dfx_enabled(self) -> bool:
        """Whether any profiling flag is set."""
        return self.dfx_options().any()

    def compile_options(self) -> CompileOptions:
        """The compile half."""
        return CompileOptions(platform=self.platform, **self._view("compile"))

    def compile_kwargs(self) -> dict[str, Any]:
        """The compile half as keyword arguments of `compile()`."""
        return self.compile_options().as_compile_kwargs()

    def run_options(self) -> RunOptions:
        """The run half, as the dispatcher sees it."""
        return RunOptions(platform=self.platform, dfx=self.dfx_options(), **self._view("run"))


def _axis(kind: type[Enum], name: str, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name}={value!r} is no {kind.__name__}; to choose a target by name, write platform='a5sim'")
    return value


def _level(name: str, value: Any, most: int = 2**31 - 1, true: int = 1) -> int:
    if value is True:
        return true
    if not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{name}={value!r}: a level from 0 to {most}")
    return int(value)


def _switch(name: str, value: Any, numbers: bool = False) -> bool:
    if not isinstance(value, bool) and not (numbers and isinstance(value, int) and value in (0, 1)):
        raise ValueError(f"{name}={value!r}: True or False")
    return bool(value)


def _threads(name: str, value: Any) -> Any:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise ValueError(f"{name}={value!r}: a positive number of threads, or None for torch's")
    return value


def _ring(name: str, value: Any, least: int, power_of_two: bool = True, most: int | None = None) -> Any:
    if value is None:
        return None
    entries = value if isinstance(value, (list, tuple)) else [value]
    if isinstance(value, (list, tuple)) and len(value) != 4:
        raise ValueError(f"{name}={value!r}: one size, or exactly four")
    kind = "a power of two" if power_of_two else "a number"
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    for entry in entries:
        if entry == 0 and not isinstance(entry, bool) and entries is value:
            continue
        fits = isinstance(entry, int) and not isinstance(entry, bool) and least <= entry <= (most or entry)
        if not fits or (power_of_two and entry & (entry - 1)):
            raise ValueError(f"{name}={value!r}: {entry!r} is not {kind} {bounds} (0 in a list keeps the default)")
    return value


# What a field is set to, given its name and what is assigned.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "arch": partial(_axis, BackendType),
    "execution_mode": partial(_axis, ExecutionMode),
    "device_id": _level,
    "enable_chip_swimlane": partial(_level, most=4, true=4),
    "enable_dump_args": partial(_level, most=2),
    "enable_pmu": _level,
    "enable_dep_gen": partial(_switch, numbers=True),
    "enable_scope_stats": partial(_switch, numbers=True),
    "verification_level": partial(_level, most=1),
    "opt_level": partial(_level, most=3),
    "ring_task_window": partial(_ring, least=4),
    "ring_heap": partial(_ring, least=1024),
    "ring_dep_pool": partial(_ring, least=4, power_of_two=False, most=2**31 - 1),
    "threads": _threads,
    "deterministic": _switch,
    "check_races": _switch,
}


def _accept_aliases(cls: type[RunConfig]) -> None:
    """Give the generated constructor the keywords that are not fields: platform, and two old names."""
    generated = cls.__init__
    unset: Any = inspect.Parameter.empty

    def __init__(
        self: RunConfig,
        *,
        platform: str | None = None,
        backend_type: BackendType | None = None,
        enable_l2_swimlane: int = unset,
        **values: Any,
    ) -> None:
        if enable_l2_swimlane is not unset:
            if "enable_chip_swimlane" in values:
                raise ValueError("enable_l2_swimlane is the old name of enable_chip_swimlane: give one of them")
            warnings.warn("enable_l2_swimlane is now enable_chip_swimlane", DeprecationWarning, stacklevel=2)
            values["enable_chip_swimlane"] = enable_l2_swimlane
        if platform is not None:
            values["arch"], values["execution_mode"] = parse_platform(platform)
        generated(self, **values)
        if backend_type is not None and backend_type is not self.arch:
            warnings.warn(
                f"backend_type={backend_type!r} is ignored: the platform {self.platform!r} selects {self.arch!r}",
                DeprecationWarning,
                stacklevel=2,
            )

    signature = inspect.signature(generated)
    first, *rest = signature.parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    extra = [
        inspect.Parameter("platform", keyword, default=None, annotation="str | None"),
        inspect.Parameter("backend_type", keyword, default=None, annotation="BackendType | None"),
        inspect.Parameter("enable_l2_swimlane", keyword, default=unset, annotation="int"),
    ]
    extra[2] = extra[2].replace(default=None)
    __init__.__signature__ = signature.replace(parameters=[first, *extra[:1], *rest, *extra[1:]])  # type: ignore[attr-defined]
    __init__.__doc__, __init__.__qualname__ = generated.__doc__, generated.__qualname__
    cls.__init__ = __init__  # type: ignore[method-assign]


_accept_aliases(RunConfig)
assert set(FIELDS) == {f.name for f in dataclasses.fields(RunConfig)}, "every field has exactly one view"
