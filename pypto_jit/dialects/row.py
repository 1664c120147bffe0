"""What a row of the operator table says of an operator."""

from __future__ import annotations

from dataclasses import dataclass, field

from pypto_jit.dtypes import DType


@dataclass(frozen=True)
class Operand:
    """One operand.

    Attributes:
        kind: ``tile``, ``scalar`` (of the other operands' dtype), ``tensor``, ``array`` or ``indices`` (any number).
    """

    name: str
    kind: str = "tile"


@dataclass(frozen=True)
class Attribute:
    """One attribute of an operation: ``kind`` is ``str``, ``int``, ``ints`` or ``dtype``."""

    name: str
    kind: str
    default: object = None
    choices: tuple[object, ...] = ()


@dataclass(frozen=True)
class AssemblyAttribute:
    """How the assembly writes one of a row's attributes inside ``ins(...)``.

    Attributes:
        name: the row's attribute.
        key: the assembly's name for it.
        template: the assembly's value, with ``{value}`` for the row's value in capitals, ``{lower}`` for it as it is.
        default: the row's value where the assembly leaves the attribute out.
        trailing: whether it stands behind ``outs(...)`` rather than inside of ``ins(...)``, and only where it is not
            the default.
    """

    name: str
    key: str
    template: str
    default: str
    trailing: bool = False

    def spell(self, value: str) -> str:
        """The attribute as the assembly writes it."""
        return f"{self.key} = {self.template.format(value=value.upper(), lower=value)}"


@dataclass(frozen=True)
class Instruction:
    """The PTO instruction of an operator, without the ``pto.``.

    Attributes:
        mnemonic: name in the assembly (``tmatmul.acc``).
        inputs: operand names in assembly order inside ``ins(...)``; ``tmp`` names scratch that the compiler allocates,
            ``row`` and ``column`` the offsets of a part of a tile.
        pipe: the machine's pipe (``V``, ``M``, ``MTE1``, ``MTE2``, ``MTE3``, ``FIX``).
        core: ``vector``, ``cube`` or ``any``: which core executes it.
        tied: name of the input whose buffer the result must share.
        inplace: whether the result may take the buffer of an input that ends here.
        attributes: how the assembly writes the row's attributes.
        optional_scratch: whether the assembly may name scratch after the inputs, which we leave out.
        saturates: whether a float that becomes an integer saturates. The assembly must ask for that, since the machine
            keeps low bits by default (and then needs scratch for some pairs).
        form: how the assembly writes it: ``tiles`` for ``ins(...) outs(...)``, ``element`` for what reads or writes a
            single element (`pypto_jit.dialects.assembly.elements`).
        updates: whether the result keeps what the instruction does not write: the first tile operand's elements.
        alike: inputs whose buffers have the physical shape of the result's, padding included (ptoas v0.57, pto-isa).
    """

    mnemonic: str
    inputs: tuple[str, ...]
    pipe: str = "V"
    core: str = "vector"
    tied: str | None = None
    inplace: bool = True
    attributes: tuple[AssemblyAttribute, ...] = ()
    optional_scratch: bool = False
    saturates: bool = False
    form: str = "tiles"
    updates: bool = False
    alike: tuple[str, ...] = ()

    def asks_saturation(self, source: DType, result: DType) -> bool:
        """Whether the assembly asks for saturation between these dtypes."""
        return self.saturates and source.is_float and not result.is_float

    @property
    def operation(self) -> str:
        """Name of the operation in the ``pto`` dialect (IRDL names have no dots)."""
        return self.mnemonic.replace(".", "_")


@dataclass(frozen=True)
class Operator:
    """One row of the table.

    Attributes:
        name: the language's and the ``pypto`` dialect's name.
        operands, attributes: what it takes, in the language's order.
        rule: name of the function in `pypto_jit.dialects.rules` that checks operands and gives the result type.
        instruction: the PTO instruction, or None where the compiler places it without one (``create_tile``).
        dtypes: dtypes of the first tile operand (or of the result, where there is none) per target.
        summary: one line for the reference page.
        formula: the meaning of one element.
        results: 1, or 0 for an operator that only writes.
        result: what the result is: a ``tile``, a ``scalar`` or an ``array``.
        pure: whether an operation without users may go.
        spelling: how the language writes it, where that is not ``pl.`` and its name.
    """

    name: str
    operands: tuple[Operand, ...]
    rule: str
    instruction: Instruction | None
    dtypes: dict[str, frozenset[DType]]
    summary: str
    formula: str = ""
    attributes: tuple[Attribute, ...] = ()
    results: int = 1
    result: str = "tile"
    pure: bool = field(default=True)
    spelling: str = ""

    @property
    def operation(self) -> str:
        """Full name of the operation in the ``pypto`` dialect."""
        return f"pypto.{self.name}"

    def __hash__(self) -> int:
        return hash(self.name)
