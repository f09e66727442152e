"""training_loop on a GPU: the loop of the CPU, with batches and random state there, and autocast.

A GPU may add up a gradient in another order each time, so runs are compared with tolerances that are far below what a
mistake changes: another batch, another mask of dropout, a moment that is lost.
"""

import numpy as np
import torch

from tests import expect
from tests.probes import on_a_device as probes

STEPS, VOCABULARY, WIDTH = 8, 11, 6


def inputs(rng, **config):
    """A small model, tokens, and a configuration."""
    tokens = torch.randint(0, VOCABULARY, (300,), generator=rng).numpy().astype(np.uint16)
    embedding, head = (torch.randn(VOCABULARY, WIDTH, generator=rng) for _ in range(2))
    fields = {"steps": STEPS, "batch_size": 16, "context_length": 8, "max_learning_rate": 0.05, "min_learning_rate": 0.01}
    return {
        "tokens": tokens,
        "embedding": embedding,
        "head": head,
        "config": {**fields, "warmup_steps": 2, "seed": 4, **config},
    }


def check_losses(got, expected, *, atol, hint):
    expect.value(len(got["losses"]), len(expected), of="train")
    for loss, want in zip(got["losses"], expected, strict=True):
        expect.number(loss, want, of="train", tolerance=atol, hint=hint)


def test_runs_on_a_gpu(student, rng, device):
    """On a GPU the losses are those that the CPU has with the same batches, and everything stays there."""
    given = inputs(rng)
    got = student.run(probes.trained, device=device, **given)
    expect.value(sorted(set(got["devices"])), [device], of="train", hint="batches go to config.device")
    again = student.run(probes.trained, device="cpu", **given)
    check_losses(got, again["losses"], atol=1e-3, hint="batches follow from the seed, whatever the device")


def test_autocast_on_a_gpu(student, rng, device):
    """With autocast_dtype the forward pass runs in it on the GPU; parameters, gradients and state stay float32."""
    got = student.run(probes.trained, device=device, **inputs(rng, autocast_dtype=torch.bfloat16))
    hint = "torch.autocast of the device's type, around the model and its loss"
    expect.value(sorted({expect.dtype_name(d) for d in got["logits_dtypes"]}), ["bfloat16"], of="train", hint=hint)
    expect.value(sorted({expect.dtype_name(d) for d in got["dtypes"]}), ["float32"], of="train")


def test_evaluation_leaves_the_gpus_generator_alone(student, rng, device):
    """With dropout drawn on the GPU, a run that evaluates is the run that does not."""
    given = inputs(rng)
    plain = student.run(probes.trained, device=device, dropout=0.5, **given)
    config = {**given["config"], "eval_every": 2, "eval_batches": 2}
    got = student.run(probes.trained, device=device, dropout=0.5, **{**given, "config": config})
    check_losses(got, plain["losses"], atol=1e-3, hint="put the GPU's random state back, too")
    expect.tensor(got["next_random"], plain["next_random"], of="train", name="the GPU's next random numbers")


def test_resumes_on_a_gpu(student, rng, device):
    """A run that was stopped goes on on the GPU with the moments and the random state that it had."""
    given = inputs(rng)
    whole = student.run(probes.trained, device=device, dropout=0.5, **given)
    got = student.run(probes.trained, device=device, dropout=0.5, stop_after=4, **given)
    check_losses(got, whole["losses"][4:], atol=1e-3, hint="is the GPU's generator in the checkpoint?")
    for p, want in zip(got["tensors"][:2], whole["tensors"][:2], strict=True):
        expect.tensor(p, want, of="train", atol=1e-3, name="a parameter at the end")
