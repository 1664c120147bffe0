"""``externs``: kernels that come as assembly join the module, which is in their form by now.

Each call of one holds the text. Its functions are held against the stub's declaration and against the arguments of the
call; then they are kernels like those that were outlined.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pypto_jit._mlir import ir
from pypto_jit.dialects.assembly import parse_assembly
from pypto_jit.dialects.assembly.parser import DEFAULT_FILENAME
from pypto_jit.dialects.types import DYNAMIC, TensorType, row_major_strides
from pypto_jit.errors import AssemblyError, Span
from pypto_jit.lowering.attributes import EXTERN, HOST, KERNEL, described_arguments, symbol, text
from pypto_jit.lowering.cores import KIND
from pypto_jit.lowering.interface import planned_interface
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.spans import span_of, span_of_location
from pypto_jit.lowering.tree import functions
from pypto_jit.lowering.verify_buffers import verify_buffers
from pypto_jit.signature import ParamInfo, ScalarSpec, TensorSpec

_KINDS = {"aic": "cube", "aiv": "vector"}


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Add the functions of every assembly that is called; whether there was any.

    Raises:
        AssemblyError: it is malformed, or not what its stub declares or its call passes; with its line.
        PyptoError: it asks for what the machine cannot do.
    """
    symbols = {symbol(function) for function in functions(module)}
    # The name under which an assembly joined, by what tells its calls apart.
    joined: dict[tuple[str, ...], str] = {}
    for host in [function for function in functions(module) if HOST in function.attributes]:
        for call, arguments in list(_calls(host.regions[0].blocks[0], [])):
            extern = _Extern(call, arguments, lowering)
            key = (text(call, "callee") or "", text(call, EXTERN) or "", *extern.names)
            if key in joined:
                extern.check()
            else:
                joined[key] = extern.join(host, symbols)
            call.attributes["callee"] = ir.StringAttr.get(joined[key])
            for name in (EXTERN, "file", "core", "parameters", "directions"):
                del call.attributes[name]
    return bool(joined)


def _calls(block: ir.Block, arguments: list[ir.Operation]) -> Iterator[tuple[ir.Operation, list[ir.Operation]]]:
    """The calls of assembly, each with the operations that give its arguments."""
    for view in block.operations:
        op = view.operation
        if op.name == "pypto.argument":
            arguments.append(op)
        elif op.name == "pypto.call":
            if EXTERN in op.attributes:
                yield op, list(arguments)
            arguments.clear()
        for region in op.regions:
            for inner in region.blocks:
                yield from _calls(inner, arguments)


def _strings(op: ir.Operation, name: str) -> list[str]:
    return [ir.StringAttr(each).value for each in ir.ArrayAttr(op.attributes[name])]


class _Extern:
    """The assembly of one call."""

    def __init__(self, call: ir.Operation, arguments: Sequence[ir.Operation], lowering: Lowering) -> None:
        self._call = call
        self._values = [argument.operands[0] for argument in arguments]
        self._lowering = lowering
        self._stub = span_of(arguments[0]) if arguments else None
        self._name = text(call, "task") or ""
        self.names = _strings(call, "parameters")
        self._directions = _strings(call, "directions")
        self._filename = text(call, "file") or DEFAULT_FILENAME

    def check(self) -> tuple[ir.Module, list[str]]:
        """The module, and the assembly's names of the parameters in the order of the stub's."""
        source = text(self._call, EXTERN) or ""
        module = parse_assembly(source, self._call.context, filename=self._filename, own_places=True)
        found = [op.operation for op in module.body.operations]
        arch = text(module.operation, "pto.target_arch")
        if arch != self._lowering.target.name:
            raise self._error("the assembly is for another architecture", None, arch, self._lowering.target.name)
        if len({text(function, KERNEL) for function in found}) == 1:
            # As printed by us, it may say which kernel of another program it was.
            for function in found:
                if KERNEL in function.attributes:
                    del function.attributes[KERNEL]
        tensors = {
            name: TensorSpec(kind.shape, kind.dtype, kind.strides)
            for name, kind in zip(self.names, map(self._lowering.types.of, self._values), strict=True)
            if isinstance(kind, TensorType)
        }
        infos = {info.name: info for info in planned_interface(module, tensors)}
        order = list(self._names_of_arguments(found))
        if set(order) == set(self.names):
            order = self.names
        elif len(order) != len(self.names):
            raise self._error(
                f"'{self._name}' is declared with other parameters than the assembly has",
                span_of(found[0]),
                f"{len(order)} arguments: {', '.join(order)}",
                f"{len(self.names)}: {', '.join(self.names)}",
            )
        for name, own, direction, value in zip(self.names, order, self._directions, self._values, strict=True):
            place = _place(found, own)
            self._check_type(name, infos[own], value, place)
            self._check_direction(name, infos[own], direction, place)
        self._check_core(found)
        verify_buffers(module.operation, Lowering(self._lowering.target, self._lowering.types), planned=True)
        return module, list(order)

    def join(self, host: ir.Operation, symbols: set[str]) -> str:
        """Move the functions into the module of the host; the name that they are called by."""
        module, order = self.check()
        base = name = f"{symbol(host)}_{self._name}"
        number = 1
        while name in symbols:
            number += 1
            name = f"{base}_{number}"
        found = [op.operation for op in module.body.operations]
        for k, function in enumerate(found):
            own = name if len(found) == 1 else f"{name}_{k}_{text(function, KIND) or 'mixed'}"
            symbols.add(own)
            function.attributes["sym_name"] = ir.StringAttr.get(own)
            function.attributes[KERNEL] = ir.StringAttr.get(name)
            function.attributes["pypto.parameters"] = ir.ArrayAttr.get([ir.StringAttr.get(each) for each in order])
            function.move_before(host)
        symbols.add(name)
        return name

    def _names_of_arguments(self, found: Sequence[ir.Operation]) -> dict[str, None]:
        return {name: None for function in found for name, _ in _named(function)}

    # Held against the stub

    def _error(
        self, message: str, span: Span | None, found: object, expected: object, hint: str | None = None
    ) -> AssemblyError:
        place = Span(self._filename, 1) if span is None else span
        notes = (f"the stub '{self._name}' is at {self._stub}",) if self._stub is not None else ()
        return AssemblyError(message, span=place, found=found, expected=expected, notes=notes, hint=hint)

    def _check_type(self, name: str, info: ParamInfo, value: ir.Value, place: Span | None) -> None:
        kind, spec = self._lowering.types.of(value), info.spec
        if isinstance(spec, ScalarSpec):
            if isinstance(kind, TensorType) or spec.dtype.signless != str(value.type):
                found = "a tensor" if isinstance(kind, TensorType) else str(value.type)
                raise self._error(f"'{name}' is a number in the assembly", place, found, spec.dtype)
            return
        assert isinstance(spec, TensorSpec)
        if not isinstance(kind, TensorType):
            raise self._error(f"'{name}' is a tensor in the assembly", place, str(value.type), list(spec.shape))
        if spec.dtype != kind.dtype:
            raise self._error(f"'{name}' has another dtype in the assembly", place, spec.dtype, kind.dtype)
        if not _fits(spec.shape, kind.shape):
            raise self._error(f"'{name}' has another shape in the assembly", place, list(spec.shape), list(kind.shape))
        if not _fits(spec.strides, _plain(kind)):
            found, expected = f"strides {list(spec.strides)}", f"strides {list(kind.strides)}"
            hint = "pass a contiguous tensor"
            raise self._error(f"'{name}' lies otherwise in the assembly", place, found, expected, hint)

    def _check_direction(self, name: str, info: ParamInfo, direction: str, place: Span | None) -> None:
        if isinstance(info.spec, ScalarSpec):
            return
        if info.direction != "in" and direction == "in":
            raise self._error(
                f"the assembly writes '{name}'", place, f"{name}: pl.Tensor", f"{name}: pl.Out or pl.InOut"
            )
        if info.direction == "inout" and direction == "out":
            raise self._error(f"the assembly reads '{name}'", place, f"{name}: pl.Out", f"{name}: pl.InOut")
        if info.direction == "in" and direction != "in":
            shown = "Out" if direction == "out" else "InOut"
            raise self._error(f"the assembly never writes '{name}'", place, f"{name}: pl.{shown}", f"{name}: pl.Tensor")

    def _check_core(self, found: Sequence[ir.Operation]) -> None:
        core = text(self._call, "core") or ""
        kind = _KINDS.get(core)
        for function in found:
            own = text(function, KIND)
            if kind is not None and own is None:
                function.attributes[KIND] = ir.StringAttr.get(kind)
            elif kind is not None and own != kind:
                message = f"the assembly is for another core than core_type='{core}' says"
                raise self._error(message, span_of(function), own, kind)


def _named(function: ir.Operation) -> Iterator[tuple[str, ir.Value]]:
    """Name and value of the arguments of a function that a call gives."""
    block = function.regions[0].blocks[0]
    for argument, about in zip(block.arguments, described_arguments(function, len(block.arguments)), strict=True):
        for key in ("pypto.argument", "pypto.scalar"):
            if key in about:
                yield ir.StringAttr(about[key]).value, argument


def _place(found: Sequence[ir.Operation], name: str) -> Span | None:
    """The line of an argument."""
    for function in found:
        for own, argument in _named(function):
            if own == name:
                return span_of_location(argument.location) or span_of(function)
    return None


def _fits(said: Sequence[int], given: Sequence[int]) -> bool:
    return len(said) == len(given) and all(s in (DYNAMIC, g) for s, g in zip(said, given, strict=True))


def _plain(kind: TensorType) -> tuple[int, ...]:
    """Strides as those of the assembly are told: where an extent is one, its stride means nothing."""
    plain = row_major_strides(kind.shape)
    same = all(s == p or extent == 1 for s, p, extent in zip(kind.strides, plain, kind.shape, strict=True))
    return plain if same else kind.strides
