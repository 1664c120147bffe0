from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.lowering.divisors import divisor


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("%r = arith.constant 24 : index", 24),
        ("%r = arith.constant -24 : index", 24),
        ("%r = arith.muli %n, %c12 : index", 12),
        ("%m = arith.muli %n, %c12 : index\n%r = arith.addi %m, %c8 : index", 4),
        ("%m = arith.muli %n, %c12 : index\n%r = arith.subi %c0, %m : index", 12),
        ("%m = arith.muli %n, %c12 : index\n%r = arith.minsi %m, %c8 : index", 4),
        ("%r = arith.select %b, %c12, %c8 : index", 4),
        ("%r = arith.divsi %c12, %c8 : index", 1),
        ("%r = arith.muli %c0, %n : index", 0),
    ],
)
def test_what_divides_a_value(lines: str, expected: int) -> None:
    constants = "\n".join(f"%c{k} = arith.constant {k} : index" for k in (0, 8, 12))
    text = f"func.func @f(%n: index, %b: i1) {{\n{constants}\n{lines}\nreturn\n}}"
    with ir.Context():
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0]
        assert divisor(list(block.operations)[-2].operation.results[0]) == expected


@pytest.mark.parametrize(("start", "step", "expected"), [("%c0", "%c8", 8), ("%c12", "%c8", 4), ("%n", "%c8", 1)])
def test_what_divides_the_counter_of_a_loop(start: str, step: str, expected: int) -> None:
    constants = "\n".join(f"%c{k} = arith.constant {k} : index" for k in (0, 8, 12))
    text = f"func.func @f(%n: index) {{\n{constants}\nscf.for %i = {start} to %n step {step} {{ }}\nreturn\n}}"
    with ir.Context():
        module = ir.Module.parse(text)
        block = module.body.operations[0].regions[0].blocks[0]
        loop = list(block.operations)[-2].operation
        assert divisor(loop.regions[0].blocks[0].arguments[0]) == expected
