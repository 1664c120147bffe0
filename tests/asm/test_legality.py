"""What examples print, against what the machines can do: read off their public headers here, apart from our own tables.

Sources: pto-isa 3186c381, ``include/pto/common/buffer_limits.hpp`` (capacities), ``include/pto/npu/{a2a3,a5}`` (moves,
dtypes, alignments), ``include/pto/common/pto_instr.hpp`` (operands of one type); ptoas 3d332ff7 (v0.59), its verifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd

import pytest

import pypto_jit as pypto
from examples.catalog import EXAMPLES
from pypto_jit.dialects.assembly import print_assembly
from pypto_jit.lowering.context import borrowed_context
from tests.asm import lowered

KIB = 1024
BITS = {"f32": 32, "f16": 16, "bf16": 16, "i32": 32, "i16": 16, "i8": 8, "ui8": 8, "ui16": 16, "ui32": 32, "i64": 64}
# The backend of a2a3 keeps 8 KiB of the unified buffer for itself.
CAPACITY = {
    "a2a3": {"vec": 184, "mat": 512, "left": 64, "right": 64, "acc": 128, "bias": 1},
    "a5": {"vec": 256, "mat": 512, "left": 64, "right": 64, "acc": 256, "bias": 4},
}
MOVES = {
    "a2a3": {("mat", "left"), ("mat", "right"), ("mat", "bias"), ("vec", "vec"), ("acc", "mat")},
    "a5": {
        *(("mat", "left"), ("mat", "right"), ("mat", "bias"), ("vec", "vec"), ("acc", "mat")),
        *(("acc", "vec"), ("vec", "mat")),
    },
}
INSERTS = {("vec", "vec"), ("acc", "mat")}
EXTRACTS = {("vec", "vec"), ("mat", "left"), ("mat", "right")}
PRODUCTS = {("f32", "f16", "f16"), ("f32", "bf16", "bf16"), ("f32", "f32", "f32"), ("i32", "i8", "i8")}
# What the adder, the multiplier and the extremes take; neither has BF16 in floating-point functions.
ARITHMETIC = {"a2a3": {"i32", "i16", "f16", "f32"}, "a5": {"i32", "i16", "f16", "f32", "bf16", "i8", "ui8"}}
FLOATS = {"f16", "f32"}
REDUCED = {"i32", "i16", "f16", "f32"}
OF_FLOATS = re.compile(r"t(exp|log|sqrt|rsqrt|recip|div|divs|rowexpanddiv|colexpanddiv)$")
OF_NUMBERS = re.compile(r"t(add|sub|mul|max|min|adds|subs|muls|maxs|mins|(row|col)expand(add|sub|mul|max|min))$")
REDUCTIONS = re.compile(r"t(row|col)(sum|max|min|prod)$")
# Overloads whose tiles, but for masks and scratch, are of one C++ type: physical shape and valid shape included.
ONE_TYPE = {"tand": (0, 1), "tor": (0, 1), "tsel": (1, 2)}
# They read a source again after they wrote to the result.
NOT_IN_PLACE = {"tands", "tors", "txor", "txors", "trecip"}

_CONSTANT = re.compile(r"(%\w+) = arith\.constant (-?\d+) : (?:i64|index)")
_TILE = re.compile(r"(%\w+) = pto\.alloc_tile addr = (%\w+).* : !pto\.tile_buf<([^>]*)>")
_VIEW = re.compile(
    r"(%\w+) = pto\.make_tensor_view .*shape = \[(.*?)\], strides = \[(.*?)\] \{layout = #pto\.layout<(\w+)>\}"
)
_PART = re.compile(r"(%\w+) = pto\.partition_view (%\w+), .*sizes = \[(.*?)\]")
_WORK = re.compile(r"pto\.(t[a-z_.]+) ins\((.*)\) outs\((.*?)\)(?: \{.*\})?$")
_OPERAND = re.compile(r"%\w+")
_BOX = re.compile(r"!pto\.partition_tensor_view<(?:[\d?]+x)*(\w+)>")
_SUM = re.compile(r"(%\w+) = arith\.(muli|addi|subi|minsi|maxsi) (%\w+), (%\w+) : (?:i64|index)")
_CAST = re.compile(r"(%\w+) = arith\.index_cast (%\w+) : ")
_LOOP = re.compile(r"scf\.for (%\w+) = (%\w+) to %\w+ step (%\w+)")
_FUNCTION = re.compile(r"func\.func @(\w+)\(.*#pto\.kernel_kind<(\w+)>")


@dataclass(frozen=True)
class Tile:
    """A handle as the text gives it."""

    address: int
    loc: str
    dtype: str
    shape: tuple[int, int]
    valid: tuple[str, str]
    layout: tuple[str, str]

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * BITS[self.dtype] // 8


def _tile(address: int, text: str) -> Tile:
    fields = dict(part.strip().split("=") for part in text.split(","))
    return Tile(
        address,
        fields["loc"],
        fields["dtype"],
        (int(fields["rows"]), int(fields["cols"])),
        (fields["v_row"], fields["v_col"]),
        (fields["blayout"], fields["slayout"]),
    )


def faults(text: str, target: str) -> Iterator[str]:
    """What a text asks for that the machine cannot do."""
    constants: dict[str, int] = {}
    # What index values are multiples of; 0 is one of everything.
    divisors: dict[str, int] = {}
    tiles: dict[str, Tile] = {}
    # Layout and strides of views; whether the rows of a box lie far apart.
    views: dict[str, tuple[str, list[int]]] = {}
    far: dict[str, bool] = {}
    kind = ""
    for line in text.splitlines():
        body = re.sub(r' loc\(".*?":\d+:\d+\)| // pypto: .*', "", line.strip())
        if found := _FUNCTION.match(body):
            kind, constants, divisors, tiles = found[2], {}, {}, {}
        elif found := _CONSTANT.match(body):
            constants[found[1]] = divisors[found[1]] = int(found[2])
        elif found := _SUM.match(body):
            left, right = (divisors.get(name, 1) for name in found.groups()[2:])
            divisors[found[1]] = left * right if found[2] == "muli" else gcd(left, right)
        elif found := _CAST.match(body):
            divisors[found[1]] = divisors.get(found[2], 1)
        elif found := _LOOP.match(body):
            divisors[found[1]] = gcd(*(divisors.get(name, 1) for name in found.groups()[1:]))
        elif found := _TILE.match(body):
            tile = tiles[found[1]] = _tile(constants[found[2]], found[3])
            yield from (f"{fault}: {body}" for fault in _buffer(tile, kind, target))
        elif found := _VIEW.search(body):
            strides = [constants.get(name.strip(), -1) for name in found[3].split(",")]
            views[found[1]] = (found[4], strides)
        elif found := _PART.match(body):
            layout, strides = views[found[2]]
            sizes = [constants.get(name.strip(), -1) for name in found[3].split(",")]
            far[found[1]] = len(sizes) > 1 and strides[-2] > 65535 and sizes[-2] != 1
            # A row of a transfer is consecutive.
            if layout == "nd" and strides[-1] not in (-1, 0, 1) and sizes[-1] != 1:
                yield f"columns that are not consecutive: {body}"
        elif "local_array<" in body and "xindex>" in body:
            yield f"an array of indices: {body}"
        elif found := _WORK.search(body):
            if found[1] == "tload" and target == "a2a3" and tiles[_OPERAND.findall(found[3])[0]].loc == "mat":
                yield from (f"rows too far apart: {body}" for name in _OPERAND.findall(found[2]) if far.get(name))
            yield from (f"{fault}: {body}" for fault in _work(found, tiles, divisors, target))


def _buffer(tile: Tile, kind: str, target: str) -> Iterator[str]:
    size = BITS[tile.dtype] // 8
    if (tile.loc == "vec") != (kind == "vector"):
        yield f"{tile.loc} in a {kind} kernel"
    if tile.address % 32 or tile.address + tile.bytes > CAPACITY[target][tile.loc] * KIB:
        yield "outside of its memory"
    rows, columns = tile.shape
    if tile.layout[1] == "none_box":
        if (columns if tile.layout[0] == "row_major" else rows) * size % 32:
            yield "a line that is no multiple of 32 bytes"
        if tile.loc == "vec" and tile.layout[0] == "row_major" and rows > 4095:
            yield "more rows than a transfer takes"
    else:
        long, short = (16, 16) if tile.loc == "acc" else (16, 32 // size)
        edges = (short, long) if tile.layout[1] == "col_major" else (long, short)
        if rows % edges[0] or columns % edges[1]:
            yield "no whole boxes"
    expected = {
        "left": ("row_major" if target == "a2a3" else "col_major", "row_major"),
        "right": ("row_major", "col_major"),
        "acc": ("col_major", "row_major"),
        "bias": ("row_major", "none_box"),
    }
    if tile.layout != expected.get(tile.loc, tile.layout):
        yield "another layout"


def _work(found: re.Match[str], tiles: dict[str, Tile], divisors: Mapping[str, int], target: str) -> Iterator[str]:
    name = found[1]
    given = [tiles[v] for v in re.findall(r"%\w+", found[2].split(" : ")[0]) if v in tiles]
    written = [tiles[v] for v in re.findall(r"%\w+", found[3]) if v in tiles]
    boxes = [match[1] for match in _BOX.finditer(found[2] + found[3])]
    if name == "tload":
        (tile,) = written
        if tile.loc not in ("vec", "mat") or tile.dtype != boxes[0]:
            yield "no such load"
        return
    if name == "tstore":
        (tile,) = given
        narrowing = tile.loc == "acc" and tile.dtype == "f32" and boxes[0] in ("f16", "bf16")
        if tile.loc not in ("vec", "acc") or (tile.dtype != boxes[0] and not narrowing):
            yield "no such store"
        return
    if not written:
        return
    (result,) = written
    pair = (given[0].loc, result.loc) if given else ("", result.loc)
    if name == "tmov" and (pair not in MOVES[target] or given[0].shape != result.shape):
        yield "no such move"
    if name == "tmov" and pair[1] == "bias" and result.shape[1] * BITS[result.dtype] % 512:
        yield "a bias is a multiple of 64 bytes"
    if name == "tinsert" and pair not in INSERTS:
        yield "no such insertion"
    if name == "textract" and pair not in EXTRACTS:
        yield "no such extraction"
    if name in ("textract", "tinsert") and pair == ("vec", "vec"):
        part = result if name == "textract" else given[0]
        column = divisors.get(found[2].split(" : ")[0].split(", ")[2], 1)
        # Of a single element the machine moves no units of 32 bytes.
        if target == "a2a3" and part.valid != ("1", "1") and column * BITS[part.dtype] % 256:
            yield "a part that starts within 32 bytes"
        odd = part.valid[1] == "?" or int(part.valid[1]) % 2
        if target == "a2a3" and part.valid != ("1", "1") and BITS[part.dtype] == 8 and odd:
            yield "a part of single bytes"
    if name == "tci" and (result.shape[0] != 1 or result.shape[1] == 1 or result.dtype not in ("i16", "i32")):
        yield "no such counting"
    if name == "tci" and target == "a2a3" and (not given or given[0].bytes < (1792 if result.dtype == "i16" else 768)):
        yield "no room to count in"
    if name == "ttrans":
        (rows, across), size = given[0].shape, BITS[result.dtype] // 8
        edge, unit = (32 if size == 1 else 16), 32 // size
        blocks = -(-rows // edge) * edge * -(-across // unit) * unit * size
        if given[1].bytes < 32 or (target == "a2a3" and result.shape[1] % edge == 0 and given[1].bytes < blocks):
            yield "scratch for fewer blocks than are turned"
    if name.startswith("tmatmul"):
        lhs, rhs = [tile for tile in given if tile.loc in ("left", "right")]
        if (lhs.loc, rhs.loc, result.loc) != ("left", "right", "acc"):
            yield "a product of other memories"
        if (result.dtype, lhs.dtype, rhs.dtype) not in PRODUCTS:
            yield "a product of other dtypes"
        if any(extent != "?" and not 1 <= int(extent) <= 4095 for tile in (lhs, rhs) for extent in tile.valid):
            yield "a product of other extents"
    elif pair != ("vec", "vec") and name not in ("tmov", "tinsert", "textract", "texpands", "tci"):
        yield "vector work outside of the unified buffer"
    dtype = (given or written)[0].dtype
    if OF_FLOATS.match(name) and dtype not in FLOATS:
        yield "no float"
    if OF_NUMBERS.match(name) and dtype not in ARITHMETIC[target]:
        yield "no such arithmetic"
    if REDUCTIONS.match(name) and dtype not in REDUCED:
        yield "no such reduction"
    if name == "tcvt" and given[0].shape != result.shape:
        yield "a conversion between shapes"
    if name.startswith("tcolexpand") and len(given) > 1 and given[0].shape != result.shape:
        yield "a vector spread over another shape"
    if name == "tcmp":
        if dtype not in (*FLOATS, "i32") or (target == "a5" and len({tile.shape for tile in (*given, result)}) > 1):
            yield "no such comparison"
        if dtype == "i32" and target == "a2a3" and "cmp eq" not in found[2]:
            yield "integers compare for equality only"
    if name == "tsel" and BITS[given[3].dtype] != 32:
        yield "scratch of other elements"
    if name in ONE_TYPE:
        kinds = {(t.shape, t.valid, t.dtype) for t in (*(given[k] for k in ONE_TYPE[name]), result)}
        if len(kinds) > 1:
            yield "operands of several types"
    if name in NOT_IN_PLACE and any(t.address == result.address for t in given):
        yield "in place"


@pytest.mark.parametrize(
    ("example", "target"),
    [
        pytest.param(example, target, id=f"{example.name}-{target}")
        for example in EXAMPLES
        for target in example.machines
    ],
)
def test_examples_ask_for_what_the_machine_can_do(example, target: str) -> None:
    config = pypto.RunConfig(platform=f"{target}sim")
    text = example.kernel.lower(*example.arguments(), config=config)["pto"]
    assert "func.func" in text
    assert list(faults(text, target)) == []


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", lowered.KERNELS)
def test_kernels_ask_for_what_the_machine_can_do(name: str, target: str) -> None:
    with borrowed_context() as context:
        text = print_assembly(lowered.lowered(name, target, context))
    assert list(faults(text, target)) == []


def _kernel(*lines: str, kind: str = "vector") -> str:
    head = f"func.func @f(%x: !pto.ptr<f32>) attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{"
    return "\n".join(
        (
            head,
            "%a = arith.constant 0 : i64",
            "%b = arith.constant 1024 : i64",
            "%c0 = arith.constant 0 : index",
            *lines,
        )
    )


def _alloc(name: str, address: str, loc: str, dtype: str, rows: int, columns: int) -> str:
    kind = f"loc={loc}, dtype={dtype}, rows={rows}, cols={columns}, v_row={rows}, v_col={columns}"
    return (
        f"{name} = pto.alloc_tile addr = {address} : "
        f"!pto.tile_buf<{kind}, blayout=row_major, slayout=none_box, fractal=512, pad=0>"
    )


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([_alloc("%s", "%a", "vec", "f32", 4, 7)], "32 bytes"),
        ([_alloc("%s", "%a", "vec", "f32", 4000, 16)], "outside of its memory"),
        ([_alloc("%s", "%a", "mat", "f32", 1, 8)], "mat in a vector kernel"),
        (
            [_alloc("%s", "%a", "vec", "bf16", 1, 16), "pto.tadd ins(%s, %s : T, T) outs(%s : T)"],
            "no such arithmetic",
        ),
        (
            [
                _alloc("%s", "%a", "vec", "i32", 2, 16),
                _alloc("%t", "%b", "vec", "f32", 1, 192),
                "pto.tci ins(%c, %t : i32, T) outs(%s : T)",
            ],
            "no such counting",
        ),
        ([_alloc("%s", "%a", "vec", "i32", 1, 16), "pto.tci ins(%c : i32) outs(%s : T)"], "no room"),
        ([_alloc("%s", "%a", "vec", "i16", 1, 16), "pto.tands ins(%s, %c : T, i16) outs(%s : T)"], "in place"),
        (
            [
                _alloc("%s", "%a", "vec", "f32", 1, 16),
                _alloc("%t", "%b", "vec", "f32", 1, 8),
                "pto.tmov ins(%s : T) outs(%t : T)",
            ],
            "no such move",
        ),
        (
            [
                "%c4 = arith.constant 4 : index",
                _alloc("%s", "%a", "vec", "f32", 1, 16),
                _alloc("%t", "%b", "vec", "f32", 1, 8),
                "pto.textract ins(%s, %c0, %c4 : T, index, index) outs(%t : T)",
            ],
            "within 32 bytes",
        ),
        (
            [
                _alloc("%s", "%a", "vec", "i8", 1, 64),
                _alloc("%t", "%b", "vec", "i8", 1, 32).replace("v_col=32", "v_col=5"),
                "pto.textract ins(%s, %c0, %c0 : T, index, index) outs(%t : T)",
            ],
            "single bytes",
        ),
        (
            [
                _alloc("%s", "%a", "vec", "f32", 12, 8),
                _alloc("%t", "%b", "vec", "f32", 8, 16),
                "pto.ttrans ins(%s, %s : T, T) outs(%t : T)",
            ],
            "fewer blocks",
        ),
        (
            [
                "%c24 = arith.constant 24 : index",
                "%v = pto.make_tensor_view %x, shape = [%c24, %c24], strides = [%c1, %c24] "
                "{layout = #pto.layout<nd>} : T",
                "%p = pto.partition_view %v, offsets = [%c0, %c0], sizes = [%c24, %c24] : T -> T",
            ],
            "not consecutive",
        ),
    ],
)
def test_faults_are_found(lines: list[str], fault: str) -> None:
    found = list(faults(_kernel(*lines), "a2a3"))
    assert len(found) == 1
    assert fault in found[0]
