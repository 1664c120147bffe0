"""What an entry point cannot honour is an error there."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

import pypto_jit as pypto
from pypto_jit.errors import ArgumentError, LaunchError, OptionError
from pypto_jit.options import FIELDS, CompileOptions, DfxOptions, RunConfig
from pypto_jit.runtime.harness import run
from tests.language.kernels import scale

X = torch.arange(48, dtype=torch.float32).reshape(6, 8)
PROGRAM = scale.compile(X)
ENTRIES = {
    "call": scale,
    "program": PROGRAM,
    "compile": scale.compile,
    "lower": scale.lower,
    "interpret": scale.interpret,
}
CALLED = ("call", "program")
VALUES = {
    "device_id": 1,
    "aicpu_thread_num": 2,
    "ring_task_window": 16,
    "ring_heap": [1024, 0, 0, 0],
    "ring_dep_pool": 8,
    "threads": 2,
    "deterministic": True,
    "enable_chip_swimlane": 1,
    "enable_dump_args": 1,
    "enable_pmu": 1,
    "enable_dep_gen": True,
    "enable_scope_stats": True,
}
HARNESS = {"rtol": 1.0, "atol": 1.0, "golden_data_dir": "golden", "save_kernels": True, "codegen_only": True}


@pytest.mark.parametrize("entry", ENTRIES)
def test_run_options_are_not_for_users(entry):
    with pytest.raises(TypeError, match="takes a RunConfig") as caught:
        ENTRIES[entry](X, config=RunConfig().run_options())
    assert isinstance(caught.value, ArgumentError)
    assert "RunOptions is internal" in (caught.value.hint or "")
    with pytest.raises(TypeError, match="takes a RunConfig"):
        ENTRIES[entry](X, config="a5")
    assert not hasattr(pypto, "RunOptions")


def test_the_values_cover_the_run_half():
    assert set(VALUES) == {
        name for name, (view, _) in FIELDS.items() if view in ("run", "dfx") and name != "check_races"
    }
    assert set(HARNESS) == {name for name, (view, _) in FIELDS.items() if view == "harness"}


def test_every_field_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "options.md").read_text()
    assert [name for name in FIELDS if f"`{name}`" not in page] == []
    assert [f.name for f in dataclasses.fields(CompileOptions) if f"`{f.name}`" not in page] == []


@pytest.mark.parametrize("field", VALUES)
def test_a_launch_on_the_cpu_honours_threads_and_refuses_the_devices_own(field):
    config = RunConfig(**{field: VALUES[field]})
    for entry in CALLED:
        if field in ("threads", "deterministic"):
            assert torch.equal(ENTRIES[entry](X, config=config), X * 2)
        else:
            profiles = FIELDS[field][0] == "dfx"
            expected = f"{field} is not built yet" if profiles else f"{field}: the CPU runtime has no such thing"
            with pytest.raises(OptionError, match=expected):
                ENTRIES[entry](X, config=config)
    # The run half is not for a compile.
    assert scale.compile(X, config=config) is PROGRAM
    for entry in ("lower", "interpret"):
        with pytest.raises(OptionError, match=f"cannot honour {field}"):
            ENTRIES[entry](X, config=config)


def test_profiling_of_a_call_is_accepted_and_refused_by_name():
    assert torch.equal(PROGRAM(X, dfx=DfxOptions()), X * 2)
    assert torch.equal(PROGRAM(X, config=RunConfig(threads=1), dfx=DfxOptions()), X * 2)
    for name, value in {n: v for n, v in VALUES.items() if FIELDS[n][0] == "dfx"}.items():
        config = RunConfig(**{name: value})
        for call in (
            lambda c=config: PROGRAM(X, dfx=c.dfx_options()),
            lambda c=config: PROGRAM(X, config=c, dfx=c.dfx_options()),
        ):
            with pytest.raises(OptionError, match=f"{name} is not built yet") as caught:
                call()
            assert caught.value.found == name
    with pytest.raises(ArgumentError, match="different profiling"):
        PROGRAM(X, config=RunConfig(enable_pmu=1), dfx=DfxOptions(dep_gen=True))


@pytest.mark.parametrize("wrong", [RunConfig().run_options(), RunConfig(), {"pmu": 1}, 1], ids=repr)
def test_profiling_is_dfx_options(wrong):
    with pytest.raises(TypeError, match="dfx= takes DfxOptions"):
        PROGRAM(X, dfx=wrong)


@pytest.mark.parametrize("program", [scale, PROGRAM], ids=["kernel", "compiled"])
def test_profiling_of_a_run(program):
    assert run(program, X, dfx=DfxOptions()).passed
    refused = run(program, X, dfx=DfxOptions(pmu=2))
    assert not refused
    assert "enable_pmu is not built yet" in refused.error
    for wrong in (RunConfig(), RunConfig().run_options()):
        with pytest.raises(TypeError, match="dfx= takes DfxOptions"):
            run(program, X, dfx=wrong)
        if not isinstance(wrong, RunConfig):
            with pytest.raises(TypeError, match="config= takes a RunConfig"):
                run(program, X, config=wrong)


@pytest.mark.parametrize("field", HARNESS)
def test_harness_fields_mean_nothing_to_any_entry(field):
    for entry in ENTRIES.values():
        entry(X, config=RunConfig(**{field: HARNESS[field]}))


def test_a_program_runs_on_the_platform_it_was_built_for():
    with pytest.raises(LaunchError, match="another platform") as caught:
        PROGRAM(X, config=RunConfig(platform="a5sim"))
    assert "'a2a3sim'" in str(caught.value.found)
    assert "'a5sim'" in str(caught.value.found)
    onboard = RunConfig(platform="a2a3")
    program = scale.compile(X, config=onboard)
    for call in (lambda: program(X), lambda: program(X, config=onboard), lambda: scale(X, config=onboard)):
        with pytest.raises(LaunchError, match="no NPU runtime"):
            call()


def test_a_program_is_not_compiled_again_by_a_call():
    with pytest.raises(OptionError, match="compiled already, with another opt_level"):
        PROGRAM(X, config=RunConfig(opt_level=3))
    config = RunConfig(opt_level=3)
    assert torch.equal(scale.compile(X, config=config)(X, config=config), X * 2)
    assert torch.equal(PROGRAM(X, config=RunConfig(threads=1)), X * 2)


def test_lower_has_a_narrower_mapping():
    assert "loc(" not in scale.lower(X, config=RunConfig(emit_source_loc=False))["pto"]
    assert "a5" in scale.lower(X, config=RunConfig(platform="a5", verification_level=0))["pto"]
    for name in ("dump_passes", "compile_profiling", "opt_level", "save_kernels_dir"):
        with pytest.raises(OptionError, match=f"lower\\(\\) cannot honour {name}"):
            scale.lower(X, config=RunConfig(**{name: "d" if name == "save_kernels_dir" else True}))


def test_what_a_kernel_is_decorated_with_is_for_its_calls():
    kernel = pypto.jit(config=RunConfig(threads=1, opt_level=1))(scale.__wrapped__)
    assert torch.equal(kernel(X), X * 2)
    assert torch.equal(kernel.interpret(X), X * 2)
    assert list(kernel.lower(X))
    assert kernel.compile(X).options.opt_level == 1
    device = pypto.jit(config=RunConfig(device_id=1))(scale.__wrapped__)
    for _ in range(2):
        with pytest.raises(OptionError, match="device_id"):
            device(X)


@pytest.mark.parametrize(
    "changes",
    [
        {"runtime": "npu"},
        {"strategy": "Default"},
        {"memory_planner": "PYPTO"},
        {"opt_level": 4},
        {"opt_level": True},
        {"verification_level": -1},
        {"dump_passes": "yes"},
        {"emit_source_loc": None},
        {"distributed_config": [0]},
    ],
    ids=str,
)
def test_values_that_do_not_exist(changes):
    options = dataclasses.replace(CompileOptions(), **changes)
    with pytest.raises(ValueError, match=next(iter(changes))):
        pypto.compile(scale.lower(X), **options.as_compile_kwargs())


def test_generated_code_runs_with_the_threads_it_was_decorated_with():
    kernel = pypto.jit(config=RunConfig(threads=3))(scale.__wrapped__)
    x = torch.randn(512, 512)
    for _ in range(3):
        assert torch.equal(kernel(x), x * 2)
    assert [path.threads for path in kernel.compile.__self__._hot.paths] == [3]
