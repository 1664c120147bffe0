"""Example kernels, each with inputs and the torch computation it replaces. `python -m examples.demo` runs them all."""
