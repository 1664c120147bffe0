"""Kernels as operators of torch: schemas, shapes without values, gradients, and what torch does with them."""

from __future__ import annotations

import gc
import inspect
import warnings
import weakref

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import pypto_jit as pypto
import pypto_jit.language as pl


@pypto.jit
def layer(x: pl.Tensor, w: pl.Tensor, b: pl.Tensor):
    """gelu(x @ w + b)"""
    return pl.gelu(x @ w + b)


@pypto.jit
def halves(x: pl.Tensor):
    return x * 0.5, (x + 1.0, x * 0.5)


@pypto.jit
def both(x: pl.Tensor):
    scaled = x * 2.0
    return scaled, (x - 1.0, scaled)


@pypto.jit
def scale(x: pl.Tensor, out: pl.Out[pl.Tensor], factor: pl.Scalar[pl.FP32]):
    out[:] = x * factor
    return out


@pypto.jit
def accumulate(total: pl.InOut[pl.Tensor], x: pl.Tensor, times: pl.Scalar[pl.INT32] = 1):
    total[:] = total + x * pl.cast(times, pl.FP32)
    return total


@pypto.jit
def biased(x: pl.Tensor, bias=None, *, negate: bool = False):
    result = x * 1.0 if bias is None else x + bias
    return -result if negate else result


@pypto.jit
def square(x: pl.Tensor, y: pl.Tensor):
    return x * x * y


@pypto.jit
def square_backward(grad: pl.Tensor, x: pl.Tensor, y: pl.Tensor):
    return grad * x * y * 2.0, grad * x * x


def matrices():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in ((10, 16), (16, 24), (24,))]


@pytest.fixture
def registered():
    """Registers kernels for one test."""
    made = []

    def register(kernel, name, **options):
        made.append(pypto.torch_op(kernel, name=f"pypto_test::{name}", **options))
        return made[-1]

    yield register
    for operator in made:
        operator.unregister()


def check_all(overload, *args):
    found = torch.library.opcheck(overload, args)
    assert set(found.values()) == {"SUCCESS"}
    assert len(found) == 4


# What an operator is


def test_schemas_say_what_is_written(registered):
    x = torch.empty(4, 8)
    op = registered(layer, "layer", example=(torch.empty(4, 8), torch.empty(8, 3), torch.empty(3)))
    assert str(op.default._schema) == "pypto_test::layer(Tensor x, Tensor w, Tensor b) -> Tensor"
    assert str(op.out._schema) == "pypto_test::layer.out(Tensor x, Tensor w, Tensor b, Tensor(a!) out) -> ()"
    op = registered(scale, "scale", example=(x,))
    assert str(op.default._schema) == "pypto_test::scale(Tensor x, float factor) -> Tensor"
    assert str(op.out._schema) == "pypto_test::scale.out(Tensor x, Tensor(a!) out, float factor) -> ()"
    op = registered(accumulate, "accumulate", example=(x, x))
    assert str(op.default._schema) == "pypto_test::accumulate(Tensor(a!) total, Tensor x, SymInt times=1) -> ()"
    assert op.out is None
    op = registered(biased, "biased", example={"x": x, "bias": x})
    assert str(op.default._schema) == ("pypto_test::biased(Tensor x, Tensor? bias=None, bool negate=False) -> Tensor")
    op = registered(both, "both", example=(x,))
    assert str(op.default._schema) == "pypto_test::both(Tensor x) -> (Tensor, Tensor)"


def test_the_function_looks_like_the_kernel(registered):
    op = registered(biased, "biased", example={"x": torch.empty(4, 8)})
    assert list(inspect.signature(op).parameters) == ["x", "bias", "negate", "out"]
    assert inspect.signature(op).parameters["negate"].kind is inspect.Parameter.KEYWORD_ONLY
    assert op.__name__ == "biased"
    op = registered(layer, "layer", example=matrices())
    assert op.__doc__ == "gelu(x @ w + b)"
    assert op.name == "pypto_test::layer"
    assert torch.ops.pypto_test.layer.default is op.default


def test_calls_give_what_torch_computes(registered):
    x, w, b = matrices()
    op = registered(layer, "layer", example=(x, w, b))
    expected = torch.nn.functional.gelu(x @ w + b)
    torch.testing.assert_close(op(x, w, b), expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(torch.ops.pypto_test.layer(x, w, b=b), expected, atol=1e-5, rtol=1e-4)
    out = torch.empty(10, 24)
    assert op(x, w, b, out=out) is out
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)


def test_other_shapes_dtypes_and_layouts_than_the_example(registered):
    op = registered(biased, "biased", example=(torch.empty(2, 2), torch.empty(2)))
    x = torch.randn(24, 10).T
    assert torch.equal(op(x, torch.ones(24)), x + 1)
    assert torch.equal(op(x[:, ::2], None, negate=True), -x[:, ::2])
    half = torch.randn(3, 5, 7).to(torch.float16)
    assert torch.equal(op(half, half), half + half)
    assert torch.equal(op(torch.ones(1, 7).expand(5, 7)), torch.ones(5, 7))


def test_several_results_keep_their_nesting(registered):
    op = registered(both, "both", example=(torch.empty(2, 2),))
    x = torch.randn(6, 20)
    doubled, (less, again) = op(x)
    assert torch.equal(doubled, x * 2)
    assert torch.equal(less, x - 1)
    assert again is doubled
    first, second = torch.empty(6, 20), torch.empty(6, 20)
    doubled, (less, again) = op(x, out=(first, second))
    assert doubled is first
    assert again is first
    assert less is second
    assert torch.equal(second, x - 1)


def test_outputs_are_new_or_given(registered):
    op = registered(scale, "scale", example=(torch.empty(4, 8),))
    x, out = torch.randn(5, 9), torch.empty(5, 9)
    assert torch.equal(op(x, factor=3.0), x * 3)
    assert op(x, out, 3.0) is out
    assert torch.equal(out, x * 3)
    expected = x * 2
    assert op(x, out=x, factor=2) is x
    assert torch.equal(x, expected)
    with pytest.raises(pypto.ArgumentError, match="misses 'factor'"):
        op(x)


def test_what_is_read_and_written_is_returned_itself(registered):
    op = registered(accumulate, "accumulate", example=(torch.empty(4, 8), torch.empty(4, 8)))
    total, x = torch.zeros(3, 7), torch.randn(3, 7)
    version = total._version
    assert op(total, x) is total
    assert op(total, x, 2) is total
    torch.testing.assert_close(total, x * 3)
    assert total._version > version


def test_a_signature_that_says_all_needs_no_example(registered):
    rows = pl.dynamic("rows")

    @pypto.jit
    def double(x: pl.Tensor[[rows, 16], pl.FP32], out: pl.Out[pl.Tensor[[rows, 16], pl.FP32]]):
        for i in pl.range(0, x.shape[0], 4):
            count = pl.min(4, x.shape[0] - i)
            tile = pl.load(x, [i, 0], [4, 16], valid_shape=[count, 16])
            pl.store(tile * 2.0, [i, 0], out)
        return out

    op = registered(double, "double")
    x = torch.randn(10, 16)
    assert torch.equal(op(x), x * 2)
    seen = []

    def look(graph, inputs):
        calls = [node for node in graph.graph.nodes if node.op == "call_function"]
        seen.append([node.meta["example_value"].shape[0] for node in calls])
        return graph.forward

    compiled = torch.compile(lambda x: op(x) + 1, fullgraph=True, dynamic=True, backend=look)
    assert torch.equal(compiled(x), x * 2 + 1)
    assert torch.equal(compiled(torch.ones(6, 16)), torch.full((6, 16), 3.0))
    assert len(seen) == 1
    assert all(isinstance(extent, torch.SymInt) for extent in seen[0])


# What torch does with it


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_opcheck(registered, dtype):
    x, w, b = (each.to(dtype) for each in matrices())
    op = registered(layer, "layer", example=(x, w, b))
    check_all(op.default, x, w, b)
    check_all(op.default, x, w.T.contiguous().T, b)
    check_all(op.out, x, w, b, torch.empty(10, 24, dtype=dtype))


def test_opcheck_of_what_writes_and_of_several_results(registered):
    x = torch.randn(5, 9)
    op = registered(scale, "scale", example=(x,))
    check_all(op.default, x, 2.5)
    check_all(op.out, x, torch.empty(5, 9), 2.5)
    check_all(registered(accumulate, "accumulate", example=(x, x)).default, x.clone(), x, 3)
    op = registered(both, "both", example=(x,))
    check_all(op.default, x)
    check_all(op.out, x, torch.empty(5, 9), torch.empty(5, 9))
    op = registered(biased, "biased", example={"x": x, "bias": x})
    check_all(op.default, x, None, True)
    check_all(op.default, x, x, False)


def test_opcheck_of_a_gradient(registered):
    op = registered(square, "square", example=(torch.empty(4, 4), torch.empty(4, 4)), backward=square_backward)
    x, y = (torch.randn(6, 10, requires_grad=True) for _ in range(2))
    check_all(op.default, x, y)
    check_all(op.default, x.detach(), y)
    check_all(torch.ops.pypto_test.square_backward.default, x.detach(), x.detach(), y.detach())


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_in_compiled_code(registered, backend):
    x, w, b = matrices()
    op = registered(layer, "layer", example=(x, w, b))
    add = registered(accumulate, "accumulate", example=(x, x))

    def model(x, w, b, total):
        y = op(x, w, b) * 2
        out = torch.empty_like(y)
        op(x + 1, w, b, out=out)
        add(total, y)
        return y + out

    gelu = torch.nn.functional.gelu
    expected = gelu(x @ w + b) * 2
    compiled, total = torch.compile(model, fullgraph=True, backend=backend), torch.zeros(10, 24)
    for times in (1, 2):
        found = compiled(x, w, b, total)
        torch.testing.assert_close(found, expected + gelu((x + 1) @ w + b), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(total, expected * times, atol=1e-4, rtol=1e-4)


def test_compiled_code_of_other_extents(registered):
    op = registered(layer, "layer", example=matrices())
    _, w, b = matrices()
    compiled = torch.compile(lambda x: op(x, w, b) + 1, fullgraph=True, backend="aot_eager")
    for rows in (10, 7, 13):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(compiled(x), torch.nn.functional.gelu(x @ w + b) + 1, atol=1e-4, rtol=1e-4)


def test_compiled_code_of_symbolic_extents(registered):
    op = registered(layer, "layer", example=matrices())
    _, w, b = matrices()
    seen = []

    def look(graph, inputs):
        calls = [node for node in graph.graph.nodes if node.target is op.default]
        seen.append(calls[0].meta["example_value"].shape)
        return graph.forward

    compiled = torch.compile(lambda x, w: op(x, w, b), fullgraph=True, dynamic=True, backend=look)
    for rows in (10, 7, 13):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(compiled(x, w), torch.nn.functional.gelu(x @ w + b), atol=1e-4, rtol=1e-4)
    assert len(seen) == 1
    assert isinstance(seen[0][0], torch.SymInt)


def test_symbolic_extents_of_a_kernel_that_looks_at_the_number(registered):
    @pypto.jit
    def by_size(x: pl.Tensor):
        return x * 2.0 if x.shape[0] > 8 else x * 3.0

    op = registered(by_size, "by_size", example=(torch.empty(4, 4),))
    compiled = torch.compile(lambda x: op(x) + 1, fullgraph=True, dynamic=True, backend="aot_eager")
    for rows, factor in ((4, 3), (16, 2), (6, 3)):
        assert torch.equal(compiled(torch.ones(rows, 5)), torch.full((rows, 5), factor + 1.0))


def test_exported_programs_of_symbolic_extents(registered):
    x, w, b = matrices()
    op = registered(layer, "layer", example=(x, w, b))

    class Model(torch.nn.Module):
        def forward(self, x, w, b):
            return op(x, w, b) + 1

    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(Model(), (x, w, b), dynamic_shapes={"x": {0: rows}, "w": None, "b": None})
    more = torch.randn(30, 16)
    expected = torch.nn.functional.gelu(more @ w + b) + 1
    torch.testing.assert_close(program.module()(more, w, b), expected, atol=1e-4, rtol=1e-4)


def test_in_exported_programs(registered):
    x, w, b = matrices()
    op = registered(layer, "layer", example=(x, w, b))

    class Model(torch.nn.Module):
        def forward(self, x, w, b):
            return op(x, w, b) + 1

    program = torch.export.export(Model(), (x, w, b))
    targets = [node.target for node in program.graph.nodes]
    assert torch.ops.pypto_test.layer.default in targets
    expected = torch.nn.functional.gelu(x @ w + b) + 1
    torch.testing.assert_close(program.module()(x, w, b), expected, atol=1e-4, rtol=1e-4)
    decomposed = program.run_decompositions()
    torch.testing.assert_close(decomposed.module()(x, w, b), expected, atol=1e-4, rtol=1e-4)


def test_vmap(registered):
    _, w, b = matrices()
    op = registered(layer, "layer", example=matrices())
    x = torch.randn(3, 10, 16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.vmap(op, in_dims=(0, None, None))(x, w, b)
    torch.testing.assert_close(found, torch.nn.functional.gelu(x @ w + b), atol=1e-4, rtol=1e-4)


def test_tensors_without_values(registered):
    op = registered(layer, "layer", example=matrices())
    x, w, b = (each.to("meta") for each in matrices())
    found = op(x, w, b)
    assert (found.shape, found.dtype, found.device.type) == ((10, 24), torch.float32, "meta")
    graph = make_fx(lambda x, w, b: op(x, w, b), tracing_mode="symbolic")(*matrices())
    assert torch.ops.pypto_test.layer.default in [node.target for node in graph.graph.nodes]
    with pytest.raises(pypto.PyptoError) as caught:
        op(x, w.T, b)
    assert "16" in str(caught.value)


def test_modes_of_torch(registered):
    x, w, b = matrices()
    op = registered(layer, "layer", example=(x, w, b))
    with torch.inference_mode():
        frozen = op(x.clone(), w, b)
    assert frozen.is_inference()
    weight = w.clone().requires_grad_()
    with torch.no_grad():
        assert torch.equal(op(x, weight, b), frozen)
    with pytest.raises(pypto.ArgumentError, match="'w' requires grad") as caught:
        op(x, weight, b)
    assert "backward=" in str(caught.value)


def test_compiled_code_does_not_lose_a_gradient(registered):
    x, w, b = matrices()
    op = registered(layer, "layer", example=(x, w, b))
    compiled = torch.compile(lambda w: op(x, w, b) * 2, fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match="'w' requires grad"):
        compiled(w.clone().requires_grad_())


# Gradients


def test_gradients_by_a_kernel(registered):
    op = registered(square, "square", example=(torch.empty(4, 4), torch.empty(4, 4)), backward=square_backward)
    x, y = (torch.randn(6, 10, requires_grad=True) for _ in range(2))
    weights = torch.randn(6, 10)
    (op(x, y) * weights).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() * y.detach() * weights)
    torch.testing.assert_close(y.grad, x.detach() ** 2 * weights)
    # The gradient of a sum is an expanded tensor.
    gradient = torch.autograd.grad(op(x, y.detach()).sum(), x)[0]
    torch.testing.assert_close(gradient, 2 * x.detach() * y.detach())
    with torch.no_grad():
        assert not op(x, y).requires_grad
    assert torch.equal(op(x.detach(), y.detach()), (x * x * y).detach())


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_in_compiled_code(registered, backend):
    op = registered(square, "square", example=(torch.empty(4, 4), torch.empty(4, 4)), backward=square_backward)
    x, y = (torch.randn(6, 10, requires_grad=True) for _ in range(2))
    torch.compile(lambda x, y: (op(x, y) * 3).sum(), fullgraph=True, backend=backend)(x, y).backward()
    torch.testing.assert_close(x.grad, 6 * x.detach() * y.detach())
    torch.testing.assert_close(y.grad, 3 * x.detach() ** 2)


def test_where_no_gradient_is_recorded_others_still_see_the_operator(registered):
    op = registered(square, "square", example=(torch.empty(4, 4), torch.empty(4, 4)), backward=square_backward)
    x, y = torch.randn(6, 10), torch.randn(6, 10)
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(function)
            return function(*args, **(kwargs or {}))

    with Watch():
        assert torch.equal(op(x, y), x * x * y)
    assert op.default in seen
    assert op(x.to("meta"), y.to("meta")).device.type == "meta"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.testing.assert_close(torch.vmap(op)(x, y), x * x * y)
    graph = make_fx(lambda x, y: op(x, y))(x, y)
    assert op.default in [node.target for node in graph.graph.nodes]


def test_operators_in_kernels(registered):
    op = registered(square, "square", example=(torch.empty(4, 4), torch.empty(4, 4)), backward=square_backward)

    @pypto.jit
    def kernel(x: pl.Tensor):
        return op(x, x) + 1.0

    x = torch.randn(6, 10)
    torch.testing.assert_close(kernel(x), x**3 + 1)


def test_a_hook_chooses_what_is_saved(registered):
    kept = []

    @pypto.jit
    def exponential(x: pl.Tensor, factor: pl.Scalar[pl.FP32]):
        return pl.exp(x * factor)

    @pypto.jit
    def backward(grad: pl.Tensor, result: pl.Tensor, factor: pl.Scalar[pl.FP32]):
        return grad * result * factor

    def save(inputs, result):
        kept.append(type(result))
        return result, inputs[1]

    op = registered(exponential, "exponential", example=(torch.empty(4, 4), 2.0), backward=backward, save=save)
    x = torch.randn(5, 12, requires_grad=True)
    result = op(x, 1.5)
    result.sum().backward()
    torch.testing.assert_close(x.grad, 1.5 * torch.exp(1.5 * x.detach()), rtol=1e-4, atol=1e-5)
    assert kept


def test_a_backward_that_is_no_kernel_and_some_of_the_inputs(registered):
    def backward(grad, x, y):
        return grad * x * x

    op = registered(square, "square", example=(torch.empty(4, 4), torch.empty(4, 4)), backward=backward, wrt=["y"])
    x, y = torch.randn(6, 10), torch.randn(6, 10, requires_grad=True)
    op(x, y).sum().backward()
    torch.testing.assert_close(y.grad, x * x)
    # It consists of torch's own, so it has a gradient as well.
    z = torch.randn(6, 10, requires_grad=True)
    (first,) = torch.autograd.grad(op(z, y).sum(), y, create_graph=True)
    assert first.requires_grad


# Misuse


@pytest.mark.parametrize("name", ["layer", "a::b::c", "a::b.c", "::b", "a::", "a b::c", "1::c", 3, "ä::b"])
def test_malformed_names(name):
    with pytest.raises(pypto.RegistrationError, match="has a name in a namespace") as caught:
        pypto.torch_op(layer, name=name, example=matrices())
    assert caught.value.found == repr(name)
    assert "namespace::name" in str(caught.value.expected)


def test_names_that_are_taken(registered):
    with pytest.raises(pypto.RegistrationError, match="torch's own"):
        pypto.torch_op(layer, name="aten::layer", example=matrices())
    op = registered(layer, "layer", example=matrices())
    assert pypto.torch_op(layer, name="pypto_test::layer", example=matrices()) is op
    with pytest.raises(pypto.RegistrationError, match="already") as caught:
        pypto.torch_op(square, name="pypto_test::layer", example=(torch.empty(2, 2), torch.empty(2, 2)))
    assert caught.value.hint
    with pytest.raises(pypto.RegistrationError, match="in another way") as caught:
        pypto.torch_op(layer, name="pypto_test::layer", example=matrices(), backward=lambda *_: None)
    assert "backward=" in str(caught.value.found)


def test_what_cannot_be_registered():
    with pytest.raises(pypto.RegistrationError, match="takes a kernel"):
        pypto.torch_op(torch.add, name="pypto_test::add")
    with pytest.raises(pypto.RegistrationError, match="what 'x' is") as caught:
        pypto.torch_op(layer, name="pypto_test::layer")
    assert "example=" in caught.value.hint
    with pytest.raises(pypto.RegistrationError, match="does not fit the parameters"):
        pypto.torch_op(layer, name="pypto_test::layer", example=[*matrices(), 1])
    with pytest.raises(pypto.RegistrationError, match="does not fit the parameters"):
        pypto.torch_op(layer, name="pypto_test::layer", example={"z": 1})

    @pypto.jit
    def first(x: pl.Tensor, out: pl.Out[pl.Tensor]):
        out[:] = x + 1.0
        return x, out

    with pytest.raises(pypto.RegistrationError, match="returns its input 'x'"):
        pypto.torch_op(first, name="pypto_test::first", example=(torch.empty(2, 2),))

    @pypto.jit
    def named(x: pl.Tensor, choose):
        return choose(x)

    with pytest.raises(pypto.RegistrationError, match="no parameter like 'choose'"):
        pypto.torch_op(named, name="pypto_test::named", example=(torch.empty(2, 2), lambda x: x + 1.0))
    assert not hasattr(torch.ops.pypto_test, "named")


def test_backwards_that_do_not_fit():
    example = (torch.empty(4, 4), torch.empty(4, 4))

    def refused(pattern, kernel=square, example=example, **options):
        with pytest.raises(pypto.RegistrationError, match=pattern) as caught:
            pypto.torch_op(kernel, name="pypto_test::refused", example=example, **options)
        assert not hasattr(torch.ops.pypto_test, "refused")
        return caught.value

    @pypto.jit
    def one(grad: pl.Tensor, x: pl.Tensor, y: pl.Tensor):
        return grad * x * y

    @pypto.jit
    def sums(grad: pl.Tensor, x: pl.Tensor, y: pl.Tensor):
        return pl.sum(grad * x, axis=0), grad * y

    @pypto.jit
    def short(grad: pl.Tensor):
        return grad * 2.0, grad * 3.0

    assert "x, y" in refused("returns 1 tensors", backward=one).expected
    assert refused("another shape than 'x'", backward=sums).found == [4]
    assert "3 inputs" in refused("takes other inputs", backward=short).expected
    refused("no such input", backward=square_backward, wrt=["z"])
    refused("takes a function", backward=3)
    refused("are for a backward", wrt=["x"])
    refused("writes to what it is given", accumulate, backward=square_backward)
    integers = (torch.empty(4, 4, dtype=torch.int32),) * 2
    refused("no such input", example=integers, backward=square_backward)


def test_a_backward_that_returns_something_else(registered):
    example = (torch.empty(4, 4), torch.empty(4, 4))
    op = registered(square, "square", example=example, backward=lambda grad, x, y: grad)
    x = torch.randn(4, 4, requires_grad=True)
    with pytest.raises(pypto.ArgumentError, match="does not return the gradients") as caught:
        op(x, x).sum().backward()
    assert "x, y" in caught.value.expected


def test_outputs_are_given_all_or_none(registered):
    @pypto.jit
    def split(x: pl.Tensor, low: pl.Out[pl.Tensor], high: pl.Out[pl.Tensor]):
        low[:] = pl.minimum(x, 0.0)
        high[:] = pl.maximum(x, 0.0)
        return low, high

    op = registered(split, "split", example=(torch.empty(4, 4),))
    x = torch.randn(6, 10)
    low, high = op(x)
    assert torch.equal(low + high, x)
    with pytest.raises(pypto.ArgumentError, match="some of its outputs"):
        op(x, low)
    op = registered(both, "both", example=(x,))
    with pytest.raises(pypto.ArgumentError, match="takes the results"):
        op(x, out=x)


def test_results_that_change_with_the_arguments(registered):
    @pypto.jit
    def unsteady(x: pl.Tensor):
        return (x + 1.0, x * 2.0) if x.shape[0] > 8 else x + 1.0

    op = registered(unsteady, "unsteady", example=(torch.empty(4, 4),))
    with pytest.raises(pypto.RegistrationError, match="returns something else"):
        op(torch.empty(16, 4, device="meta"))


# How long it lasts


def test_torch_forgets_kernels_that_are_no_more():
    def make():
        @pypto.jit
        def passing(x: pl.Tensor):
            return x + 1.0

        def backward(grad, x):
            return grad + 0 * passing(x.detach())

        name = "pypto_test::passing"
        return weakref.ref(passing), pypto.torch_op(passing, name=name, example=(torch.empty(2, 2),), backward=backward)

    kernel, op = make()
    x = torch.ones(3, 3, requires_grad=True)
    op(x).sum().backward()
    assert torch.equal(x.grad, torch.ones(3, 3))
    gc.collect()
    assert kernel() is not None
    assert torch.equal(op(torch.ones(3, 3)), torch.full((3, 3), 2.0))
    del op
    gc.collect()
    assert kernel() is None
    assert not hasattr(torch.ops.pypto_test, "passing")


def test_names_are_free_again():
    op = pypto.torch_op(layer, name="pypto_test::again", example=matrices())
    op.unregister()
    op.unregister()
    with pytest.raises(pypto.LaunchError, match="not registered any more"):
        op(*matrices())
    again = pypto.torch_op(square, name="pypto_test::again", example=(torch.empty(2, 2), torch.empty(2, 2)))
    assert torch.equal(again(torch.ones(3, 3), torch.ones(3, 3)), torch.ones(3, 3))
    again.unregister()
    assert not hasattr(torch.ops.pypto_test, "again")
