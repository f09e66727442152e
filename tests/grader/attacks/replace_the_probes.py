"""Replaces the course's probes with its own, which return plausible values.

group: forge the verdict
target: linear
status: failed, crashed
holds: a probe's answer is compared like any other, so faking it means solving the exercise.
"""

import sys
import types

import torch

fake = types.ModuleType("tests.probes.linear")
weight = torch.zeros(1, 1)
fake.module = lambda student, **inputs: {
    "args": list(inputs["args"]),
    "names": ["weight"],
    "weights": [weight],
    "trainable": [True],
    "state": ["weight"],
    "output": None,
}
fake.pair = lambda student, **inputs: [[weight], [weight]]
fake.counts = lambda student, **inputs: {"all": 1, "trainable": 1}
fake.gradients = lambda student, **inputs: {}
fake.module_under_defaults = lambda student, **inputs: []
sys.modules["tests.probes.linear"] = fake
student = sys.modules["kit.student"].Student
student.run = student.__getattr__ = lambda self, *args, **kwargs: True
