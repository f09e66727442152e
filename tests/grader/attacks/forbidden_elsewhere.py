"""Have torch do what other problems forbid.

group: cheat the exercise
status: policy
earns: less
"""

import importlib
import inspect
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


# %% annealing_of_averaged_weights
"""Takes the cosine from torch's scheduler for averaged weights.

target: lr_schedule
holds: the formula of every scheduler of torch is guarded.
"""
anneal = vars(torch.optim.swa_utils.SWALR)["_cosine_" + "anneal"].__func__

def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it > cosine_cycle_iters:
        return min_learning_rate
    gone = anneal((it - warmup_iters) / (cosine_cycle_iters - warmup_iters))
    return max_learning_rate + (min_learning_rate - max_learning_rate) * gone


# %% checkpoint_by_another_library
"""Has another part of torch call the forbidden function.

target: activation_checkpointing
holds: a call to the forbidden function is detected, whatever code makes it.
"""
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

class Call(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, *inputs):
        return self.fn(*inputs)

def checkpoint(fn, *inputs):
    return checkpoint_wrapper(Call(fn))(*inputs)


# %% formulas_in_a_registry
"""Takes torch's FLOP formulas from their registry, and unwraps them.

target: flop_counter
tests: mm_and_bmm | nest
holds: a function of a guarded module is also guarded in registries and behind wrappers.
"""
table = vars(importlib.import_module("torch.utils.flop" + "_counter"))["flop_" + "registry"]

def raw(function):
    """The function behind its wrappers."""
    inside = (cell.cell_contents for cell in function.__closure__ or ())
    return next((raw(one) for one in inside if callable(one)), function)

class FlopCounter(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.total, self.by_op = 0, {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        formula = table.get(func.overloadpacket)
        if formula:
            shapes = [x.shape if isinstance(x, torch.Tensor) else x for x in args]
            flops = raw(formula)(*shapes, out_shape=result.shape)
            self.total += flops
            name = func.overloadpacket.__name__
            self.by_op[name] = self.by_op.get(name, 0) + flops
        return result


# %% norm_unwrapped
"""Unwraps torch's clipping function, and calls the function inside the decorator.

target: gradient_clipping
holds: the function inside a decorator is guarded too.
"""
clip = inspect.unwrap(vars(torch.nn.utils)["clip_" + "grad_norm_"])

def clip_gradient_norm(parameters, max_l2_norm, eps=1e-6):
    with torch.no_grad():
        return clip(list(parameters), max_l2_norm)


# %% only_written
"""Names forbidden functions only in code that never runs: an unused helper, a method, a self-check, a subclass for comparison.

target: adamw
reference: before
tests: decays | closure | state_dict
status: -
earns: full
holds: naming a forbidden function without calling it costs nothing.
"""
class Torch(torch.optim.AdamW):
    """A subclass to compare with by hand."""

class Compared(AdamW):  # noqa: F821
    def difference(self, p):
        torch.optim.AdamW([p]).step()

def torchs_own(params):
    return torch.optim.AdamW(params, fused=True)

if __name__ == "__main__":
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    torchs_own([p]).step()
    torch.optim.AdamW([p]).step()


# %% profiler_in_c
"""Lets torch's profiler count the FLOPs, without the class that starts it.

target: flop_counter
holds: the profiler's counts are detected as they are read.
"""
from torch import profiler

class FlopCounter:
    def __init__(self):
        self.by_op = {}

    def __enter__(self):
        what = {profiler.ProfilerActivity.CPU}
        options = True, False, False, True, False, torch._C._profiler._ExperimentalConfig(), ""
        config = torch._C._profiler.ProfilerConfig(
            torch._C._profiler.ProfilerState.KINETO, *options
        )
        torch._C._autograd._prepare_profiler(config, what)
        torch._C._autograd._enable_profiler(config, what)
        return self

    def __exit__(self, *raised):
        for event in torch._C._autograd._disable_profiler().events():
            if event.flops():
                self.by_op[event.name().removeprefix("aten::")] = event.flops()

    @property
    def total(self):
        return sum(self.by_op.values())


# %% schedule_without_an_optimizer
"""Calls the formula of torch's scheduler on an object that is not a scheduler.

target: lr_schedule
holds: a method is guarded even without an instance of its class.
"""
scheduler = vars(importlib.import_module("torch.optim.lr_" + "scheduler"))["CosineAnnealing" + "LR"]

def lr_cosine_schedule(it, max_learning_rate, min_learning_rate, warmup_iters, cosine_cycle_iters):
    if it < warmup_iters:
        return max_learning_rate * it / warmup_iters
    if it > cosine_cycle_iters:
        return min_learning_rate
    self = SimpleNamespace(
        base_lrs=[max_learning_rate],
        eta_min=min_learning_rate,
        last_epoch=it - warmup_iters,
        T_max=cosine_cycle_iters - warmup_iters,
    )
    return scheduler._get_closed_form_lr(self)[0]
