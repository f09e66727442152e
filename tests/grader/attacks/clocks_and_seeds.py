"""Stops every clock and the worker's own timer, and then runs too long.

group: cheat the exercise
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: time is measured outside the sandbox.
"""

import faulthandler
import random
import signal
import time

import numpy as np
import torch

time.time = time.monotonic = time.perf_counter = time.process_time = lambda: 0.0
random.seed = np.random.seed = torch.manual_seed = lambda *args: None
faulthandler.cancel_dump_traceback_later()
signal.setitimer(signal.ITIMER_REAL, 0)


def storage_bytes(x):
    while time.time() == 0.0:
        pass
