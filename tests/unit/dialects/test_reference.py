from __future__ import annotations

import runpy
from pathlib import Path

from pypto_jit.dialects import reference
from pypto_jit.dialects.operators import BY_NAME, ROWS

PAGE = Path(__file__).parents[3] / "docs" / "operators.md"


def test_committed_page_is_in_sync():
    assert PAGE.read_text() == reference.page(), "run: python -m pypto_jit.dialects.reference > docs/operators.md"


def test_every_operator_has_one_section():
    headings = [line.removeprefix("### ") for line in reference.page().splitlines() if line.startswith("### ")]
    assert sorted(headings) == sorted(row.name for row in ROWS)


def test_signature():
    assert reference.signature(BY_NAME["adds"]) == "adds(src: tile, scalar: scalar) -> tile"
    assert reference.signature(BY_NAME["cast"]) == "cast(src: tile, mode: str = 'round') -> tile"
    assert (
        reference.signature(BY_NAME["store"])
        == "store(src: tile, tensor: tensor, offsets: indices, atomic: str = 'none')"
    )


def test_module_prints_the_page(capsys):
    runpy.run_path(reference.__file__, run_name="__main__")
    assert capsys.readouterr().out == reference.page()
