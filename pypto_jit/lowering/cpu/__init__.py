"""The native engine: from planned ``pto`` modules to object code for the processor at hand.

`kernel.lower_to_cpu` turns each function of a module into one that runs a block of the kernel:

    void kernel(pointers..., extents and strides as i64..., workspaces..., i64 block, i64 blocks, arena, status)

``arena`` is 64-byte aligned scratch in which tile buffers lie at their planned addresses, one memory after another. A
box that leaves its tensor stores the number of its check in ``status`` and is not touched. `codegen` makes the object
code, `entry` the function that checks arguments and launches the blocks.

How a function is lowered: `program` reads it, `liveness` finds which tiles are read again, `fusion` and `schedule` join
instructions over the same rows and columns into nests of loops, `nest` and `columns` emit them with what `elements`,
`math` and `convert` know of each operator, `access` and `transfer` reach global memory, `ranges` drops the checks that
cannot fail. What is no part of a nest has code of its own: `reduce`, `layout`, and `cube` with `matmul` and `packing`.
"""
