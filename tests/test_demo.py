"""The demo runs, checks what it runs, and shows a kernel beside its assembly."""

from __future__ import annotations

import sys

import pytest

from examples import demo


def test_the_demo_shows_a_kernel_and_its_assembly(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["demo", "--pto-dir", str(tmp_path), "add"])
    assert demo.main() == 0
    shown = capsys.readouterr().out
    assert "add.pto" in shown
    assert "pl.store(x + y, [i, 0], out)" in shown
    assert "pto.tadd ins" in shown
    assert "loc(" not in shown
    assert "!pto.tile_buf<vec, 10x768xf32>" in shown
    assert 'loc("elementwise.py"' in (tmp_path / "add.pto").read_text()


def test_an_unknown_example_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo", "subtract"])
    with pytest.raises(SystemExit):
        demo.main()
    assert "there are: add, " in capsys.readouterr().err


def test_types_are_shortened():
    long = (
        "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=16, v_row=?, v_col=16, "
        "blayout=row_major, slayout=none_box, fractal=512, pad=0>"
    )
    assert demo.readable(f'pto.texp ins(%a : {long}) loc("k.py":1:2) // x') == (
        "pto.texp ins(%a : !pto.tile_buf<vec, 8x16xf32, valid=?x16>)"
    )
