"""``stage``: a kernel that mixes cube and vector work becomes several functions, each for one core.

Every tile gets a stage: cube work happens in even stages, vector work in odd ones, and a move between the cores leads
to a later stage. Each stage that stores something becomes a function; they are launched in order and hand tiles over
through workspaces in global memory, one slot for each turn of the loops around the move. A function computes again what
it needs of earlier stages of its own core, but takes vectors that sum up whole tiles from there. Where that cannot be
done the function stays whole and says why: it then runs on the CPU only.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_jit._mlir import ir
from pypto_jit.lowering.attributes import HANDED, HOST, KERNEL, STAGED, symbol, text
from pypto_jit.lowering.cores import CUBE, KIND, MIXED, VECTOR, core_of, crosses, set_kind
from pypto_jit.lowering.extents import UnknownExtentError, ValidExtents
from pypto_jit.lowering.lowering import Lowering
from pypto_jit.lowering.memory_order import order_problem
from pypto_jit.lowering.passes.blocks import PARALLEL
from pypto_jit.lowering.slices import Insertion, Program, Slice, SliceWriter
from pypto_jit.lowering.stages import CannotStageError, Stages
from pypto_jit.lowering.summaries import find_summaries
from pypto_jit.lowering.tree import Body, Node, functions
from pypto_jit.lowering.workspaces import (
    Handover,
    Workspace,
    add_arguments,
    make_workspace,
    needed_by_load,
    needed_by_store,
)


@dataclass
class _Part:
    """One function to be."""

    stage: int
    cut: Slice
    insertions: dict[Node, list[Insertion]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return VECTOR if self.stage % 2 else CUBE


def run(module: ir.Operation, lowering: Lowering) -> bool:
    """Split every mixed function, and give each function its kind and its final name; whether any was split."""
    kernels: dict[str, list[tuple[ir.Operation, Body]]] = {}
    for function, body in lowering.bodies(module):
        kernels.setdefault(text(function, KERNEL) or symbol(function), []).append((function, body))
    # The functions of one kernel share its workspaces.
    changed = [_run(found, lowering) for found in kernels.values()]
    _name(functions(module))
    return any(changed)


def _run(found: list[tuple[ir.Operation, Body]], lowering: Lowering) -> bool:
    workspaces: list[Workspace] = []
    split: list[tuple[Program, _Split]] = []
    whole: list[ir.Operation] = []
    for function, body in found:
        cores = {core_of(node, lowering.types) for node in body.walk()} - {None}
        if len(cores) > 1:
            program = Program(function, body)
            try:
                split.append((program, _Split(program, lowering, workspaces)))
                continue
            except CannotStageError as reason:
                function.attributes[MIXED] = ir.StringAttr.get(str(reason))
        else:
            set_kind(function, CUBE if CUBE in cores else VECTOR)
        whole.append(function)
    if workspaces:
        for function in whole:
            add_arguments(function, workspaces, lowering)
    for program, parts in split:
        _write(program, parts, workspaces, lowering)
    return bool(split)


def _write(program: Program, split: _Split, workspaces: list[Workspace], lowering: Lowering) -> None:
    name = symbol(program.function)
    for part in split.parts:
        writer = SliceWriter(part.cut, part.insertions)
        function = writer.write(
            f"{name}_{part.stage}", program.function, lambda new: add_arguments(new, workspaces, lowering)
        )
        if KERNEL not in function.attributes:
            function.attributes[KERNEL] = program.function.attributes["sym_name"]
        set_kind(function, part.kind)
        if split.in_blocks:
            function.attributes[STAGED] = ir.StringAttr.get(name)
            function.attributes[HANDED] = ir.DenseI64ArrayAttr.get(split.handed)
    program.function.erase()


def _name(found: list[ir.Operation]) -> None:
    """Number the functions of each kernel that has several, and name them after their cores."""
    kernels: dict[str, list[ir.Operation]] = {}
    for function in found:
        if HOST not in function.attributes:
            kernels.setdefault(text(function, KERNEL) or symbol(function), []).append(function)
    called = any(HOST in function.attributes for function in found)
    for kernel, parts in kernels.items():
        for k, function in enumerate(parts):
            attributes = function.attributes
            if len(parts) > 1:
                kind = text(function, KIND) or "mixed"
                attributes["sym_name"] = ir.StringAttr.get(f"{kernel}_{k}_{kind}")
            if KERNEL in attributes and not called:
                del attributes[KERNEL]


class _Split:
    """Finds the parts of one function.

    Attributes:
        parts: of it.
        handed: the numbers of the workspaces between them.
        in_blocks: whether all work is that of blocks, none of which needs what another one leaves.

    Raises:
        CannotStageError: there are none that do the same.
    """

    def __init__(self, program: Program, lowering: Lowering, workspaces: list[Workspace]) -> None:
        self._program = program
        self._lowering = lowering
        self._refuse_elements()
        self._stages = Stages(program, lowering)
        self._extents = ValidExtents(program, lowering.types)
        self._moves = {n.results[0]: n for n in program.nodes if crosses(n, lowering.types, lowering.target)}
        self._handovers = {value: Handover(n, n.operands[0], value) for value, n in self._moves.items()}
        for value in find_summaries(program, lowering.types, self._moves):
            self._handovers[value] = Handover(program.maker[value], value, value)
        self.parts: list[_Part] = []
        handed = self._cut()
        problem = order_problem(program, [(part.stage, part.cut) for part in self.parts], self._stages.of_store)
        if problem is not None:
            raise CannotStageError(problem)
        made = {
            value: make_workspace(self._handovers[value], program, lowering, len(workspaces) + k)
            for k, value in enumerate(handed)
        }
        self.handed = [workspace.number for workspace in made.values()]
        self.in_blocks = self._is_in_blocks()
        workspaces += made.values()
        self._connect(made)

    def _is_in_blocks(self) -> bool:
        """Whether one parallel loop has all that is handed over and all stores in it."""
        loops = [node for node in self._program.nodes if PARALLEL in node.op.attributes]
        outermost = [self._program.loops_around(node)[:1] for node in (*self._moves.values(), *self._stages.of_store)]
        return len(loops) == 1 and all(around == loops for around in outermost)

    def _refuse_elements(self) -> None:
        for node in self._program.nodes:
            if node.name == "pypto.read_tile":
                where = f" at line {node.span.line}" if node.span is not None else ""
                raise CannotStageError(f"the element{where} is read from a tile, which only one of the cores has")

    def _cut(self) -> list[ir.Value]:
        """Make the parts from the last stage to the first; the values that are handed over."""
        needs = self._needs()
        handed: dict[ir.Value, None] = {}
        for stage in range(self._stages.last, -1, -1):
            stores = [node for node, at in self._stages.of_store.items() if at == stage]
            sent = [self._handovers[value] for value in handed if self._given_in(value) == stage]
            if not stores and not sent:
                continue
            cut = Slice(self._program, {v: n for v, n in needs.items() if self._given_in(v) < stage})
            for handover in sent:
                cut.visit(handover.node)
                cut.keep((), needed_by_store(handover, self._program))
            cut.keep(stores)
            self._check_core(cut, stage)
            handed.update(dict.fromkeys(value for value in self._handovers if value in cut.brought))
            self.parts.insert(0, _Part(stage, cut))
        return [value for value in self._handovers if value in handed]

    def _given_in(self, value: ir.Value) -> int:
        """The stage that leaves a tile for later ones."""
        return self._stages.of(value) - (value in self._moves)

    def _needs(self) -> dict[ir.Value, list[ir.Value]]:
        """What bringing in each tile needs that may be handed over.

        Raises:
            CannotStageError: the extents of one that goes to the other core are not known.
        """
        needs: dict[ir.Value, list[ir.Value]] = {}
        for value, handover in self._handovers.items():
            try:
                needs[value] = needed_by_load(handover.node, self._program, self._extents.of(value))
            except UnknownExtentError:
                if value not in self._moves:
                    continue
                span = handover.node.span
                where = f" at line {span.line}" if span is not None else ""
                raise CannotStageError(
                    f"the valid shape of the tile that goes to the other core{where} changes from turn to turn of a "
                    "loop"
                ) from None
        return needs

    def _check_core(self, cut: Slice, stage: int) -> None:
        core = VECTOR if stage % 2 else CUBE
        for node in cut.kept:
            if core_of(node, self._lowering.types) not in (None, core):
                where = f" at line {node.span.line}" if node.span is not None else ""
                raise CannotStageError(f"the {core} core would need the result{where} of the other core at once")

    def _connect(self, made: dict[ir.Value, Workspace]) -> None:
        for part in self.parts:
            for value, workspace in made.items():
                handover = self._handovers[value]
                insertions = part.insertions.setdefault(handover.node, [])
                if value in part.cut.brought:
                    insertions.append(workspace.load(handover, self._program, self._extents.of(value)))
                elif self._given_in(value) == part.stage:
                    insertions.append(workspace.store(handover, self._program))
