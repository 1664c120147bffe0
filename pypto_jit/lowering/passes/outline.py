"""``outline``: a function with tasks becomes a host function that submits calls of kernels.

A function that has neither tasks nor tensors of its own is one kernel, and stays as it is. In any other, every task
becomes a function of the tensors and scalars that it uses, and the original function keeps what is around: it is marked
``pypto.host`` and holds these operations and no others.

``arith.*``, ``scf.for``, ``scf.if``, ``scf.while``
    on scalars; loops and branches carry scalars only.
``%t = pypto.create_tensor(extents)``
    a new row-major tensor. The operands are the extents that its type does not know, in order. With the attribute
    ``initial``, a number of the element type, it is filled with it; else its contents are undefined. It lives until the
    host function returns: whatever was submitted may use it.
``pypto.dim``, ``pypto.read``, ``pypto.write``
    of parameters and created tensors. A read or write first waits for the tasks that touch what it touches.
``%id = pypto.submit(dependencies)``
    the TaskId of a new task that starts after these tasks; -1 stands for no task. What follows up to the call is that
    task's. With the attribute ``pypto.dummy`` there is no call: the task does nothing, and ends when its dependencies
    have ended.
``pypto.access(tensor, lower corner, upper corner) {mode}``
    what the task may touch: a box of a tensor, one index per dimension for each corner, the upper one left out. The mode
    is ``read``, ``write`` or ``atomic`` (a read and a write, in any order with other atomic ones). There may be several
    of one tensor, and a box may be empty or larger than the tensor: what it says beyond the tensor means nothing. Every
    access of the task lies in one of its boxes.
``pypto.call(arguments) {callee = "symbol", task = "name", blocks}``
    runs the kernel. ``callee`` is the name that the outlined function had: later passes may split that one into several
    functions, which run one after the other. Each function of the module that is no host function has the attribute
    ``pypto.kernel`` with the name it was outlined under. The function's first arguments are the call's, in order;
    ``pypto.parameters`` names them. A call is always directly behind its submit and its accesses.

A function without tasks that creates tensors, and operations on tiles between tasks, become kernels as well: operations
that follow each other join into one. The submit, the access and the call of a task with a predicate are in an
``scf.if`` whose other arm yields -1.
"""
