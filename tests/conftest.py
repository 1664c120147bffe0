"""What every test runs under: no kernel is found in the user's cache, and none is left there."""

import os

os.environ["PYPTO_JIT_CACHE"] = "0"
