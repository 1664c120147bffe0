"""PTO assembly (``.pto``): the text the vendor's assembler reads, printed from and parsed into the ``pto`` dialect.

Only what `print_assembly` can write can be parsed, and the other way round, so both sides share the tables in `forms`
(operations of upstream MLIR) and `pypto_jit.dialects.operators` (instructions).

Sources of the syntax: the public ptoas v0.57 grammar and PyPTO's emitted files.
"""

from pypto_jit.dialects.assembly.parser import parse_assembly
from pypto_jit.dialects.assembly.printer import print_assembly

__all__ = ["parse_assembly", "print_assembly"]
