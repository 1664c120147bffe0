"""The upstream operations that assembly may contain, as data: which names share which custom syntax.

The printer and the parser both read these tables. Everything the vendor's assembler lowers besides ``pto`` is here:
``func``, structured control flow and ``arith`` on scalars.
"""

from __future__ import annotations


def _names(dialect: str, names: str) -> frozenset[str]:
    return frozenset(f"{dialect}.{name}" for name in names.split())


# ``%r = arith.addi %a, %b : T``
BINARY = _names(
    "arith",
    "addi subi muli divsi divui ceildivsi ceildivui floordivsi remsi remui andi ori xori shli shrsi shrui "
    "maxsi maxui minsi minui addf subf mulf divf remf maximumf minimumf maxnumf minnumf",
)
# ``%r = arith.negf %a : T``
UNARY = frozenset({"arith.negf"})
# ``%r = arith.index_cast %a : A to B``
CAST = _names("arith", "index_cast index_castui extsi extui extf trunci truncf sitofp uitofp fptosi fptoui bitcast")
# ``%r = arith.cmpi slt, %a, %b : T``: the predicate is an integer attribute, in this order.
COMPARE: dict[str, tuple[str, ...]] = {
    "arith.cmpi": ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"),
    "arith.cmpf": (
        *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
        *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
    ),
}
# ptoas v0.59 lowers every operation here but this one; it is written as ``a - (-b)``, which is the same number.
ADD_FLOATS = "arith.addf"
SELECT = "arith.select"
CONSTANT = "arith.constant"
FOR = "scf.for"
WHILE = "scf.while"
CONDITION = "scf.condition"
IF = "scf.if"
YIELD = "scf.yield"
FUNCTION = "func.func"
RETURN = "func.return"

# Attributes that MLIR gives these operations and that only permit something: leaving them out changes no result.
PERMISSIONS = frozenset({"overflowFlags", "fastmath", "isExact", "nneg", "operandSegmentSizes"})

# Manual synchronization in text made elsewhere. One thread runs a kernel's instructions in order, so it has no effect
# there, and what we print is synchronized by the assembler.
SYNCHRONIZATION = _names(
    "pto",
    "cmo.cacheinvalid set_flag wait_flag set_flag_dyn wait_flag_dyn record_event wait_event barrier barrier_sync "
    "get_buf rls_buf",
)

# Scalar accesses of global memory go through a cache that loads and stores of tiles pass by: what orders them waits for
# all pipes, drops the cache, and waits for memory. The last line stands for all three when it is read.
FENCE = "pto.fence"
WITHIN = "pto.within"
FENCED = (
    "pto.barrier #pto.pipe<PIPE_ALL>",
    "pto.cmo.cacheinvalid all #pto.address_space<gm>",
    "pto.fence.barrier_all #pto.fence_scope<gm>",
)

# Attributes of instructions that only hint, and those that must have the value given.
HINTS = frozenset({"precisionType", "accPhase", "stPhase", "isBinary"})
NEUTRAL: dict[str, str] = {
    "atomicType": "atomic_none",
    "reluPreMode": "no_relu",
    "satmode": "off",
    "sat_mode": "off",
}
# How a conversion asks to saturate. Text that does not ask is read as if it did: the difference is out of range values.
SATURATION = ("satmode", "sat_mode")
SATURATE = "#pto<saturation_mode ON>"

# What we keep through print and parse in a comment at the end of a line, because the assembler has no place for it.
PRAGMA = "// pypto:"
KEPT_PREFIX = "pypto."
# What says which parameter an argument is: a tensor (a pointer), or a scalar. The argument's own name says it else.
NAMES = ("pypto.argument", "pypto.scalar")
KEPT = frozenset({"buffer"})
# On a function that calls the kernels of its module, and on a kernel, with the name by which it is called.
HOST = "pypto.host"
CALLED = "pypto.kernel"
# Facts about a function that need not hold any more once its text is edited.
UNPRINTED = ("pypto.staged", "pypto.handed")
# On an operation that the CPU executes and the machine does not: why.
REFUSED = "pypto.refused"
