"""Tasks on the CPU: the native scheduler, and the host functions that submit to it.

A host function runs on the calling thread and records tasks: a kernel, its arguments, how many blocks, which memory it
reads and writes. Recorded tasks are run level by level on the thread pool when the function ends, when it reads or
writes memory itself, and when the table is full. All of it is native code, as LLVM IR: `layout` says where things lie
in memory, `submission` records tasks, `dependencies` finds what each must wait for, `planning` deals a table's tasks to
threads, `execution` runs them, `memory` allocates; `scheduler` puts them together. `host` and `calls` lower the host
function to code that calls them, with what `tensors` and `boxes` know of the memory it names.
"""
