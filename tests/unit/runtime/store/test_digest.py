"""Values have one digest in every process, and different ones wherever a trace could tell them apart."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import itertools
import math
import os
import random
import struct
import subprocess
import sys
import threading
import types
from pathlib import Path

import numpy as np
import pytest

from pypto_jit.dtypes import FP16, FP32
from pypto_jit.runtime.store.digest import digest
from pypto_jit.runtime.store.scope import Scope, UnguardableError

SCOPE = Scope(__name__.partition(".")[0])


def of(value) -> str:
    return digest(value, SCOPE)


class Mode(enum.Enum):
    FAST = 1
    EXACT = 2


class Size(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Config:
    rows: int = 4
    names: list = dataclasses.field(default_factory=list)

    @functools.cached_property
    def area(self) -> int:
        return self.rows * 2


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


Point = collections.namedtuple("Point", "x y")

LEAVES = [
    0,
    1,
    2,
    1.0,
    True,
    False,
    0.0,
    -0.0,
    math.nan,
    math.inf,
    1j,
    complex(-0.0, 1),
    None,
    ...,
    "",
    "1",
    b"1",
    2**70,
]
CONTAINERS = [
    (),
    [],
    {},
    set(),
    frozenset(),
    (1,),
    [1],
    {1: 1},
    {1},
    frozenset({1}),
    (1.0,),
    [True],
    range(1),
    slice(1),
]
OBJECTS = [
    Mode.FAST,
    Mode.EXACT,
    Size.ONE,
    Config(),
    Config(5),
    Config(names=[1]),
    Slotted(1),
    Slotted(2),
    Point(1, 2),
    Point(2, 1),
    (1, 2),
    collections.OrderedDict(a=1),
    types.SimpleNamespace(a=1),
    {"a": 1},
    FP32,
    FP16,
    np.float32(1),
    np.int32(1),
    np.zeros(2),
    np.zeros((2, 1)),
    np.zeros(2, np.float32),
    np.dtype("float32"),
    np.float32,
    float,
    math.sqrt,
    math.sin,
    len,
    "".join,
    functools.partial(pow, 2),
    functools.partial(pow, 3),
]


def test_no_two_values_of_different_type_or_bits_share_a_digest():
    values = [*LEAVES, *CONTAINERS, *OBJECTS]
    found = collections.defaultdict(list)
    for value in values:
        found[of(value)].append(value)
    assert [same for same in found.values() if len(same) > 1] == []


@pytest.mark.parametrize("value", [*LEAVES, *CONTAINERS, *OBJECTS[:20]], ids=lambda value: type(value).__name__)
def test_a_digest_is_repeatable(value):
    assert of(value) == of(value)


def test_nans_differ_by_their_bits_and_equal_themselves():
    quiet, other = (struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, 0x7FF8 << 48 | 1))
    assert of(quiet) == of(math.nan) != of(other)
    assert of([quiet]) == of([math.nan]) != of([other])


def test_equal_contents_in_other_objects_are_the_same():
    assert of(Config(3, ["a"])) == of(Config(3, ["".join(["a"])]))
    assert of((int("300"), [1])) == of((300, [1]))


def test_the_order_of_a_dict_counts_and_that_of_a_set_does_not():
    assert of({"a": 1, "b": 2}) != of({"b": 2, "a": 1})
    names = [str(k) for k in range(20)]
    backwards = [str(k) for k in range(19, -1, -1)]
    assert of(set(names)) == of(set(backwards))


def test_what_a_cached_property_remembers_is_no_state():
    config = Config()
    before = of(config)
    assert config.area == 8
    assert of(config) == before
    before = of(FP32)
    assert FP32.numpy == np.float32
    assert of(FP32) == before


def test_a_slot_that_is_set_counts():
    one, other = Slotted(1), Slotted(1)
    other.b = None
    assert of(one) != of(other)


def test_cycles_end():
    ring: list = [1]
    ring.append(ring)
    twice: list = [1]
    twice.append([1, twice])
    assert of(ring) != of(twice)
    assert of(ring) == of(ring)


def test_nesting_beyond_the_stack_cannot_be_guarded():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(UnguardableError, match="nested"):
        of(deep)


def scaled(factor, bias=0):
    return lambda x: x * factor + bias


def test_functions_count_by_code_defaults_and_cells():
    assert of(scaled(2)) == of(scaled(2))
    assert len({of(f) for f in (scaled(2), scaled(2.0), scaled(2, 1), scaled, lambda x: x, lambda x: x + 1)}) == 6

    def plain(x, step=1):
        return x + step

    before = of(plain)
    plain.__defaults__ = (2,)
    assert of(plain) != before


BIAS = 3


def inner(x):
    return x + BIAS


def outer(x):
    return inner(x) if x else outer(x - 1)


def test_functions_count_by_what_they_reach(monkeypatch):
    before = of(outer)
    monkeypatch.setitem(globals(), "BIAS", 3.0)
    changed = of(outer)
    monkeypatch.setitem(globals(), "BIAS", 3)
    assert of(outer) == before != changed
    monkeypatch.setitem(globals(), "inner", lambda x: x)
    assert of(outer) != before


def make_class(body: str) -> type:
    namespace: dict = {"__name__": __name__}
    exec(body, namespace)
    return namespace["Made"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("class Made:\n  K = 1", "class Made:\n  K = 2"),
        ("class Made:\n  def f(self): return 1", "class Made:\n  def f(self): return 2"),
        ("class Made:\n  @property\n  def f(self): return 1", "class Made:\n  @property\n  def f(self): return 2"),
        ("class Made:\n  @staticmethod\n  def f(): return 1", "class Made:\n  @staticmethod\n  def f(): return 2"),
        ("class Base:\n  K = 1\nclass Made(Base): pass", "class Base:\n  K = 2\nclass Made(Base): pass"),
        ("import enum\nclass Made(enum.Enum):\n  A = 1", "import enum\nclass Made(enum.Enum):\n  A = 2"),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass Made:\n  k: int = 1",
            "import dataclasses\n@dataclasses.dataclass\nclass Made:\n  k: int = 2",
        ),
    ],
)
def test_classes_count_by_what_is_in_them(one, other):
    assert of(make_class(one)) == of(make_class(one)) != of(make_class(other))


def test_methods_count_by_function_and_object():
    assert of(Config(1).__repr__) != of(Config(2).__repr__)


@functools.lru_cache
def cached(x):
    return x


def test_a_cached_function_is_its_function():
    before = of(cached)
    cached(3)
    assert of(cached) == before


@pytest.mark.parametrize(
    "value",
    [
        itertools.count(),
        (x for x in ()),
        random.Random(0),
        np.random.default_rng(0),
        threading.Lock(),
        random.random,
        os.urandom,
        open,
        id,
        np.zeros(1 << 20),
        np.array([None]),
        list(range(50_000)),
        os.environ,
        iter([1]),
        sys.stdout,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_may_change_unseen_is_refused(value):
    with pytest.raises(UnguardableError):
        of(value)
    with pytest.raises(UnguardableError):
        of({"somewhere": [value]})


def test_modules_of_the_user_are_no_values():
    module = types.ModuleType(f"{__name__}.sub")
    with pytest.raises(UnguardableError, match="as a value"):
        of(module)
    assert of(math) != of(random.__spec__.name)


SCRIPT = """if 1:
    import collections, dataclasses, enum, functools, math
    from pypto_jit.runtime.store.digest import digest
    from pypto_jit.runtime.store.scope import Scope
    from pypto_jit.runtime.store.reads import collect_reads
    class Mode(enum.Enum):
        A = 'a'; B = 'b'
    @dataclasses.dataclass(frozen=True)
    class Config:
        mode: Mode
        table: dict
        names: frozenset
        def pick(self): return [self.table[n] for n in self.names]
    config = Config(Mode.B, {'x': 1, 'y': -0.0}, frozenset({'x', 'y', 'z', 'w'}))
    def helper(v): return v * config.table['x'] if v else kernel(v)
    def kernel(v, k=frozenset({'p', 'q', 'r'})):
        return helper(v) + math.pi + len(config.pick()) if v in {'a', 'b', 'c'} else Mode.A
    scope = Scope('__main__')
    print([digest(v, scope) for v in (config, kernel, Config, {'s', 't', 'u'}, functools.partial(helper, 1))])
    reads = collect_reads(kernel)
    print(reads.digests(), reads.unguarded)
"""


def test_digests_are_the_same_in_every_process():
    root = Path(__file__).parents[4]

    def run(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    outputs = {run(seed) for seed in ("0", "1", "4242")}
    assert len(outputs) == 1
    assert "[]" in outputs.pop()
