"""The door: a CPython function that leads torch tensors into an entry without a detour through TVM-FFI.

It takes tensors of exactly torch's own types, looks at them where they are, checks what DLPack hides of them, has
torch fill a DLTensor of each on the stack, takes the scalars that follow out of their Python objects, calls the entry,
and counts up the versions of what was written. For anything else it answers a mismatch. It is the same code in every
artifact; `pypto_jit.runtime.door` makes Python functions of it.
"""

from __future__ import annotations

from pypto_jit import abi
from pypto_jit.abi import Binding


def _load(slot: Binding, kind: str) -> str:
    return f"load {kind}, ptr getelementptr (i64, ptr @{abi.BINDING_SYMBOL}, i64 {int(slot)})"


# ``PyObject* door(PyObject* self, PyObject* const* args, Py_ssize_t given)``, as METH_FASTCALL has it.
DOOR_TEXT = f"""\
define ptr @{abi.DOOR_SYMBOL}(ptr %self, ptr %args, i64 %given) optnone noinline {{
  %as.bytes = {_load(Binding.AS_BYTES, "ptr")}
  %target = call ptr %as.bytes(ptr %self)
  %entry = load ptr, ptr %target
  %count.at = getelementptr i8, ptr %target, i64 {abi.DOOR_COUNT}
  %count = load i64, ptr %count.at
  %written.at = getelementptr i8, ptr %target, i64 {abi.DOOR_WRITTEN}
  %written = load i64, ptr %written.at
  %release.at = getelementptr i8, ptr %target, i64 {abi.DOOR_RELEASE}
  %release = load i64, ptr %release.at
  %scalars.at = getelementptr i8, ptr %target, i64 {abi.DOOR_SCALARS}
  %scalars = load i64, ptr %scalars.at
  %total = add i64 %count, %scalars
  %more = sub i64 %given, %total
  %fits = icmp ule i64 %more, 1
  %tensors = alloca [{abi.DLTENSOR_BYTES} x i8], i64 %count, align 8
  %slots = add i64 %total, 1
  %anys = alloca [{abi.ARGUMENT_BYTES} x i8], i64 %slots, align 8
  %result = alloca [2 x i64], align 8
  br i1 %fits, label %setup, label %misfit
setup:
  store i64 0, ptr %result
  %tensor.type = {_load(Binding.TENSOR_TYPE, "ptr")}
  %parameter.type = {_load(Binding.PARAMETER_TYPE, "ptr")}
  %implementation.offset = {_load(Binding.IMPLEMENTATION, "i64")}
  %key.offset = {_load(Binding.KEY_SET, "i64")}
  %ignored = {_load(Binding.KEY_SET_IGNORED, "i64")}
  %plain = {_load(Binding.KEY_SET_PLAIN, "i64")}
  %borrow = {_load(Binding.BORROW, "ptr")}
  br label %head
head:
  %k = phi i64 [ 0, %setup ], [ %next, %borrowed ]
  %all = icmp eq i64 %k, %count
  br i1 %all, label %scalar.head, label %body
body:
  %object.at = getelementptr ptr, ptr %args, i64 %k
  %object = load ptr, ptr %object.at
  %type.at = getelementptr i8, ptr %object, i64 8
  %type = load ptr, ptr %type.at
  %is.tensor = icmp eq ptr %type, %tensor.type
  %is.parameter = icmp eq ptr %type, %parameter.type
  %is.torch = or i1 %is.tensor, %is.parameter
  br i1 %is.torch, label %keys, label %misfit
keys:
  %implementation.at = getelementptr i8, ptr %object, i64 %implementation.offset
  %implementation = load ptr, ptr %implementation.at
  %key.at = getelementptr i8, ptr %implementation, i64 %key.offset
  %key.set = load i64, ptr %key.at
  %with.ignored = or i64 %key.set, %ignored
  %is.plain = icmp eq i64 %with.ignored, %plain
  br i1 %is.plain, label %lend, label %misfit
lend:
  %tensor = getelementptr [{abi.DLTENSOR_BYTES} x i8], ptr %tensors, i64 %k
  %refused = call i32 %borrow(ptr %object, ptr %tensor)
  %lent = icmp eq i32 %refused, 0
  br i1 %lent, label %borrowed, label %error
borrowed:
  %any = getelementptr [{abi.ARGUMENT_BYTES} x i8], ptr %anys, i64 %k
  store i64 {abi.TYPE_DLTENSOR_POINTER}, ptr %any
  %payload = getelementptr i8, ptr %any, i64 8
  store ptr %tensor, ptr %payload
  %next = add i64 %k, 1
  br label %head
scalar.head:
  %s = phi i64 [ %count, %head ], [ %s.next, %scalar.done ]
  %all.scalars = icmp eq i64 %s, %total
  br i1 %all.scalars, label %integer, label %scalar.body
scalar.body:
  %s.object.at = getelementptr ptr, ptr %args, i64 %s
  %s.object = load ptr, ptr %s.object.at
  %s.type.at = getelementptr i8, ptr %s.object, i64 8
  %s.type = load ptr, ptr %s.type.at
  %s.any = getelementptr [{abi.ARGUMENT_BYTES} x i8], ptr %anys, i64 %s
  %s.payload = getelementptr i8, ptr %s.any, i64 8
  %integer.type = {_load(Binding.INTEGER_TYPE, "ptr")}
  %is.integer = icmp eq ptr %s.type, %integer.type
  br i1 %is.integer, label %take.integer, label %not.integer
take.integer:
  %as.long = {_load(Binding.AS_INTEGER, "ptr")}
  %long = call i64 %as.long(ptr %s.object)
  store i64 {abi.TYPE_INT}, ptr %s.any
  store i64 %long, ptr %s.payload
  %maybe.failed = icmp eq i64 %long, -1
  br i1 %maybe.failed, label %check.integer, label %scalar.done
check.integer:
  %failed = {_load(Binding.FAILED, "ptr")}
  %problem = call ptr %failed()
  %no.problem = icmp eq ptr %problem, null
  br i1 %no.problem, label %scalar.done, label %error
not.integer:
  %float.type = {_load(Binding.FLOAT_TYPE, "ptr")}
  %is.float = icmp eq ptr %s.type, %float.type
  br i1 %is.float, label %take.float, label %not.float
take.float:
  %as.double = {_load(Binding.AS_FLOAT, "ptr")}
  %double = call double %as.double(ptr %s.object)
  store i64 {abi.TYPE_FLOAT}, ptr %s.any
  store double %double, ptr %s.payload
  br label %scalar.done
not.float:
  %bool.type = {_load(Binding.BOOL_TYPE, "ptr")}
  %is.bool = icmp eq ptr %s.type, %bool.type
  br i1 %is.bool, label %take.bool, label %misfit
take.bool:
  %true.object = {_load(Binding.TRUE, "ptr")}
  %is.true = icmp eq ptr %s.object, %true.object
  %truth = zext i1 %is.true to i64
  store i64 {abi.TYPE_BOOL}, ptr %s.any
  store i64 %truth, ptr %s.payload
  br label %scalar.done
scalar.done:
  %s.next = add i64 %s, 1
  br label %scalar.head
integer:
  %has.integer = icmp eq i64 %more, 1
  br i1 %has.integer, label %convert, label %launch
convert:
  %last.at = getelementptr ptr, ptr %args, i64 %total
  %last = load ptr, ptr %last.at
  %as.integer = {_load(Binding.AS_INTEGER, "ptr")}
  %threads = call i64 %as.integer(ptr %last)
  %positive = icmp sgt i64 %threads, 0
  %last.any = getelementptr [{abi.ARGUMENT_BYTES} x i8], ptr %anys, i64 %total
  store i64 {abi.TYPE_INT}, ptr %last.any
  %last.payload = getelementptr i8, ptr %last.any, i64 8
  store i64 %threads, ptr %last.payload
  br i1 %positive, label %launch, label %error
launch:
  %entry.count = trunc i64 %given to i32
  %releases = icmp ne i64 %release, 0
  br i1 %releases, label %unlocked, label %locked
unlocked:
  %release.function = {_load(Binding.RELEASE, "ptr")}
  %state = call ptr %release.function()
  %status.unlocked = call i32 %entry(ptr null, ptr %anys, i32 %entry.count, ptr %result)
  %acquire.function = {_load(Binding.ACQUIRE, "ptr")}
  call void %acquire.function(ptr %state)
  br label %answer
locked:
  %status.locked = call i32 %entry(ptr null, ptr %anys, i32 %entry.count, ptr %result)
  br label %answer
answer:
  %kind = load i64, ptr %result
  %ran = icmp eq i64 %kind, {abi.TYPE_NONE}
  br i1 %ran, label %versions, label %refusal
refusal:
  %reason.at = getelementptr i8, ptr %result, i64 8
  %reason = load i64, ptr %reason.at
  br label %give
versions:
  %version.offset = {_load(Binding.VERSION, "i64")}
  %value.offset = {_load(Binding.VERSION_VALUE, "i64")}
  br label %version.head
version.head:
  %left = phi i64 [ %written, %versions ], [ %rest, %version.next ]
  %none.left = icmp eq i64 %left, 0
  br i1 %none.left, label %done, label %version.body
version.body:
  %index = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %below = sub i64 %left, 1
  %rest = and i64 %left, %below
  %written.object.at = getelementptr ptr, ptr %args, i64 %index
  %written.object = load ptr, ptr %written.object.at
  %written.implementation.at = getelementptr i8, ptr %written.object, i64 %implementation.offset
  %written.implementation = load ptr, ptr %written.implementation.at
  %counter.at = getelementptr i8, ptr %written.implementation, i64 %version.offset
  %counter = load ptr, ptr %counter.at
  %uncounted = icmp eq ptr %counter, null
  br i1 %uncounted, label %version.next, label %count.up
count.up:
  %value.at = getelementptr i8, ptr %counter, i64 %value.offset
  %old = atomicrmw add ptr %value.at, i32 1 seq_cst
  br label %version.next
version.next:
  br label %version.head
done:
  %none = {_load(Binding.NONE, "ptr")}
  %retain = {_load(Binding.RETAIN, "ptr")}
  call void %retain(ptr %none)
  ret ptr %none
error:
  %clear = {_load(Binding.CLEAR_ERROR, "ptr")}
  call void %clear()
  br label %misfit
misfit:
  br label %give
give:
  %code = phi i64 [ %reason, %refusal ], [ {abi.ARITY}, %misfit ]
  %from.integer = {_load(Binding.FROM_INTEGER, "ptr")}
  %number = call ptr %from.integer(i64 %code)
  ret ptr %number
}}
"""
