"""The grader: runs hidden tests against a student's code, which it never trusts."""

import os
import tempfile

# torch._dynamo creates a cache folder for compiled code even if nothing is compiled. That folder
# would be left behind, so point the cache at a folder that already exists.
# gettempdir tries the folder with a file, which a process killed meanwhile would leave there.
if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.gettempdir()

# For gc.set_threshold. Python's default of 700 makes the slow imports a sixth slower, though they
# create hardly any garbage.
OBJECTS_BETWEEN_COLLECTIONS = 100_000

__version__ = "0.9.0.dev0"
