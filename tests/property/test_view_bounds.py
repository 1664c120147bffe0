"""What leaves a view is an error where the interpreter finds it; what stays inside has the interpreter's values."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto_jit
import pypto_jit.language as pl
from pypto_jit.errors import BoundsError

ROWS, COLUMNS = 12, 16
# What a view is made by, from one of two dimensions, and its extents, from those of what it shows.
STEPS = {
    "rows": ("pl.slice({v}, [{r}, {c}], [{n}, 0])", lambda r, c: (max(1, r - 4), c)),
    "columns": ("{v}[:, 2 : {c} + 2]", lambda r, c: (r, c - 4)),
    "both": ("pl.slice({v}, [{r}, {c}], [{n}, {n}])", lambda r, c: (max(1, r - 3), c - 4)),
    "turned": ("pl.transpose({v}, 0, 1)", lambda r, c: (c, r)),
    "part": ("pl.slice({v}, [{r}, {c}], [{n}, 0], valid_shape=[{m}, {c}])", lambda r, c: (max(1, r - 2), c)),
    "clamped": ("pl.slice({v}, [{r}, {c}], [{n}, 0], clamp=True)", lambda r, c: (max(1, r - 2), c)),
}
USES = (
    "pl.store(pl.load({v}, [{n}, {m}], [2, 4]), [0, 0], out)",
    "pl.store(pl.load(x, [0, 0], [3, 4]), [{n}, 0], {v})",
    "pl.store(pl.load(x, [0, 0], [4, 4], valid_shape=[{m}, 4]), [{n}, 0], {v})",
    "out[0, 0] = {v}[{n}, {m}]",
    "pl.write({v}, [{n}, 2], 5.0)",
    "out[0, 0] = {v}[{n}][{m}]",
    "pl.store(pl.load({v}[{n}], [{m}], [4]), [0, 0], out)",
)
_numbers = itertools.count()


@st.composite
def kernels(draw: Any) -> list[str]:
    """Lines of a kernel that makes views of views of ``x`` or ``out``, and uses them."""
    number = st.sampled_from(("a", "b", "k", "k * 2", "a + k", "pl.min(b, 6)", "0"))
    value, (rows, columns) = draw(st.sampled_from(("x", "out"))), (ROWS, COLUMNS)
    body = []
    for step in draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3)):
        if "part" in body or (step in ("columns", "both") and columns < 9):
            continue
        text, extents = STEPS[step]
        rows, columns = extents(rows, columns)
        body.append(f"v = {text.format(v=value, r=rows, c=columns, n=draw(number), m=draw(number))}")
        value = "v"
    if draw(st.booleans()) and not any("valid" in line or "clamp" in line for line in body):
        body.append(f"v = pl.slice(x, [4, 16], [{draw(number)}, 0])")
        body.append("v = pl.reshape(v, [8, 8])")
        value = "v"
    for use in draw(st.lists(st.sampled_from(USES), min_size=1, max_size=2)):
        body.append(use.format(v=value, n=draw(number), m=draw(number)))
    around = draw(st.sampled_from(("", "", "with pl.at():")))
    return [around, *("    " + line for line in body)] if around else body


def _kernel(lines: list[str]) -> Any:
    head = [
        "x[0, 0] = x[0, 0]",
        "out[0, 0] = out[0, 0]",
        "a = at[0]",
        "b = at[1]",
        "for k in pl.range(2):",
        *("    " + line for line in lines),
    ]
    signature = "def kernel(at: pl.Tensor, x: pl.InOut[pl.Tensor], out: pl.InOut[pl.Tensor]):\n"
    text = signature + "".join(f"    {line}\n" for line in head)
    filename = f"<views {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"pl": pl, "__name__": "views"}
    exec(compile(text, filename, "exec"), namespace)
    return pypto_jit.jit(namespace["kernel"])


def _run(way: Any, at: tuple[int, int]) -> list[torch.Tensor] | None:
    arrays = [torch.arange(float(ROWS * COLUMNS)).reshape(ROWS, COLUMNS) * sign for sign in (1, -1)]
    try:
        way(torch.tensor(at), *arrays)
    except BoundsError:
        return None
    return arrays


@settings(max_examples=25, deadline=None)
@given(kernels(), st.lists(st.tuples(st.integers(-1, 8), st.integers(-1, 8)), min_size=6, max_size=6))
def test_compiled_and_interpreted_views_have_the_same_bounds(lines, places):
    kernel = _kernel(lines)
    for at in [(0, 0), (1, 0), *places]:
        expected, result = _run(kernel.interpret, at), _run(kernel, at)
        assert (expected is None) == (result is None), (lines, at)
        for left, right in zip(expected or (), result or (), strict=True):
            assert torch.equal(left, right), (lines, at)
