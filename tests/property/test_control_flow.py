"""Recorded control flow means what Python's does: random programs, interpreted and compiled, against the same text run.

The text uses tiles and scalars through a few names; run as plain Python, these are NumPy arrays and integers, and
``pl.range`` is ``range``.
"""

from __future__ import annotations

import itertools
import linecache
import types

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import pypto_jit.language as pl
from pypto_jit.dialects.interpreter import interpret
from pypto_jit.targets import A2A3
from tests.property.compiled import CompiledModule
from tests.tracing import spec, with_trace

TILES = ("a", "b", "c")
SCALARS = ("n", "m")
COLUMNS = 8
_count = itertools.count()

PLAIN = types.SimpleNamespace(
    range=range, pipeline=range, unroll=range, min=min, max=max, maximum=numpy.maximum, yield_=lambda *v: v
)


@st.composite
def scalars(draw, loops):
    """An integer expression."""
    names = st.sampled_from((*SCALARS, *loops))
    return draw(
        st.one_of(
            names,
            st.integers(-3, 5).map(str),
            st.tuples(names, st.sampled_from("+-"), names).map(" ".join),
            st.tuples(names, st.sampled_from(("// 2", "% 3", "* 2 - 5", "% -4 + 1"))).map(" ".join),
            st.tuples(names, names).map(lambda p: f"pl.min({p[0]}, {p[1]}, 4)"),
            st.tuples(names, names, st.integers(0, 3)).map(lambda p: f"({p[0]} if {p[1]} > {p[2]} else 1)"),
        )
    )


@st.composite
def conditions(draw, loops):
    """A condition on scalars; some are known while tracing."""
    one = st.tuples(scalars(loops), st.sampled_from(("<", "<=", "==", "!=", ">")), scalars(loops)).map(" ".join)
    left, right = draw(one), draw(one)
    form = draw(st.sampled_from(("{0}", "{0}", "{0} and {1}", "{0} or not {1}", "-2 < n <= 3", "{0} and yes", "yes")))
    return form.format(f"({left})", f"({right})")


def indented(lines):
    return ["    " + line for line in lines]


@st.composite
def jumps(draw, loops, looped):
    """A jump under a condition, or straight on."""
    kinds = ("break", "continue", "return a, b, c, p[0], n, m, p[2]") if looped else ("return b, a, c, p[1], m, n, 1",)
    return f"if {draw(conditions(loops))}: {draw(st.sampled_from(kinds))}"


@st.composite
def statements(draw, loops, depth, looped=False):
    """Lines of one to four statements."""
    lines = []
    for _ in range(draw(st.integers(1, 4 if depth > 1 else 2))):
        kinds = ["tile", "tile", "scalar", "scalar", "swap", "temporary", "pair", "jump"]
        if depth:
            kinds += ["loop", "loop", "while", "if", "if", "unrolled"]
        kind = draw(st.sampled_from(kinds))
        tile, other = draw(st.sampled_from(TILES)), draw(st.sampled_from(TILES))
        if kind == "tile":
            operation = draw(
                st.sampled_from(("{1} + {0} * 0.5", "{0} - 1.0", "pl.maximum({0}, {1})", "{0} * 0.5 + {2}"))
            )
            lines.append(f"{tile} = " + operation.format(tile, other, draw(scalars(loops))))
        elif kind == "scalar":
            # Bounded, so that what is added to tiles stays exact.
            lines.append(f"{draw(st.sampled_from(SCALARS))} = ({draw(scalars(loops))}) % 11")
        elif kind == "swap":
            lines.append(f"{tile}, {other} = {other}, {tile}")
        elif kind == "temporary":
            lines += [f"t = {tile} + 1.0", f"{other} = t - {other} * 0.5"]
        elif kind == "pair":
            lines += [f"p = ({tile}, p[0], (p[2] + 1) % 7)", f"{other} = p[1] + p[2]"]
        elif kind == "jump":
            lines.append(draw(jumps(loops, looped)))
        elif kind == "loop":
            name = f"i{len(loops)}"
            start, stop = draw(st.sampled_from(("0", "1", "n"))), draw(st.sampled_from(("2", "3", "pl.min(m, 3)")))
            step = draw(st.sampled_from(("", "", ", 2", ", -1", ", m - 4")))
            if step.endswith("- 4"):
                lines.append("m = (5 if m == 4 else m)")
            lines.append(f"for {name} in pl.range({start}, {stop}{step}):")
            lines += indented(draw(statements((*loops, name), depth - 1, True)))
            if draw(st.integers(0, 4)) == 0:
                lines += ["else:", *indented(draw(statements(loops, depth - 1, looped)))]
        elif kind == "while":
            count = f"w{depth}"
            condition = f"{count} < 3 and ({draw(conditions(loops))})"
            lines += [f"{count} = 0", f"while {condition}:", f"    {count} = {count} + 1"]
            lines += indented(draw(statements(loops, depth - 1, True)))
        elif kind == "unrolled":
            lines.append("for k in range(3):")
            body = draw(statements(loops, depth - 1, True))
            jump = draw(st.sampled_from(("", "if k == 1: continue", "if k == 1: break")))
            lines += indented(([jump] if jump else []) + body)
        else:
            lines.append(f"if {draw(conditions(loops))}:")
            lines += indented(draw(statements(loops, depth - 1, looped)))
            for _ in range(draw(st.integers(0, 2))):
                lines.append(f"elif {draw(conditions(loops))}:")
                lines += indented(draw(statements(loops, depth - 1, looped)))
            if draw(st.booleans()):
                lines.append("else:")
                lines += indented(draw(statements(loops, depth - 1, looped)))
    return lines


def program(lines):
    """A function of the lines, with source."""
    body = "\n".join("    " + line for line in lines)
    text = f"def program(pl, a, b, c, n, m, yes):\n    p = (a, b, 0)\n{body}\n    return a, b, c, p[0], n, m, p[2]\n"
    name = f"<program {next(_count)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict = {}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"], text


@settings(max_examples=25)
@given(statements((), 4), st.integers(-2, 4), st.integers(-2, 4))
def test_recorded_control_flow_is_pythons(lines, n, m):
    function, text = program(lines)
    x = numpy.arange(3 * COLUMNS, dtype=numpy.float32).reshape(3, COLUMNS)
    *tiles, n_end, m_end, p_end = function(PLAIN, x[:1], x[1:2], x[2:], n, m, True)
    expected = numpy.concatenate([*tiles, numpy.full((1, COLUMNS), n_end + 100 * m_end + 10000 * p_end)])

    def kernel(x, out):
        # The loop runs once, and its variable is a number that only the running kernel knows.
        for traced in pl.range(n, n + 1):
            a, b, c = (pl.load(x, [k, 0], [1, COLUMNS]) for k in range(3))
            *tiles, n_end, m_end, p_end = function(pl, a, b, c, traced, m, True)
            for k, tile in enumerate(tiles):
                pl.store(tile, [k, 0], out)
            pl.store(pl.full([1, COLUMNS], pl.FP32, n_end + 100 * m_end + 10000 * p_end), [4, 0], out)

    interpreted = numpy.zeros((5, COLUMNS), numpy.float32)

    def run(traced):
        interpret(traced.module, [x, interpreted])
        return CompiledModule(traced.module, A2A3)([x, numpy.zeros_like(interpreted)])[1]

    compiled = with_trace(kernel, spec(3, COLUMNS), spec(5, COLUMNS), then=run)
    numpy.testing.assert_array_equal(interpreted, expected.astype(numpy.float32), err_msg=text)
    numpy.testing.assert_array_equal(compiled, expected.astype(numpy.float32), err_msg=text)
