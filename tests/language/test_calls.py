"""What a call accepts, what it returns, and what it leaves alone."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref

import ml_dtypes
import numpy
import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from tests.language.kernels import accumulate, add, both, scale, shift, transpose

TIMES = 3.0


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(6, 8, generator=torch.Generator().manual_seed(1))


def twice(call):
    """The first call takes the slow path, the second the generated one."""
    first = call()
    return first, call()


# Tensors of every kind


def test_returns_the_callers_own_output(x):
    out = torch.empty_like(x)
    for result in twice(lambda: scale(x, out)):
        assert result is out
    assert torch.equal(out, x * 2)


def test_allocates_an_output_that_is_left_out(x):
    first, second = twice(lambda: scale(x))
    assert first is not second
    assert torch.equal(first, x * 2)
    assert torch.equal(second, x * 2)


def test_an_output_given_after_one_left_out(x):
    scale(x)
    scale(x)
    out = torch.empty_like(x)
    assert scale(x, out) is out


def test_arguments_by_name(x):
    out = torch.empty_like(x)
    for result in twice(lambda: scale(factor=2.0, out=out, x=x)):
        assert result is out


def test_several_outputs_are_returned_as_the_kernel_returns_them(x):
    for high, low in twice(lambda: both(x)):
        assert torch.equal(high, x.clamp(min=0))
        assert torch.equal(low, x.clamp(max=0))


def test_an_inout_is_updated(x):
    total = torch.ones_like(x)
    for result in twice(lambda: accumulate(x, total)):
        assert result is total
    torch.testing.assert_close(total, 1 + 2 * x)


@pytest.mark.parametrize(
    "view",
    [
        lambda b: b.t()[:6, :8],
        lambda b: b[::2, ::2][:6, :8],
        lambda b: b[1:7, 3:11],
        lambda b: b[0, :8].expand(6, 8),
        lambda b: b[:6, :1].expand(6, 8),
        lambda b: b.flatten().as_strided((6, 8), (1, 1)),
    ],
)
def test_inputs_of_any_strides(view):
    given = view(torch.arange(400.0).reshape(20, 20))
    for result in twice(lambda: scale(given)):
        assert torch.equal(result, given * 2)


@pytest.mark.parametrize("make", [lambda: torch.empty(8, 6).t(), lambda: torch.empty(12, 16)[::2, ::2]])
def test_outputs_of_any_strides(x, make):
    out = make()
    for result in twice(lambda: scale(x, out)):
        assert result is out
        assert torch.equal(out, x * 2)


def test_numpy_arrays_in_numpy_arrays_out(x):
    array = x.numpy()
    for result in twice(lambda: scale(array)):
        assert type(result) is numpy.ndarray
        assert (result == array * 2).all()
    out = numpy.empty_like(array)
    assert scale(array, out) is out
    assert scale(array, torch.empty_like(x)).tolist() == (array * 2).tolist()


@pytest.mark.parametrize("view", [lambda a: a, lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: a.T.copy().T])
def test_read_only_and_reversed_arrays_are_inputs(x, view):
    array = view(x.numpy().copy())
    array.flags.writeable = False
    for result in twice(lambda: scale(array)):
        assert (result == array * 2).all()


def test_reversed_arrays_are_outputs(x):
    out = numpy.zeros((6, 8), numpy.float32)
    assert (scale(x.numpy(), out[::-1]) == x.numpy() * 2).all()
    assert (out == x.numpy()[::-1] * 2).all()


def test_numpy_bfloat16():
    @pypto.jit
    def copy(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [4, 16]), [0, 0], out)

    array = numpy.arange(64).reshape(4, 16).astype(ml_dtypes.bfloat16)
    for result in twice(lambda: copy(array)):
        assert result.dtype == ml_dtypes.bfloat16
        assert (result == array).all()


def test_subclasses_parameters_and_foreign_tensors(x):
    import tvm_ffi

    class Named(torch.Tensor):
        pass

    with torch.no_grad():
        for given in (x.as_subclass(Named), torch.nn.Parameter(x), tvm_ffi.from_dlpack(x.clone())):
            for result in twice(lambda given=given: scale(given)):
                assert torch.equal(result, x * 2)


def test_a_negative_view_is_read_with_its_sign(x):
    complex_view = torch.complex(torch.zeros_like(x), x).conj().imag
    for given in (torch._neg_view(x), complex_view):
        assert given.is_neg()
        for result in twice(lambda given=given: scale(given)):
            assert torch.equal(result, x * -2)


@pytest.mark.parametrize("shape", [(0, 8), (6, 0), (0, 0)])
def test_zero_sized_tensors_are_a_no_op(shape):
    out = torch.zeros(shape)
    for result in twice(lambda: scale(torch.zeros(shape), out)):
        assert result is out


def test_nan_and_infinities_propagate():
    values = torch.tensor([[float("nan"), float("inf"), -float("inf"), -0.0] * 2])
    torch.testing.assert_close(scale(values), values * 2, equal_nan=True, rtol=0, atol=0)


# Aliasing


def test_in_place(x):
    expected = x * 2
    assert scale(x, x) is x
    assert torch.equal(x, expected)
    expected = x + x
    assert add(x, x, x) is x
    assert torch.equal(x, expected)


@pytest.mark.parametrize("offset", [1, -1])
def test_shifted_overlap_reads_the_input_as_it_was(offset):
    memory = torch.randn(7, 8)
    source, target = (memory[:6], memory[1:]) if offset > 0 else (memory[1:], memory[:6])
    expected = source * 2
    for _ in range(2):
        assert scale(source, target) is target
        assert torch.equal(target, expected)
        expected = source * 2


def test_in_place_where_blocks_read_each_other(x):
    expected = x.roll(-1, 0)
    assert shift(x, x) is x
    assert torch.equal(x, expected)


def test_in_place_transpose():
    x = torch.randn(8, 8)
    expected = x.t().clone()
    assert transpose(x, x) is x
    assert torch.equal(x, expected)


def test_interleaved_columns_do_not_overlap():
    memory = torch.randn(6, 16)
    before = memory.clone()
    scale(memory[:, :8], memory[:, 8:])
    assert torch.equal(memory, torch.cat([before[:, :8], before[:, :8] * 2], 1))


def test_two_outputs_in_one_memory_are_refused(x):
    out = torch.empty_like(x)
    with pytest.raises(pypto.ArgumentError, match="'high' and 'low' are both written"):
        both(x, out, out)


# Autograd


def test_a_tensor_that_requires_grad_is_refused_while_gradients_are_recorded(x):
    leaf = x.clone().requires_grad_()
    scale(x, torch.empty_like(x))
    with pytest.raises(pypto.ArgumentError, match="'x' requires grad") as caught:
        scale(leaf)
    assert "torch.no_grad()" in str(caught.value)
    with pytest.raises(pypto.ArgumentError, match="'out' requires grad"):
        scale(x, (leaf * 1)[:])
    with torch.no_grad():
        assert torch.equal(scale(leaf), leaf * 2)
    assert torch.equal(scale(leaf.detach()), leaf * 2)


@pytest.mark.parametrize("recording", [True, False])
def test_backward_notices_that_a_saved_tensor_was_overwritten(x, recording):
    weight = x.clone().requires_grad_()
    saved = torch.ones_like(x)
    loss = (weight * saved).sum()
    with torch.set_grad_enabled(recording):
        scale(x, saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_versions_move_once_a_call(x):
    out = torch.empty(12, 8)
    view = out[:6]
    for count in (1, 2, 3):
        scale(x, view)
        assert (out._version, x._version) == (count, 0)


def test_inference_tensors(x):
    with torch.inference_mode():
        out = torch.empty_like(x)
        for result in twice(lambda: scale(x, out)):
            assert result is out
    assert torch.equal(out, x * 2)


# Refused, each with the reason


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda x: (x.double(),), "'x' has a dtype(.|\n)*float64(.|\n)*x.float()"),
        (lambda x: (x.cfloat(),), "'x' has a dtype"),
        (lambda x: (x.to("meta"),), "'x' is not in the CPU's memory(.|\n)*meta"),
        (lambda x: (x.to_sparse(),), "'x' is not a dense tensor"),
        (lambda x: (x, x.new_empty(1, 8).expand(6, 8)), "'out' is written, but several"),
        (lambda x: (x, torch._neg_view(x.clone())), "'out' is written, but is a negative view"),
        (lambda x: (x, numpy.broadcast_to(numpy.float32(0), (6, 8))), "'out' is written, but is a read-only array"),
        (lambda x: (), r"scale\(\) misses 'x'"),
        (lambda x: (x, x.clone(), 2.0, 3), r"takes 3 positional arguments(.|\n)*4"),
        (lambda x: (3.0,), "'x' is a tensor"),
        (lambda x: ([x],), "'x' is a tensor"),
        (lambda x: (x, x.clone(), object()), "'factor' is neither a tensor nor a constant"),
    ],
)
def test_a_wrong_argument_is_an_error_that_says_so(x, arguments, words):
    for _ in range(2):
        with pytest.raises(pypto.ArgumentError, match=words):
            scale(*arguments(x))
    assert torch.equal(scale(x), x * 2)


def test_an_unknown_keyword_suggests_the_nearest(x):
    with pytest.raises(pypto.ArgumentError, match="has no parameter 'fakter'") as caught:
        scale(x, fakter=2.0)
    assert caught.value.hint == "did you mean 'factor'?"
    assert isinstance(caught.value, TypeError)


def test_the_error_points_at_the_call(x):
    with pytest.raises(pypto.ArgumentError) as caught:
        scale(x.double())
    assert caught.value.span is not None
    assert caught.value.span.filename == __file__
    assert "scale(x.double())" in str(caught.value)


def test_fake_and_batched_tensors_are_refused(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    scale(x, torch.empty_like(x))
    with FakeTensorMode():
        fake = torch.empty(6, 8)
    for given in ((fake,), (x, fake)):
        with pytest.raises(pypto.ArgumentError, match="no ordinary tensor"):
            scale(*given)
    with pytest.raises(pypto.ArgumentError, match="no ordinary tensor"):
        torch.vmap(lambda row: scale(row))(x.expand(2, 6, 8))


def test_declared_shapes_and_dtypes_are_checked():
    @pypto.jit
    def declared(x: pl.Tensor[[4, 8], pl.FP32], out: pl.Out[pl.Tensor[[4, 8], pl.FP32]]):
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)

    x = torch.randn(4, 8)
    assert torch.equal(declared(x), x)
    for wrong, words in ((x[:3], "shape"), (x[0], "rank"), (x.half(), "dtype")):
        with pytest.raises(pypto.ArgumentError, match=f"'x' has another {words}"):
            declared(wrong, torch.empty(4, 8))
    with pytest.raises(pypto.ArgumentError, match="'out' has another shape"):
        declared(x, torch.empty(4, 9))


def test_a_box_outside_of_its_tensor_is_an_error_with_the_line(x):
    with pytest.raises(pypto.BoundsError) as caught:
        scale(x, torch.empty(5, 8))
    assert "pl.store(block(x, i) * factor, [i, 0], out)" in str(caught.value)


def test_a_scalar_tensor_where_a_matrix_is_loaded(x):
    @pypto.jit
    def load(x, out):
        pl.store(pl.load(x, [0, 0], [4, 8]), [0, 0], out)

    with pytest.raises(pypto.PyptoError):
        load(torch.tensor(1.0), x)


# Constants and recorded reads


def test_constants_differ_by_type_and_bits(x):
    @pypto.jit
    def describe(x: pl.Tensor, value, out: pl.Out[pl.Tensor]):
        code = {int: 1.0, float: 2.0, bool: 3.0}[type(value)]
        if isinstance(value, float) and value != value:
            code = 4.0
        elif isinstance(value, float) and str(value) == "-0.0":
            code = 5.0
        pl.store(pl.full([1, 8], pl.FP32, code), [0, 0], out)

    out = torch.empty(1, 8)
    cases = [(1, 1.0), (1.0, 2.0), (True, 3.0), (float("nan"), 4.0), (-0.0, 5.0), (0.0, 2.0), (0, 1.0), (False, 3.0)]
    for value, code in cases * 2:
        for result in twice(lambda value=value: describe(x, value, out)):
            assert result[0, 0] == code, value
    # Ints and bools are told apart by type alone; a float goes into a text.
    assert describe.cache_info().misses == 6


def test_a_changed_global_is_seen(x):
    @pypto.jit
    def times(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(pl.load(x, [0, 0], [6, 8]) * TIMES, [0, 0], out)

    global TIMES
    out = torch.empty_like(x)
    for TIMES in (3.0, 4.0, 3.0):
        for result in twice(lambda: times(x, out)):
            assert torch.equal(result, x * TIMES)


def test_a_changed_closure_and_helper_are_seen(x):
    factor = 2.0

    def scaled(t):
        return t * factor

    helper = scaled

    @pypto.jit
    def times(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        pl.store(helper(pl.load(x, [0, 0], [6, 8])), [0, 0], out)

    assert torch.equal(times(x), x * 2)
    factor = 5.0
    assert torch.equal(times(x), x * 5)

    def other(t):
        return t + 1.0

    helper = other
    for result in twice(lambda: times(x)):
        assert torch.equal(result, x + 1)


# Lifetime, threads, processes


def test_no_argument_is_kept_alive(x):
    given, out = x.clone(), torch.empty_like(x)
    references = [weakref.ref(given), weakref.ref(out)]
    scale(given, out)
    scale(given, out)
    with pytest.raises(pypto.ArgumentError):
        scale(given, out, object())
    del given, out
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_many_threads_compile_once(x):
    traces = []

    @pypto.jit
    def counted(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        traces.append(threading.get_ident())
        pl.store(pl.load(x, [0, 0], [6, 8]) + 1.0, [0, 0], out)

    traces.clear()
    start = threading.Barrier(8)
    results = []

    def call():
        start.wait()
        results.append(counted(x))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8
    assert all(torch.equal(result, x + 1) for result in results)
    assert counted.cache_info().size == 1


def test_pickle_is_by_name():
    assert pickle.loads(pickle.dumps(scale)) is scale


def test_options_of_a_call(x):
    assert torch.equal(scale(x, config=pypto.RunConfig(platform="a5sim")), x * 2)
    assert torch.equal(scale(x, config=pypto.RunConfig(threads=2)), x * 2)
    with pytest.raises(pypto.LaunchError, match="no NPU runtime"):
        scale(x, config=pypto.RunConfig(platform="a2a3"))
    with pytest.raises(pypto.ArgumentError, match="takes a RunConfig"):
        scale(x, config="a2a3")
