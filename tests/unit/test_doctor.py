"""The report of `python -m pypto_jit doctor`."""

from __future__ import annotations

import pytest

from pypto_jit import doctor
from pypto_jit.__main__ import main
from pypto_jit.doctor import GOOD, MISSING, WRONG, Finding, examine, print_report


def found(name: str) -> Finding:
    return next(finding for finding in examine() if finding.name == name)


def test_reports_what_is_here():
    import torch

    assert found("torch").value == torch.__version__
    assert found("MLIR bindings").state == GOOD
    assert found("code is generated for").state == GOOD


def test_vendor_tools_are_looked_for_where_they_are_installed(tmp_path, monkeypatch):
    assert found("ptoas").state == MISSING
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libascendcl.so").touch()
    tool = tmp_path / "ptoas"
    tool.touch(mode=0o755)
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found("libascendcl.so") == Finding("vendor tools", "libascendcl.so", str(tmp_path / "lib64/libascendcl.so"))
    assert found("ptoas").value == str(tool)


def test_the_cache_folder_can_be_set(monkeypatch):
    monkeypatch.setenv("PYPTO_JIT_CACHE_DIR", "/somewhere")
    assert found("folder").value.startswith("/somewhere")


def test_a_broken_section_is_reported_and_the_others_remain(monkeypatch):
    def broken():
        raise OSError("no such file")
        yield

    monkeypatch.setattr(doctor, "_threads", broken)
    findings = examine()
    assert Finding("broken", "examination", "OSError: no such file", WRONG) in findings
    assert any(finding.section == "versions" for finding in findings)


@pytest.mark.parametrize(("state", "status"), [(GOOD, 0), (MISSING, 0), (WRONG, 1)])
def test_the_exit_status(capsys, state, status):
    assert print_report([Finding("section", "name", "value", state)]) == status
    assert capsys.readouterr().out.split() == ["section", "name", "value"]


def test_command_line(capsys):
    assert main(["doctor"]) in (0, 1)
    assert "processor" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["no such command"])
