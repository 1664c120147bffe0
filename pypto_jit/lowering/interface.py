"""What a call of a module takes, told from the module itself: for kernels that come as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pypto_jit._mlir import ir
from pypto_jit.dialects.locations import span_of
from pypto_jit.dialects.types import (
    DIMS,
    DYNAMIC,
    PointerType,
    TensorType,
    TensorViewType,
    TileType,
    parse_type,
    row_major_strides,
)
from pypto_jit.dtypes import BOOL, BY_MLIR, INDEX, DType
from pypto_jit.errors import AssemblyError
from pypto_jit.lowering.attributes import KERNEL, TENSOR, described_arguments, parameters, text
from pypto_jit.lowering.chains import root_of
from pypto_jit.lowering.tree import constant, is_flagged
from pypto_jit.signature import DynVar, ParamInfo, ScalarSpec, TensorSpec, parse_dimension

_TRACED = frozenset({"func.return", "scf.for", "scf.while", "scf.if", "scf.yield", "scf.condition"})


def functions(module: ir.Module) -> list[ir.Operation]:
    """The functions of a module.

    Raises:
        AssemblyError: there is something else in it, or nothing.
    """
    found = [op.operation for op in module.body.operations]
    for op in found:
        if op.name != "func.func" or not op.regions[0].blocks:
            raise AssemblyError("a module of kernels holds functions", span=span_of(op.location), found=op.name)
    if not found:
        raise AssemblyError("the module holds no kernel")
    return found


def traced_interface(module: ir.Module) -> tuple[ParamInfo, ...]:
    """The parameters of a module in the ``pypto`` dialect, of one function.

    Raises:
        AssemblyError: it is no such module.
    """
    found = functions(module)
    if len(found) > 1:
        raise AssemblyError("a traced module holds one kernel", found=f"{len(found)} functions")
    _check_operations(found[0])
    block = found[0].regions[0].blocks[0]
    names = _names(found[0], len(block.arguments))
    loaded = _uses(found[0], _READ) | _accesses(found[0], "read")
    stored = _uses(found[0], _WRITTEN) | _accesses(found[0], "write")
    infos = []
    dims = _named_extents(found[0], names, block.arguments)
    for name, argument in zip(names, block.arguments, strict=True):
        kind = parse_type(str(argument.type))
        if kind is None:
            infos.append(ParamInfo(name, "in", _scalar_spec(name, argument.type, found[0])))
            continue
        if not isinstance(kind, TensorType):
            raise AssemblyError(f"'{name}' is no tensor", span=span_of(found[0].location), found=str(argument.type))
        spec = TensorSpec(kind.shape, kind.dtype, kind.strides, dims[name])
        infos.append(ParamInfo(name, _direction(argument in loaded, argument in stored), spec))
    return tuple(infos)


def _named_extents(
    function: ir.Operation, names: Sequence[str], arguments: Sequence[ir.Value]
) -> dict[str, tuple[DynVar | None, ...]]:
    """The names of the extents of each argument: those that the function says, or names of their own.

    Raises:
        AssemblyError: it says something else than the name of each unknown extent.
    """
    kinds = [parse_type(str(argument.type)) for argument in arguments]
    shapes = [kind.shape if isinstance(kind, TensorType) else () for kind in kinds]
    if DIMS not in function.attributes:
        return {name: _own_names(name, shape) for name, shape in zip(names, shapes, strict=True)}
    attribute = function.attributes[DIMS]
    try:
        said = [[ir.StringAttr(each).value for each in ir.ArrayAttr(one)] for one in ir.ArrayAttr(attribute)]
    except ValueError:
        said = []
    dims = [tuple(parse_dimension(text) for text in each) for each in said]
    if len(dims) != len(shapes) or any(not _fits(each, shape) for each, shape in zip(dims, shapes, strict=True)):
        raise AssemblyError(
            f"{DIMS} names the extents of each argument that are only known at run time",
            span=span_of(function.location),
            found=str(attribute),
            expected='such as [["M", ""], []], where all extents of the second argument are known',
        )
    return {name: each if any(each) else () for name, each in zip(names, dims, strict=True)}


def _fits(dims: Sequence[DynVar | None], shape: Sequence[int]) -> bool:
    unknown = [extent == DYNAMIC for extent in shape]
    return [dim is not None for dim in dims] == unknown if dims else not any(unknown)


def _own_names(name: str, shape: Sequence[int]) -> tuple[DynVar | None, ...]:
    """Names for the extents that are read at run time: the text does not tell which of them are equal."""
    dims = tuple(DynVar(f"{name}_dim{axis}") if extent == DYNAMIC else None for axis, extent in enumerate(shape))
    return dims if any(dims) else ()


def _check_operations(function: ir.Operation) -> None:
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    if kind.results:
        raise AssemblyError("a kernel returns nothing", span=span_of(function.location), found=str(kind))
    for op in _walk(function):
        if op.name not in _TRACED and op.name.partition(".")[0] not in ("pypto", "arith"):
            raise AssemblyError("a kernel has no such operation", span=span_of(op.location), found=op.name)
        if op.name == "pypto.load":
            _check_load(op)
        elif op.name == "scf.while" and not is_flagged(op):
            raise AssemblyError(
                "a loop's first region only passes on what the loop carries",
                span=span_of(op.location),
                expected="scf.condition(%go) %a, %b on the region's arguments, in their order",
                hint="carry the condition: compute it before the loop, and at the end of the second region",
            )


def _check_load(op: ir.Operation) -> None:
    """The extents of a box are operands, and the static ones are in the type as well."""
    tile = parse_type(str(op.results[0].type))
    assert isinstance(tile, TileType)
    extents = list(op.operands)[1:]
    extents = extents[len(extents) // 2 :]
    for given, valid in zip(reversed(extents), reversed(tile.valid), strict=False):
        if valid != DYNAMIC and constant(given) != valid:
            raise AssemblyError(
                "the valid shape of a load is not the extents of its box",
                span=span_of(op.location),
                found=f"{constant(given)} for {valid}",
            )


def _walk(function: ir.Operation) -> list[ir.Operation]:
    """The operations in a function, in order; an exception within MLIR's own walk would lose its type."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[1:]


def _names(function: ir.Operation, count: int) -> list[str]:
    if "pypto.parameters" not in function.attributes:
        names = [f"arg{k}" for k in range(count)]
        function.attributes["pypto.parameters"] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])
    names = parameters(function)
    if len(names) != count or len(set(names)) != count:
        raise AssemblyError(
            "pypto.parameters names every argument once",
            span=span_of(function.location),
            found=f"{', '.join(names)} for {count} arguments",
        )
    return names


# Which operands of an operation are tensors that it reads, and which that it writes.
_READ = {
    "pypto.load": (0,),
    "pypto.read": (0,),
    "pypto.map": (0, 1, 2),
    "pypto.select": (0, 1, 2),
    "pypto.reduce": (0,),
    "pypto.cumulate": (0,),
    "pypto.product": (0, 1),
    "pypto.rearrange": (0,),
    "pypto.assign": (0,),
}
_WRITTEN = {"pypto.store": (1,), "pypto.write": (1,), "pypto.assign": (1,)}


def _uses(function: ir.Operation, operands: Mapping[str, tuple[int, ...]]) -> set[ir.Value]:
    found: set[ir.Value] = set()
    for op in _walk(function):
        values = list(op.operands)
        found |= {root_of(values[k]) for k in operands.get(op.name, ()) if k < len(values)}
    return found


def _accesses(function: ir.Operation, mode: str) -> set[ir.Value]:
    """The tensors that called assembly touches."""
    found = [op for op in _walk(function) if op.name == "pypto.access" and text(op, "mode") == mode]
    return {root_of(op.operands[0]) for op in found}


def _direction(loaded: bool, stored: bool) -> str:
    return ("inout" if loaded else "out") if stored else "in"


_SCALARS: dict[str, DType] = {**BY_MLIR, INDEX.mlir: INDEX, BOOL.mlir: BOOL}


def _scalar_spec(name: str, kind: ir.Type, function: ir.Operation) -> ScalarSpec:
    dtype = _SCALARS.get(str(kind))
    if dtype is None:
        raise AssemblyError(f"'{name}' is neither a tensor nor a number", span=span_of(function.location), found=kind)
    return ScalarSpec(dtype, converts=dtype.is_float)


def planned_interface(module: ir.Module, known: Mapping[str, TensorSpec] | None = None) -> tuple[ParamInfo, ...]:
    """The parameters of a module in the ``pto`` dialect, in the order that its functions name them.

    Args:
        known: specifications of tensors that the module may not access.

    Raises:
        AssemblyError: an argument is no tensor of a known shape.
    """
    found: dict[str, tuple[bool, bool, TensorSpec | ScalarSpec | None]] = {}
    order: list[str] = []
    for function in functions(module):
        if KERNEL in function.attributes:
            raise AssemblyError(
                "these kernels are called by host code that the assembly does not hold",
                span=span_of(function.location),
                found=f"'{text(function, KERNEL)}' is a task",
                hint="compile the traced module instead: pypto.compile(kernel.lower(...))",
            )
        if "pypto.parameters" in function.attributes:
            order = parameters(function)
        for name, loaded, stored, spec in _parameters(function):
            before = found.get(name, (False, False, None))
            if spec is not None and before[2] not in (None, spec):
                raise AssemblyError(f"'{name}' has two shapes or dtypes", found=f"{before[2]} and {spec}")
            found[name] = (before[0] or loaded, before[1] or stored, spec or before[2])
    infos = []
    for name, (loaded, stored, seen) in found.items():
        spec = seen or (known or {}).get(name)
        if spec is None:
            raise AssemblyError(f"'{name}' is not accessed: its shape is not known")
        infos.append(ParamInfo(name, _direction(loaded, stored), spec))
    if sorted(order) == sorted(found):
        infos.sort(key=lambda info: order.index(info.name))
    return tuple(infos)


def _parameters(function: ir.Operation) -> Iterable[tuple[str, bool, bool, TensorSpec | ScalarSpec | None]]:
    """Name, whether it is read and written, and specification of each tensor and scalar of a function."""
    block = function.regions[0].blocks[0]
    described = described_arguments(function, len(block.arguments))
    # A box stands for the tensor that it is a part of.
    tensor_of: dict[ir.Value, ir.Value] = {}
    specs: dict[ir.Value, TensorSpec] = {}
    loaded: set[ir.Value] = set()
    stored: set[ir.Value] = set()
    said = {a: d[TENSOR] for a, d in zip(block.arguments, described, strict=True) if TENSOR in d}
    names = {
        a: ir.StringAttr(d["pypto.argument"]).value
        for a, d in zip(block.arguments, described, strict=True)
        if "pypto.argument" in d
    }
    specs.update((a, _said_spec(a, attribute, names.get(a, ""))) for a, attribute in said.items())
    for op in _walk(function):
        if op.name == "pto.make_tensor_view":
            tensor = op.operands[0]
            tensor_of[op.results[0]] = tensor
            if tensor in said:
                continue
            spec = _view_spec(op, names.get(tensor, ""))
            if specs.setdefault(tensor, spec) != spec:
                raise AssemblyError("a tensor has one shape", span=span_of(op.location), found=str(spec))
            _check_read(op, block, described)
        elif op.name == "pto.partition_view" and op.operands[0] in tensor_of:
            tensor_of[op.results[0]] = tensor_of[op.operands[0]]
        elif op.name == "pto.load_scalar":
            loaded.add(op.operands[0])
        elif op.name == "pto.store_scalar":
            stored.add(op.operands[1])
        else:
            touched = [tensor_of[value] for value in op.operands if value in tensor_of]
            (stored if op.name == "pto.tstore" else loaded).update(touched)
    for argument, attributes in zip(block.arguments, described, strict=True):
        if "pypto.argument" in attributes:
            name = ir.StringAttr(attributes["pypto.argument"]).value
            yield name, argument in loaded, argument in stored, specs.get(argument)
        elif "pypto.scalar" in attributes:
            name = ir.StringAttr(attributes["pypto.scalar"]).value
            yield name, False, False, _scalar_spec(name, argument.type, function)
        elif not {"pypto.workspace", "pypto.dim", "pypto.stride"} & {named.name for named in attributes}:
            raise AssemblyError(
                "a kernel's argument is a tensor, or what its '// pypto:' comment says",
                span=span_of(function.location),
                found=str(argument.type),
            )


def _said_spec(argument: ir.Value, attribute: ir.Attribute, name: str) -> TensorSpec:
    pointer = parse_type(str(argument.type))
    assert isinstance(pointer, PointerType)
    try:
        shape, strides = (tuple(ir.DenseI64ArrayAttr(side)) for side in ir.ArrayAttr(attribute))
    except ValueError:
        raise AssemblyError("pypto.tensor is extents and strides", found=str(attribute)) from None
    return TensorSpec(shape, pointer.dtype, strides, _own_names(name, shape))


def _view_spec(op: ir.Operation, name: str) -> TensorSpec:
    kind = parse_type(str(op.results[0].type))
    pointer = parse_type(str(op.operands[0].type))
    assert isinstance(kind, TensorViewType)
    assert isinstance(pointer, PointerType)
    rank = len(kind.shape)
    shape = [constant(value) for value in list(op.operands)[1 : 1 + rank]]
    extents = tuple(DYNAMIC if extent is None else extent for extent in shape)
    strides = [constant(value) for value in list(op.operands)[1 + rank :]]
    return TensorSpec(extents, pointer.dtype, _strides(extents, strides), _own_names(name, extents))


def _check_read(op: ir.Operation, block: ir.Block, described: Sequence[ir.DictAttr]) -> None:
    """An extent or a stride that is read at run time is the argument that stands for it."""
    about = dict(zip(block.arguments, described, strict=True))
    operands = list(op.operands)
    tensor, rank = operands[0], (len(operands) - 1) // 2
    for position, value in enumerate(operands[1:]):
        if constant(value) is not None:
            continue
        what, axis = ("extent" if position < rank else "stride"), position % rank
        attribute = "pypto.dim" if what == "extent" else "pypto.stride"
        attributes = about.get(value, {})
        place = list(ir.ArrayAttr(attributes[attribute])) if attribute in attributes else []
        named = [ir.StringAttr(place[0]).value, ir.IntegerAttr(place[1]).value] if place else []
        if named != [ir.StringAttr(about[tensor]["pypto.argument"]).value, axis]:
            raise AssemblyError(
                f"the {what} of a tensor is a constant, or what its '// pypto:' comment says",
                span=span_of(op.location),
                found=f"{what} {axis} of {tensor.type}",
            )


def _strides(shape: tuple[int, ...], strides: Sequence[int | None]) -> tuple[int, ...]:
    """Strides as a specification has them; those of a dimension of one mean nothing, and may be whatever was handy."""
    contiguous = row_major_strides(shape)
    if all(s == c or extent == 1 for s, c, extent in zip(strides, contiguous, shape, strict=True)):
        return contiguous
    return tuple(DYNAMIC if stride is None else stride for stride in strides)
