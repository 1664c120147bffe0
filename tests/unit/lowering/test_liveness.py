from __future__ import annotations

from pypto_jit._mlir import ir
from pypto_jit.dtypes import FP32
from pypto_jit.lowering.context import borrowed_context, type_table
from pypto_jit.lowering.liveness import Interference
from pypto_jit.lowering.tree import functions, read
from tests.module_text import ModuleText


def load(text):
    return text.load(text.tensor((4, 8), FP32), [0, 0], (4, 8))


def store(text, tile):
    text.store(tile, text.tensor((4, 8), FP32), [0, 0])


class Analysis:
    """Interference among the tiles of a module, by what made them: ``load0``, ``neg0``, or ``argument0`` of a loop."""

    def __init__(self, text: ModuleText, *, in_place: bool = True) -> None:
        module = ir.Module.parse(str(text))
        table = type_table(module.context)
        body = read(functions(module.operation)[0])
        self.values = {}
        for node in body.walk():
            name = node.name.partition(".")[2]
            for value in node.results:
                self._name(name, value)
            for inner in node.bodies:
                for value in inner.arguments[1:]:
                    self._name("argument", value)
        self.interference = Interference(
            body, lambda v: table.tile(v) is not None, lambda v: v, lambda node, operand: in_place
        )
        self.module = module

    def _name(self, name, value):
        number = sum(known.startswith(name) for known in self.values)
        self.values[f"{name}{number}"] = value

    def __call__(self, a: str, b: str) -> bool:
        return self.interference.interfere(self.values[a], self.values[b])


def test_tiles_that_are_needed_together_interfere():
    text = ModuleText()
    a, b = load(text), load(text)
    store(text, text.operator("add", a, b))
    with borrowed_context():
        analysis = Analysis(text)
        assert analysis("load0", "load1")
        assert not analysis("load0", "add0")
        assert Analysis(text, in_place=False)("load0", "add0")


def test_a_tile_that_is_needed_later_interferes_with_what_is_made_meanwhile():
    text = ModuleText()
    a = load(text)
    b = text.operator("neg", a)
    store(text, text.operator("add", a, b))
    with borrowed_context():
        assert Analysis(text)("load0", "neg0")


def test_a_tile_used_in_a_loop_is_needed_through_all_its_turns():
    text = ModuleText()
    a = load(text)
    with text.loop(3):
        store(text, a)
        store(text, text.operator("exp", load(text)))
    with borrowed_context():
        analysis = Analysis(text)
        assert analysis("load0", "load1")
        assert analysis("load0", "exp0")


def test_a_carried_tile_is_free_between_its_last_use_and_the_next_one():
    text = ModuleText()
    with text.loop(3, carried=[load(text)]) as loop:
        new = text.operator("neg", loop.carried[0])
        loop.yields = [text.operator("exp", new)]
    store(text, loop.results[0])
    with borrowed_context():
        analysis = Analysis(text)
        assert not analysis("argument0", "neg0")
        assert not analysis("argument0", "exp0")
        assert not analysis("load0", "argument0")


def test_the_branches_of_an_if_do_not_interfere():
    text = ModuleText()
    a = load(text)
    with text.loop(3) as loop:
        text.lines.append(f"{text.indent}%c = arith.cmpi eq, {loop.index.name}, {text.constant(0).name} : index")
        text.lines.append(f"{text.indent}%r = scf.if %c -> ({a.type}) {{")
        left = text.operator("neg", a)
        text.lines.append(f"{text.indent}scf.yield {left.name} : {a.type}")
        text.lines.append(f"{text.indent}}} else {{")
        right = text.operator("abs", a)
        text.lines.append(f"{text.indent}scf.yield {right.name} : {a.type}")
        text.lines.append(f"{text.indent}}}")
        store(text, type(a)("%r", a.type))
    with borrowed_context():
        analysis = Analysis(text)
        assert not analysis("neg0", "abs0")
        assert not analysis("neg0", "if0")
        assert analysis("load0", "neg0")


def test_united_tiles_interfere_with_what_either_did():
    text = ModuleText()
    a, b = load(text), load(text)
    c = text.operator("add", a, b)
    store(text, text.operator("neg", c))
    with borrowed_context():
        analysis = Analysis(text)
        analysis.interference.unite(analysis.values["add0"], analysis.values["load0"])
        assert analysis("add0", "load1")
        assert not analysis("add0", "load0")
