"""The quizzes of handout/napkin.toml: questions with one number as the answer.

All numbers are computed, by torch and the reference: the answers, and the likely wrong numbers that
have a hint.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from grader.solutions.reference import einops_reshaping, linear, optimizers, precision
from grader.solutions.reference import flop_counting as flops
from grader.solutions.reference import resource_accounting as accounting
from handout.site import calculator_formulas, calculator_rounding, calculators, micro_batch, wren

NAPKIN = Path(__file__).parents[1] / "napkin.toml"


class Question(NamedTuple):
    """A question of napkin.toml, which explains its fields. All numbers are computed."""

    asks: str
    answer: float
    working: str
    because: str  # words, or the working as the page shows it
    hints: list[tuple[int, str]]  # by wrong answer
    show: str  # such as `.1f GB`; "" for a whole number

    @property
    def within(self) -> float:
        """The share by which an answer may differ from ours."""
        return 0.01 if self.show and not float(self.answer).is_integer() else 0


# --- what napkin.toml uses ------------------------------------------------------------------------

BF16, FP32 = torch.bfloat16, torch.float32
A100, H100, H200 = accounting.A100_80GB, accounting.H100_SXM, accounting.H200_SXM
AGAIN = flops.training_flops(3, 1, recompute_forward=True) / flops.training_flops(3, 1)
LLAMA = flops.TransformerConfig(128256, 8192, 32, 4096, 32, 14336, gated_ffn=True, kv_heads=8)
LLAMA_70B = replace(LLAMA, num_layers=80, d_model=8192, num_heads=64, d_ff=28672)
MIXTRAL = replace(LLAMA, vocab_size=32000, experts=8, active_experts=2)
X = torch.empty(3, 6, 5)  # the tensors of the quiz on strides
Y, Z = X.transpose(0, 2), X[1:, :, 2]
GPT3 = flops.TransformerConfig(50257, 2048, 96, 12288, 96, 49152, tied_embeddings=True)


def size(config: flops.TransformerConfig) -> int:
    """The parameters of a model."""
    return accounting.transformer_parameters(cast(Any, config))


def multiplied(config: flops.TransformerConfig) -> int:
    """The parameters that a token is multiplied with: an embedding is only looked up."""
    return size(replace(config, tied_embeddings=True, experts=config.active_experts))


def parts_of(config: flops.TransformerConfig) -> dict[str, int]:
    """The FLOPs of one sequence's forward pass by part."""
    return flops.transformer_forward_flops(config, 1, config.context_length)


def days(n: float, d: float, hw: accounting.Hardware, devices: int, mfu: float = 0.4) -> float:
    """The days of a run in bfloat16."""
    return accounting.training_days(int(n), int(d), hw, BF16, devices, mfu)


def per_second(read: float, hw: accounting.Hardware) -> float:
    """How many times per second a device reads so many bytes."""
    return 1 / accounting.roofline_seconds(0, read, hw, BF16)


def ring(parameters: float, dtype: torch.dtype, devices: int) -> float:
    """Bytes that each device sends: all parts but its own, to add them up and to spread them."""
    part = parameters * dtype.itemsize / devices
    return (devices - 1) * part + (devices - 1) * part


def depth(layers: int) -> int:
    """Inputs that are kept at once if each half of the layers is computed again by halves."""
    return 0 if layers == 1 else 1 + depth(layers // 2)


def first(holds: Callable[[int], bool]) -> int:
    """The first count for which something holds."""
    return next(number for number in count(1) if holds(number))


NAMES: dict[str, Any] = {
    "MASTER": calculator_formulas.MASTER,
    "einops_reshaping": einops_reshaping,
    "linear": linear,
    "micro_batch": micro_batch,
    "optimizers": optimizers,
    "precision": precision,
    "wren": wren,
}


def _computed(expression: str) -> Any:
    # The expression comes from our own file.
    return eval(expression, NAMES | globals())


# --- the quizzes ----------------------------------------------------------------------------------


@cache
def questions() -> dict[str, list[Question]]:
    """The questions of each quiz: by the napkin page's question, or by chapter."""
    quizzes = tomllib.loads(NAPKIN.read_text(encoding="utf-8"))
    return {name: [_question(**one) for one in listed] for name, listed in quizzes.items()}


def _question(
    *, asks: str, answer: str, working: str, show: str = "", because: str = "", hints: Any = ()
) -> Question:
    by_hand = re.sub(r"(?<=[\d)]) \* (?=[\d(a-z])", " · ", working).replace("-", "−") + "."
    wrong = [(_computed(expression), words) for expression, words in hints]
    return Question(asks, _computed(answer), working, because or by_hand, wrong, show)


def title(name: str) -> str:
    """The heading of a quiz."""
    return "Quiz" if name[0].isdigit() else "Five problems"


def html(name: str) -> str:
    """The quiz as HTML. Without a script it is a list of questions with folded answers.

    Raises:
        KeyError: There is no quiz of that name.
    """
    return calculators.TEMPLATES.get_template("quiz.html").render(
        name=name, title=title(name), questions=questions()[name], written=written
    )


def written(question: Question) -> str:
    """An answer as the page shows it."""
    spec, _, unit = question.show.partition(" ")
    if spec:
        return f"{question.answer:,{spec}} {unit}".strip()
    value = question.answer
    if value < 10**9:
        return calculator_rounding.fixed(value, 0)
    return f"{value:.3g}".replace("e+", "e")
