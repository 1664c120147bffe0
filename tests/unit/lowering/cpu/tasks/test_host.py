"""Host functions written by hand: what they compute on any number of threads, and what a failure leads to."""

from __future__ import annotations

import pytest
import torch

from pypto_jit.dtypes import INT32
from pypto_jit.signature import TensorSpec
from tests.entries import dense
from tests.unit.lowering.cpu.tasks.harness import ORDERS, Program, access, call, constants, tensor, tile

MATRIX, COUNTER = tensor(64, 32), tensor(1, dtype=INT32)
BAND = tile(8, 32)
# y[i : i + 8] = x[i : i + 8] + y[i : i + 8], for eight rows.
ADD = f"""
func.func @add(%x: {MATRIX}, %y: {MATRIX}, %i: index) attributes {{
    pypto.parameters = ["x", "y", "i"], pypto.kernel = "add"}} {{
  {constants(0, 8, 32)}
  %a = "pypto.load"(%x, %i, %c0, %c8, %c32) : ({MATRIX}, index, index, index, index) -> {BAND}
  %b = "pypto.load"(%y, %i, %c0, %c8, %c32) : ({MATRIX}, index, index, index, index) -> {BAND}
  %c = "pypto.add"(%a, %b) : ({BAND}, {BAND}) -> {BAND}
  "pypto.store"(%c, %y, %i, %c0) : ({BAND}, {MATRIX}, index, index) -> ()
  return
}}
"""


def add(x: str, y: str, row: str, end: str) -> str:
    return "\n".join(
        [
            access("read", x, MATRIX, row, "%c0", end, "%c32"),
            access("write", y, MATRIX, row, "%c0", end, "%c32"),
            call("add", (x, MATRIX), (y, MATRIX), (row, "index")),
        ]
    )


def host(body: str, parameters: dict[str, str], *numbers: int) -> str:
    """The text of a module of this host function and the kernel `ADD`."""
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in parameters.items())
    names = ", ".join(f'"{name}"' for name in parameters)
    return f"""{ADD}
func.func @host({arguments}) attributes {{pypto.parameters = [{names}], pypto.host}} {{
  {constants(*numbers)}
  {body}
  return
}}"""


def test_tasks_on_created_tensors_are_in_order():
    loop = f"""
    scf.for %i = %c0 to %c64 step %c8 {{
      %e = arith.addi %i, %c8 : index
      %t = "pypto.create_tensor"() {{initial = 3.0 : f32}} : () -> {MATRIX}
      %a = "pypto.submit"() : () -> index
      {add("%x", "%t", "%i", "%e")}
      %b = "pypto.submit"() : () -> index
      {add("%t", "%y", "%i", "%e")}
      %c = "pypto.submit"(%b) : (index) -> index
      {add("%x", "%y", "%i", "%e")}
    }}"""
    text = host(loop, {"x": MATRIX, "y": MATRIX}, 0, 8, 32, 64)
    program = Program(text, {"x": (dense(64, 32), False), "y": (dense(64, 32), True)})
    x = torch.randn(64, 32)
    for threads, shuffle in ORDERS:
        y = torch.ones(64, 32)
        assert program(x, y, threads=threads, shuffle=shuffle) is None
        assert torch.equal(y, (1 + (3 + x)) + x)


def test_reads_and_writes_wait_for_tasks():
    # while n[0] > 0: y[0:8] += x[0:8]; n[0] -= 1
    integer = COUNTER
    loop = f"""
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    scf.while : () -> () {{
      %n = "pypto.read"(%count, %c0) : ({integer}, index) -> i32
      %more = arith.cmpi sgt, %n, %zero : i32
      scf.condition(%more)
    }} do {{
      %a = "pypto.submit"() : () -> index
      {add("%x", "%y", "%c0", "%c8")}
      %n = "pypto.read"(%count, %c0) : ({integer}, index) -> i32
      %less = arith.subi %n, %one : i32
      "pypto.write"(%less, %count, %c0) : (i32, {integer}, index) -> ()
      %v = "pypto.read"(%y, %c0, %c0) : ({MATRIX}, index, index) -> f32
      "pypto.write"(%v, %y, %c8, %c0) : (f32, {MATRIX}, index, index) -> ()
      scf.yield
    }}"""
    text = host(loop, {"x": MATRIX, "y": MATRIX, "count": integer}, 0, 8, 32)
    parameters = {
        "x": (dense(64, 32), False),
        "y": (dense(64, 32), True),
        "count": (dense(1, dtype=INT32), True),
    }
    program = Program(text, parameters)
    x = torch.ones(64, 32)
    for threads, shuffle in ORDERS:
        y, count = torch.zeros(64, 32), torch.tensor([5], dtype=torch.int32)
        assert program(x, y, count, threads=threads, shuffle=shuffle) is None
        assert count.item() == 0
        assert torch.equal(y[:8], torch.full((8, 32), 5.0))
        assert y[8, 0] == 5
        assert not y[9:].any()


@pytest.mark.parametrize("order", ORDERS)
def test_a_failed_element_ends_loops_and_comes_after_what_was_submitted(order):
    loop = f"""
    %one = arith.constant 1.0 : f32
    %true = arith.constant true
    scf.while : () -> () {{
      scf.condition(%true)
    }} do {{
      %a = "pypto.submit"() : () -> index
      {add("%x", "%y", "%c0", "%c8")}
      "pypto.write"(%one, %y, %c64, %c0) : (f32, {MATRIX}, index, index) -> ()
      scf.yield
    }}"""
    text = host(loop, {"x": MATRIX, "y": MATRIX}, 0, 8, 32, 64)
    program = Program(text, {"x": (dense(64, 32), False), "y": (dense(64, 32), True)})
    y = torch.zeros(64, 32)
    result = program(torch.ones(64, 32), y, threads=order[0], shuffle=order[1])
    assert program.messages[-result - 1] == "an element outside of its tensor"
    assert torch.equal(y[:8], torch.ones(8, 32))


@pytest.mark.parametrize("order", ORDERS)
def test_the_failed_task_that_was_submitted_first_is_reported(order):
    # The load of x fails at row 60; what the host does later would fail as well.
    body = f"""
      %one = arith.constant 1.0 : f32
      %a = "pypto.submit"() : () -> index
      {add("%x", "%y", "%c60", "%c68")}
      "pypto.write"(%one, %y, %c64, %c0) : (f32, {MATRIX}, index, index) -> ()"""
    text = host(body, {"x": MATRIX, "y": MATRIX}, 0, 32, 60, 64, 68)
    program = Program(text, {"x": (dense(64, 32), False), "y": (dense(64, 32), True)})
    result = program(torch.ones(64, 32), torch.ones(64, 32), threads=order[0], shuffle=order[1])
    assert "tensor" in program.messages[-result - 1]
    assert program.messages[-result - 1] != "an element outside of its tensor"


ANY = "!pypto.tensor<[-1, 32], f32, [32, 1]>"
COPY = f"""
func.func @copy(%x: {MATRIX}, %t: {ANY}, %i: index) attributes {{
    pypto.parameters = ["x", "t", "i"], pypto.kernel = "copy"}} {{
  {constants(0, 8, 32)}
  %n = "pypto.dim"(%t) {{axis = 0 : i64}} : ({ANY}) -> index
  %a = "pypto.load"(%x, %i, %c0, %c8, %c32) : ({MATRIX}, index, index, index, index) -> {BAND}
  %j = arith.subi %n, %c8 : index
  "pypto.store"(%a, %t, %j, %c0) : ({BAND}, {ANY}, index, index) -> ()
  return
}}
"""


def sized(body: str) -> Program:
    """A host function that gets a number from ``n[0]`` as ``%rows``."""
    text = f"""{COPY}
func.func @host(%x: {MATRIX}, %y: {MATRIX}, %n: {COUNTER}) attributes {{
    pypto.parameters = ["x", "y", "n"], pypto.host}} {{
  {constants(0, 8, 32)}
  %n0 = "pypto.read"(%n, %c0) : ({COUNTER}, index) -> i32
  %rows = arith.index_cast %n0 : i32 to index
  %t = "pypto.create_tensor"(%rows) : (index) -> {ANY}
  %end = "pypto.dim"(%t) {{axis = 0 : i64}} : ({ANY}) -> index
  {body}
  return
}}"""
    parameters = {
        "x": (dense(64, 32), False),
        "y": (dense(64, 32), True),
        "n": (dense(1, dtype=INT32), False),
    }
    return Program(text, parameters)


COPY_ROWS = f"""
  %a = "pypto.submit"() : () -> index
  {access("read", "%x", MATRIX, "%c0", "%c0", "%c8", "%c32")}
  {access("write", "%t", ANY, "%c0", "%c0", "%end", "%c32")}
  {call("copy", ("%x", MATRIX), ("%t", ANY), ("%c0", "index"))}
  %last = arith.subi %end, %c8 : index
  %v = "pypto.read"(%t, %last, %c0) : ({ANY}, index, index) -> f32
  "pypto.write"(%v, %y, %c0, %c0) : (f32, {MATRIX}, index, index) -> ()
"""


@pytest.mark.parametrize("order", ORDERS)
def test_tensors_of_any_extent_are_created(order):
    program = sized(COPY_ROWS)
    x = torch.randn(64, 32)
    for rows in (8, 9, 1000):
        y = torch.zeros(64, 32)
        assert program(x, y, torch.tensor([rows], dtype=torch.int32), threads=order[0], shuffle=order[1]) is None
        assert y[0, 0] == x[0, 0]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_negative_extent_is_reported(threads):
    program = sized(COPY_ROWS)
    x = torch.randn(64, 32)
    result = program(x, torch.zeros(64, 32), torch.tensor([-1], dtype=torch.int32), threads=threads)
    assert program.messages[-result - 1] == "a created tensor has a negative extent"


@pytest.mark.parametrize("threads", [1, 2])
def test_too_much_memory_is_reported(threads):
    huge = tensor(1 << 40, 1 << 10)
    body = f"""
      %t = "pypto.create_tensor"() : () -> {huge}
      %a = "pypto.submit"() : () -> index
      {add("%x", "%y", "%c0", "%c8")}"""
    text = host(body, {"x": MATRIX, "y": MATRIX}, 0, 8, 32)
    program = Program(text, {"x": (dense(64, 32), False), "y": (dense(64, 32), True)})
    y = torch.zeros(64, 32)
    assert program(torch.ones(64, 32), y, threads=threads) == -(1 << 40)
    assert not y.any()


def test_columns_of_a_strided_tensor_are_independent_or_not():
    # Two tasks write columns 0..16 and 8..24 of y, over rows of an unknown pitch: the second one is later.
    strided = "!pypto.tensor<[64, 32], f32, [-1, 1]>"
    part = tile(64, 16)
    kernel = f"""
func.func @double(%y: {strided}, %j: index) attributes {{
    pypto.parameters = ["y", "j"], pypto.kernel = "double"}} {{
  {constants(0, 16, 64)}
  %two = arith.constant 2.0 : f32
  %a = "pypto.load"(%y, %c0, %j, %c64, %c16) : ({strided}, index, index, index, index) -> {part}
  %b = "pypto.muls"(%a, %two) : ({part}, f32) -> {part}
  %c = "pypto.adds"(%b, %two) : ({part}, f32) -> {part}
  "pypto.store"(%c, %y, %c0, %j) : ({part}, {strided}, index, index) -> ()
  return
}}
func.func @host(%y: {strided}) attributes {{pypto.parameters = ["y"], pypto.host}} {{
  {constants(0, 4, 16, 64, 17)}
  scf.for %j = %c0 to %c17 step %c4 {{
    %e = arith.addi %j, %c16 : index
    %a = "pypto.submit"() : () -> index
    {access("write", "%y", strided, "%c0", "%j", "%c64", "%e")}
    {call("double", ("%y", strided), ("%j", "index"))}
  }}
  return
}}"""
    program = Program(kernel, {"y": (TensorSpec((64, 32), dense(1).dtype, (-1, 1)), True)})
    start = torch.randn(64, 48)[:, :32]
    goal = start.clone()
    for j in range(0, 17, 4):
        goal[:, j : j + 16] = goal[:, j : j + 16] * 2 + 2
    for threads, shuffle in ORDERS:
        wide = torch.zeros(64, 48)
        wide[:, :32] = start
        assert program(wide[:, :32], threads=threads, shuffle=shuffle) is None
        assert torch.equal(wide[:, :32], goal)
        assert not wide[:, 32:].any()
