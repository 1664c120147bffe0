"""The rewrite keeps a function what it is: names, cells, defaults, lines; and works where its source can be found."""

from __future__ import annotations

import functools
import linecache
import traceback

import pytest

import pypto_jit.language as pl
from pypto_jit.errors import ControlFlowError, SourceUnavailableError
from pypto_jit.frontend.hooks import REWRITER
from pypto_jit.frontend.rewrite import is_rewritten
from tests.tracing import COLUMNS, lines, spec

X = spec(16, 32)
LIMIT = 3


def rewrite(function):
    result = REWRITER.rewrite(function)
    assert is_rewritten(result.__code__)
    return result


def test_plain_control_flow_means_what_it_did():
    def function(items, *more, stop=None, **named):
        """Everything a function may have."""
        total, seen = 0, []
        for index, item in enumerate(items):
            if item is stop:
                break
            if item < 0:
                continue
            for _ in range(2):
                total += item
            seen.append((index, item) if item % 2 and index else item)
        else:
            seen.append("end")
        while total > 100:
            total -= 10
            if total == 50:
                return "fifty"
        try:
            total = total + more[0] if more else total
        except TypeError as error:
            seen.append(type(error).__name__)
        finally:
            seen.append("finally")
        with open(__file__) as file:
            first = file.readline() if total else None
        squares = {k: v**2 for k, v in named.items() if v and not v > 3}
        return total, seen, bool(first), squares, (lambda x, y=2: x < y < 5)(1)

    new = rewrite(function)
    for arguments, keywords in (
        (([1, 2, 3],), {}),
        (([1, -2, 3], 5), {"stop": 3, "a": 1, "b": 4}),
        (([200],), {"a": 0}),
        (([25, 30],), {}),
        (([1], "x"), {}),
        (([],), {}),
    ):
        assert new(*arguments, **keywords) == function(*arguments, **keywords)


def test_match_statements():
    def function(value):
        match value:
            case [first, *rest] if first:
                for item in rest:
                    first = first + item
                return first
            case {"a": x, **others}:
                return x, others
            case str() as text:
                return text
            case _:
                return None

    new = rewrite(function)
    for value in ([1, 2, 3], [0], {"a": 1, "b": 2}, "text", 5):
        assert new(value) == function(value)


def test_globals_and_cells_stay_live(monkeypatch):
    count = 0

    def function():
        nonlocal count
        for _ in range(LIMIT):
            count += 1
        return count

    new = rewrite(function)
    assert new() == 3
    assert count == 3
    monkeypatch.setitem(globals(), "LIMIT", 1)
    assert new() == 4
    count = 10
    assert new() == 11


def test_defaults_are_the_same_objects_and_decorators_are_not_applied():
    marker = []
    calls = []

    def decorator(function):
        calls.append(function)
        return function

    @decorator
    def function(a, b=marker, *, c=marker):
        if a:
            return b, c
        return None

    new = rewrite(function)
    assert calls == [function]
    assert new(1)[0] is marker
    assert new(1)[1] is marker
    assert new.__name__ == "function"
    assert new.__qualname__ == function.__qualname__


def test_a_code_object_is_rewritten_once():
    def make(n):
        def function():
            if n:
                return n
            return 0

        return function

    first, second = rewrite(make(1)), rewrite(make(2))
    assert first.__code__ is second.__code__
    assert (first(), second()) == (1, 2)


def test_private_names_of_a_class_stay_private():
    class Scale:
        def __init__(self):
            self.__factor = 3

        def __apply(self, x):
            return x * self.__factor if x else 0

        def method(self, x):
            return self.__apply(x)

    scale = Scale()
    assert rewrite(Scale.method)(scale, 2) == 6


def test_super_works():
    class Base:
        def value(self):
            return 1

    class Derived(Base):
        def value(self):
            return super().value() + 1 if self else None

    assert rewrite(Derived.value)(Derived()) == 2


def test_generators_stay_generators():
    def function(n):
        for i in range(n):
            if i != 1:
                yield i

    assert list(rewrite(function)(4)) == [0, 2, 3]


def test_tracebacks_show_the_users_lines():
    def function(x):
        if x:
            for _ in range(2):
                raise ValueError("here")

    with pytest.raises(ValueError, match="here") as caught:
        rewrite(function)(1)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename == __file__
    assert last.lineno == function.__code__.co_firstlineno + 3
    assert last.name == "function"


def test_walrus_and_comprehensions():
    def function(items):
        doubled = [y for x in items if (y := x * 2) > 2 and y < 10]
        total = sum(y for y in doubled) or (z := 7)
        return doubled, total, "z" in locals()

    new = rewrite(function)
    for items in ([1, 2, 3], [9], []):
        assert new(items) == function(items)


def test_names_of_comprehensions_are_not_the_functions():
    def kernel(x, out):
        for _ in pl.range(2):
            tiles = [pl.load(x, [i, 0], [1, 32]) for i in range(2)]
            pl.store(tiles[0] + tiles[1], [0, 0], out)

    assert "iter_args" not in "".join(lines(kernel, X, X))


class TestHelpers:
    def test_functions_methods_partials_lambdas_and_callables_are_followed(self):
        def twice(t, times=2):
            for _ in pl.range(times):
                t = t + 1.0
            return t

        class Scale:
            factor = 2.0

            def method(self, t):
                for _ in pl.range(2):
                    t = t * self.factor
                return t

            def __call__(self, t):
                return self.method(t)

        choose = lambda t, i: t if i > 1 else t * 3.0  # noqa: E731

        def kernel(x, out):
            t = pl.load(x, [0, 0], [1, 32])
            t = functools.partial(twice, times=3)(t)
            t = Scale()(t)
            for i in pl.range(4):
                t = choose(t, i)
            pl.store(t, [0, 0], out)

        found = lines(kernel, X, X)
        assert sum("scf.for" in line for line in found) == 3
        assert sum("scf.if" in line for line in found) == 1

    def test_wrapped_helpers_are_followed(self):
        def decorator(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                return function(*args, **kwargs)

            return wrapper

        @decorator
        def helper(t):
            for _ in pl.range(2):
                t = t + 1.0
            return t

        def kernel(x, out):
            pl.store(helper(pl.load(x, [0, 0], [1, 32])), [0, 0], out)

        assert any("scf.for" in line for line in lines(kernel, X, X))

    def test_recursion_over_python_values(self):
        def power(t, n):
            if n == 1:
                return t
            half = power(t, n // 2)
            return half * half if n % 2 == 0 else half * half * t

        def kernel(x, out):
            pl.store(power(pl.load(x, [0, 0], [1, 32]), 10), [0, 0], out)

        assert sum("mul(" in line for line in lines(kernel, X, X)) == 4

    def test_builtin_min_and_max_take_traced_scalars(self):
        def kernel(x, out):
            for i in pl.range(0, 16, 3):
                n = min(3, 16 - i)
                t = pl.load(x, [i, 0], [3, 32], valid_shape=[n, max([8, 4])])
                pl.store(t, [i, max(1 - i, 0)], out)

        found = lines(kernel, X, X)
        assert any("arith.minsi %c3" in line for line in found)
        assert any("arith.maxsi" in line for line in found)

    def test_another_kernel_is_inlined(self):
        def body(x, out):
            for i in pl.range(16):
                pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)

        def dispatcher(*args):
            raise AssertionError("called")

        dispatcher.__pypto_kernel__ = body

        def kernel(x, out):
            dispatcher(x, out)

        assert len(lines(kernel, X, X)) == 3


class TestSource:
    def run(self, text, *arguments):
        namespace = {"pl": pl}
        exec(text, namespace)
        return lines(namespace["kernel"], *arguments)

    def test_without_source_straight_code_and_plain_control_flow_work(self):
        text = (
            "def kernel(x, out, n):\n"
            "    t = pl.load(x, [0, 0], [16, 32])\n"
            "    for _ in range(n):\n"
            "        if n > 1: t = t + 1.0\n"
            "    pl.store(t, [0, 0], out)\n"
        )
        assert sum("adds" in line for line in self.run(text, X, X, 3)) == 3

    @pytest.mark.parametrize(
        "statement",
        ["for i in pl.range(4): pass", "for i in pl.parallel(4): pass"],
    )
    def test_without_source_recorded_control_flow_is_an_error(self, statement):
        text = f"def kernel(x, out):\n    t = pl.load(x, [0, 0], [1, 32])\n    n = 1\n    {statement}\n"
        with pytest.raises(SourceUnavailableError, match="the source of 'kernel' is not available") as caught:
            self.run(text, X, X)
        assert caught.value.span.line == 4
        assert caught.value.code == "PYPTO-NO-SOURCE"
        assert "exec" in caught.value.hint

    def test_without_source_a_traced_condition_is_an_error(self):
        helper_source = "def helper(t, i):\n    if i > 1:\n        t = t + 1.0\n    return t\n"
        namespace: dict = {}
        exec(helper_source, namespace)
        helper = namespace["helper"]

        def kernel(x, out):
            for i in pl.range(4):
                pl.store(helper(pl.load(x, [i, 0], [1, 32]), i), [i, 0], out)

        with pytest.raises(SourceUnavailableError, match="the source of 'helper' is not available") as caught:
            lines(kernel, X, X)
        assert (caught.value.span.filename, caught.value.span.line) == ("<string>", 2)

    def test_a_notebook_cell_has_source(self):
        text = (
            "def kernel(x, out):\n"
            "    for i in pl.range(16):\n"
            "        pl.store(pl.load(x, [i, 0], [1, 32]), [i, 0], out)\n"
        )
        name = "<ipython-input-7-0123456789ab>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        namespace = {"pl": pl}
        exec(compile(text, name, "exec"), namespace)
        assert len(lines(namespace["kernel"], X, X)) == 3

    def test_source_that_is_not_the_functions_is_not_used(self):
        text = "def kernel(x, out):\n    pl.store(pl.load(x, [0, 0], [1, 32]), [0, 0], out)\n"
        name = "<ipython-input-8-0123456789ab>"
        other = "def kernel(y, out):\n    raise AssertionError\n"
        linecache.cache[name] = (len(other), None, other.splitlines(True), name)
        namespace = {"pl": pl}
        exec(compile(text, name, "exec"), namespace)
        assert len(lines(namespace["kernel"], X, X)) == 2

    @pytest.mark.parametrize("edited", [True, False])
    def test_a_file_that_was_edited_since_it_was_imported_is_not_used(self, tmp_path, edited):
        text = (
            "def kernel(x, out):\n"
            "    for i in pl.range(16):\n"
            "        pl.store(pl.load(x, [i, 0], [1, 32]) * 2.0, [i, 0], out)\n"
        )
        path = tmp_path / "edited.py"
        path.write_text(text.replace("2.0", "3.0") if edited else text)
        namespace = {"pl": pl}
        exec(compile(text, str(path), "exec"), namespace)
        if not edited:
            assert any("muls" in line for line in lines(namespace["kernel"], X, X))
            return
        with pytest.raises(SourceUnavailableError, match="edited since"):
            lines(namespace["kernel"], X, X)

    def test_two_lambdas_on_one_line(self):
        pair = (lambda t, i: t * 2.0 if i > 1 else t, lambda t, i: t * 3.0 if i > 1 else t + 1.0)

        def kernel(x, out):
            for i in pl.range(4):
                t = pl.load(x, [i, 0], [1, 32])
                pl.store(pair[1](t, i), [i, 0], out)

        if COLUMNS:
            assert any("adds" in line for line in lines(kernel, X, X))
        else:
            with pytest.raises(SourceUnavailableError):
                lines(kernel, X, X)

    def test_a_lambda_kernel(self):
        kernel = lambda x, out: pl.store(pl.load(x, [0, 0], [16, 32]) * (2.0 if LIMIT else 1.0), [0, 0], out)  # noqa: E731
        assert len(lines(kernel, X, X)) == 3


def test_loops_in_comprehensions_say_what_to_write():
    def kernel(x, out):
        rows = [pl.load(x, [i, 0], [1, 32]) for i in pl.range(4)]
        pl.store(rows[0], [0, 0], out)

    with pytest.raises(ControlFlowError, match="iterated over by something else than a `for` statement") as caught:
        lines(kernel, X, X)
    assert caught.value.code == "PYPTO-CONTROL-FLOW"


def test_calls_outside_of_a_trace_still_run():
    def function(x):
        for i in range(x):
            if i and x > 1:
                return max(i, x)
        return None

    assert rewrite(function)(3) == 3


def recursive(n):
    return 0 if n == 0 else n + recursive(n - 1) + len(vars(recursive))


def test_a_global_function_finds_itself():
    assert rewrite(recursive)(3) == 6
