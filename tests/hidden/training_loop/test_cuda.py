"""training_loop on a GPU: the CPU's loop with batches and random state on the GPU, and autocast.

A GPU may sum a gradient in a different order each time, so runs are compared with tolerances, far
below the effect of any mistake: another batch, another dropout mask, a lost moment.

Each token has one successor, so the model's input determines what it should have predicted: the
oracle trains in float64 on the recorded batches, wherever the student's loop drew them.
"""

import math

import numpy as np
import pytest
import torch

from kit import expect
from tests.probes import on_a_device as probes

STEPS, VOCABULARY, WIDTH = 8, 11, 6


def inputs(rng, **config):
    """A small model, tokens, and a configuration."""
    tokens = np.tile(torch.randperm(VOCABULARY, generator=rng).numpy().astype(np.uint16), 30)
    embedding, head = (torch.randn(VOCABULARY, WIDTH, generator=rng) for _ in range(2))
    fields = {"steps": STEPS, "batch_size": 16, "context_length": 8, "warmup_steps": 2, "seed": 4}
    fields |= {"max_learning_rate": 0.05, "min_learning_rate": 0.01, **config}
    return {"tokens": tokens, "embedding": embedding, "head": head, "config": fields}


def in_float64(given, batches):
    """The loss of each step on these batches, computed with torch's own parts."""
    leaves = [torch.nn.Parameter(given[name].double()) for name in ("embedding", "head")]
    optimizer, config = torch.optim.AdamW(leaves), given["config"]
    cycle = torch.from_numpy(given["tokens"][: VOCABULARY + 1].astype(np.int64))
    successor = torch.empty(VOCABULARY, dtype=torch.int64)
    successor[cycle[:-1]] = cycle[1:]
    found = []
    for step, x in enumerate(batches):
        optimizer.zero_grad()
        logits = leaves[0][x] @ leaves[1].T
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), successor[x].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(leaves, 1.0)
        warmup = config["warmup_steps"]
        done = (step - warmup) / (config["steps"] - warmup)
        low, high = config["min_learning_rate"], config["max_learning_rate"]
        cosine = low + (high - low) * (1 + math.cos(math.pi * done)) / 2
        optimizer.param_groups[0]["lr"] = high * step / warmup if step < warmup else cosine
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def check_losses(got, expected, *, atol, hint):
    expect.kind(got["losses"], list, of="train", name="losses")
    expect.value(len(got["losses"]), len(expected), of="train", name="the number of losses")
    for loss, want in zip(got["losses"], expected, strict=True):
        expect.number(loss, want, of="train", tolerance=atol, name="a loss", hint=hint)


# Stays: this test is the plain case, and it names mistakes that the other tests assume are absent.
@pytest.mark.harm("crash")
def test_runs_on_a_gpu(student, rng, device):
    """On a GPU the losses match the model's batches, and all tensors stay on the GPU."""
    given = inputs(rng)
    got = student.run(probes.trained, device=device, **given)
    devices = sorted(set(got["devices"]))
    name = "the devices"
    expect.value(devices, [device], of="train", name=name, hint="move the batches to config.device")
    whole = [tuple(x.shape) for x in got["seen"]] == [(16, 8)] * STEPS
    expect.that(whole, "the model is not given one batch per step", of="train")
    hint = "run the same loop as on a CPU, with everything on the GPU"
    check_losses(got, in_float64(given, got["seen"]), atol=1e-3, hint=hint)


@pytest.mark.harm("crash")
def test_autocast_on_a_gpu(student, rng, device):
    """On a GPU, logits have autocast_dtype; parameters, gradients and state stay float32."""
    got = student.run(probes.trained, device=device, **inputs(rng, autocast_dtype=torch.bfloat16))
    hint = "use torch.autocast for the device's type, around the model and its loss"
    logits, kept = (
        {expect.dtype_name(d) for d in got[name]} for name in ("logits_dtypes", "dtypes")
    )
    expect.value(sorted(logits), ["bfloat16"], of="train", name="the dtype of logits", hint=hint)
    name = "the dtypes of parameters and state"
    expect.value(sorted(kept), ["float32"], of="train", name=name)


@pytest.mark.harm("trains worse")
def test_evaluation_leaves_the_gpus_generator_alone(student, rng, device):
    """With dropout on the GPU, evaluation does not change the training run."""
    given = inputs(rng)
    plain = student.run(probes.trained, device=device, dropout=0.5, **given)
    config = {**given["config"], "eval_every": 2, "eval_batches": 2}
    got = student.run(probes.trained, device=device, dropout=0.5, **{**given, "config": config})
    check_losses(got, plain["losses"], atol=1e-3, hint="restore the GPU's random state too")
    name = "the GPU's next random numbers"
    expect.tensor(got["next_random"], plain["next_random"], of="train", name=name)


@pytest.mark.harm("trains worse")
def test_resumes_on_a_gpu(student, rng, device):
    """A run that was stopped resumes on the GPU with its moments and its random state."""
    given = inputs(rng)
    whole = student.run(probes.trained, device=device, dropout=0.5, **given)
    got = student.run(probes.trained, device=device, dropout=0.5, stop_after=4, **given)
    hint = "is the GPU's generator state in the checkpoint?"
    check_losses(got, whole["losses"][4:], atol=1e-3, hint=hint)
    for p, want in zip(got["tensors"][:2], whole["tensors"][:2], strict=True):
        expect.tensor(p, want, of="train", atol=1e-3, name="a parameter at the end")
