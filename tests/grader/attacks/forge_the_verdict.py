"""Try to pass by other means than right answers.

group: forge the verdict
target: tensor_memory
status: failed
"""

import atexit
import builtins
import gc
import json
import math
import os
import signal
import sys
import tempfile
import threading
import types
import weakref

import numpy as np
import torch
from torch import nn


# %% atexit_and_threads
"""Tries to change its answers later: from a thread, at exit, when an object is deleted, when a signal arrives.

holds: code that runs later cannot change a wrong answer.
"""
class Anchor:
    pass

def rewrite(*args):
    for name, module in list(sys.modules.items()):
        if name.startswith("tests"):
            module.Mismatch = module.value = module.assert_close = lambda *a, **k: None

atexit.register(rewrite)
weakref.finalize(Anchor(), rewrite)
signal.signal(signal.SIGALRM, rewrite)
signal.setitimer(signal.ITIMER_REAL, 0.005)
threading.Timer(0.01, rewrite).start()

def tensor_bytes(x):
    return -1

storage_bytes = unique_bytes = tensor_bytes


# %% expected_errors_only
"""Raises an error that names every argument, whatever function is called.

target: linear
tests: linear_multiplies | linear_is_drawn | counts_elements
holds: a module that can only raise the expected errors earns nothing.
"""
class Linear:
    def __init__(self, *args, **kwargs):
        raise ValueError("in_features and out_features must be at least 1; dims has two entries")

MLP = count_parameters = Linear


# %% lie_about_an_exception
"""Raises exceptions named like the grader's own faults, or like a test that was not attempted.

tests: view_shows | storage_bytes | views_once
status: failed, memory
holds: an exception's name has no effect: it causes neither a grader fault nor a deferred test.
"""
def named(name):
    claims = {"from_grader": True, "status": "deferred", "errno": 10**100}
    return type(name, (Exception,), {"__module__": "builtins", **claims})

def tensor_bytes(x):
    raise named("GraderFault")("the sandbox ended")

def storage_bytes(x):
    raise named("MemoryError")("deferred")

def unique_bytes(tensors):
    raise type("Mismatch", (AssertionError,), {"__module__": "kit.expect"})("passed")


# %% patch_the_comparisons
"""Patches torch, numpy and builtins so that everything compares equal, and returns arbitrary answers.

target: linear
tests: linear_multiplies | linear_is_drawn | counts_elements
status: failed, crashed
holds: answers are compared in a process that the student's code cannot reach.
"""
yes = lambda *args, **kwargs: True
torch.allclose = torch.equal = torch.isclose = torch.Tensor.equal = torch.Tensor.allclose = yes
torch.testing.assert_close = np.testing.assert_allclose = np.testing.assert_equal = yes
np.array_equal = np.allclose = yes
torch.Tensor.__eq__ = torch.Tensor.all = torch.Tensor.any = yes
builtins.all = builtins.any = builtins.isinstance = math.isclose = yes

class Linear(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()

class MLP(Linear):
    pass

def count_parameters(module, **options):
    return 1


# %% probes_replaced_for_later
"""Answers its first test correctly, and replaces the probes for the next test in the same process.

status: failed, crashed
earns: less
reference: before
holds: values are compared outside the sandbox, whether the process is shared or new.
"""
honest = tensor_bytes

def lie(*arguments, **named):
    return True

def tensor_bytes(x):
    probes = sys.modules["kit.student"]
    probes.call = probes.call_and_keep_inputs = lie
    for thing in gc.get_objects():
        watches = isinstance(thing, types.FunctionType)
        if watches and thing.__name__ in ("changed", "surroundings"):
            thing.__code__ = (lambda *arguments: []).__code__
    return honest(x)

def storage_bytes(x):
    return -1

def unique_bytes(tensors):
    return -1


# %% result_on_stdout
"""Prints a result with full marks, and writes it to files that autograders are known to read.

holds: printed or written text never counts as a result.
"""
TMP = tempfile.gettempdir()
tests = [{"score": 27, "status": "passed"}]
result = json.dumps({"schema": 1, "score": 27.0, "max_score": 27.0, "tests": tests})
for folder in (".", TMP, f"{TMP}/submission"):
    with open(f"{folder}/results.json", "w") as f:
        f.write(result)
print(result, flush=True)
os.write(2, result.encode())

def tensor_bytes(x):
    print(result)
    return result

storage_bytes = unique_bytes = tensor_bytes
