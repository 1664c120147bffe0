"""The NumPy interpreter of the ``pypto`` dialect: the second, independent meaning of every operator.

It runs a traced kernel op by op, slowly and plainly, and is what compiled code is held against. The meaning of each row
of the operator table registers under the row's name.
"""

from __future__ import annotations

from pypto_jit.dialects.interpreter import arithmetic, elements, movement, parts, positions, predicates
from pypto_jit.dialects.interpreter.execution import interpret
from pypto_jit.dialects.interpreter.tiles import MEANINGS, Tile

__all__ = ["MEANINGS", "Tile", "arithmetic", "elements", "interpret", "movement", "parts", "positions", "predicates"]
