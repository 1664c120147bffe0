"""RunConfig, its views, and the map between the axes of a target and its names."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import warnings

import pytest

from pypto_jit.options import (
    FIELDS,
    PLATFORMS,
    Arch,
    BackendType,
    CompileOptions,
    DfxOptions,
    ExecutionMode,
    RunConfig,
    RunOptions,
)

FOUR = {
    "a2a3": (BackendType.Ascend910B, ExecutionMode.ONBOARD),
    "a2a3sim": (BackendType.Ascend910B, ExecutionMode.SIM),
    "a5": (BackendType.Ascend950, ExecutionMode.ONBOARD),
    "a5sim": (BackendType.Ascend950, ExecutionMode.SIM),
}


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_platforms():
    assert PLATFORMS == FOUR
    assert RunConfig().platform == "a2a3sim"
    assert Arch is BackendType


@pytest.mark.parametrize(("before", "after"), list(itertools.product(FOUR, FOUR)))
def test_replace_works_in_every_combination(before, after):
    config = RunConfig(platform=before, device_id=3)
    arch, mode = FOUR[after]
    assert dataclasses.replace(config, platform=after).platform == after
    assert dataclasses.replace(config, arch=arch, execution_mode=mode).platform == after
    assert dataclasses.replace(config, platform=after, arch=FOUR[before][0]).platform == after
    assert dataclasses.replace(config, platform=after).device_id == 3


def test_the_signature_lists_platform_and_takes_keywords_only():
    parameters = inspect.signature(RunConfig).parameters
    assert "platform" in parameters
    assert {p.kind for p in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    with pytest.raises(TypeError, match=r"RunConfig.__init__\(\) takes 1 positional"):
        RunConfig("a5")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"RunConfig.__init__\(\) got an unexpected keyword argument 'optlevel'"):
        RunConfig(optlevel=1)  # type: ignore[call-arg]


def test_wrong_axes_and_platforms():
    with pytest.raises(TypeError, match="arch='a5' is no BackendType.*platform='a5sim'"):
        RunConfig(arch="a5")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="execution_mode=<BackendType"):
        RunConfig(execution_mode=Arch.Ascend950)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'a2a3', 'a2a3sim', 'a5', 'a5sim'; did you mean 'a5sim'"):
        RunConfig(platform="a5sin")  # type: ignore[call-arg]


def test_backend_type_is_a_property_and_never_selects():
    config = RunConfig(platform="a5", backend_type=Arch.Ascend950)
    assert config.backend_type is Arch.Ascend950
    assert "backend_type" not in {f.name for f in dataclasses.fields(config)}
    assert "backend_type" not in repr(config)
    assert "backend_type" not in dataclasses.asdict(config)
    with pytest.raises(AttributeError):
        config.backend_type = Arch.Ascend910B  # type: ignore[misc]
    with pytest.warns(DeprecationWarning, match="selects <BackendType.Ascend950"):
        assert RunConfig(platform="a5", backend_type=Arch.Ascend910B).arch is Arch.Ascend950


def test_the_old_swimlane_name():
    with pytest.warns(DeprecationWarning, match="enable_chip_swimlane"):
        config = RunConfig(enable_l2_swimlane=2)
    assert config.enable_chip_swimlane == config.enable_l2_swimlane == 2
    with pytest.raises(ValueError, match="one of them"):
        RunConfig(enable_l2_swimlane=2, enable_chip_swimlane=2)
    with pytest.warns(DeprecationWarning):
        config.enable_l2_swimlane = True
    assert config.enable_chip_swimlane == 4
    assert "enable_l2_swimlane" not in dataclasses.asdict(config)


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("ring_task_window", [4, 1 << 20, [0, 4, 8, 0]], [3, 2, 5, True, [4, 4], [4, 4, 4, 3], 4.0, 0]),
        ("ring_heap", [1024, [0, 0, 0, 2048]], [1000, 512, False, [1024] * 5]),
        ("ring_dep_pool", [4, 5, 2**31 - 1, [0, 7, 4, 4]], [3, 2**31, True, [1, 4, 4, 4]]),
        ("enable_chip_swimlane", [0, 4, True], [5, -1, 1.5]),
        ("enable_dump_args", [0, 2, True], [3]),
        ("enable_pmu", [0, 7], [-1, "l2"]),
        ("enable_dep_gen", [True, 1], ["yes", 2, None]),
        ("device_id", [0, 7], [-1, "0"]),
        ("opt_level", [0, 3], [4, -1]),
        ("threads", [None, 1], [0, 1.5]),
    ],
)
def test_ranges(field, good, bad):
    config = RunConfig()
    for value in good:
        RunConfig(**{field: value})
        setattr(config, field, value)
    before = getattr(config, field)
    for value in bad:
        with pytest.raises(ValueError, match=field):
            RunConfig(**{field: value})
        with pytest.raises(ValueError, match=field):
            setattr(config, field, value)
    assert getattr(config, field) == before


def test_assigned_axes_are_axes():
    config = RunConfig()
    with pytest.raises(TypeError, match="platform='a5sim'"):
        config.arch = "a5"  # type: ignore[assignment]
    config.platform = "a5"
    assert (config.arch, config.execution_mode) == FOUR["a5"]
    with pytest.raises(ValueError, match="unknown platform"):
        config.platform = "a6"


@pytest.mark.parametrize(
    ("field", "value"), [("chip_swimlane", 5), ("dump_args", 3), ("pmu", "l2"), ("dep_gen", "yes"), ("scope_stats", 2)]
)
def test_ranges_of_profiling(field, value):
    with pytest.raises(ValueError, match=field):
        DfxOptions(**{field: value})
    assert DfxOptions(chip_swimlane=True).chip_swimlane == 4
    assert DfxOptions(pmu=2, dep_gen=True).asked() == ["enable_pmu", "enable_dep_gen"]


def test_the_split_is_total():
    views = {"compile": CompileOptions, "run": RunOptions, "dfx": DfxOptions}
    assert set(FIELDS) == {f.name for f in dataclasses.fields(RunConfig)}
    for view, kind in views.items():
        assigned = {name for of, name in FIELDS.values() if of == view}
        own = {f.name for f in dataclasses.fields(kind)} - {"platform", "dfx"}
        assert assigned == own
    assert {f for f, (of, _) in FIELDS.items() if of == "harness"} == {
        "rtol",
        "atol",
        "golden_data_dir",
        "save_kernels",
        "codegen_only",
    }


def test_views_carry_the_values():
    config = RunConfig(platform="a5sim", save_kernels_dir="d", compile_profiling=True, threads=3, enable_pmu=2)
    options = config.compile_options()
    assert (options.platform, options.output_dir, options.profiling) == ("a5sim", "d", True)
    assert config.compile_kwargs() == options.as_compile_kwargs()
    run = config.run_options()
    assert (run.platform, run.threads, run.dfx.pmu) == ("a5sim", 3, 2)
    assert "platform" not in dataclasses.replace(options, platform=None).as_compile_kwargs()


@pytest.mark.parametrize(
    "flag", ["enable_chip_swimlane", "enable_dump_args", "enable_pmu", "enable_dep_gen", "enable_scope_stats"]
)
def test_any_profiling_flag_forces_save_kernels(flag):
    assert not RunConfig().save_kernels
    config = RunConfig(**{flag: 1})
    assert config.save_kernels
    assert config.any_dfx_enabled()
    assert config.dfx_options().any()
    assert RunConfig(save_kernels=False, **{flag: 1}).save_kernels
    later = RunConfig()
    setattr(later, flag, 1)
    assert later.save_kernels
    later.save_kernels = False
    assert later.save_kernels
    assert dataclasses.replace(config, platform="a5").save_kernels


def test_distributed_is_refused():
    with pytest.raises(ValueError, match="not built yet"):
        RunConfig(distributed_config=object())


def test_every_compile_option_says_what_it_does_to_a_cached_artifact():
    assert {f.metadata["role"] for f in dataclasses.fields(CompileOptions)} == {"key", "output"}
