"""What a compiled entry and its loader agree on: result codes and the table of addresses. A leaf module.

The entry is a TVM-FFI packed function, ``int32 (void* handle, const TVMFFIAny* args, int32 count, TVMFFIAny* result)``
(source: tvm/ffi/c_api.h, ``TVMFFISafeCallType``). It takes the tensors in parameter order, then optionally the number
of threads, then optionally a word of flags. It always returns 0, and leaves ``None`` in the result where the kernel
ran, or one of the integers below.
"""

from __future__ import annotations

from enum import IntEnum

# Results. 1 .. number of tensors: that argument does not fit this specialization.
OVERLAP = 1 << 16  # a written argument shares memory with another one in a way the kernel was not proved safe for
ARITY = 1 << 17  # another number of arguments, or a thread count or flags that are no integers
# Negative results: -k is a failed run-time check, the k-th of the artifact's table.
OUT_OF_MEMORY = -(1 << 40)

# Bits of the flags argument.
OVERLAP_RESOLVED = 1  # the caller has made sure that the overlap does no harm

# TVM-FFI (tvm/ffi/c_api.h): type indices, the size of one argument, and where a tensor object keeps its DLTensor.
TYPE_NONE = 0
TYPE_INT = 1
TYPE_DLTENSOR_POINTER = 7
TYPE_TENSOR = 70
ARGUMENT_BYTES = 16
OBJECT_DELETER = 16  # offset of the deleter in an object's header
TENSOR_DLTENSOR = 24  # offset of the DLTensor in a tensor object
TENSOR_OWNER = 72  # offset of the DLManagedTensorVersioned pointer in a tensor object made from one

# DLPack (dlpack.h): offsets in DLTensor and in DLManagedTensorVersioned, and the flags of the latter.
DLTENSOR_DATA, DLTENSOR_DEVICE, DLTENSOR_NDIM, DLTENSOR_SHAPE = 0, 8, 16, 24
DLTENSOR_STRIDES, DLTENSOR_BYTE_OFFSET = 32, 40
MANAGED_CONTEXT, MANAGED_DELETER, MANAGED_FLAGS = 8, 16, 24
DEVICE_CPU = 1
READ_ONLY_OR_COPIED = 3


class Binding(IntEnum):
    """Slots of the table the loader fills: addresses, and where torch keeps what DLPack hides. Zero: not available."""

    PARALLEL = 0  # GOMP_parallel
    THREAD_NUM = 1  # omp_get_thread_num
    NUM_THREADS = 2  # omp_get_num_threads
    ALLOCATE = 3  # aligned_alloc
    FREE = 4  # free
    TENSOR_DELETER = 5  # TVM-FFI's deleter of a tensor object that owns a DLManagedTensorVersioned
    TORCH_DELETER = 6  # torch's deleter of a DLManagedTensorVersioned
    KEY_SET = 7  # offset of the dispatch key set in torch's tensor
    KEY_SET_IGNORED = 8  # bits a plain tensor may lack: the autograd keys, which inference tensors do not have
    KEY_SET_PLAIN = 9  # a plain CPU tensor's key set, with those bits
    VERSION = 10  # offset of the pointer to the version counter in torch's tensor
    VERSION_VALUE = 11  # offset of the 32-bit count in the version counter
    CALLS = 12  # counted up by the entry: how often it ran the kernel


BINDING_SYMBOL = "pypto_bindings"
ENTRY_SYMBOL = "pypto_entry"
