"""What every test runs under: no kernel is found in, or left in, the user's cache; examples take what time they take."""

import os

from hypothesis import settings

os.environ["PYPTO_JIT_CACHE"] = "0"
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
