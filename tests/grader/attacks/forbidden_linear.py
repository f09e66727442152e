"""Have torch do what linear forbids: x @ weight.T.

group: cheat the exercise
target: linear
tests: multiplies_by_its_weight
status: policy
earns: less
"""

import builtins
import gc
import subprocess
import sys
import tempfile
import threading
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        shape = out_features, in_features
        self.weight = nn.Parameter(torch.zeros(shape, device=device, dtype=dtype))

    def forward(self, x):
        return linear(x, self.weight)


# %% unicode_name
"""Calls torch's function openly, with Unicode letters that Python normalizes to ASCII.

earns: 0
holds: the source is read as Python reads it; the call would also be detected at run time.
"""
def linear(x, weight):
    return F.ｌinear(x, weight)


# %% aten_operator
"""Calls the ATen operator behind the forbidden function.

earns: 0
holds: the call is detected in the source, and would also be detected at run time.
"""
def linear(x, weight):
    return torch.ops.aten.linear.default(x, weight)


# %% subclass
"""Makes its layers subclasses of the forbidden class and of a class derived from it.

tests: -
earns: 0
holds: the base class is detected in the source, and creating an instance at run time.
"""
class Linear(torch.nn.modules.linear.NonDynamicallyQuantizableLinear):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__(in_features, out_features, bias=False, device=device, dtype=dtype)

class MLP(torch.nn.Linear):
    pass


# %% text_as_code
"""Runs the forbidden call from a string, with exec under another name.

holds: the call is detected at run time.
"""
run = vars(builtins)["ex" + "ec"]

def linear(x, weight):
    names = {"torch": torch, "x": x, "weight": weight}
    run("y = torch.nn.functional.linear(x, weight)", names)
    return names["y"]


# %% method_of_the_class
"""Calls the forward method of the forbidden class without creating an instance.

holds: the call is detected at run time.
"""
def linear(x, weight):
    return nn.Linear.forward(SimpleNamespace(weight=weight, bias=None), x)


# %% layer_inside_another
"""Takes the layer out of a larger torch module, which creates it.

holds: a layer counts even if torch's own code created it.
"""
class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(
            in_features, 1, out_features, bias=False, device=device, dtype=dtype
        ).linear1
        self.weight = self.inner.weight
        std = in_features**-0.5
        nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)

    def forward(self, x):
        return self.inner(x)


# %% torchscript
"""Compiles a string of TorchScript, which finds operators without Python names.

holds: a call from compiled code is detected too.
"""
unit = torch.jit.CompilationUnit("def f(x, w):\n    return torch.nn.functional.linear(x, w)\n")

def linear(x, weight):
    return unit.f(x, weight)


# %% operator_under_vmap
"""Searches all objects for the function, which no name refers to any more, and calls it under torch.func.vmap.

tests: gradients_reach_the_weights
holds: the first kernel that torch.func dispatches to is guarded too.
"""
gc.unfreeze()
found = [o for o in gc.get_objects() if type(o) is type(len) and o.__name__ == "linear"]

def linear(x, weight):
    return torch.vmap(lambda row: found[0](row, weight))(x)


# %% in_a_thread
"""Makes the forbidden call in a thread, where an exception does not end the test.

holds: every thread is watched, and a forbidden call in any of them ends the test.
"""
threading.excepthook = lambda arguments: None

def linear(x, weight):
    result = []
    call = getattr(nn.functional, "lin" + "ear")
    thread = threading.Thread(target=lambda: result.append(call(x, weight)))
    thread.start()
    thread.join()
    return result[0] if result else x @ weight.T


# %% wire_cut
"""Catches what stops the forbidden call, finds the object that recorded it, and clears the record.

holds: a forbidden call ends the test without an exception, so no code runs afterwards.
"""
def linear(x, weight):
    try:
        return getattr(nn.functional, "lin" + "ear")(x, weight)
    except BaseException:
        for thing in gc.get_objects():
            if type(thing).__name__ == "Tripwire":
                thing.violation = None
        return x @ weight.T


# %% another_interpreter
"""Starts another Python, which nothing watches, to make the forbidden call.

holds: a problem with forbidden functions cannot start another program.
"""
TMP = tempfile.gettempdir()
CODE = (
    f"import sys; sys.path[:] = {sys.path}; import torch; "
    f"torch.save(torch.nn.functional.linear(*torch.load('{TMP}/in')), '{TMP}/out')"
)

def linear(x, weight):
    torch.save((x.detach(), weight.detach()), f"{TMP}/in")
    subprocess.run([sys.executable, "-c", CODE], check=True)
    return torch.load(f"{TMP}/out")
