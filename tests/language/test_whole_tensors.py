"""Tensor-level kernels against torch: compiled, interpreted, and as assembly for both machines."""

from __future__ import annotations

import re

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ControlFlowError, DTypeError, ShapeError, TraceError

F = torch.nn.functional


def _random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def _integers(*shape):
    return torch.randint(-9, 9, shape, dtype=torch.int32, generator=torch.Generator().manual_seed(0))


def _wide(value):
    return value.double() if value.is_floating_point() else value


def _softmax(x, out):
    out[:] = pl.softmax(x)


def _softmax_down(x, out):
    out[:] = pl.softmax(x, axis=1)


def _layer_norm(x, weight, bias, out):
    out[:] = pl.layer_norm(x, weight, bias)


def _rms_norm(x, weight, out):
    out[:] = pl.rms_norm(x, weight, 1e-6)


def _product(x, y, out):
    out[:] = x * y


def _linear(x, w, b, out):
    out[:] = pl.gelu(x @ w + b)


def _matmul(x, y, out):
    out[:] = x @ y


def _ffn(x, a, b, out):
    out[:] = pl.gelu(x @ a) @ b


def _attention(q, k, v, out):
    out[:] = pl.softmax(pl.matmul(q, k, b_trans=True) * 0.125) @ v


def _sum_of_rows(x, out):
    out[:] = x.sum(0)


def _sum(x, out):
    out[:] = x.sum()


def _extremes(x, out):
    out[:] = pl.max(x, axis=(0, 2), keepdims=True) + x.min()


def _mean(x, out):
    out[:] = x.mean(-1)


def _transposed(x, out):
    out[:] = x.T + 1.0


def _parts(x, y, out):
    out[0:10] = x[5:15] * 2.0
    out[10:20, 3:9] = y + 1.0
    out[10:20, 0:3] = 0.0
    out[10:20, 9:16] = (x + x)[0:10, 9:16]


def _parts_of_torch(x, y):
    right = (x + x)[0:10, 9:16]
    return torch.cat([x[5:15] * 2, torch.cat([x.new_zeros(10, 3), y + 1, right], 1)])


def _both_levels(x, out):
    y = pl.exp(x)
    t = pl.load(y, [0, 0], [8, 16])
    out[0:8] = t + 1.0
    out[8:16] = y[8:16].T.T


def _reshaped(x, out):
    out[:] = pl.reshape(x + 1.0, [4, 8, 16]).sum(1)


def _forms(x, out):
    parts = x[2:, 1:7].reshape(4, -1)[:, -6:].sum(1)
    out[:] = (x + 1.0).view(-1)[8:-8].reshape(4, -1) + parts.reshape(-1, 1) + x.T.reshape(-1, 28)[1, :24]


def _forms_of_torch(x):
    parts = x[2:, 1:7].reshape(4, -1)[:, -6:].sum(1)
    return (x + 1).view(-1)[8:-8].reshape(4, -1) + parts.reshape(-1, 1) + x.T.reshape(-1, 28)[1, :24]


def _activations(x, out):
    out[:] = pl.silu(x) + pl.tanh(x) * pl.sigmoid(x) - pl.maximum(x, 0.5) / (abs(x) + 1.0)


CASES = {
    "softmax": (_softmax, lambda x: x.softmax(-1), (_random(5, 7, 33),), 1e-6),
    "softmax of long rows": (_softmax, lambda x: x.softmax(-1), (_random(3, 30011),), 1e-6),
    "softmax along another axis": (_softmax_down, lambda x: x.softmax(1), (_random(5, 17, 9),), 1e-6),
    "softmax bf16": (_softmax, lambda x: x.softmax(-1), (_random(8, 33, dtype=torch.bfloat16),), 1e-2),
    "layer_norm": (
        _layer_norm,
        lambda x, w, b: F.layer_norm(x, (33,), w, b),
        (_random(3, 5, 33), _random(33), _random(33, seed=1)),
        1e-5,
    ),
    "rms_norm fp16": (
        _rms_norm,
        lambda x, w: F.rms_norm(x, (33,), w, 1e-6),
        (_random(8, 33, dtype=torch.float16), _random(33, dtype=torch.float16)),
        4e-3,
    ),
    "outer product": (_product, torch.mul, (_random(77, 1), _random(1, 53)), 1e-6),
    "a number in a tensor": (_product, torch.mul, (_random(9, 5), _random()), 1e-6),
    "integers": (_product, torch.mul, (_integers(33, 5), _integers(33, 5)), 0),
    "integers and floats": (_product, torch.mul, (_integers(33, 5), _random(33, 5)), 1e-6),
    "linear": (_linear, lambda x, w, b: F.gelu(x @ w + b), (_random(40, 30), _random(30, 50), _random(50)), 1e-4),
    "vectors": (_matmul, torch.matmul, (_random(17), _random(17, 5)), 1e-5),
    "matrix and vector": (_matmul, torch.matmul, (_random(30, 17), _random(17)), 1e-5),
    "matmul bf16": (
        _matmul,
        torch.matmul,
        (_random(20, 40, dtype=torch.bfloat16), _random(40, 24, dtype=torch.bfloat16)),
        2e-2,
    ),
    "batches": (_matmul, torch.matmul, (_random(2, 3, 20, 17), _random(3, 17, 33)), 1e-5),
    "feed forward": (
        _ffn,
        lambda x, a, b: F.gelu(x @ a) @ b,
        (_random(20, 24), _random(24, 40, seed=1), _random(40, 16, seed=2)),
        1e-4,
    ),
    "attention": (
        _attention,
        lambda q, k, v: (q @ k.transpose(-1, -2) * 0.125).softmax(-1) @ v,
        (_random(2, 20, 16), _random(2, 24, 16, seed=1), _random(2, 24, 16, seed=2)),
        1e-5,
    ),
    "sum of rows": (_sum_of_rows, lambda x: x.sum(0), (_random(300, 21),), 1e-5),
    "sum of long rows": (_sum_of_rows, lambda x: x.sum(0), (_random(70, 2500),), 1e-5),
    "sum": (_sum, lambda x: x.sum(), (_random(40, 90),), 1e-5),
    "extremes": (_extremes, lambda x: x.amax((0, 2), keepdim=True) + x.min(), (_random(5, 7, 80),), 0),
    "mean": (_mean, lambda x: x.mean(-1), (_random(3, 4, 50),), 1e-6),
    "transposed": (_transposed, lambda x: x.T + 1, (_random(30, 17),), 1e-6),
    "parts": (_parts, _parts_of_torch, (_random(30, 16), _random(10, 6, seed=1)), 1e-6),
    "both levels": (_both_levels, lambda x: torch.cat([x.exp()[:8] + 1, x.exp()[8:]]), (_random(16, 16),), 1e-5),
    "reshaped": (_reshaped, lambda x: (x + 1).reshape(4, 8, 16).sum(1), (_random(32, 16),), 1e-5),
    "other forms": (
        _forms,
        _forms_of_torch,
        (_random(14, 8),),
        1e-6,
    ),
    "activations": (
        _activations,
        lambda x: F.silu(x) + torch.tanh(x) * torch.sigmoid(x) - x.clamp(min=0.5) / (x.abs() + 1),
        (_random(9, 40),),
        1e-5,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_whole_tensors_against_torch(name):
    function, reference, arguments, tolerance = CASES[name]
    expected = reference(*map(_wide, arguments))
    out = torch.full_like(reference(*arguments), 7)
    kernel = pypto.jit(function)
    for run in (kernel, kernel.interpret):
        out.fill_(7)
        run(*arguments, out)
        error = (_wide(out) - expected).abs() / (1 + expected.abs())
        assert error.max() <= tolerance, (run, error.max())


@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
@pytest.mark.parametrize("name", ["softmax", "linear", "feed forward", "attention", "sum of rows", "transposed"])
def test_there_is_assembly_for_both_machines(name, platform):
    function, reference, arguments, _ = CASES[name]
    stages = pypto.jit(function).lower(
        *arguments, torch.empty_like(reference(*arguments)), config=pypto.RunConfig(platform=platform)
    )
    assert "pto.tstore" in stages["pto"]
    assert "pypto.task" not in stages["pto"]


def test_an_output_takes_its_type_from_what_is_assigned():
    @pypto.jit
    def kernel(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x.sum(-1)
        return out

    x = _integers(5, 6)
    assert torch.equal(kernel(x), x.sum(-1, dtype=torch.int32))


def test_softmax_becomes_one_loop():
    text = pypto.jit(_softmax).lower(_random(64, 32), torch.empty(64, 32))["tensors"]
    assert text.count("pypto.load") == 1
    assert text.count("scf.for") == 1
    assert "pypto.create_tensor" not in text


def test_values_are_those_when_they_were_made():
    @pypto.jit
    def kernel(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
        before = x + 1.0
        x[:] = x * 2.0
        out[:] = before + x

    x, out = _random(6, 8), torch.empty(6, 8)
    expected = (x + 1) + x * 2
    kernel(x, out)
    assert torch.equal(out, expected)


# Misuse


def _error(kind, function, *arguments):
    with pytest.raises(kind) as caught:
        pypto.jit(function)(*arguments)
    return caught.value


def test_shapes_that_do_not_broadcast():
    def kernel(x, y, out):
        out[:] = x + y

    error = _error(ShapeError, kernel, _random(3, 4), _random(3, 5), _random(3, 4))
    assert error.message == "the operands of add do not broadcast"
    assert error.found == "[3, 4] and [3, 5]"


def test_an_assignment_that_does_not_fit():
    def kernel(x, out):
        out[:] = x

    error = _error(ShapeError, kernel, _random(3, 4), _random(4, 4))
    assert error.message == "a tensor is assigned values that broadcast to its shape"


def test_products_of_two_dtypes():
    def kernel(x, y, out):
        out[:] = x @ y

    error = _error(DTypeError, kernel, _random(4, 4), _random(4, 4, dtype=torch.float16), _random(4, 4))
    assert error.message == "a matrix product takes operands of one dtype"


def test_an_axis_that_is_not_there():
    def kernel(x, out):
        out[:] = x.sum(2)

    error = _error(ShapeError, kernel, _random(4, 4), _random(4))
    assert error.message == "sum reduces axes of its tensor, each once"


def test_a_tile_and_a_tensor():
    def kernel(x, out):
        out[:] = pl.load(x, [0, 0], [4, 4]) + x

    error = _error(TraceError, kernel, _random(4, 4), _random(4, 4))
    assert error.message == "add takes a tile as 'rhs'"


def test_what_is_computed_is_not_written_to():
    def stores(x, out):
        y = x + 1.0
        pl.store(pl.load(x, [0, 0], [4, 4]), [0, 0], y)
        out[:] = y

    def assigns(x, out):
        y = pl.reshape(x.T, [2, 8])
        y[0:1] = 0.0
        out[:] = x

    for kernel in (stores, assigns):
        error = _error(TraceError, kernel, _random(4, 4), _random(4, 4))
        assert error.message == "what is computed is not written to"
        assert error.hint == "write to a parameter, or to a tensor of pl.create_tensor(shape, dtype)"


def test_what_is_computed_is_not_carried():
    def loop(x, n: int):
        y = x
        for _ in pl.range(n):
            y = y * 0.5 + x
        return y

    def branch(x, n: int):
        total = pl.create_tensor([4, 4], pl.FP32, init_value=0.0)
        for i in pl.range(n):
            if i > 2:
                y = x + 1.0
            else:
                y = x
            total[:] = total + y
        return total

    error = _error(ControlFlowError, loop, _random(4, 4), 3)
    assert error.hint == "create a tensor before the loop with pl.create_tensor, and write to it: y[:] = ..."
    error = _error(ControlFlowError, branch, _random(4, 4), 3)
    assert (
        error.hint == "create a tensor before the `if` with pl.create_tensor, and write to it in each arm: t[:] = ..."
    )


def test_a_task_makes_no_tensors_for_what_it_computes():
    def one(x, w, out: pl.Out[pl.Tensor]):
        with pl.at(level=pl.Level.CORE_GROUP):
            out[:] = pl.relu(x @ w) @ w

    def several(x, w, out: pl.Out[pl.Tensor]):
        for i in pl.spmd(2):
            out[i * 2 : (i + 1) * 2] = pl.relu(x[i * 2 : (i + 1) * 2] @ w) @ w

    for kernel, found in ((one, "FP32 [4, 4] in task 'task'"), (several, "FP32 [2, 4] in task 'task'")):
        error = _error(TraceError, kernel, _random(4, 4), _random(4, 4), _random(4, 4))
        assert error.message == "a task computes a tensor that cannot stay on chip"
        assert error.found == found
        assert error.hint == "create a tensor before the task and assign to it, or compute this outside of the task"


def test_a_task_uses_a_tensor_created_before_it():
    @pypto.jit
    def kernel(x, w, out: pl.Out[pl.Tensor]):
        between = pl.create_tensor([4, 4], pl.FP32)
        for i in pl.spmd(2):
            between[i * 2 : (i + 1) * 2] = pl.relu(x[i * 2 : (i + 1) * 2] @ w)
            out[i * 2 : (i + 1) * 2] = between[i * 2 : (i + 1) * 2] @ w

    x, w, out = _random(4, 4), _random(4, 4), torch.empty(4, 4)
    kernel(x, w, out)
    torch.testing.assert_close(out, torch.relu(x @ w) @ w)


def test_a_transposed_tensor_is_reshaped_as_a_copy():
    @pypto.jit
    def kernel(x):
        return pl.reshape(pl.transpose(pl.reshape(x, [4, 8, 6]), 0, 1), [8, 24])

    x = _random(32, 6)
    assert torch.equal(kernel(x), x.reshape(4, 8, 6).transpose(0, 1).reshape(8, 24))


def _turned(x: pl.InOut[pl.Tensor]):
    x[:] = x.T + 1.0


def _shifted(x: pl.InOut[pl.Tensor]):
    x[1:64] = x[0:63]


def _squared(x: pl.InOut[pl.Tensor]):
    x[:] = x @ x


def _less_its_first_row(x: pl.InOut[pl.Tensor]):
    x[:] = x - x[0:1]


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (_turned, lambda x: x.T + 1),
        (_shifted, lambda x: torch.cat([x[:1], x[:-1]])),
        (_squared, lambda x: x @ x),
        (_less_its_first_row, lambda x: x - x[:1]),
    ],
)
def test_what_is_written_is_computed_from_what_was_there(function, reference):
    x = _random(64, 64)
    for run in (pypto.jit(function), pypto.jit(function).interpret):
        found = x.clone()
        run(found)
        torch.testing.assert_close(found, reference(x), rtol=1e-5, atol=1e-4)


def test_a_value_outlives_what_it_was_computed_from():
    @pypto.jit
    def once(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
        value = x + 1.0
        x[:] = x * 2.0
        out[:] = value

    @pypto.jit
    def turns(x: pl.InOut[pl.Tensor], out: pl.Out[pl.Tensor]):
        value = x + 1.0
        for _ in pl.range(3):
            out[:] = value
            x[:] = x * 2.0

    x = _random(6, 8)
    for kernel in (once, turns):
        for run in (kernel, kernel.interpret):
            out = torch.zeros(6, 8)
            run(x.clone(), out)
            assert torch.equal(out, x + 1)


def test_a_graph_may_be_deep():
    @pypto.jit
    def kernel(x):
        value = x
        for _ in range(600):
            value = value * 0.5 + x
        return value

    x = _random(4, 8)
    torch.testing.assert_close(kernel(x), 2 * x)


def test_a_graph_may_have_many_ways_through_it():
    @pypto.jit
    def kernel(x):
        value = x
        for _ in range(40):
            value = (value + value) * 0.5
        return value + 1.0, value - 1.0

    x = _random(4, 8)
    more, less = kernel(x)
    assert torch.equal(more, x + 1)
    assert torch.equal(less, x - 1)


def test_gelu_vanishes_without_subnormal_numbers():
    @pypto.jit
    def kernel(x):
        return pl.gelu(x)

    x = torch.linspace(-40, 0, 20000).reshape(20, 1000)
    found = kernel(x)
    assert not ((found != 0) & (found.abs() < torch.finfo(torch.float32).tiny)).any()
    assert (found[x < -12] == 0).all()
    torch.testing.assert_close(found.double(), F.gelu(x.double()), rtol=0, atol=5e-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
def test_what_is_copied_is_not_converted(dtype, platform):
    @pypto.jit
    def copies(x, y, out):
        out[0:4] = x
        out[4:8] = x[1]
        out[8:12] = y
        out[12:16, 3] = x[:, 5]

    x, y, out = _random(4, 37, dtype=dtype), _random(37, 4, dtype=dtype, seed=1).T, torch.zeros(16, 37, dtype=dtype)
    x[0, 0] = float("nan")
    config = pypto.RunConfig(platform=platform)
    copies(x, y, out, config=config)
    expected = torch.zeros(16, 37, dtype=dtype)
    expected[0:4], expected[4:8], expected[8:12], expected[12:16, 3] = x, x[1], y, x[:, 5]
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)
    loops = copies.lower(x, y, out, config=config)["tensors"]
    # Only what is turned on chip is.
    assert loops.count('"pypto.cast"') == 2


def test_small_tiles_of_a_product_share_its_columns():
    x, w, b, out = _random(512, 96), _random(96, 512, seed=1), _random(512, seed=2), torch.empty(512, 512)
    kernel = pypto.jit(_linear)
    kernel(x, w, b, out)
    torch.testing.assert_close(out.double(), F.gelu(x.double() @ w.double() + b.double()), rtol=1e-5, atol=1e-4)
    text = kernel.lower(x, w, b, out)["tensors"]
    # Four tiles of rows and one of columns, before the loop over the depth and in it.
    assert text.count('"pypto.load"(%arg0') == 8
    assert text.count('"pypto.load"(%arg1') == 2


@pypto.jit
def unchanged(x: pl.Tensor):
    return pl.cast(x[...], pl.FP32)


def test_what_is_returned_unchanged_is_a_copy():
    x = torch.randn(5, 7)
    for run in (unchanged, pypto.interpret(unchanged)):
        found = run(x)
        assert torch.equal(found, x)
        assert found.data_ptr() != x.data_ptr()


def test_pieces_of_a_product_alternate_between_two_buffers():
    """While one is multiplied, the next one is loaded: so says where they lie in L0A and L0B."""

    @pypto.jit
    def product(x: pl.Tensor, w: pl.Tensor):
        return x @ w

    text = product.lower(torch.zeros(64, 512), torch.zeros(512, 64))["pto"]
    inside = text[text.index("pypto.stages = 2") :]
    first, second, *_ = inside.split("tmatmul.acc")
    for space in ("mat", "left", "right"):
        pattern = rf"alloc_tile addr = (%\w+) : !pto\.tile_buf<loc={space},"
        once, again = (re.findall(pattern, part) for part in (first, second))
        assert len(once) == len(again) == (2 if space == "mat" else 1)
        assert not set(once) & set(again)
