"""What can be proved of index values, on small functions."""

from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import make_context
from pypto_jit.lowering.cpu.ranges import Ranges

HEAD = """
func.func @f(%n: index, %m: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %c7 = arith.constant 7 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
"""


class Values:
    """The named values of a function: arguments, loop counters and results, by the order they are defined in."""

    def __init__(self, body: str) -> None:
        self.context = make_context()
        with self.context:
            self.module = ir.Module.parse(HEAD + body + "\n  return\n}")
            function = self.module.body.operations[0]
            block = function.regions[0].blocks[0]
            self.n, self.m = block.arguments
            self.found: list[ir.Value] = []
            self._collect(block)
            self.ranges = Ranges([self.n])

    def _collect(self, block: ir.Block) -> None:
        for op in block.operations:
            if op.operation.name == "scf.for":
                inner = op.regions[0].blocks[0]
                self.found.append(inner.arguments[0])
                self._collect(inner)
            elif op.operation.name != "arith.constant":
                self.found.extend(op.operation.results)


def test_a_ragged_block_ends_within_any_extent():
    values = Values("""
      scf.for %i = %c0 to %n step %c4 {
        %rest = arith.subi %n, %i : index
        %size = arith.minsi %c4, %rest : index
      }""")
    i, _, size = values.found
    ranges = values.ranges
    assert ranges.not_negative(i)
    assert ranges.not_negative(size)
    assert ranges.at_most(size, 4)
    assert not ranges.at_most(size, 3)
    assert ranges.ends_within(i, size, values.n)
    assert not ranges.ends_within(i, 4, values.n)
    assert not ranges.ends_within(i, size, values.m)


@pytest.mark.parametrize(("extent", "fits"), [(64, True), (63, False), (80, True)])
def test_whole_blocks_end_within_a_known_extent(extent, fits):
    values = Values("scf.for %i = %c0 to %c64 step %c16 {\n}")
    assert values.ranges.ends_within(values.found[0], 16, extent) == fits


def test_a_block_strided_loop_keeps_the_step():
    values = Values("""
      %b = "pto.get_block_idx"() : () -> i64
      %bi = arith.index_cast %b : i64 to index
      %k = "pto.get_block_num"() : () -> i64
      %ki = arith.index_cast %k : i64 to index
      %first = arith.muli %bi, %c16 : index
      %stride = arith.muli %ki, %c16 : index
      scf.for %i = %first to %c64 step %stride {
      }""")
    i = values.found[-1]
    assert values.ranges.ends_within(i, 16, 64)
    assert not values.ranges.ends_within(i, 17, 64)
    known = values.ranges.range(i)
    assert (known.lowest, known.highest, known.modulus, known.remainder) == (0, 48, 16, 0)


def test_an_offset_loop_is_congruent_to_its_start():
    values = Values("scf.for %i = %c7 to %c64 step %c16 {\n}")
    (i,) = values.found
    known = values.ranges.range(i)
    # 7, 23, 39, 55
    assert (known.lowest, known.highest) == (7, 55)
    assert values.ranges.ends_within(i, 9, 64)
    assert not values.ranges.ends_within(i, 10, 64)


def test_quotients():
    values = Values("""
      scf.for %i = %c0 to %c64 step %c16 {
        %q = arith.divsi %i, %c16 : index
        %p = arith.muli %q, %c7 : index
        %unknown = arith.divsi %m, %c16 : index
      }""")
    _, q, p, unknown = values.found
    assert values.ranges.at_most(q, 3)
    assert values.ranges.at_most(p, 21)
    assert not values.ranges.at_most(p, 20)
    assert not values.ranges.not_negative(unknown)


def test_maxima_and_minima():
    values = Values("""
      %low = arith.maxsi %m, %c4 : index
      %high = arith.minsi %m, %c7 : index
      %both = arith.minsi %low, %c16 : index
    """)
    low, high, both = values.found
    ranges = values.ranges
    assert ranges.not_negative(low)
    assert not ranges.at_most(low, 1 << 40)
    assert ranges.at_most(high, 7)
    assert not ranges.not_negative(high)
    assert ranges.not_negative(both)
    assert ranges.at_most(both, 16)
    assert ranges.ends_within(4, 0, both)


def test_nothing_is_known_of_arguments_but_extents():
    values = Values("%unused = arith.addi %n, %m : index")
    assert values.ranges.not_negative(values.n)
    assert not values.ranges.not_negative(values.m)
    assert not values.ranges.ends_within(0, 1, values.n)
    assert values.ranges.ends_within(0, values.n, values.n)
