"""The reference's checkpoints and its training loop across processes that are killed."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.grader.warm_python import python

RUN = """
import random, sys
import numpy as np, torch
from torch import nn
from grader.solutions.reference.checkpointing import load_checkpoint, save_checkpoint

path, start, end, result = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.set_num_threads(1)
seed = 5 if start == 0 else 6
torch.manual_seed(seed), np.random.seed(seed), random.seed(seed)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
if start:
    assert load_checkpoint(path, model, optimizer) == start
for _ in range(start, end):
    x = torch.randn(5, 6) * float(np.random.randn()) + random.gauss(0, 1)
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
save_checkpoint(model, optimizer, end, path)
torch.save(model.state_dict(), result)
"""

SAVE_FOREVER = """
import sys, torch
from torch import nn
from grader.solutions.reference.checkpointing import save_checkpoint

model = nn.Linear(1000, 1000)  # 12 MB with its moments
optimizer = torch.optim.AdamW(model.parameters())
iteration = 0
while True:
    iteration += 1
    nn.init.constant_(model.weight, iteration)
    save_checkpoint(model, optimizer, iteration, sys.argv[1])
    print(iteration, flush=True)
"""


@pytest.mark.proof
def test_a_fresh_process_goes_on_bit_by_bit(tmp_path, root):
    """Three steps plus three in a new process equal six steps in one process, bit by bit."""

    def run(name, start, end):
        arguments = [str(tmp_path / name), str(start), str(end), str(tmp_path / "weights")]
        subprocess.run([python(), "-c", RUN, *arguments], cwd=root, check=True, timeout=600)
        return torch.load(tmp_path / "weights", weights_only=True)

    expected = run("whole", 0, 6)
    run("parts", 0, 3)
    got = run("parts", 3, 6)
    assert expected.keys() == got.keys()
    assert [name for name in expected if not torch.equal(expected[name], got[name])] == []


@pytest.mark.slow
def test_a_process_killed_while_it_saves_leaves_a_whole_file(tmp_path, root):
    """A kill during one of many saves leaves a whole file: the last finished save or the next."""
    from grader.solutions.reference.checkpointing import load_checkpoint, save_checkpoint

    path, temporary = tmp_path / "checkpoint", tmp_path / "checkpoint.tmp"
    with subprocess.Popen(
        [sys.executable, "-c", SAVE_FOREVER, str(path)], cwd=root, stdout=subprocess.PIPE, text=True
    ) as process:
        finished = [int(process.stdout.readline()) for _ in range(3)][-1]
        while not temporary.exists() and process.poll() is None:
            time.sleep(0)
        process.send_signal(signal.SIGKILL)
        finished = max([finished, *(int(line) for line in process.stdout.read().split())])
    assert -signal.SIGKILL == process.returncode
    model = torch.nn.Linear(1000, 1000)
    optimizer = torch.optim.AdamW(model.parameters())
    iteration = load_checkpoint(path, model, optimizer)
    assert iteration in (finished, finished + 1)
    assert bool((model.weight == iteration).all())
    save_checkpoint(model, optimizer, iteration + 1, path)
    assert ["checkpoint"] == [p.name for p in tmp_path.iterdir()]


# --- the reference's training loop, killed for real -----------------------------------------------


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
