"""The disk cache: compiled programs that outlive their process, found without tracing and never stale.

Two levels, as in ccache's direct mode. A *record*, found by the kernel's code, the call's signature and the options,
lists what an earlier trace could read from the Python world, each value as a digest, and names the *artifact* it led
to. The artifact is keyed by the traced module and all that turns it into code.
"""
