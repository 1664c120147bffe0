"""Which run options a launch can honour. What it cannot is an error, never ignored."""

from __future__ import annotations

import dataclasses

from pypto_jit.errors import ArgumentError, LaunchError, OptionError
from pypto_jit.options import CompileOptions, DfxOptions, ExecutionMode, RunConfig, RunOptions, parse_platform

_ON_THE_CPU = "the CPU runtime has no such thing"
# Run options that only a device has a meaning for, and their defaults.
_OF_THE_DEVICE = {
    field.name: field.default
    for field in dataclasses.fields(RunOptions)
    if field.name not in ("platform", "threads", "deterministic", "check_races", "dfx")
}


def take_config(config: object) -> RunConfig:
    """What was given for ``config=``, if it is a RunConfig.

    Raises:
        ArgumentError: it is something else.
    """
    if isinstance(config, RunConfig):
        return config
    hint = "RunOptions is internal to the dispatcher: pass the RunConfig it came from"
    raise ArgumentError(
        "config= takes a RunConfig",
        found=f"a {type(config).__qualname__}",
        hint=hint if isinstance(config, RunOptions) else None,
    )


def check_run(options: RunOptions, kernel: str) -> None:
    """Refuse what the runtime that launches a kernel cannot honour.

    Raises:
        LaunchError: the platform is an NPU, for which no runtime is found.
        OptionError: the option is of the device's runtime.
    """
    check_platform(options.platform, kernel)
    if options.check_races:
        raise OptionError(
            "a compiled program cannot check for races: what it was traced from is gone",
            found="check_races=True",
            hint=f"call the kernel: {kernel}(..., config=RunConfig(check_races=True))",
        )
    for name, default in _OF_THE_DEVICE.items():
        value = getattr(options, name)
        if value != default:
            raise OptionError(f"{name}: {_ON_THE_CPU}", found=f"{name}={value!r}", hint="leave it out")
    for flag in options.dfx.asked():
        raise OptionError(
            f"{flag} is not built yet: the CPU runtime does not profile launches",
            found=", ".join(options.dfx.asked()),
            hint="leave it out",
        )


def take_profiling(dfx: object, config: RunConfig | None) -> DfxOptions:
    """What a call is to profile: what was given for ``dfx=``, if it is DfxOptions, else what its config says.

    Raises:
        ArgumentError: it is something else, or the config says otherwise.
    """
    configured = config.dfx_options() if config is not None else DfxOptions()
    if dfx is None:
        return configured
    if not isinstance(dfx, DfxOptions):
        hint = "pass config.dfx_options(), or pass the config" if isinstance(dfx, (RunConfig, RunOptions)) else None
        raise ArgumentError("dfx= takes DfxOptions", found=f"a {type(dfx).__qualname__}", hint=hint)
    if configured.any() and configured != dfx:
        raise ArgumentError("dfx= and config= ask for different profiling", found=f"{dfx} and {configured}")
    return dfx


def check_platform(platform: str, kernel: str) -> None:
    """Refuse a platform that nothing here launches on.

    Raises:
        LaunchError: it is an NPU, for which no runtime is found.
    """
    _, mode = parse_platform(platform)
    if mode is ExecutionMode.ONBOARD:
        raise LaunchError(
            f"no NPU runtime is found to launch '{kernel}' with",
            found=f"platform '{platform}'",
            hint=f"run it on the CPU with RunConfig(platform='{platform}sim')",
        )


def check_built_for(config: RunConfig, platform: str, built: CompileOptions, kernel: str) -> None:
    """Refuse a compiled program that is not what a config would have compiled.

    Args:
        config: of the call.
        platform: that the program was built for.
        built: the options it was compiled with.
        kernel: its name.

    Raises:
        LaunchError: another platform.
        OptionError: an option of the compile that is neither its default nor what the program was compiled with.
    """
    if config.platform != platform:
        raise LaunchError(
            f"kernel '{kernel}' was compiled for another platform",
            found=f"a program for '{platform}', a config for '{config.platform}'",
            hint=f"compile it with RunConfig(platform='{config.platform}')",
        )
    asked, default = config.compile_options(), CompileOptions()
    for field in dataclasses.fields(asked):
        value = getattr(asked, field.name)
        if field.name != "platform" and value not in (getattr(default, field.name), getattr(built, field.name)):
            raise OptionError(
                f"kernel '{kernel}' is compiled already, with another {field.name}",
                found=f"{field.name}={value!r}",
                expected=f"{field.name}={getattr(built, field.name)!r}",
            )
