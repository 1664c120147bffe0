from __future__ import annotations

import itertools
import re

import pytest

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import parse_type
from pypto_jit.dtypes import FP16, FP32
from pypto_jit.errors import CapacityError
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.pipeline import lower
from pypto_jit.targets import A2A3
from tests.module_text import ModuleText


@pytest.fixture
def text():
    return ModuleText()


def load(text, shape=(4, 8), dtype=FP32):
    return text.load(text.tensor(shape, dtype), [0, 0], shape)


def store(text, tile):
    text.store(tile, text.tensor(tile.type.shape, tile.type.dtype), [0, 0])


def planned(text):
    with borrowed_context():
        module = ir.Module.parse(str(text))
        lower(module, A2A3)
        return str(module)


def handles(outcome):
    """Name, address, buffer number and type of every handle, in order."""
    pattern = r'(%\w+) = "pto\.alloc_tile".*?addr = (\d+) : i64, buffer = (\d+) : i64.*-> (.*)'
    return [(n, int(a), int(b), parse_type(t)) for n, a, b, t in re.findall(pattern, outcome)]


def test_a_result_takes_the_place_of_an_input_that_ends(text):
    tile = text.operator("neg", load(text))
    store(text, text.operator("exp", text.operator("add", tile, load(text))))
    addresses = [address for _, address, _, _ in handles(planned(text))]
    # neg over its load, add over neg, exp over add; the second load beside it.
    assert sorted(set(addresses)) == [0, 128]
    assert addresses.count(0) == 4


def test_an_instruction_that_cannot_work_in_place_gets_another_buffer(text):
    store(text, text.operator("recip", load(text)))
    assert [address for _, address, _, _ in handles(planned(text))] == [0, 128]


def test_an_input_that_is_needed_later_is_kept(text):
    tile = load(text)
    new = text.operator("exp", tile)
    store(text, text.operator("sub", tile, new))
    assert [address for _, address, _, _ in handles(planned(text))][:2] == [0, 128]


def test_handles_of_one_buffer_share_its_number_and_address(text):
    column = text.operator("row_max", load(text, (6, 8)))
    store(text, text.operator("neg", column))
    found = handles(planned(text))
    column_handle = next(h for h in found if h[3].is_column_vector)
    row_handle = next(h for h in found if h[3].shape == (1, 8))
    assert column_handle[1:3] == row_handle[1:3]


def test_what_a_loop_reads_from_outside_lives_as_long_as_the_loop(text):
    scale = load(text)
    source, out = text.tensor((12, 8), FP32), text.tensor((12, 8), FP32)
    with text.loop(12, 4) as loop:
        tile = text.operator("mul", text.load(source, [loop.index, 0], (4, 8)), scale)
        # A tile made after the last use of the scale in a turn must not take its place.
        other = text.operator("recip", tile)
        text.store(text.operator("recip", other), out, [loop.index, 0])
    found = handles(planned(text))
    assert [h for h in found if h[1] == 0] == found[:1]


def test_the_branches_of_an_if_use_the_same_memory(text):
    tile, out = load(text), text.tensor((4, 8), FP32)
    with text.loop(2) as loop:
        text.lines.append(f"{text.indent}%c = arith.cmpi eq, {loop.index.name}, {text.constant(0).name} : index")
        text.lines.append(f"{text.indent}scf.if %c {{")
        text.store(text.operator("recip", tile), out, [0, 0])
        text.lines.append(f"{text.indent}}} else {{")
        text.store(text.operator("recip", tile), out, [0, 0])
        text.lines.append(f"{text.indent}}}")
    assert [address for _, address, _, _ in handles(planned(text))] == [0, 128, 128]


def test_addresses_of_the_cube_memories_are_aligned(text):
    operands = load(text, (16, 48), FP16), load(text, (48, 16), FP16)
    text.store(text.operator("matmul", *operands), text.tensor((16, 16), FP32), [0, 0])
    for _, address, _, kind in handles(planned(text)):
        assert address % A2A3.alignment[kind.space] == 0


def test_full_memory_is_used_to_the_last_byte(text):
    # 184 KiB of Vec: one tile of 92 KiB and its reciprocal.
    store(text, text.operator("recip", load(text, (23, 1024))))
    found = handles(planned(text))
    assert [(address, kind.bytes) for _, address, _, kind in found] == [(0, 94208), (94208, 94208)]


def test_overflow_names_the_largest_tiles_with_their_lines(text):
    rows, columns = 24, 1024
    tiles = [load(text, (rows, columns)) for _ in range(2)]
    store(text, text.operator("add", text.operator("recip", tiles[0]), tiles[1]))
    with pytest.raises(CapacityError) as caught:
        planned(text)
    error = caught.value
    # Both loads are alive while the reciprocal is made.
    assert error.found == f"{3 * 4 * rows * columns} bytes"
    assert error.expected == "at most 188416 bytes (184 KiB)"
    assert [note.partition(" made at")[0] for note in error.notes] == ["98304 bytes: 24x1024 FP32"] * 3
    assert all(re.search(r":\d+", note) for note in error.notes)
    assert error.span is not None


def test_a_fragmented_memory_is_packed_largest_first(text):
    # Two small tiles frame a gap; the large one only fits if the small ones do not lie in its way.
    small = load(text, (1, 64))
    medium = text.operator("recip", load(text, (23, 512)))
    tail = text.operator("full", text.constant("1.0", "f32"), shape=(1, 64), dtype=FP32, space=medium.type.space)
    store(text, medium)
    large = load(text, (45, 1024))
    store(text, large)
    store(text, text.operator("add", small, tail))
    for _, address, _, kind in handles(planned(text)):
        assert address + kind.bytes <= A2A3.capacity[kind.space]


def test_buffers_that_are_needed_together_do_not_overlap(text):
    tiles = [load(text, (k + 1, 8)) for k in range(6)]
    for tile in reversed(tiles):
        store(text, text.operator("neg", tile))
    found = handles(planned(text))[:6]
    for (_, a, _, first), (_, b, _, second) in itertools.combinations(found, 2):
        assert a + first.bytes <= b or b + second.bytes <= a


class TestPipelinedLoops:
    """What turns that overlap load lies apart; what they compute shares its place."""

    @staticmethod
    def addresses(text, shape, stages):
        x, out = text.tensor((8 * shape[0], shape[1]), FP32), text.tensor((8 * shape[0], shape[1]), FP32)
        with text.loop(8 * shape[0], shape[0], stages=stages) as loop:
            tile = text.operator("recip", text.load(x, [loop.index, 0], shape))
            text.store(tile, out, [loop.index, 0])
        return [address for _, address, _, _ in handles(planned(text))]

    def test_turns_take_turns_with_their_buffers(self, text):
        loaded, made, other, remade = self.addresses(text, (4, 8), stages=2)
        assert loaded != other
        assert made == remade
        assert made not in (loaded, other)

    def test_without_room_they_share_one(self, text):
        # Two tiles of 64 KiB fit the 184 KiB of Vec, three do not.
        loaded, made, other, remade = self.addresses(text, (128, 128), stages=2)
        assert (loaded, made) == (other, remade)

    def test_a_plain_loop_needs_no_more_than_one_turn(self, text):
        assert self.addresses(text, (4, 8), stages=1) == [0, 128]
