"""Which options the entry points that lower and compile can honour. What one cannot is an error, never ignored.

Harness fields (``rtol``, ...) are set aside: they mean nothing to any entry point. What a launch can honour is in
`pypto_jit.runtime.acceptance`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Hashable, Iterable
from typing import Any, NamedTuple

from pypto_jit._cached import key_options
from pypto_jit._outputs import is_asked
from pypto_jit.errors import OptionError
from pypto_jit.options import (
    FIELDS,
    CompileOptions,
    MemoryPlanner,
    OptimizationStrategy,
    RunConfig,
    RunOptions,
    parse_platform,
)

RUNTIMES = ("cpu",)
PHASES = ("pre", "post", "none")
# The fields that texts of stages, and runs in NumPy, depend on. The latter run the module as traced.
LOWER = frozenset({"arch", "execution_mode", "verification_level", "emit_source_loc"})
INTERPRET = frozenset({"arch", "execution_mode", "check_races"})

_SEVERAL_CHOICES = {"verification_level": 1, "opt_level": 3}


class Accepted(NamedTuple):
    """A config whose compile half can be honoured, as the consumers see it.

    Attributes:
        options: its compile half.
        run: its run half.
        key: what of the options is part of a specialization's key.
        asked: whether anything is to be written.
    """

    options: CompileOptions
    run: RunOptions
    key: tuple[Hashable, ...]
    asked: bool


class Acceptance:
    """Accepts the configs of one kernel's calls. Calls in a row that give the same one find it accepted."""

    def __init__(self) -> None:
        self._latest: tuple[dict[str, Any], Accepted] | None = None

    def accept(self, config: RunConfig) -> Accepted:
        """The config as accepted.

        Raises:
            OptionError: an option that no compile can honour.
        """
        latest = self._latest
        if latest is not None and latest[0] == vars(config):
            return latest[1]
        options = config.compile_options()
        check_compile(options)
        key = tuple(key_options(options).values())
        accepted = Accepted(options, config.run_options(), key, is_asked(options))
        self._latest = (dict(vars(config)), accepted)
        return accepted


def check_only(config: RunConfig, entry: str, honoured: Collection[str]) -> None:
    """Refuse every option that an entry point cannot honour, by the names of `RunConfig`.

    Raises:
        OptionError: one has another value than its default.
    """
    default = RunConfig()
    for name, (view, _) in FIELDS.items():
        value = getattr(config, name)
        if name not in honoured and view != "harness" and value != getattr(default, name):
            raise OptionError(f"{entry} cannot honour {name}", found=f"{name}={value!r}", hint=f"leave {name} out")


def check_compile(options: CompileOptions) -> None:
    """Refuse what no compile can honour.

    Raises:
        OptionError: there is no such value, or not yet.
        ValueError: an unknown platform, which the message explains.
    """
    if options.platform is not None:
        parse_platform(options.platform)
    _check_choice("runtime", options.runtime, RUNTIMES)
    _check_choice("diagnostic_phase", options.diagnostic_phase, PHASES)
    for name, kind in (("strategy", OptimizationStrategy), ("memory_planner", MemoryPlanner)):
        value = getattr(options, name)
        if not isinstance(value, kind) and not (value is None and name == "memory_planner"):
            raise OptionError(f"no such {name}", found=repr(value), expected=" or ".join(map(str, kind)))
    for name, most in _SEVERAL_CHOICES.items():
        value = getattr(options, name)
        if type(value) is not int or not 0 <= value <= most:
            raise OptionError(f"no such {name}", found=repr(value), expected=f"a level from 0 to {most}")
    for name in ("dump_passes", "profiling", "emit_source_loc", "analyze_auto_scopes_for_deps", "dump_ptoas_passes"):
        value = getattr(options, name)
        if not isinstance(value, bool):
            raise OptionError(f"{name} is on or off", found=repr(value), expected="True or False")
    if options.distributed_config is not None:
        raise OptionError("distributed_config is not built yet: kernels run on one device", hint="leave it None")
    if options.analyze_auto_scopes_for_deps:
        raise OptionError("analyze_auto_scopes_for_deps: kernels have no task scopes yet", hint="leave it out")


def _check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    choices = tuple(choices)
    if value is None or value in choices:
        return
    near = difflib.get_close_matches(str(value), choices, 1, 0.7)
    raise OptionError(
        f"no such {name}",
        found=repr(value),
        expected=", ".join(map(repr, choices)) + " or None",
        hint=f"did you mean {near[0]!r}?" if near else None,
    )
