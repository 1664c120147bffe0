"""Scripts that print tables of ratios against torch and numpy, measured side by side in one process.

python -m benchmarks            all of them
python -m benchmarks.dispatch   one: dispatch, first_call, throughput, imports
"""
