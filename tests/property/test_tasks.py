"""Random functions with tasks mean the same as traced, outlined, and compiled, on any number of threads."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import numpy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto_jit
import pypto_jit.language as pl
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.dtypes import INT32
from pypto_jit.lowering.pipeline import PASSES, lower
from pypto_jit.targets import A2A3
from tests.tracing import spec, with_trace

ROWS, COLUMNS = 12, 16
TENSORS = ("x", "y", "z", "w")
_numbers = itertools.count()


@st.composite
def places(draw, loops):
    """The first of four rows that lie in a tensor."""
    names = [*loops, "0"]
    form = draw(
        st.sampled_from(("{0}", "{0} * 2", "{0} * 4", "{0} + 3", "pl.min({0} * 3, 8)", "8 - {0}", "{0} // 2 * 4"))
    )
    return form.format(draw(st.sampled_from(names)))


@st.composite
def bodies(draw, loops):
    """Lines of a task: it reads boxes of tensors, and writes one."""
    source, other, target = (draw(st.sampled_from(TENSORS)) for _ in range(3))
    first, second, place = (draw(places(loops)) for _ in range(3))
    form = draw(st.sampled_from(("plain", "view", "turned", "loop")))
    factor = draw(st.sampled_from(("0.5", "-1.0", "2.0")))
    if form == "loop":
        return [
            "for i in pl.range(2):",
            f"    t = pl.load({source}, [i + {first}, 0], [2, {COLUMNS}])",
            f"    pl.store(t * {factor}, [{place} + i * 2, 0], {target})",
        ]
    if form == "view":
        box = f"{target}[{place} : {place} + 4]"
        return [
            f"t = pl.load({source}[{first} : {first} + 4, 8:], [0, 0], [4, 8])",
            f"pl.store(t + 1.0, [0, 4], {box})",
        ]
    if form == "turned":
        turned = f"pl.transpose({source}, 0, 1)"
        return [f"t = pl.load({turned}, [4, {first}], [4, 4])", f"pl.store(t, [{place}, 8], {target})"]
    return [
        f"t = pl.load({source}, [{first}, 0], [4, {COLUMNS}]) * {factor}",
        f"pl.store(t + pl.load({other}, [{second}, 0], [4, {COLUMNS}]), [{place}, 0], {target})",
    ]


@st.composite
def statements(draw, loops, depth):
    """Lines of one to four tasks, loops and branches around tasks, and work between them."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(("at", "at", "spmd", "spmd", "work", "loop", "if", "host")))
        inner: list[str] = []
        if kind == "at":
            predicate = draw(st.sampled_from(("", "", "predicate=counts[0] > 2", "predicate=counts[1] > 2")))
            head, inner = f"with pl.at({predicate}):", draw(bodies(loops))
        elif kind == "spmd":
            head = f"with pl.spmd({draw(st.sampled_from(('1', '3', 'counts[1]')))}):"
            # Blocks are independent: each writes rows of its own, and none reads what another one writes.
            inner = ["b = pl.get_block_idx()", "t = pl.load(x, [b * 4, 0], [4, 16])"]
            inner.append(f"pl.store(t + 1.0, [b * 4, 0], {draw(st.sampled_from('yzw'))})")
        elif kind == "work" or depth == 0:
            lines += draw(bodies(loops))
            continue
        elif kind == "loop":
            name = f"k{len(loops)}"
            head = f"for {name} in pl.range({draw(st.sampled_from(('2', '3', 'counts[1]')))}):"
            inner = draw(statements((*loops, name), depth - 1))
        elif kind == "if":
            head = f"if {draw(st.sampled_from((*loops, 'counts[0]')))} > 0:"
            inner = draw(statements(loops, depth - 1))
        else:
            lines.append(f"{draw(st.sampled_from(TENSORS))}[0, {draw(st.integers(0, 15))}] = x[1, 2] + 1.0")
            continue
        lines += [head, *("    " + line for line in inner)]
    return lines


def _kernel(lines: list[str]) -> Any:
    body = [f"w = pl.create_tensor([{ROWS}, {COLUMNS}], pl.FP32, init_value=0.25)", *lines]
    body.append(f"pl.store(pl.load(w, [0, 0], [{ROWS}, {COLUMNS}]), [0, 0], out)")
    parameters = "counts: pl.Tensor, x: pl.InOut[pl.Tensor], y: pl.InOut[pl.Tensor], z: pl.InOut[pl.Tensor]"
    text = f"def kernel({parameters}, out: pl.Out[pl.Tensor]):\n" + "".join(
        f"    {line}\n" for line in [*(f"{name}[0, 0] = {name}[0, 0] * 1.0" for name in "xyz"), *body]
    )
    filename = f"<tasks {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"pl": pl, "__name__": "tasks"}
    exec(compile(text, filename, "exec"), namespace)
    return namespace["kernel"]


def _arrays() -> list[numpy.ndarray]:
    generator = numpy.random.default_rng(5)
    counts = numpy.array([1, 3], numpy.int32)
    return [counts, *(generator.integers(-8, 8, (ROWS, COLUMNS)).astype(numpy.float32) for _ in range(4))]


def _compiled(kernel: Any) -> list[numpy.ndarray]:
    arrays = [torch.from_numpy(array) for array in _arrays()]
    pypto_jit.jit(kernel)(*arrays)
    return [array.numpy() for array in arrays]


@settings(max_examples=25, deadline=None)
@given(statements((), 2))
def test_tasks_mean_the_same_in_every_form(lines):
    kernel = _kernel(lines)
    results: dict[str, list[numpy.ndarray]] = {}

    def run(traced):
        for name, until in (("traced", 0), ("outlined", "legalize-2d"), ("resolved", "destination")):
            if until:
                names = [entry.name for entry in PASSES]
                done = 0 if name == "outlined" else names.index("legalize-2d")
                lower(traced.module, A2A3, passes=PASSES[done : names.index(until)])
            results[name] = _arrays()
            interpret(traced.module, results[name])

    with_trace(kernel, spec(2, dtype=INT32), *[spec(ROWS, COLUMNS)] * 4, then=run)
    results["compiled"] = _compiled(kernel)
    for name, arrays in results.items():
        for got, expected in zip(arrays, results["traced"], strict=True):
            numpy.testing.assert_array_equal(got, expected, err_msg=f"{name}\n" + "\n".join(lines))
