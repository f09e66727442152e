"""The quizzes: questions with one number as the answer, and what each likely wrong number means.

All numbers are computed: the answers by torch and the reference, the wrong ones from them. Those of
the napkin page and of most chapters are in handout/napkin.toml.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec
import torch

from grader.solutions.reference import einops_reshaping, linear, optimizers, precision
from grader.solutions.reference import flop_counting as flops
from grader.solutions.reference import resource_accounting as accounting
from handout.site import calculators, micro_batch, numbers, wren

NAPKIN = Path(__file__).parents[1] / "napkin.toml"


class Question(msgspec.Struct, frozen=True):
    """A question, its answer with the reason, and hints by wrong answer.

    Args:
        show: The format of the answer and its unit, such as `.1f GB`; "" for a whole number.
    """

    asks: str
    answer: float
    because: str
    hints: list[tuple[int, str]] = []
    show: str = ""

    @property
    def within(self) -> float:
        """The share by which an answer may differ from ours."""
        return 0.01 if self.show and not float(self.answer).is_integer() else 0


def strides() -> list[Question]:
    """A contiguous tensor, its transpose, a slice, and a reshape that copies."""
    x = torch.empty(3, 6, 5)
    y, z = x.transpose(0, 2), x[1:, :, 2]
    copy = y.reshape(-1)
    copied = copy.untyped_storage().nbytes()
    offset = int(z.storage_offset())
    size, of_x = x.element_size(), f"x is contiguous, float32, of shape {tuple(x.shape)}."
    return [
        Question(
            f"{of_x} What is the stride of its dimension 0, in elements?",
            x.stride(0),
            f"One step along dimension 0 skips {x.shape[1]} rows of {x.shape[2]} elements.",
            [
                (x.stride(0) * size, "That is in bytes, as in NumPy. torch counts elements."),
                (x.shape[1], "A step skips that many rows, and each row has several elements."),
                (
                    x.shape[0] * x.shape[1],
                    "Multiply the sizes after dimension 0, not those before.",
                ),
                (x.numel(), "That is the whole tensor. Leave out the size of dimension 0 itself."),
            ],
        ),
        Question(
            "y = x.transpose(0, 2). What is the stride of dimension 0 of y, in elements?",
            y.stride(0),
            "Transposing swaps strides and moves no element: this is the last stride of x.",
            [
                (y.contiguous().stride(0), "y would have it after contiguous(), which copies."),
                (x.stride(0), "That is the stride of dimension 0 of x, now that of dimension 2."),
                (size, "That is in bytes. torch counts elements."),
            ],
        ),
        Question(
            "z = x[1:, :, 2]. What is the offset of z, in elements?",
            offset,
            f"It is 1 · {x.stride(0)} + 2 · {x.stride(2)}: each index times its stride.",
            [
                (offset * size, "That is in bytes. The offset counts elements."),
                (x.stride(0), "The index of the last dimension moves the start, too."),
                (2, "The slice 1: moves the start, too."),
                (1 + 2, "Multiply each index by the stride of its dimension."),
            ],
        ),
        Question(
            "How many more bytes are allocated by y.reshape(-1)?",
            copied,
            f"No stride describes y as a vector, so its {copy.numel()} elements are copied.",
            [
                (0, "The last dimension of y does not lead into the next: view would refuse it."),
                (copy.numel(), f"So many elements are copied, and each one takes {size} bytes."),
                (2 * copied, "x is there already. Only the copy is new."),
            ],
        ),
    ]


def counts() -> list[Question]:
    """A matrix product, a batched one, a linear layer forward and backward, and a whole run."""
    m, k, n = 32, 64, 16
    product = flops.matmul_flops((m, k), (k, n))
    a, b = (2, 8, 3, 4), (4, 5)
    batched = flops.matmul_flops(a, b)
    forward = flops.linear_flops(8, 16, 4)
    layer = flops.linear_flops(8, 16, 4, backward=True)
    size, tokens = 10_000_000, 200_000_000
    run = flops.training_flops(size, tokens)
    half = "An add belongs to each multiply: the factor 2 is missing."
    return [
        Question(
            f"How many FLOPs does a product of {m} × {k} times {k} × {n} take?",
            product,
            f"Each of the {m} · {n} results takes {k} multiplies and {k} adds.",
            [
                (product // 2, half),
                (2 * m * n, "That is 2 per result. Each result is a sum of several products."),
                (m * n, "That is the number of results. Each one is a sum of several products."),
            ],
        ),
        Question(
            f"And shape {a} @ shape {b}?",
            batched,
            "The leading dimensions are so many products of the same size.",
            [
                (batched // 2, half),
                (flops.matmul_flops(a[2:], b), "That is one product of the batch."),
                (batched * a[3], "The dimension that is summed over counts once."),
            ],
        ),
        Question(
            "A linear layer takes 16 features to 4 for 8 rows. Its input needs a gradient, too. "
            "How many FLOPs do forward and backward take together?",
            layer,
            f"The forward pass is one product, {forward} FLOPs. The backward pass has two more.",
            [
                (forward, "That is the forward pass alone."),
                (layer - forward, "That is two products. There are three, two of them backward."),
                (layer // 2, half),
            ],
        ),
        Question(
            f"By the rule, how many FLOPs does it take to train {size:,} parameters on "
            f"{tokens:,} tokens? (1e15 is a number, too.)",
            run,
            "It is 6 FLOPs per parameter and token.",
            [
                (run // 3, "That is the forward pass alone."),
                (run // 3 * 2, "That is the backward pass alone."),
                (run // 2, half),
                (run // 3 * 4, "That factor is for runs that repeat the forward pass."),
            ],
        ),
    ]


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A problem of the napkin page; see the comment in napkin.toml."""

    asks: str
    show: str
    answer: str
    working: str


# --- what the answers of napkin.toml use ----------------------------------------------------------

BF16, FP32 = torch.bfloat16, torch.float32
A100, H100, H200 = accounting.A100_80GB, accounting.H100_SXM, accounting.H200_SXM
MASTER = accounting.TrainingRecipe(BF16, BF16, (FP32, FP32), FP32)
AGAIN = flops.training_flops(3, 1, recompute_forward=True) / flops.training_flops(3, 1)
LLAMA = flops.TransformerConfig(128256, 8192, 32, 4096, 32, 14336, gated_ffn=True, kv_heads=8)
LLAMA_70B = replace(LLAMA, num_layers=80, d_model=8192, num_heads=64, d_ff=28672)
MIXTRAL = replace(LLAMA, vocab_size=32000, experts=8, active_experts=2)
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


NAMES = {
    "einops_reshaping": einops_reshaping,
    "linear": linear,
    "micro_batch": micro_batch,
    "optimizers": optimizers,
    "precision": precision,
    "wren": wren,
}

# --- the problems of the napkin page --------------------------------------------------------------


@cache
def napkin() -> dict[str, list[Problem]]:
    """The problems of the napkin page by question, and those of chapters by page."""
    return msgspec.convert(
        tomllib.loads(NAPKIN.read_text(encoding="utf-8")), dict[str, list[Problem]]
    )


def _drill(name: str) -> list[Question]:
    """The problems of a question, as a quiz without hints."""
    return [
        Question(
            problem.asks,
            # The expression comes from our own file.
            eval(problem.answer, NAMES | globals()),
            re.sub(r"(?<=[\d)]) \* (?=[\d(a-z])", " · ", problem.working).replace("-", "−") + ".",
            show=problem.show,
        )
        for problem in napkin()[name]
    ]


QUIZZES: dict[str, tuple[str, Callable[[], list[Question]]]] = {
    "strides": ("Quiz: strides", strides),
    "flops": ("Quiz: FLOPs", counts),
    **{
        name: ("Quiz" if name[0].isdigit() else "Five problems", partial(_drill, name))
        for name in napkin()
    },
}


def html(name: str) -> str:
    """The quiz as HTML. Without a script it is a list of questions with folded answers.

    Raises:
        KeyError: There is no quiz of that name.
    """
    title, questions = QUIZZES[name]
    return calculators.TEMPLATES.get_template("quiz.html").render(
        name=name, title=title, questions=questions(), written=written
    )


def written(question: Question) -> str:
    """An answer as the page shows it."""
    spec, _, unit = question.show.partition(" ")
    if spec:
        return f"{question.answer:,{spec}} {unit}".strip()
    value = question.answer
    return numbers.fixed(value, 0) if value < 10**9 else f"{value:.3g}".replace("e+", "e")
