from __future__ import annotations

from pypto_jit.dtypes import FP32
from tests.module_text import ModuleText
from tests.unit.lowering.after import after, operations


def test_what_nothing_stores_goes_in_chains():
    text = ModuleText()
    a, b = text.tensor((4, 8), FP32), text.tensor((4, 8), FP32)
    tile = text.load(a, [0, 0], (4, 8))
    unused = text.operator("exp", text.operator("neg", text.load(a, [0, 0], (4, 8))))
    assert unused.type == tile.type
    text.store(tile, b, [0, 0])
    outcome = after(text, "dead-code")
    assert operations(outcome) == ["load", "store"]


def test_what_a_loop_yields_stays():
    text = ModuleText()
    a = text.tensor((4, 8), FP32)
    with text.loop(3, carried=[text.load(a, [0, 0], (4, 8))]) as loop:
        loop.yields = [text.operator("neg", loop.carried[0])]
    assert operations(after(text, "dead-code")) == ["load", "neg"]
