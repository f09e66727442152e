"""Chapter 11: losses, their lower bound, micro-batches, the schedule, autocast and killed runs."""

import json
import math
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from grader.solutions.reference import activation_checkpointing as ac
from grader.solutions.reference import autograd as ag
from grader.solutions.reference import optimizers as op
from grader.solutions.reference import resource_accounting as ra
from grader.solutions.reference import training as tr
from handout.site import micro_batch, wren
from tests.handout.page_figures import Figures, n
from tests.public.test_training_loop import Table

FP32, BF16 = torch.float32, torch.bfloat16
GPT2_IDS = 50257
SCHEDULE = {"max_learning_rate": 1.0, "min_learning_rate": 0.1, "warmup_steps": 2, "steps": 6}
CONFIG = {**SCHEDULE, "batch_size": 4, "context_length": 5}


def run(stop_at=None, **config):
    """The result and the model of a run of the reference."""
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
    """Nats per token of a Markov chain, by torch's own entropy of a distribution."""
    return float(how_often(chain) @ torch.distributions.Categorical(chain).entropy())


class Chapter(Figures):
    def beginning(self) -> None:
        # Their blog post of October 2024 names the report of 2021.
        self.gives(bet_done=500, bet_steps=1000, story_year=2024, story_before=2021)
        self.gives(between=wren.SEQUENCES // wren.DEVICES // wren.MICRO_BATCH - 1)
        self.gives(stage_test=1)

    def loss(self) -> None:
        guess = F.cross_entropy(torch.zeros(1, GPT2_IDS), torch.tensor([0])).item()
        self.gives(guess=guess, ids=GPT2_IDS)
        stay = 0.9
        chain = torch.tensor([[stay, 1 - stay], [1 - stay, stay]], dtype=torch.float64)
        summed = chain.matrix_power(200)[0] @ (-chain * chain.log()).sum(1)
        formula = r"H = \sum_i \pi_i \sum_j P_{ij} \left(-\log P_{ij}\right)"
        self.formula("entropy_formula", formula, abs(entropy(chain) - summed) < 1e-9)
        leave = n(1 - stay, "g")
        pi = ", ".join(n({0.5: "½"}[round(share, 12)]) for share in how_often(chain).tolist())
        terms = f"−{n(stay)} log {n(stay)} − {leave} log {leave}"
        self.gives(stay=stay, pi=pi, entropy=f"{terms} = {n(entropy(chain), '.3f')}")
        self.gives(guess_entropy=f"log {n(len(chain))} = {n(math.log(len(chain)), '.3f')}")

    def micro_batches(self) -> None:
        windows, context, small = 512, 1024, 8
        row = context * GPT2_IDS * FP32.itemsize
        assert windows * row > ra.H100_SXM.memory_bytes
        self.gives(windows=windows, context=context, ids=GPT2_IDS, logits_gb=windows * row / 1e9)
        self.gives(micro_batch=small, micro_batch_gb=small * row / 1e9)
        x, y = torch.rand(7, 3, dtype=torch.float64), torch.rand(7, 2, dtype=torch.float64)
        model = nn.Linear(3, 2).double()
        whole = F.mse_loss(model(x), y).item()

        parts = zip(x.split(3), y.split(3), strict=True)
        found = [sum(len(p) / len(x) * F.mse_loss(model(p), q).item() for p, q in parts)]
        found.append(ag.accumulate_gradients(model, F.mse_loss, x, y, 3))
        formula = r"\ell = \sum_i \frac{b_i}{B} \ell_i"
        self.formula("micro_batch_formula", formula, [abs(one - whole) < 1e-12 for one in found])
        losses, sizes = [2.0, 4.0], [3, 1]
        target = torch.tensor(losses).repeat_interleave(torch.tensor(sizes))[:, None]
        given = lambda out, want: want.mean() + 0 * out.sum()  # noqa: E731
        mean = ag.accumulate_gradients(nn.Linear(1, 1), given, target, target, 3)
        self.gives(first_loss=losses[0], first_windows=sizes[0], second_loss=losses[1])
        self.gives(second_windows=sizes[1])
        self.gives(mean_loss=(list(zip(sizes, losses, strict=True)), sum(sizes), mean))
        self.gives(wrong_mean=sum(losses) / len(losses))

    def learning_rate(self) -> None:
        rates = [op.lr_cosine_schedule(step, 1.0, 0.1, 2, 6) for step in range(7)]
        self.gives(max=SCHEDULE["max_learning_rate"], min=SCHEDULE["min_learning_rate"])
        self.gives(warmup=SCHEDULE["warmup_steps"], steps=SCHEDULE["steps"])
        self.gives(step_row=list(range(6)), rate_row=rates[:6])
        self.gives(still_step=rates.index(0.0), min_step=rates.index(0.1))

    def autocast(self) -> None:
        layer, x = nn.Linear(32, 16, bias=False), torch.rand(1, 32, requires_grad=True)
        with torch.autocast("cpu", dtype=BF16):
            kept = ac.saved_activation_bytes(lambda: layer(x), exclude=[layer.weight])
            layer(x).float().sum().backward()
        assert layer.weight.dtype == layer.weight.grad.dtype == FP32
        copies = (kept - x.numel() * BF16.itemsize) / layer.weight.numel()
        self.gives(adamw_bytes=ra.bytes_per_parameter(wren.RECIPE), copy_bytes=copies)

    def killed(self) -> None:
        every, stop, steps = 4, 5, CONFIG["steps"]
        whole, model = run()
        with tempfile.TemporaryDirectory() as folder:
            log, checkpoint = Path(folder, "log"), Path(folder, "checkpoint")
            files = {"checkpoint_path": str(checkpoint), "log_path": str(log)}

            def row():
                steps = [json.loads(one)["step"] for one in log.read_text("utf-8").splitlines()]
                done = torch.load(checkpoint, weights_only=True)["steps_done"]
                self.gives(log_row=(len(steps), steps, done))

            with suppress(KeyboardInterrupt):
                run(stop, checkpoint_every=every, **files)
            row()
            with suppress(KeyboardInterrupt):
                # The run stops again at once: the log is truncated, and no step is done.
                run(0, checkpoint_every=every, **files)
            row()
            resumed, resumed_model = run(checkpoint_every=every, **files)
            row()
        assert torch.equal(resumed_model.table.weight, model.table.weight)
        assert resumed.losses == whole.losses[every:]
        assert len(resumed.losses) == 2  # "two entries"
        self.gives(resumed_step=resumed.first_step)
        self.gives(resumed_rate=round(resumed.learning_rates[0], 4))
        after = [step for step in range(steps) if (step + 1) % every == 0 or step + 1 == steps]
        self.gives(every=every, steps=steps, checkpoint_steps=after)
        self.gives(steps_done=[step + 1 for step in after], stop=stop)

    def model(self) -> None:
        each = wren.SEQUENCES // wren.DEVICES
        many, few = micro_batch.peak(wren.WREN, each, wren.RECIPE), wren.PEAK
        memory = ra.H100_SXM.memory_bytes
        assert few.total < memory
        assert many.total > memory
        self.gives(wren_guess=math.log(wren.WREN.vocab_size), wren_state=few.states / 1e9)
        self.gives(wren_copies=few.copies / 1e9, wren_activations=(few.layers + few.head) / 1e9)
        self.gives(wren_logits=few.logits / 1e9, wren_peak=few.total / 1e9)
        # Table 2.1 of Brown et al. (2020).
        self.gives(wren_lr=2e-4, wren_step_flops=wren.STEP_FLOPS)
        self.gives(wren_step_seconds=wren.STEP_SECONDS, wren_checkpoint=wren.CHECKPOINT_BYTES / 1e9)
        self.gives(wren_checkpoint_minutes=wren.CHECKPOINT_EVERY * wren.STEP_SECONDS / 60)
        self.gives(ex_each=each, ex_activations=(many.layers + many.head) / 1e9)
        self.gives(ex_logits=many.logits / 1e9, ex_device=memory // 10**9)

    def exercises(self) -> None:
        self.gives(ex_bytes=256, ex_loss=8.3, ex_guess=math.log(256))
        steps, warmup, at = 100, 10, 50
        self.gives(ex_steps=steps, ex_warmup=warmup, ex_resumed=at)
        self.gives(ex_rate=op.lr_cosine_schedule(at, 1.0, 0.0, warmup, steps))
