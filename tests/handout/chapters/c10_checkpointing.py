"""Chapter 10: the contents of a checkpoint, how often to write one, and the cost of a stop."""

import contextlib
import io
import math
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from grader.solutions.reference import checkpointing as ck
from grader.solutions.reference import optimizers as op
from grader.solutions.reference import resource_accounting as ra
from handout.site import wren
from tests.handout.page_figures import Figures, n

BF16, FP32 = torch.bfloat16, torch.float32
LLAMA_GPUS, LLAMA_STOPS, LLAMA_DAYS = 16_384, 419, 54  # The Llama 3 Herd of Models, section 3.3.4
DEVICES, A_NODE = 1024, 8
SPEED = 2e9  # bytes per second that one machine writes
# The OPT team's notes on the run: "Training completed" and "27% through".
OPT_RESTARTS, OPT_TB, OPT_FILES, OPT_FILE_GB = 90, 1.6, 992, 1.7  # GB are GiB here


def stepped(inputs, outputs):
    """A layer and its AdamW optimizer after one step."""
    layer = nn.Linear(inputs, outputs)
    optimizer = op.AdamW(layer.parameters())
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    return layer, optimizer


class Crash:
    """An interrupt while it is saved."""

    def __reduce__(self):
        raise KeyboardInterrupt


def cost(write, every, between):
    """The share of time lost to checkpoints and stops."""
    return write / every + every / (2 * between)


def best(write, between):
    """The interval that minimizes this cost."""
    return (2 * write * between) ** 0.5


class Chapter(Figures):
    def beginning(self) -> None:
        # Seconds between stops.
        self.between = LLAMA_DAYS * 86400 / LLAMA_STOPS * LLAMA_GPUS / DEVICES
        self.gives(stage_test=1)
        # As use_deterministic_algorithms says in torch 2.9.1, and no longer in 2.10.0.
        self.gives(cublas_torch=n("2.10"), safe_torch=2.6)

    def in_place(self) -> None:
        """The bet: neither checkpoint is left."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "checkpoint")
            torch.save({"weight": torch.zeros(1000)}, path)
            with contextlib.suppress(KeyboardInterrupt):
                torch.save({"weight": torch.ones(1000), "last": Crash()}, path)
            with pytest.raises(RuntimeError):
                torch.load(path, weights_only=True)

    def stops(self) -> None:
        days = ra.training_days(70 * 10**9, 15 * 10**12, ra.H100_SXM, BF16, DEVICES, 0.5)
        self.gives(llama_gpus=LLAMA_GPUS, llama_stops=LLAMA_STOPS, llama_days=LLAMA_DAYS)
        self.gives(llama_hours=LLAMA_DAYS * 24 / LLAMA_STOPS, devices=DEVICES)
        self.gives(stop_days=self.between / 86400, run_days=days)
        self.gives(run_stops=days * 86400 / self.between)
        self.gives(llama=3)  # The Llama 3 Herd of Models, section 3.3.4
        self.gives(llama_effective=90, opt=n("OPT-175B"), opt_restarts=OPT_RESTARTS, opt_tb=OPT_TB)

    def interval(self) -> None:
        self.gives(lost_divisor=2)
        w, m = 420.0, 178_000.0
        t = best(w, m)
        holds = [cost(w, t, m) < cost(w, t * factor, m) for factor in (0.5, 0.999, 1.001, 2)]
        rule = r"\frac{w}{T} + \frac{T}{2M} \quad \text{is least at} \quad T = \sqrt{2wM}"
        self.formula("young_rule", rule, holds)

    def contents(self) -> None:
        layer, optimizer = stepped(64, 64)
        weights = sum(p.numel() for p in layer.parameters())
        moments = op.optimizer_state_bytes(optimizer) // weights
        self.weight = FP32.itemsize + moments
        self.gives(checkpoint_bytes=self.weight, weight_bytes=FP32.itemsize, moment_bytes=moments)
        # 0.9 · the old value + 0.1 · a gradient of 1
        first_moment = next(iter(optimizer.state.values()))["m"]
        start = round(((first_moment - 0.1) / 0.9).abs().max().item(), 6)
        self.gives(moments_start=start)
        self.words = len(np.random.get_state()[1])
        self.gives(numpy_words=self.words)

    def worked(self) -> None:
        layer, optimizer = stepped(3, 2)
        written = io.BytesIO()
        ck.save_checkpoint(layer, optimizer, 7, written)
        written.seek(0)
        file = torch.load(written, weights_only=True)
        weights = [t.numel() for t in file["model"].values()]
        states = [t for state in file["optimizer"]["state"].values() for t in state.values()]
        moments = sum(t.numel() for t in states if isinstance(t, torch.Tensor) and t.dim())
        counts = len([t for t in states if not isinstance(t, torch.Tensor) or not t.dim()])
        assert len(weights) == counts == 2
        assert len(file["optimizer"]["param_groups"]) == 1
        self.gives(iteration=file["iteration"], inputs=layer.in_features)
        self.gives(outputs=layer.out_features, weights=sum(weights), matrix_weights=weights[0])
        self.gives(bias_weights=weights[1], moments=moments, step_counts=counts)
        self.gives(torch_state=torch.get_rng_state().numel(), numpy_words=self.words)
        self.gives(random_words=len(random.getstate()[1]))
        size = 70e9 * self.weight
        self.gives(large_parameters=70e9, large_gb=size / 1e9, devices=DEVICES)
        self.gives(stop_hours=self.between / 3600, machines=DEVICES // A_NODE)
        self.gives(machine_devices=A_NODE)
        for name, machines in (("alone", 1), ("together", DEVICES / A_NODE)):
            write = size / SPEED / machines
            every = best(write, self.between)
            self.gives(**{f"{name}_seconds": write, f"{name}_minutes": every / 60})
            self.gives(**{f"{name}_cost": 100 * cost(write, every, self.between)})

    def model(self) -> None:
        size = wren.CHECKPOINT_BYTES
        assert size == wren.PARAMETERS * self.weight
        seconds, between = size / SPEED, self.between * DEVICES / wren.DEVICES
        interval = wren.CHECKPOINT_EVERY * wren.STEP_SECONDS
        self.gives(wren_gb=size / 1e9, speed=SPEED / 1e9, wren_seconds=seconds)
        self.gives(wren_fail_days=between / 86400)
        self.gives(wren_chance=100 * (1 - math.exp(-wren.HOURS * 3600 / between)))
        self.gives(wren_every=wren.CHECKPOINT_EVERY, wren_minutes=interval / 60)
        self.gives(wren_cost=100 * seconds / interval)

    def exercises(self) -> None:
        layer, optimizer = stepped(3, 2)
        sgd = op.SGD(layer.parameters(), lr=0.1, momentum=0.9)
        sgd.step()
        weights = sum(p.numel() for p in layer.parameters())
        momentum = op.optimizer_state_bytes(sgd) // weights
        weight = FP32.itemsize
        self.gives(ex_sgd=(weight, momentum, weight + momentum))
        assert op.optimizer_state_bytes(optimizer) == 2 * momentum * weights
        alone = 70e9 * self.weight / SPEED
        self.gives(ex_writing=alone / 60)

    def opt(self) -> None:
        parameters = 175 * 10**9
        weight, moments = torch.float16.itemsize, 2 * FP32.itemsize
        size = parameters * (weight + moments)
        assert round(size / 2**40, 1) == OPT_TB
        assert abs(size / OPT_FILES / 2**30 - OPT_FILE_GB) < 0.1
        self.gives(opt_parameters=parameters, opt_decimal=10**12, opt_binary=2**40)
        self.gives(opt_bytes=OPT_TB * 10**12 / parameters)
        self.gives(opt_binary_bytes=OPT_TB * 2**40 / parameters)
        self.gives(opt_parts=(weight, moments, weight + moments))
