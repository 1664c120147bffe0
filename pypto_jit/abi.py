"""What a compiled entry and its loader agree on: result codes and the table of addresses. A leaf module.

The entry is a TVM-FFI packed function, ``int32 (void* handle, const TVMFFIAny* args, int32 count, TVMFFIAny* result)``
(source: tvm/ffi/c_api.h, ``TVMFFISafeCallType``). It takes the tensors in parameter order, then the scalars in
parameter order, then optionally the number of threads, then optionally a word of flags. It always returns 0, and
leaves ``None`` in the result where the kernel ran, or one of the integers below.
"""

from __future__ import annotations

from enum import IntEnum

# Results. 1 .. number of tensors and scalars: that argument does not fit this specialization.
OVERLAP = 1 << 16  # a written argument shares memory with another one in a way the kernel was not proved safe for
ARITY = 1 << 17  # another number of arguments, or a thread count or flags that are no integers
# Negative results: -k is a failed run-time check, the k-th of the artifact's table.
OUT_OF_MEMORY = -(1 << 40)

# Bits of the flags argument.
OVERLAP_RESOLVED = 1  # the caller has made sure that the overlap does no harm
SHUFFLE = 32  # the word shifted right by so many bits, not zero: run independent tasks in an order that it gives

# TVM-FFI (tvm/ffi/c_api.h): type indices, the size of one argument, and where a tensor object keeps its DLTensor.
TYPE_NONE = 0
TYPE_INT = 1
TYPE_BOOL = 2
TYPE_FLOAT = 3
TYPE_DLTENSOR_POINTER = 7
TYPE_TENSOR = 70
ARGUMENT_BYTES = 16
TENSOR_DLTENSOR = 24  # offset of the DLTensor in a tensor object

# DLPack (dlpack.h): size of a DLTensor, and offsets in it.
DLTENSOR_BYTES = 48
DLTENSOR_DATA, DLTENSOR_DEVICE, DLTENSOR_NDIM, DLTENSOR_SHAPE = 0, 8, 16, 24
DLTENSOR_STRIDES, DLTENSOR_BYTE_OFFSET = 32, 40
DEVICE_CPU = 1


class Binding(IntEnum):
    """Slots of the entry's table: addresses, which the loader fills in (zero: not available), and a count."""

    PARALLEL = 0  # GOMP_parallel
    THREAD_NUM = 1  # omp_get_thread_num
    NUM_THREADS = 2  # omp_get_num_threads
    ALLOCATE = 3  # aligned_alloc
    FREE = 4  # free
    CALLS = 5  # counted up by the entry: how often it ran the kernel
    # For the door: torch's types, where its objects keep what DLPack hides (`runtime.torch_layout`), and functions of
    # torch and of CPython.
    TENSOR_TYPE = 6
    PARAMETER_TYPE = 7
    IMPLEMENTATION = 8
    KEY_SET = 9
    KEY_SET_IGNORED = 10
    KEY_SET_PLAIN = 11
    VERSION = 12
    VERSION_VALUE = 13
    BORROW = 14  # DLPackExchangeAPI.dltensor_from_py_object_no_sync; zero where there is no door
    CLEAR_ERROR = 15  # PyErr_Clear
    AS_INTEGER = 16  # PyLong_AsLongLong
    FROM_INTEGER = 17  # PyLong_FromLongLong
    RELEASE = 18  # PyEval_SaveThread
    ACQUIRE = 19  # PyEval_RestoreThread
    AS_BYTES = 20  # PyBytes_AsString
    NONE = 21  # the object None
    RETAIN = 22  # Py_IncRef
    YIELD = 23  # sched_yield
    INTEGER_TYPE = 24  # the types int, float and bool, and the object True
    FLOAT_TYPE = 25
    BOOL_TYPE = 26
    TRUE = 27
    AS_FLOAT = 28  # PyFloat_AsDouble
    FAILED = 29  # PyErr_Occurred


BINDING_SYMBOL = "pypto_bindings"
ENTRY_SYMBOL = "pypto_entry"
DOOR_SYMBOL = "pypto_door"

# What the door's ``self``, a bytes object, holds: five 64-bit words.
DOOR_ENTRY, DOOR_COUNT, DOOR_WRITTEN, DOOR_RELEASE, DOOR_SCALARS = 0, 8, 16, 24, 32
# One bit of the third says whether a tensor is written.
DOOR_MOST_TENSORS = 64
