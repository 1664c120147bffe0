"""Which kernels leave their results where earlier ones left theirs.

A workspace is taken over by a kernel that runs after all that read it anyway, because it is computed from what they
leave: no task waits for another one more than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pypto_jit._mlir import ir
from pypto_jit.dialects.types import DYNAMIC
from pypto_jit.lowering.slices import Program
from pypto_jit.lowering.tensors.graph import VALUES, Kernel
from pypto_jit.lowering.types import TypeTable


def taken_over(kernels: Sequence[Kernel], program: Program, types: TypeTable) -> dict[Kernel, Kernel]:
    """The kernels that leave their results in the workspace that was made for another one, which is given.

    Args:
        kernels: of a function, in the order that they run in.
        program: the function, before the kernels are written.
        types: of the context.
    """
    maker = {kernel.value: kernel for kernel in kernels if kernel.destination is None}
    reads = {kernel: _read(kernel) & maker.keys() for kernel in kernels}
    readers: dict[Kernel, set[Kernel]] = {kernel: set() for kernel in kernels}
    before: dict[Kernel, set[Kernel]] = {}
    for kernel in kernels:
        sources = {maker[value] for value in reads[kernel] if maker[value] is not kernel}
        for source in sources:
            readers[source].add(kernel)
        before[kernel] = sources.union(*(before.get(source, set()) for source in sources))
    opaque = {
        v for node in program.nodes if node.name not in VALUES and node.name != "pypto.assign" for v in node.operands
    }
    found: dict[Kernel, Kernel] = {}
    # What lies in each workspace, by the kernel that it was made for.
    held: dict[Kernel, Kernel] = {}
    for kernel in maker.values():
        if kernel.place.body is not program.body or DYNAMIC in types.tensor(kernel.value).shape:
            continue
        free = [
            made
            for made, last in held.items()
            if last.value not in opaque
            and readers[last]
            and readers[last] <= before[kernel]
            and _fits(kernel, made, types)
        ]
        made = min(free, key=lambda each: prod(types.tensor(each.value).shape), default=kernel)
        held[made] = kernel
        if made is not kernel:
            found[kernel] = made
    return found


def _read(kernel: Kernel) -> set[ir.Value]:
    """The values in memory that a kernel reads."""
    found = {term.value for term in kernel.layout.terms if term.node is None}
    for term in kernel.layout.of_kind("product"):
        assert term.node is not None
        found.update(term.node.operands)
    return found


def _fits(kernel: Kernel, made: Kernel, types: TypeTable) -> bool:
    new, old = types.tensor(kernel.value), types.tensor(made.value)
    return new.dtype == old.dtype and prod(new.shape) <= prod(old.shape)
