"""What every test runs under: no kernel is found in, or left in, the user's cache; no example is timed."""

import os

from hypothesis import settings

os.environ["PYPTO_JIT_CACHE"] = "0"
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
