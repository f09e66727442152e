"""The reference's training loop, killed for real.

Each attempt is a Python process that reads tokens from a file on disk and is ended with SIGKILL.
"""

import json
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.grader.warm_python import python

STEPS, CHECKPOINT_EVERY = 4, 2
PROGRAM = """
import json, os, signal, sys
import numpy as np
import torch
from torch import nn
from grader.solutions.reference.training import TrainConfig, train

folder = sys.argv[1]
steps, checkpoint_every, kill_at, weights = map(int, sys.argv[2:])

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.forwards = 0
        self.layers = nn.Sequential(nn.Embedding(64, 16), nn.Dropout(0.3), nn.Linear(16, 64))

    def forward(self, tokens):
        if self.training and self.forwards == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.forwards += self.training
        return self.layers(tokens)

torch.set_num_threads(1)
torch.manual_seed(weights)
model = Model()
config = TrainConfig(
    steps=steps, batch_size=4, context_length=8,
    max_learning_rate=0.1, min_learning_rate=0.01, warmup_steps=2, seed=7,
    eval_every=3, eval_batches=2, checkpoint_every=checkpoint_every,
    checkpoint_path=f"{folder}/checkpoint", log_path=f"{folder}/log",
)
tokens = np.memmap(f"{folder}/tokens", dtype=np.uint16, mode="r")
optimizer = torch.optim.AdamW(model.parameters())
result = train(model, optimizer, tokens[:800], config, val_tokens=tokens[800:])
parameters = [p.detach().flatten().tolist() for p in model.parameters()]
evaluations = sorted(result.eval_losses.items())
lists = [result.losses, result.learning_rates, result.grad_norms]
print(json.dumps([result.first_step, *lists, evaluations, parameters]))
"""


def start(
    root: Path, folder: Path, *, kill_at: int = -1, weights: int = 0
) -> "subprocess.CompletedProcess[str]":
    """Train in one process, which is killed in training step `kill_at` unless that is negative."""
    numbers = map(str, (STEPS, CHECKPOINT_EVERY, kill_at, weights))
    return subprocess.run(
        [python(), "-c", PROGRAM, str(folder), *numbers],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=600,
    )


def folder_with_tokens(path: Path) -> Path:
    path.mkdir()
    np.random.default_rng(0).integers(64, size=1000).astype(np.uint16).tofile(path / "tokens")
    return path


@pytest.mark.proof
def test_killed_at_every_step_in_turn_it_ends_bit_equal(root, tmp_path):
    """A run killed and restarted at every step in turn ends bit-equal to a run left alone.

    Losses, parameters and the log are compared.
    """
    left_alone, folder = (
        folder_with_tokens(tmp_path / "whole"),
        folder_with_tokens(tmp_path / "killed"),
    )
    whole = start(root, left_alone)
    assert whole.returncode == 0, whole.stderr
    _, *lists, evaluations, parameters = json.loads(whole.stdout)
    first_step = 0
    for step in range(STEPS):
        # Until a checkpoint exists, a run starts from the weights that it is given.
        weights = 1 if first_step else 0
        killed = start(root, folder, kill_at=step - first_step, weights=weights)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        first_step = step - step % CHECKPOINT_EVERY
    last = start(root, folder, weights=1)
    assert last.returncode == 0, last.stderr
    began, *tails, later, reached = json.loads(last.stdout)
    assert began == first_step
    assert tails == [values[began:] for values in lists]
    assert later == [pair for pair in evaluations if pair[0] > began]
    assert reached == parameters
    assert (folder / "log").read_text() == (left_alone / "log").read_text()
