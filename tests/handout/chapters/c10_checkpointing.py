"""Chapter 10: what a checkpoint holds, how often to write one, and what a stop costs."""

import io
import random

import numpy as np
import torch
from torch import nn

from grader.reference import checkpointing as ck
from grader.reference import optimizers as op
from grader.reference import resource_accounting as ra
from tests.handout.claims import Claims, n, plain, section, short

BF16, FP32 = torch.bfloat16, torch.float32
LLAMA_GPUS, LLAMA_STOPS, LLAMA_DAYS = 16_384, 419, 54  # The Llama 3 Herd of Models, section 3.3.4
DEVICES, A_NODE = 1024, 8
SPEED = 2e9  # bytes a second that one machine writes


def stepped(inputs, outputs):
    """A layer and its AdamW after one step."""
    layer = nn.Linear(inputs, outputs)
    optimizer = op.AdamW(layer.parameters())
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    return layer, optimizer


def saved(layer, optimizer, iteration):
    """What the reference writes into a file."""
    file = io.BytesIO()
    ck.save_checkpoint(layer, optimizer, iteration, file)
    file.seek(0)
    assert ck.load_checkpoint(file, layer, optimizer) == iteration
    file.seek(0)
    return torch.load(file, weights_only=True)


def cost(write, every, between):
    """The share of the time that checkpoints and stops cost."""
    return write / every + every / (2 * between)


def best(write, between):
    """The interval at which that is least."""
    return (2 * write * between) ** 0.5


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("10_checkpointing.md")
        self.between = LLAMA_DAYS * 86400 / LLAMA_STOPS * LLAMA_GPUS / DEVICES  # seconds from stop to stop
        self.stops()
        self.interval()
        self.contents()
        self.worked()

    def stops(self) -> None:
        """How often a run stops."""
        days = ra.training_days(70 * 10**9, 15 * 10**12, ra.H100_SXM, BF16, DEVICES, 0.5)
        self.says(
            f"trained on {n(LLAMA_GPUS, ',')} H100, {n(LLAMA_STOPS)} unexpected stops in {n(LLAMA_DAYS)} days were counted (Llama Team {n(2024)}): "
            f"one every {n(LLAMA_DAYS * 24 / LLAMA_STOPS, '.1f')} hours. At that rate {n(DEVICES, ',')} H100 stop once in {n(self.between / 86400, '.1f')} days, "
            f"and the run of {n(days, '.2f')} days in [§{section('napkin_math')}]({n('05')}_resource_accounting.md) about {n(days * 86400 / self.between, '.0f')} times."
        )
        self.says(f"While Llama {n(3)} was trained")

    def interval(self) -> None:
        """The rule for how often."""
        self.says(f"each loses T / {n(2)} on average, the share T / ({n(2)}M).")
        cases = [(420.0, 178_000.0), (3.0, 178_000.0), (60.0, 1e4)]
        around = (0.5, 0.9, 0.999, 1.001, 1.1, 2.0)
        self.formula(
            r"\frac{w}{T} + \frac{T}{2M} \quad \text{is least at} \quad T = \sqrt{2wM}",
            [cost(w, best(w, m), m) < cost(w, best(w, m) * factor, m) for w, m in cases for factor in around]
            + [abs(w / best(w, m) - best(w, m) / (2 * m)) < 1e-12 for w, m in cases],
        )
        self.says(
            f"as Young found in {n(1974)}."
        )  # "A first order approximation to the optimum checkpoint interval", CACM 17 (9)

    def contents(self) -> None:
        """Sizes of the parts."""
        layer, optimizer = stepped(64, 64)
        weights = sum(p.numel() for p in layer.parameters())
        moments = op.optimizer_state_bytes(optimizer) // weights
        self.weight = FP32.itemsize + moments
        self.says(
            f"that is {n(self.weight)} bytes a parameter: {n(FP32.itemsize)} for the weight, {n(moments)} for the moments."
        )
        first_moment = next(iter(optimizer.state.values()))["m"]  # 0.9 · what it was + 0.1 · a gradient of 1
        start = round(((first_moment - 0.1) / 0.9).abs().max().item(), 6)
        self.says(f"the moments start at {plain(start)} again", f"- `seek({n(0)})` in a file")
        self.words = len(np.random.get_state()[1])
        self.says(f"So the {n(self.words)} words of numpy's state have to go in")

    def worked(self) -> None:
        """The layer, and two large models."""
        layer, optimizer = stepped(3, 2)
        file = saved(layer, optimizer, 7)
        weights = [t.numel() for t in file["model"].values()]
        states = [t for state in file["optimizer"]["state"].values() for t in state.values()]
        moments = sum(t.numel() for t in states if isinstance(t, torch.Tensor) and t.dim())
        counts = len([t for t in states if not isinstance(t, torch.Tensor) or not t.dim()])
        assert len(weights) == counts == 2
        assert len(file["optimizer"]["param_groups"]) == 1
        self.says(
            f"Iteration {n(file['iteration'])}, a layer of {n(layer.in_features)} inputs and {n(layer.out_features)} outputs, AdamW, one step taken. "
            f"The file holds {n(sum(weights))} weights ({n(weights[0])} in the matrix, {n(weights[1])} in the bias), {n(moments)} moments and {n(counts)} step counts, "
            f"one for each of the two tensors, the options of one group, the {n(file['iteration'])}, and three random states of {n(torch.get_rng_state().numel(), ',')} bytes (torch), "
            f"{n(self.words)} words (numpy) and {n(len(random.getstate()[1]))} words (random)."
        )
        size = 1.27e9 * self.weight
        self.says(
            f"A model of {plain(1.27)} billion parameters has a checkpoint of {n(size / 1e9, '.1f')} GB. At {n(SPEED / 1e9, '.0f')} GB/s it takes {n(size / SPEED, '.1f')} s to write."
        )
        size = 70e9 * self.weight
        alone, together = size / SPEED, size / SPEED / (DEVICES / A_NODE)
        self.says(
            f"{short(70e9)} parameters make {n(size / 1e9, '.0f')} GB. On {n(DEVICES, ',')} H100, with a stop every {n(self.between / 3600, '.1f')} hours, a single machine that writes "
            f"{n(SPEED / 1e9, '.0f')} GB/s takes w = {n(alone, '.0f')} s: a checkpoint every {n(best(alone, self.between) / 60, '.0f')} minutes is best, and checkpoints and work "
            f"done twice together cost {n(cost(alone, best(alone, self.between), self.between) * 100, '.1f')} % of the time. Where {n(DEVICES // A_NODE)} machines of {n(A_NODE)} write their shares side "
            f"by side w is {n(together, '.1f')} s: every {n(best(together, self.between) / 60, '.0f')} minutes, and {n(cost(together, best(together, self.between), self.between) * 100, '.1f')} %."
        )
