"""What the analysis says of loops and branches in plain Python text."""

from __future__ import annotations

import ast
import textwrap

import pytest

from pypto_jit.frontend.liveness import Analysis, Flow


def flows(text: str) -> list[Flow]:
    """The flows of the statements of a function body, in order of their lines."""
    function = ast.parse("def function(x):\n" + textwrap.indent(textwrap.dedent(text), "    ")).body[0]
    assert isinstance(function, ast.FunctionDef)
    found = Analysis.of(function).flows
    return [found[node] for node in sorted(found, key=lambda node: node.lineno)]  # type: ignore[attr-defined]


def flow(text: str) -> Flow:
    """The flow of the first loop or branch of a function body."""
    return flows(text)[0]


def test_an_accumulator_is_exposed_and_a_temporary_is_not():
    found = flow("""
        for i in x:
            t = i + 1
            total = total + t
        return total
    """)
    assert found.bound == ("t", "total")
    assert found.targets == ("i",)
    assert found.exposed == {"total"}
    assert "total" in found.after
    assert "t" not in found.after


@pytest.mark.parametrize(
    ("body", "exposed"),
    [
        ("a += 1", {"a"}),
        ("if x:\n    a = 1\nb = a", {"x", "a"}),
        ("if x:\n    a = 1\nelse:\n    a = 2\nb = a", {"x"}),
        ("for a in x:\n    pass\nb = a", {"x", "a"}),
        ("while a:\n    a = 1", {"a"}),
        ("with x as a:\n    b = a", {"x", "a"}),
        ("try:\n    a = 1\nexcept x:\n    pass\nb = a", {"x", "a"}),
        ("(a := 1)\nb = a", {"a"}),
        ("b = [a for a in x]", {"x", "a"}),
        ("import a\nb = a", set()),
        ("def a(): pass\nb = a", set()),
        ("a[0] = x", {"a", "x"}),
        ("a.b = x", {"a", "x"}),
        ("a, b = x\nc = a", {"x"}),
        ("a: int = 1\nb = a", set()),
        ("del a", {"a"}),
        ("match x:\n    case [a, *b]:\n        c = a", {"x", "a"}),
    ],
)
def test_exposed_variables(body, exposed):
    text = "for i in y:\n" + textwrap.indent(body, "    ")
    assert flow(text).exposed >= exposed
    assert flow(text).exposed - exposed <= {"i", "int"}


def test_jumps():
    found = flow("""
        for i in x:
            if i:
                break
            for j in x:
                continue
            while j:
                return 1
            with x:
                yield i
            def inner():
                return 2
    """)
    assert [keyword for keyword, _ in found.jumps] == ["break", "return", "yield"]


def test_jumps_of_a_branch_do_not_count_those_of_its_loops():
    found = flow("""
        if x:
            for i in x:
                break
    """)
    assert found.jumps == ()


def test_what_a_later_iteration_reads_is_read_after_the_branch():
    outer, inner = flows("""
        for i in x:
            if i:
                t = 1
            use(last)
            last = t
    """)
    assert "last" in outer.exposed
    assert "t" in inner.after


def test_a_variable_bound_again_before_it_is_read_is_dead():
    found = flow("""
        for i in x:
            t = i
        t = 2
        return t
    """)
    assert "t" not in found.after


def test_a_branch_that_may_skip_the_binding_keeps_it_alive():
    found = flow("""
        for i in x:
            t = i
        if x:
            t = 2
        return t
    """)
    assert "t" in found.after


def test_a_break_may_lead_past_the_binding():
    found = flows("""
        while x:
            for i in x:
                t = i
            if i:
                break
            t = 1
        return t
    """)[0]
    assert "t" in found.after


def test_closures_read_at_any_time():
    found = flow("""
        f = lambda: t
        for i in x:
            t = i
        return f()
    """)
    assert "t" in found.after
    assert "t" in found.exposed


def test_what_closures_rebind_counts_everywhere():
    found = flow("""
        def bump():
            nonlocal n
            n = n + 1
        for i in x:
            bump()
    """)
    assert found.bound == ("n",)


def test_globals_are_not_variables_of_the_function():
    found = flow("""
        global n
        for i in x:
            n = i
    """)
    assert found.bound == ()
