"""The rows of the operator table, in parts; `pypto_jit.dialects.operators` is the whole. Imports leaves only."""
