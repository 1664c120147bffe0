"""Wrong functions of whole tensors: every one is refused by an error of our own, at its line."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

import pypto_jit as pypto
import pypto_jit.language as pl
from pypto_jit.errors import InternalError, PyptoError

# One wrong line each, of x FP32 [4, 6], y FP32 [5], z INT32 [4, 6], h FP16 [6, 3], out FP32 [4, 6].
WRONG = (
    # Shapes
    "t = x + y",
    "t = x * x.T",
    "t = x @ x",
    "t = x @ y",
    "t = pl.matmul(x, h)",
    "t = pl.where(x > 0, y, x)",
    "t = pl.where(y, x, x)",
    "t = pl.concat(x, y)",
    "t = pl.concat(x, x.T, axis=0)",
    "t = pl.reshape(x, [5, 5])",
    "t = pl.reshape(x, [-1, -1])",
    "t = pl.reshape(x, [0, -1])",
    "t = pl.expand(x, [4, 7])",
    "t = pl.expand(x, [6])",
    "t = pl.expand(x, 7)",
    "t = pl.layer_norm(x, y)",
    "t = pl.rms_norm(x, x.T)",
    "out[:] = y",
    "out[:] = x.T",
    "out[0:2] = x",
    "out[:, 0] = x",
    "out[0] += x",
    # Axes
    "t = x.sum(2)",
    "t = x.sum(-3)",
    "t = x.mean(2)",
    "t = x.mean(-3)",
    "t = pl.max(x, axis=(0, 0))",
    "t = pl.mean(x, axis=(0, -2))",
    "t = pl.prod(x, axis=1.0)",
    "t = pl.sum(x, axis='rows')",
    "t = pl.softmax(x, axis=2)",
    "t = pl.concat(x, x, axis=5)",
    "t = pl.concat(x, x, axis=None)",
    "t = pl.transpose(x, 0, 2)",
    # Dtypes
    "t = x @ h",
    "t = z @ z.T",
    "t = pl.cast(x, 'FP16')",
    "t = pl.cast(x, torch.float16)",
    "t = pl.cast(x, pl.FP16, mode='up')",
    "t = pl.cast(x, float)",
    "t = pl.matmul(x, x.T, out_dtype='FP16')",
    "t = pl.matmul(x, x.T, out_dtype=torch.float16)",
    "t = z & 1.5",
    # Things that are no tensors
    "t = x + None",
    "t = x + 'a'",
    "t = x + [1, 2]",
    "t = x + (1 + 2j)",
    "t = x * torch.ones(6)",
    "t = torch.ones(6) * x",
    "t = x @ torch.ones(6)",
    "t = x < None",
    "t = pl.where(True, x, x)",
    "t = pl.where(x == x, x, x)",
    "t = pl.where(x > 0, 'a', x)",
    "t = pl.exp(1.0)",
    "t = pl.exp('x')",
    "t = pl.sum(3)",
    "t = pl.max(x, 0.5)",
    "t = pl.zeros_like(3)",
    "t = pl.full_like(x, None)",
    "t = pl.full_like(x, x)",
    "t = pl.softmax([1, 2])",
    "t = pl.concat(x, 1.0)",
    "t = pl.matmul(x, 2.0)",
    "t = pl.expand(3.0, [4])",
    "t = pl.reshape(3, [4])",
    "out[:] = 'a'",
    "out[:] = None",
    "out[:] = [1.0] * 6",
    "out[:] = torch.ones(4, 6)",
    # Tiles with tensors
    "t = pl.load(x, [0, 0], [4, 6]) + x",
    "t = x + pl.load(x, [0, 0], [4, 6])",
    "t = pl.where(x > 0, pl.load(x, [0, 0], [4, 6]), x)",
    "t = pl.sum(pl.load(x, [0, 0], [4, 6]), axis=0)",
    "t = x @ pl.load(h, [0, 0], [6, 3])",
    "t = pl.layer_norm(pl.load(x, [0, 0], [4, 6]))",
    "t = pl.concat(x, pl.load(x, [0, 0], [4, 6]))",
    "out[:] = pl.load(x, [0, 0], [4, 3])",
    "pl.store(x, [0, 0], out)",
    "pl.store(x + 1.0, [0, 0], out)",
    # Keywords and counts
    "t = pl.max(x, axes=1)",
    "t = pl.exp(x, x)",
    "t = pl.exp()",
    "t = pl.where(x > 0, x)",
    "t = pl.matmul(x)",
    "t = pl.matmul(x, x, transpose_b=True)",
    "t = pl.gelu(x, approximate='fast')",
    "t = pl.gelu(x, 3)",
    "t = pl.rms_norm(x, eps='small')",
    "t = pl.layer_norm(x, epsilon=1e-5)",
    "t = pl.cmp(x, x, 'equal')",
    "t = pl.cmp(x, x, 9)",
    # Subscripts
    "t = x[4]",
    "t = x[-5]",
    "t = x[0, 0, 0]",
    "t = x[..., ...]",
    "t = x['a']",
    "t = x[1.0]",
    "t = x[True]",
    "t = x[x > 0]",
    "t = x[z]",
    "t = x[[0, 1]]",
    "t = x[::0]",
    "t = x[0:1.5]",
    "t = x[0:'a']",
    "out[4] = 1.0",
    "out[0, 9] = 1.0",
    "out[x > 0] = 1.0",
    "(x + 1.0)[0] = 1.0",
    # Python's control flow and conversions
    "t = x if x > 0 else z",
    "if x > 0: out[:] = x",
    "while x > 0: out[:] = x",
    "t = x and z",
    "t = x or z",
    "t = not x",
    "t = 0 < x < 1",
    "assert x > 0",
    "t = float(x)",
    "t = int(x + 1.0)",
    "t = bool(x)",
    "t = len(x + 1.0) + x[0, 0].real",
    "for i in range(x): out[:] = x",
    "for row in x: out[:] = row",
    "t = [row for row in x]",
    "a, b = x",
    "t = round(x)",
    "t = x ** None",
    "t = x.numpy()",
    "t = x.to(torch.float16)",
    "t = x.item()",
    "t = torch.exp(x)",
    "t = torch.softmax(x, -1)",
    "t = max(x, 0)",
    "t = sum(x)",
    "del out[0]",
    "t = pl.create_tensor([4, -6], pl.FP32)",
    "t = pl.create_tensor([4, 6], 'FP32')",
    "t = pl.create_tensor([4, 2.5], pl.FP32)",
    "t = pl.create_tensor(x, pl.FP32)",
    "return 3",
    "return x.shape",
    "return [x + 1.0, None]",
    "return {'a': x + 1.0}",
    "return x > 0, 'a'",
)


def _arguments() -> tuple[torch.Tensor, ...]:
    return (
        torch.ones(4, 6),
        torch.ones(5),
        torch.ones(4, 6, dtype=torch.int32),
        torch.ones(6, 3, dtype=torch.float16),
        torch.ones(4, 6),
    )


def _kernel(line: str, number: int) -> Any:
    text = f"def kernel(x, y, z, h, out: pl.InOut[pl.Tensor]):\n    out[:] = x\n    {line}\n    return x + 1.0\n"
    filename = f"<misuse {number}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"pl": pl, "torch": torch, "__name__": "misuse"}
    exec(compile(text, filename, "exec"), namespace)
    return pypto.jit(namespace["kernel"])


@pytest.mark.parametrize("number", range(len(WRONG)), ids=lambda number: WRONG[number])
def test_misuse_is_an_error_at_its_line(number):
    kernel = _kernel(WRONG[number], number)
    for run in (kernel, kernel.interpret):
        with pytest.raises(PyptoError) as caught:
            run(*_arguments())
        assert not isinstance(caught.value, InternalError)
        assert caught.value.span is not None
        assert caught.value.span.filename == f"<misuse {number}>"
        assert caught.value.span.line in (1, 3)
