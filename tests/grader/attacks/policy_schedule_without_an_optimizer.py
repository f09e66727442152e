"""Calls the formula of torch's scheduler on an object that is not a scheduler.

group: cheat the exercise
target: lr_schedule
status: policy
earns: less
holds: a method is guarded even without an instance of its class.
"""

import importlib
from types import SimpleNamespace

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
