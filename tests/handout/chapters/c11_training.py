"""Chapter 11: losses and their floor, micro-batches, the schedule, autocast, and a run that is killed."""

import json
import math
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from grader.reference import activation_checkpointing as ac
from grader.reference import autograd as ag
from grader.reference import optimizers as op
from grader.reference import resource_accounting as ra
from grader.reference import training as tr
from tests.handout.claims import Claims, n, plain, section
from tests.public.test_training_loop import Table

FP32, BF16 = torch.float32, torch.bfloat16
GPT2_IDS = 50257
SCHEDULE = {"max_learning_rate": 1.0, "min_learning_rate": 0.1, "warmup_steps": 2, "steps": 6}
CONFIG = {**SCHEDULE, "batch_size": 4, "context_length": 5}


def run(stop_at=None, **config):
    """A run of the reference: its result and its model."""
    model = Table(stop_at)
    optimizer = op.AdamW(model.parameters())
    tokens = np.random.default_rng(0).permutation(np.arange(200) % 8)
    return tr.train(model, optimizer, tokens, tr.TrainConfig(**{**CONFIG, **config})), model


def how_often(chain):
    """The share of each token in a Markov chain's text, from the chain's eigenvector."""
    values, vectors = torch.linalg.eig(chain.T)
    vector = vectors[:, values.real.argmax()].real
    return vector / vector.sum()


def entropy(chain):
    """Nats a token of a Markov chain, with torch's own entropy of a distribution."""
    return float(how_often(chain) @ torch.distributions.Categorical(chain).entropy())


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("11_training.md")
        self.loss()
        self.micro_batches()
        self.learning_rate()
        self.autocast()
        self.killed()

    def loss(self) -> None:
        """A guess, and the floor."""
        guess = F.cross_entropy(torch.zeros(1, GPT2_IDS), torch.tensor([0])).item()
        self.says(f"has log V: {n(guess, '.2f')} for {n(GPT2_IDS, ',')}.")
        stay = 0.9
        chain = torch.tensor([[stay, 1 - stay], [1 - stay, stay]], dtype=torch.float64)
        by_hand = -stay * math.log(stay) - (1 - stay) * math.log(1 - stay)
        assert abs(entropy(chain) - by_hand) < 1e-12
        self.formula(
            r"H = \sum_i \pi_i \sum_j P_{ij} \left(-\log P_{ij}\right)",
            [abs(entropy(p) - sum(p.matrix_power(200)[0, i] * -p[i, j] * p[i, j].log() for i in range(3) for j in range(3))) < 1e-9 for p in torch.rand(4, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).softmax(-1)],
        )  # fmt: skip
        leave = plain(1 - stay)
        pi = ", ".join(n({0.5: "½"}[round(share, 12)]) for share in how_often(chain).tolist())
        self.says(
            f"stay with probability {n(stay)} have π = ({pi}) and H = −{n(stay)} log {n(stay)} − {leave} log {leave} = "
            f"{n(entropy(chain), '.3f')} nats, against log {n(len(chain))} = {n(math.log(len(chain)), '.3f')} for a guess."
        )

    def micro_batches(self) -> None:
        """What they save, and how they are added up."""
        windows, context, small = 512, 1024, 8
        row = context * GPT2_IDS * FP32.itemsize
        assert windows * row > ra.H100_SXM.memory_bytes
        self.says(
            f"The logits alone of {n(windows)} windows of {n(context, ',')} tokens over {n(GPT2_IDS, ',')} ids are {n(windows * row / 1e9, '.1f')} GB in float32",
            f"{n(small)} at a time have logits of {n(small * row / 1e9, '.2f')} GB.",
        )
        self.mentions("H100", 1)
        x, y = torch.rand(7, 3, dtype=torch.float64), torch.rand(7, 2, dtype=torch.float64)
        model = nn.Linear(3, 2).double()
        whole = F.mse_loss(model(x), y).item()
        self.formula(
            r"\ell = \sum_i \frac{b_i}{B} \ell_i",
            [
                abs(ag.accumulate_gradients(model, F.mse_loss, x, y, m) - whole) < 1e-12
                and abs(sum(len(p) / len(x) * F.mse_loss(model(p), q).item() for p, q in zip(x.split(m), y.split(m), strict=True)) - whole) < 1e-12
                for m in (1, 2, 3, 7)
            ],
        )  # fmt: skip
        losses, sizes = [2.0, 4.0], [3, 1]
        target = torch.tensor([[loss] for loss, size in zip(losses, sizes, strict=True) for _ in range(size)])
        mean = ag.accumulate_gradients(nn.Linear(1, 1), lambda out, want: want.mean() + 0 * out.sum(), target, target, 3)
        first, second = (f"{n(size)} · {n(loss)}" for loss, size in zip(losses, sizes, strict=True))
        self.says(
            f"Losses {n(losses[0])} for {n(sizes[0])} windows and {n(losses[1])} for {n(sizes[1])} make ({first} + {second}) / {n(sum(sizes))} = "
            f"{n(mean)}, not {n(sum(losses) / len(losses))}."
        )
        self.says(f"([§{section('autograd')}]({n('06')}_autograd.md))")

    def learning_rate(self) -> None:
        """The schedule of six steps."""
        result, _ = run()
        rates = [op.lr_cosine_schedule(step, 1.0, 0.1, 2, 6) for step in range(7)]
        assert result.learning_rates == rates[:6]
        self.says(f"The schedule of [§{section('lr_schedule')}]({n('08')}_optimizers.md)")
        self.says(
            f"With max {n(SCHEDULE['max_learning_rate'])}, min {n(SCHEDULE['min_learning_rate'])}, {n(SCHEDULE['warmup_steps'])} steps of warm-up and {n(SCHEDULE['steps'])} steps:"
        )
        self.says(f"| step | {' | '.join(n(step) for step in range(6))} |")
        self.says(f"| learning rate | {' | '.join(plain(round(lr, 4)) for lr in rates[:6])} |")
        still = rates.index(0.0)
        self.says(
            f"Step {n(still)} changes no weight, and min would be reached at step {n(rates.index(0.1))}, which is not taken."
        )

    def autocast(self) -> None:
        """What stays in float32."""
        adamw = ra.TrainingRecipe(FP32, FP32, (FP32, FP32))
        layer, x = nn.Linear(32, 16, bias=False), torch.rand(1, 32, requires_grad=True)
        with torch.autocast("cpu", dtype=BF16):
            kept = ac.saved_activation_bytes(lambda: layer(x), exclude=[layer.weight])
            layer(x).float().sum().backward()
        assert layer.weight.dtype == layer.weight.grad.dtype == FP32
        copies = (kept - x.numel() * BF16.itemsize) / layer.weight.numel()
        self.says(f"so with AdamW they stay at {n(ra.bytes_per_parameter(adamw))} bytes a parameter:")
        self.says(
            f"stay float32: {n(ra.bytes_per_parameter(adamw))} bytes a parameter with AdamW.",
            f"there is a bfloat16 copy of nearly each weight, {plain(copies)} bytes a parameter more",
        )
        self.says(f"([chapter {section('Checkpointing')}]({n('10')}_checkpointing.md))")

    def killed(self) -> None:
        """A run that is stopped in step 5, and goes on."""
        every, stop, steps = 4, 5, CONFIG["steps"]
        whole, model = run()
        with tempfile.TemporaryDirectory() as folder:
            log, checkpoint = Path(folder, "log"), Path(folder, "checkpoint")
            files = {"checkpoint_every": every, "checkpoint_path": str(checkpoint), "log_path": str(log)}

            def lines():
                return [json.loads(line)["step"] for line in log.read_text(encoding="utf-8").splitlines()]

            def done():
                return torch.load(checkpoint, weights_only=True)["steps_done"]

            with suppress(KeyboardInterrupt):
                run(stop, **files)
            logged, saved = lines(), done()
            with suppress(KeyboardInterrupt):
                run(0, **files)  # stopped again at once, when the log is cut and no step is done
            cut, still = lines(), done()
            resumed, resumed_model = run(**files)
            ended, last = lines(), done()
        assert torch.equal(resumed_model.table.weight, model.table.weight)
        assert resumed.losses == whole.losses[every:]
        assert len(resumed.losses) == 2  # "two entries"
        self.says(f"step {n(resumed.first_step)} of a run that went on there has {plain(round(resumed.learning_rates[0], 4))}.")
        after = [step for step in range(steps) if (step + 1) % every == 0 or step + 1 == steps]
        self.says(
            f"Checkpoints every {n(every)} steps of {n(steps)} are written after steps {' and '.join(map(n, after))}, counted from {n(0)}, that is with "
            f"{' and '.join(n(step + 1) for step in after)} steps done. Killed in step {n(stop)}, the run goes on from step {n(resumed.first_step)}: "
            f"`first_step` is {n(resumed.first_step)}, `losses` has two entries, and the log's line of step {n(logged[-1])} is cut off and written again."
        )
        for name, made, row, file in [
            (f"killed in step {n(stop)}", len(logged), logged, saved),
            ("started again", len(cut), cut, still),
            ("at the end", len(ended), ended, last),
        ]:
            self.says(f"| {name} | {n(made)} | {' '.join(map(n, row))} | {n(file)} steps done |")
