"""Kernels that come as assembly, called by themselves and by others."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ArgumentError, AssemblyError, DecoratorError, DirectionError, TraceError

_TYPES = {
    "TILE": "!pto.tile_buf<loc=vec, dtype=f32, rows=8, cols=64, v_row=8, v_col=64, blayout=row_major, "
    "slayout=none_box, fractal=512, pad=0>",
    "VIEW": "!pto.tensor_view<8x64xf32>",
    "PART": "!pto.partition_tensor_view<8x64xf32>",
}
# Adds its input to itself. The names of its arguments are not those of the stubs below.
TWICE = re.sub(
    "TILE|VIEW|PART",
    lambda found: _TYPES[found.group()],
    """
func.func @twice(%a: !pto.ptr<f32>, %b: !pto.ptr<f32>) attributes {pto.kernel_kind = #pto.kernel_kind<vector>} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c64 = arith.constant 64 : index
  %z = arith.constant 0 : i64
  %w = arith.constant 2048 : i64
  %av = pto.make_tensor_view %a, shape = [%c8, %c64], strides = [%c64, %c1] {layout = #pto.layout<nd>} : VIEW
  %bv = pto.make_tensor_view %b, shape = [%c8, %c64], strides = [%c64, %c1] {layout = #pto.layout<nd>} : VIEW
  %ap = pto.partition_view %av, offsets = [%c0, %c0], sizes = [%c8, %c64] : VIEW -> PART
  %bp = pto.partition_view %bv, offsets = [%c0, %c0], sizes = [%c8, %c64] : VIEW -> PART
  %t = pto.alloc_tile addr = %z : TILE
  %u = pto.alloc_tile addr = %w : TILE
  pto.tload ins(%ap : PART) outs(%t : TILE)
  pto.tadd ins(%t, %t : TILE, TILE) outs(%u : TILE)
  pto.tstore ins(%u : TILE) outs(%bp : PART)
  return
}
""",
)
IN, OUT, INOUT = (
    pl.Tensor[[8, 64], pl.FP32],
    pl.Out[pl.Tensor[[8, 64], pl.FP32]],
    pl.InOut[pl.Tensor[[8, 64], pl.FP32]],
)


@pl.jit.extern(source=TWICE, core_type="aiv")
def twice(x: IN, y: OUT): ...


def _stub(text=TWICE, core="aiv", **annotations):
    def stub(x, y): ...

    stub.__annotations__ = annotations or {"x": IN, "y": OUT}
    return pl.jit.extern(source=text, core_type=core)(stub)


X = torch.arange(512, dtype=torch.float32).reshape(8, 64)


def test_called_with_tensors():
    y = torch.zeros(8, 64)
    assert twice(X, y) is y
    assert torch.equal(y, 2 * X)
    assert torch.equal(twice(X), 2 * X)


@pytest.mark.parametrize("threads", [1, 4])
def test_called_in_a_loop_with_workspaces(threads):
    @pypto.jit
    def kernel(x, y: pl.InOut[pl.Tensor]):
        other = pl.create_tensor([8, 64], pl.FP32)
        twice(x, y)
        for _ in pl.range(3):
            twice(y, other)
            twice(other, y)

    y = torch.zeros(8, 64)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        kernel(X, y)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(y, 128 * X)


def test_between_tasks_and_whole_tensors():
    @pypto.jit
    def kernel(x, y: pl.Out[pl.Tensor]):
        more = pl.create_tensor([8, 64], pl.FP32)
        with pl.at(level=pl.Level.CORE_GROUP):
            pl.store(pl.load(x, [0, 0], [8, 64]) + 1.0, [0, 0], more)
        y[:] = twice(more) + x

    assert torch.equal(kernel(X), 2 * (X + 1) + X)


def test_what_a_whole_tensor_expression_gives():
    @pypto.jit
    def kernel(x, y: OUT):
        twice(x * 3.0, y)

    assert torch.equal(kernel(X), 6 * X)


@pypto.jit
def scaled(x, factor: pl.Scalar[pl.FP32], y: pl.Out[pl.Tensor]):
    for block in pl.parallel(4):
        pl.store(pl.load(x, [16 * block, 0], [16, 64]) * factor, [16 * block, 0], y)


def test_numbers_and_blocks():
    x = torch.randn(64, 64)
    shape = pl.Tensor[[64, 64], pl.FP32]

    # The order of the assembly's arguments is another one: they are matched by name.
    @pl.jit.extern(source=scaled.lower(x, 2.0)["pto"], core_type="aiv")
    def scale(x: shape, factor: pl.Scalar[pl.FP32], y: pl.Out[shape]): ...

    @pypto.jit
    def kernel(x, factor: float, y: pl.Out[shape]):
        middle = scale(x, factor)
        scale(middle, 0.5, y)

    assert torch.equal(kernel(x, 8.0), x * 4)
    assert torch.equal(scale(x, 3), x * 3)

    @pypto.jit
    def wrong(x, y: pl.Out[shape]):
        scale(x, "two", y)

    with pytest.raises(ArgumentError, match="'factor' of scale"):
        wrong(x)


def test_another_assembly_under_the_name_is_noticed():
    inner = _stub()

    @pypto.jit
    def kernel(x, y: OUT):
        inner(x, y)

    assert torch.equal(kernel(X), 2 * X)
    inner = _stub(TWICE.replace("pto.tadd ", "pto.tmul "))
    assert torch.equal(kernel(X), X * X)


def test_several_functions_run_in_order():
    first = TWICE.replace("@twice", "@first")
    second = TWICE.replace("@twice", "@second").replace("(%a:", "(%b:").replace(", %b:", ", %c:")
    second = second.replace("view %b,", "view %c,").replace("view %a,", "view %b,")

    @pl.jit.extern(source=first + second, core_type="mixed")
    def fourfold(a: IN, b: OUT, c: OUT): ...

    with pytest.raises(AssemblyError, match="the assembly reads 'b'"):
        fourfold(X)

    @pl.jit.extern(source=first + second, core_type="mixed")
    def four(a: IN, b: INOUT, c: OUT): ...

    b = torch.zeros(8, 64)
    _, c = four(X, b)
    assert torch.equal(b, 2 * X)
    assert torch.equal(c, 4 * X)


def test_the_assembly_is_printed_with_the_other_kernels():
    @pypto.jit
    def kernel(x, y: INOUT):
        twice(x, y)
        pl.store(pl.load(y, [0, 0], [8, 64]) + 1.0, [0, 0], y)

    text = kernel.lower(X, X.clone())["pto"]
    assert re.findall(r"func.func @(\w+)", text) == ["kernel_work", "kernel_twice"]
    again = pypto.compile(kernel.lower(X, X.clone())["trace"])
    y = torch.zeros(8, 64)
    again(X, y)
    assert torch.equal(y, 2 * X + 1)


def test_a_file_beside_the_code(tmp_path):
    (tmp_path / "twice.pto").write_text(TWICE)
    code = """
import torch, pypto_jit as pypto, pypto_jit.language as pl
T = pl.Tensor[[8, 64], pl.FP32]
@pl.jit.extern(source="twice.pto", core_type="aiv")
def twice(x: T, y: pl.Out[T]): ...
@pypto.jit
def kernel(x: T, y: pl.Out[T]):
    twice(x, y)
print(kernel(torch.ones(8, 64))[0, 0].item(), twice(torch.ones(8, 64))[0, 0].item())
"""
    (tmp_path / "code.py").write_text(code)

    def run():
        environment = {**os.environ, "PYPTO_JIT_CACHE": "1", "PYPTO_JIT_CACHE_DIR": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, tmp_path / "code.py"], capture_output=True, text=True, check=True, env=environment
        )
        return done.stdout.strip()

    assert run() == "2.0 2.0"
    assert run() == "2.0 2.0"
    # Another content is another kernel, on disk as well.
    (tmp_path / "twice.pto").write_text(TWICE.replace("pto.tadd ", "pto.tmul "))
    assert run() == "1.0 1.0"


# Misuse


def test_text_of_an_error():
    with pytest.raises(AssemblyError) as caught:
        _stub(x=pl.Tensor[[8, 64], pl.FP16], y=OUT)(X.half())
    line = _stub.__code__.co_firstlineno + 1
    assert str(caught.value) == (
        "[PYPTO-ASSEMBLY] 'x' has another dtype in the assembly\n"
        "  --> <assembly>.pto:2:18\n"
        "  found:    FP32\n"
        "  expected: FP16\n"
        f"  note: the stub 'stub' is at {__file__}:{line}:1"
    )


@pytest.mark.parametrize(
    ("annotations", "arguments", "message"),
    [
        ({"x": OUT, "y": OUT}, (X, X), "the assembly never writes 'x'"),
        ({"x": pl.Tensor[[4, 64], pl.FP32], "y": OUT}, (X[:4],), "'x' has another shape in the assembly"),
        ({"x": pl.Scalar[pl.FP32], "y": OUT}, (2.0,), "'x' is a tensor in the assembly"),
    ],
)
def test_stubs_that_do_not_fit(annotations, arguments, message):
    with pytest.raises(AssemblyError, match=message):
        _stub(**annotations)(*arguments)


def test_an_input_that_is_written():
    @pl.jit.extern(source=TWICE, core_type="aiv")
    def wrong(x: INOUT, y: IN): ...

    with pytest.raises(AssemblyError, match="the assembly writes 'y'|never writes 'x'"):
        wrong(X.clone(), X)
    with pytest.raises(DirectionError, match="writes nothing"):
        _stub(x=IN, y=IN)(X, X)


def test_another_number_of_parameters():
    @pl.jit.extern(source=TWICE, core_type="aiv")
    def three(x: IN, y: IN, z: OUT): ...

    with pytest.raises(AssemblyError, match="declared with other parameters") as caught:
        three(X, X)
    assert (caught.value.found, caught.value.expected) == ("2 arguments: a, b", "3: x, y, z")


def test_another_core_or_machine():
    with pytest.raises(AssemblyError, match="another core than core_type='aic'"):
        _stub(core="aic")(X)
    with pytest.raises(AssemblyError, match="another architecture"):
        twice(X, config=pypto.RunConfig(platform="a5sim"))
    with pytest.raises(AssemblyError, match="not aligned"):
        _stub(TWICE.replace("2048", "2047"))(X)
    with pytest.raises(AssemblyError, match="not in the operator table"):
        _stub(TWICE.replace("pto.tadd ", "pto.tfoo "))(X)


def test_calls_that_cannot_be():
    @pypto.jit
    def inside(x, y: OUT):
        with pl.at(level=pl.Level.CORE_GROUP):
            twice(x, y)

    with pytest.raises(TraceError, match="a task of its own"):
        inside(X)

    @pypto.jit
    def view(x, y: OUT):
        twice(x[8:16, :], y)

    with pytest.raises(TraceError, match="takes whole tensors") as caught:
        view(torch.zeros(16, 64))
    assert caught.value.span is not None
    assert caught.value.span.line == view.__wrapped__.__code__.co_firstlineno + 2

    with pytest.raises(AssemblyError, match="lies otherwise") as strided:
        twice(torch.zeros(8, 128)[:, ::2])
    assert strided.value.hint == "pass a contiguous tensor"


def test_a_number_from_tiles():
    text = TWICE.replace("%b: !pto.ptr<f32>)", "%s: f32, %b: !pto.ptr<f32>)")

    @pl.jit.extern(source=text, core_type="aiv")
    def numbered(x: IN, s: pl.Scalar[pl.FP32], y: OUT): ...

    @pypto.jit
    def kernel(x, y: OUT):
        numbered(x, pl.read(pl.load(x, [0, 0], [8, 64]), [0, 0]), y)

    with pytest.raises(TraceError, match="a number that was computed from tiles"):
        kernel(X)


def test_the_interpreter_refuses():
    with pytest.raises(TraceError, match="not assembly"):
        twice.interpret(X)


def test_decorators():
    with pytest.raises(DecoratorError, match="needs the assembly"):
        pl.jit.extern(twice)
    with pytest.raises(DecoratorError, match="which core runs") as caught:
        pl.jit.extern(source=TWICE, core_type="vector")
    assert caught.value.expected == "'aic' (cube), 'aiv' (vector) or 'mixed'"
    with pytest.raises(DecoratorError, match="cannot be read"):
        _stub("no such.pto")
    with pytest.raises(DecoratorError, match="takes a path or a text"):
        _stub(3)

    def body(x: IN, y: OUT):
        return x

    with pytest.raises(DecoratorError, match="has a body"):
        pl.jit.extern(source=TWICE, core_type="aiv")(body)

    @pl.jit.extern(source=TWICE, core_type="aiv")
    def untyped(x: IN, y): ...

    with pytest.raises(DecoratorError, match="'y' of untyped"):
        untyped(X, X)
