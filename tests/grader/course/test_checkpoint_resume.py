"""The reference's checkpoints across separate processes.

One process resumes another's run, and one is killed while it saves.
"""

import signal
import subprocess
import sys
import time

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
