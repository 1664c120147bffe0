"""Example kernels, each with its inputs and the torch computation it replaces. `python -m examples.demo` runs them all."""
