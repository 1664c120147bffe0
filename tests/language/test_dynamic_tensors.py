"""Tensor level of extents that are only known when the kernel runs: one program serves them all."""

from __future__ import annotations

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import ArgumentError, AssemblyError, BoundsError, ShapeError

M, N, K = pl.dynamic("M"), pl.dynamic("N"), pl.dynamic("K")
SHAPES = [(3, 5), (1, 1), (4, 512), (4, 513), (100, 700), (33, 2000), (0, 4), (4, 0), (0, 0)]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def check(kernel, arguments, expected, tolerance=1e-4):
    """The compiled kernel and the interpreter give what is expected."""
    for run in (kernel, pypto.interpret(kernel)):
        found = run(*(each.clone() if isinstance(each, torch.Tensor) else each for each in arguments))
        found, wanted = (each if isinstance(each, tuple) else (each,) for each in (found, expected))
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pypto.jit
def elementwise(x: pl.Tensor[[M, N], pl.FP32], w: pl.Tensor[[N], pl.FP32]):
    return (
        pl.exp(x) * w + pl.where(x > 0, x, 1.0),
        x.T * 2.0,
        pl.full_like(x, 3.0),
        pl.expand(w, [x.shape[0], w.shape[0]]),
    )


def test_elementwise_work_of_any_extents():
    elementwise.cache_clear()
    for shape in SHAPES:
        x, w = random(*shape), random(shape[1])
        wanted = x.exp() * w + torch.where(x > 0, x, torch.tensor(1.0))
        check(elementwise, (x, w), (wanted, x.T * 2, torch.full_like(x, 3), w.expand(shape)))
    assert elementwise.cache_info().misses == 1


@pypto.jit
def reductions(x: pl.Tensor[[M, N], pl.FP32]):
    return x.sum(), x.sum(0), x.sum(1), pl.max(x, axis=-1, keepdims=True), pl.min(x, axis=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_reductions_over_any_axes(shape):
    x = random(*shape)
    smallest = x.amin(0) if shape[0] else torch.full(shape[1:], torch.inf)
    largest = x.amax(1, True) if shape[1] else torch.full((shape[0], 1), -torch.inf)
    check(reductions, (x,), (x.sum(), x.sum(0), x.sum(1), largest, smallest), 1e-3)


@pypto.jit
def norms(x: pl.Tensor[[M, N], pl.FP32], w: pl.Tensor[[N], pl.FP32]):
    return pl.softmax(x), pl.rms_norm(x, w), pl.layer_norm(x, w, w), x.mean(), x.mean(0)


@pytest.mark.parametrize("shape", SHAPES[:4])
def test_normalizations(shape):
    x, w = random(*shape), random(shape[1])
    functional = torch.nn.functional
    wanted = (x.softmax(-1), functional.rms_norm(x, w.shape, w, 1e-5), functional.layer_norm(x, w.shape, w, w))
    check(norms, (x, w), (*wanted, x.mean(), x.mean(0)))


@pypto.jit
def positions(x: pl.Tensor[[M, N], pl.FP32]):
    totals = pl.cumsum(x, 1)
    return (
        pl.argmax(x, axis=-1),
        pl.argmin(x, axis=0, keepdims=True),
        pl.cumsum(x, 0),
        totals,
        totals.sum(0),
        totals @ x.T,
    )


@pytest.mark.parametrize("shape", SHAPES[:4])
def test_places_and_running_totals(shape):
    x = random(*shape)
    totals = x.cumsum(1)
    places = x.argmax(-1).int(), x.argmin(0, True).int()
    check(positions, (x,), (*places, x.cumsum(0), totals, totals.sum(0), totals @ x.T), 5e-3)


@pypto.jit
def linear(x: pl.Tensor[[M, K], pl.FP32], w: pl.Tensor[[K, N], pl.FP32], b: pl.Tensor[[N], pl.FP32]):
    return pl.gelu(x @ w + b)


@pypto.jit
def attention(q: pl.Tensor[[4, M, 64], pl.FP32], k: pl.Tensor[[4, N, 64], pl.FP32], v: pl.Tensor[[4, N, 64], pl.FP32]):
    return pl.softmax(pl.matmul(q, k, b_trans=True) * 0.125) @ v


@pypto.jit
def batched(x: pl.Tensor[[K, M, 16], pl.FP32], w: pl.Tensor[[16, 8], pl.FP32]):
    return pl.relu(x @ w) + x.sum(-1, keepdims=True)


def test_products():
    for kernel in (linear, attention, batched):
        kernel.cache_clear()
    for m, k, n in [(3, 5, 7), (1, 1, 1), (100, 300, 200), (257, 64, 130), (3, 0, 4)]:
        x, w, b = random(m, k), random(k, n), random(n)
        check(linear, (x, w, b), torch.nn.functional.gelu(x @ w + b), 2e-4)
    for m, n in [(3, 5), (100, 130), (1, 300)]:
        q, k, v = random(4, m, 64), random(4, n, 64), random(4, n, 64)
        check(attention, (q, k, v), torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0])
    for heads, m in [(3, 5), (2, 40), (1, 1)]:
        x, w = random(heads, m, 16), random(16, 8)
        check(batched, (x, w), torch.relu(x @ w) + x.sum(-1, True))
    assert [kernel.cache_info().misses for kernel in (linear, attention, batched)] == [1, 1, 1]


@pypto.jit
def heads(x: pl.Tensor[[M, 64], pl.FP32]):
    turned = pl.reshape(x, [x.shape[0], 4, 16]).transpose(0, 1)
    mixed = pl.softmax(pl.matmul(turned, turned, b_trans=True)) @ turned
    return pl.reshape(mixed.transpose(0, 1), [x.shape[0], 64])


def test_reshapes_split_and_merge_what_is_known():
    for rows in (1, 7, 130):
        x = random(rows, 64)
        turned = x.reshape(rows, 4, 16).transpose(0, 1)
        wanted = ((turned @ turned.mT).softmax(-1) @ turned).transpose(0, 1).reshape(rows, 64)
        check(heads, (x,), wanted)


@pypto.jit
def flat(x: pl.Tensor[[M, 8], pl.FP32]):
    return (
        pl.reshape(x, [x.shape[0] * 8]) * 2.0,
        x.view(-1, 2, 4) + 1.0,
        x.view(-1) * 3.0,
        pl.reshape(x, [x.shape[0], -1]),
    )


@pypto.jit
def halves(x: pl.Tensor[[M, 64], pl.FP32]):
    return x[:, 0:32] * x[:, 32:64]


@pypto.jit
def parts(x: pl.Tensor[[M, N], pl.FP32], n: pl.Scalar[pl.INDEX], out: pl.InOut[pl.Tensor[[M, N], pl.FP32]]):
    out[0:n] = x[0:n] * 2.0
    out[n:] = x[n:] + 1.0
    return out


def test_parts():
    x = random(33, 70)
    for n in (0, 1, 20, 33):
        check(parts, (x, n, x.clone()), torch.cat([x[:n] * 2, x[n:] + 1]))
    with pytest.raises(BoundsError, match="outside|leaves"):
        parts(x, 34, x.clone())
    wide = random(5, 64)
    check(halves, (wide,), wide[:, :32] * wide[:, 32:])
    x = random(5, 8)
    check(flat, (x,), (x.reshape(-1) * 2, x.view(-1, 2, 4) + 1, x.view(-1) * 3, x))


@pypto.jit
def joined(x: pl.Tensor[[M, N], pl.FP32], y: pl.Tensor[[M, N], pl.FP32], z: pl.Tensor[[K, N], pl.FP32]):
    below = pl.concat(x, z, axis=0)
    return pl.concat(x, y), below.sum(0), below.sum(1).sum()


def test_concat():
    for m, n, k in [(3, 5, 2), (40, 300, 7)]:
        x, y, z = random(m, n), random(m, n) + 1, random(k, n)
        below = torch.cat([x, z])
        check(joined, (x, y, z), (torch.cat([x, y], 1), below.sum(0), below.sum()), 1e-3)


@pypto.jit
def decayed(x: pl.Tensor[[M, N], pl.FP32], out: pl.InOut[pl.Tensor[[M, N], pl.FP32]]):
    for _ in pl.range(3):
        out[:] = out * 0.5 + x
    return out


@pypto.jit
def bound(x: pl.Tensor, out: pl.Out[pl.Tensor]):
    x.bind_dynamic(0, M)
    out[:] = x * 2.0
    return out


@pypto.jit
def made_between(x: pl.Tensor[[M, N], pl.FP32]):
    wide = pl.create_tensor([x.shape[0], 2 * x.shape[1]], pl.FP32)
    wide[:] = 1.0
    return (wide + pl.full_like(wide, 2.0)).sum(-1)


def test_loops_outputs_and_created_tensors():
    x = random(6, 9)
    check(decayed, (x, x.clone()), ((x * 1.5) * 0.5 + x) * 0.5 + x)
    bound.cache_clear()
    for rows in (3, 8):
        assert torch.equal(bound(random(rows, 5)), random(rows, 5) * 2)
    assert bound.cache_info().misses == 1
    check(made_between, (x,), torch.full((6,), 54.0))


@pypto.jit
def unequal(x: pl.Tensor[[M, N], pl.FP32], y: pl.Tensor[[M, K], pl.FP32]):
    return x + y


@pypto.jit
def mismatched(x: pl.Tensor[[M, N], pl.FP32], y: pl.Tensor[[M, K], pl.FP32]):
    return x @ y


@pypto.jit
def nameless(x: pl.Tensor[[M, K], pl.FP32], y: pl.Tensor[[N, K], pl.FP32]):
    return pl.concat(x, y, axis=0)


@pypto.jit
def unlike(x: pl.Tensor[[M, N], pl.FP32]):
    return pl.reshape(x, [x.shape[1], x.shape[0]])


@pypto.jit
def more(x: pl.Tensor[[M, 8], pl.FP32]):
    return pl.reshape(x, [x.shape[0], 9])


@pytest.mark.parametrize(
    ("kernel", "message", "found"),
    [
        (unequal, "the operands of add do not broadcast", r"\[M, N\] and \[M, K\]"),
        (mismatched, "the inner extents of a matrix product differ", r"\[M, N\] and \[M, K\]"),
        (nameless, "known when the kernel is compiled, or those of an argument", r"\[\?, K\]"),
        (unlike, "only the first extent of reshape", r"\[N, M\]"),
    ],
)
def test_extents_that_may_differ_are_refused_at_the_line(kernel, message, found):
    with pytest.raises(ShapeError, match=message) as caught:
        kernel(random(4, 4), *([random(4, 4)] if kernel is not unlike else []))
    assert caught.value.span is not None
    assert caught.match(found)


def test_a_reshape_keeps_the_number_of_elements():
    with pytest.raises(ShapeError, match="keeps the number of elements") as caught:
        more(random(4, 8))
    assert caught.match(r"\[M, 8\] to \[M, 9\]")


@pytest.mark.parametrize("platform", ["a2a3sim", "a5sim"])
@pytest.mark.parametrize("kernel", [linear, attention, norms, heads], ids=lambda kernel: kernel.__name__)
def test_there_is_assembly_of_it(kernel, platform):
    arguments = {
        "linear": [(8, 16), (16, 32), (32,)],
        "attention": [(4, 8, 64)] * 3,
        "norms": [(8, 32), (32,)],
        "heads": [(8, 64)],
    }[kernel.__name__]
    program = kernel.compile(*(random(*shape) for shape in arguments), config=pypto.RunConfig(platform=platform))
    assert "pto.make_tensor_view" in program.pto


def test_the_text_of_a_trace_tells_equal_extents():
    text = str(linear.lower(random(3, 4), random(4, 5), random(5))["trace"])
    kernel = pypto.compile(text)
    x, w, b, out = random(6, 7), random(7, 8), random(8), torch.empty(6, 8)
    kernel(x, w, b, out)
    torch.testing.assert_close(out, torch.nn.functional.gelu(x @ w + b), rtol=2e-4, atol=2e-4)
    with pytest.raises(ArgumentError, match="N"):
        kernel(x, w, random(9), out)
    for wrong in ('[["M", "K"]]', '[["M", "K"], ["K", "N"], [""], ["M", "N"]]', '["M"]', "3 : i64"):
        with pytest.raises(AssemblyError, match=r"pypto\.dims names the extents"):
            pypto.compile(text.replace('[["M", "K"], ["K", "N"], ["N"], ["M", "N"]]', wrong))


def test_short_rows_take_one_pass():
    @pypto.jit
    def kernel(x: pl.Tensor[[M, N], pl.FP32]):
        return pl.softmax(x)

    short, long = kernel.lower(random(2, 9))["tensors"].split("} else {")
    assert (short.count("pypto.load"), short.count("pypto.exp")) == (1, 1)
    # The first piece and the others, of the maxima and of the sums; then all that is written.
    assert (long.count("pypto.load"), long.count("pypto.exp")) == (5, 3)


@pypto.jit
def totals(x: pl.Tensor[[pl.dynamic("N"), pl.dynamic("M"), 7], pl.FP32]):
    return pl.sum(x, axis=(0, 1)), pl.prod(x, axis=(0, 1), keepdims=True), pl.mean(x, axis=(0, 1, 2))


@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7), (0, 0, 7), (3, 2, 7)])
def test_reductions_over_axes_that_may_have_no_elements(shape):
    total, product, mean = totals(torch.full(shape, 2.0))
    count = shape[0] * shape[1]
    assert total.tolist() == [2.0 * count] * 7
    assert product.tolist() == [[[2.0**count] * 7]]
    assert mean.item() == 2.0 if count else torch.isnan(mean).item()
