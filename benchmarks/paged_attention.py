"""Attention over a paged cache of keys and values against the same computation in torch."""

from __future__ import annotations

import torch
from rich.console import Console

from benchmarks.timing import interleaved, table
from examples import paged_attention
from examples.pages import Paged, paged

BATCH, HEADS, DIM, CONTEXT, POOL = 64, 16, 128, 8192, 512


def in_torch(given: Paged) -> torch.Tensor:
    """Gathers the pages of all sequences (of one length here), then attends; heads share keys: query rows."""
    batch, dim = len(given.lengths), given.q.shape[1]
    rows = (given.table.long()[..., None] * given.page + torch.arange(given.page)).flatten(1)
    keys, values = given.k[rows][:, None], given.v[rows][:, None]
    queries = given.q.reshape(batch, 1, -1, dim)
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values).reshape(-1, dim)


def cases():
    """Name, our call, torch's call."""
    kernels = [
        ("a task per kernel and page", paged_attention.paged_attention, paged_attention.PAGE),
        ("one artifact for all extents", paged_attention.paged_attention_dynamic, paged_attention.PAGE),
        ("loops over sequences in kernels", paged_attention.paged_attention_batched, paged_attention.PAGE),
        ("64 pages at a time", paged_attention.paged_attention_grouped(), 64),
    ]
    for name, kernel, page in kernels:
        given = paged([CONTEXT] * BATCH, HEADS, DIM, page, POOL)
        arguments = (*given.inputs, torch.empty(given.q.shape))
        yield (
            name,
            lambda kernel=kernel, arguments=arguments: kernel(*arguments),
            lambda given=given: in_torch(given),
        )


def main() -> None:
    """Print the table."""
    result = table(
        f"Paged attention, batch {BATCH}, {HEADS} heads of {DIM}, context {CONTEXT}, bf16, {torch.get_num_threads()} "
        "threads (ratio: torch's time over ours)",
        "tasks",
        "ours, ms",
        "torch, ms",
        "ratio",
    )
    with torch.no_grad():
        for name, ours, theirs in cases():
            best = interleaved({"ours": ours, "torch": theirs}, rounds=3)
            ratio = best["torch"] / best["ours"]
            result.add_row(name, f"{best['ours'] * 1e3:,.1f}", f"{best['torch'] * 1e3:,.1f}", f"{ratio:.2f}")
    Console(width=110).print(result)


if __name__ == "__main__":
    main()
