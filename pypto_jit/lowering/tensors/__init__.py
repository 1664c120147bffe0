"""From tensor-level operations to loops over tiles.

`graph` finds what is computed and where it must lie in memory, `terms` lays one kernel out over iteration axes,
`tiling` chooses its tiles, `evaluation` computes the terms of one block with what `writer` emits; `elementwise`,
`reductions`, `products` and `attention` are the kinds of kernels. May import what `lowering` may: dialects and leaves.
"""
