"""On the simulated machine: give the device to the one program outside the box that uses it.

Python imports this module when it starts. `benchmarks/gpu.py --mfu` measures outside the box.
"""

import os
import sys

if "SIMULATED_MACHINE" in os.environ and sys.orig_argv[-1:] == ["--mfu"]:
    sys.path.insert(0, os.getcwd())
    import simulated_cuda

    simulated_cuda.begin()
