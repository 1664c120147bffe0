"""Kernels on large tensors against torch eager with the same number of threads."""

from __future__ import annotations

import torch
from rich.console import Console

from benchmarks.timing import interleaved, table
from examples import attention, elementwise, matmul, normalization

SIZE = 4096


def cases():
    """Name, budget (torch's time over ours must reach it), our call, torch's call."""
    functional = torch.nn.functional
    for shape in ((256, 256), (SIZE, SIZE)):
        x, y = torch.randn(shape), torch.randn(shape)
        out, ref = torch.empty(shape), torch.empty(shape)
        gamma, beta = torch.randn(1, shape[1]), torch.randn(1, shape[1])
        label = f"{shape[0]}x{shape[1]} fp32"
        yield (
            f"add {label}",
            1.0,
            lambda x=x, y=y, o=out: elementwise.add(x, y, o),
            lambda x=x, y=y, r=ref: torch.add(x, y, out=r),
        )
        yield (
            f"relu((a + b) * 2) {label}",
            1.0,
            lambda x=x, y=y, o=out: elementwise.add_scale_relu(x, y, o),
            lambda x=x, y=y: torch.relu((x + y) * 2),
        )
        yield f"gelu {label}", 1.0, lambda x=x, o=out: elementwise.gelu(x, o), lambda x=x: functional.gelu(x)
        yield (
            f"swiglu {label}",
            1.0,
            lambda x=x, y=y, o=out: elementwise.swiglu(x, y, o),
            lambda x=x, y=y: functional.silu(x) * y,
        )
        yield f"softmax {label}", 1.0, lambda x=x, o=out: normalization.softmax(x, o), lambda x=x: torch.softmax(x, -1)
        yield (
            f"rms_norm {label}",
            1.0,
            lambda x=x, g=gamma, o=out: normalization.rms_norm(x, g, o),
            lambda x=x, g=gamma: functional.rms_norm(x, x.shape[-1:], g[0], normalization.EPSILON),
        )
        yield (
            f"layer_norm {label}",
            1.0,
            lambda x=x, g=gamma, b=beta, o=out: normalization.layer_norm(x, g, b, o),
            lambda x=x, g=gamma, b=beta: functional.layer_norm(x, x.shape[-1:], g[0], b[0], normalization.EPSILON),
        )
    for size, dtype, budget in (
        (1024, torch.float32, 0.8),
        (1024, torch.bfloat16, 1.0),
        (1024, torch.float16, 1.0),
        (256, torch.float32, 0.8),
    ):
        a, b = torch.randn(size, size).to(dtype), torch.randn(size, size).to(dtype)
        out = torch.empty(size, size, dtype=dtype)
        name = f"matmul {size}^3 {str(dtype).removeprefix('torch.')}"
        yield name, budget, lambda a=a, b=b, o=out: matmul.matmul(a, b, o), lambda a=a, b=b: a @ b
    w, x, bias = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.randn(1, 1024)
    out = torch.empty(1024, 1024)
    yield (
        "relu(x @ w + b) 1024^3 fp32",
        0.8,
        lambda: matmul.linear_relu(x, w, bias, out),
        lambda: torch.relu(torch.addmm(bias, x, w)),
    )
    q, k, v = (torch.randn(1024, 64) for _ in range(3))
    o = torch.empty(1024, 64)
    yield (
        "attention 1024x1024, head 64",
        1.0,
        lambda: attention.attention(q, k, v, o),
        lambda: functional.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None]),
    )


def main() -> None:
    """Print the table."""
    result = table(
        f"Throughput, {torch.get_num_threads()} threads (ratio: torch's time over ours)",
        "kernel",
        "ours, us",
        "torch, us",
        "ratio",
        "budget",
    )
    with torch.no_grad():
        for name, budget, ours, theirs in cases():
            best = interleaved({"ours": ours, "torch": theirs}, rounds=7)
            ratio = best["torch"] / best["ours"]
            colour = "green" if ratio >= budget else "red"
            result.add_row(
                name,
                f"{best['ours'] * 1e6:,.1f}",
                f"{best['torch'] * 1e6:,.1f}",
                f"[{colour}]{ratio:.2f}[/]",
                f"{budget}",
            )
    Console(width=110).print(result)


if __name__ == "__main__":
    main()
