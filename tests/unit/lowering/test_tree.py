from __future__ import annotations

import pytest

from pypto_jit._mlir import ir
from pypto_jit.lowering.context import borrowed_context
from pypto_jit.lowering.tree import carried, constant, functions, read, trip_count

TEXT = """
func.func @f(%n: index) {{
  %l = arith.constant {lower} : index
  %u = arith.constant {upper} : index
  %s = arith.constant {step} : index
  %z = arith.constant 0.0 : f32
  %r = scf.for %i = %l to {bound} step %s iter_args(%a = %z) -> (f32) {{
    %b = arith.addf %a, %a : f32
    scf.yield %b : f32
  }}
  return
}}
"""


def loop(lower=0, upper=10, step=3, bound="%u"):
    module = ir.Module.parse(TEXT.format(lower=lower, upper=upper, step=step, bound=bound))
    body = read(functions(module.operation)[0])
    return module, body, next(node for node in body.nodes if node.bodies)


def test_positions_count_operations_and_ends_lie_after_the_regions():
    with borrowed_context():
        module, body, node = loop()
        assert module is not None
        assert [n.position for n in body.walk()] == list(range(8))
        assert (node.position, node.end) == (4, 7)
        assert node.bodies[0].owner is node
        assert node.bodies[0].terminator.name == "scf.yield"


def test_carried_values_come_in_fours():
    with borrowed_context():
        module, body, node = loop()
        assert module is not None
        initial, argument, yielded, result = carried(node)[0]
        assert initial == body.nodes[3].results[0]
        assert argument == node.bodies[0].arguments[1]
        assert yielded == node.bodies[0].nodes[0].results[0]
        assert result == node.results[0]


@pytest.mark.parametrize(
    ("lower", "upper", "step", "trips"), [(0, 10, 3, 4), (0, 9, 3, 3), (4, 4, 1, 0), (5, 2, 1, 0), (1, 2, 8, 1)]
)
def test_trip_counts(lower, upper, step, trips):
    with borrowed_context():
        module, _, node = loop(lower, upper, step)
        assert module is not None
        assert trip_count(node) == trips


def test_a_bound_at_run_time_has_no_trip_count():
    with borrowed_context():
        module, _, node = loop(bound="%n")
        assert module is not None
        assert trip_count(node) is None
        assert constant(node.operands[1]) is None
        assert constant(node.operands[2]) == 3
