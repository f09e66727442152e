"""The quizzes: questions with one number as the answer, and what each likely wrong number means.

All numbers are computed: the answers by torch and the reference, the wrong ones from them.
"""

from collections.abc import Callable

import msgspec
import torch

from grader.solutions.reference import flop_counting
from handout.site import calculators, numbers


class Question(msgspec.Struct, frozen=True):
    """A question, its answer with the reason, and hints by wrong answer."""

    asks: str
    answer: int
    because: str
    hints: list[tuple[int, str]]


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


def flops() -> list[Question]:
    """A matrix product, a batched one, a linear layer forward and backward, and a whole run."""
    m, k, n = 32, 64, 16
    product = flop_counting.matmul_flops((m, k), (k, n))
    a, b = (2, 8, 3, 4), (4, 5)
    batched = flop_counting.matmul_flops(a, b)
    forward = flop_counting.linear_flops(8, 16, 4)
    layer = flop_counting.linear_flops(8, 16, 4, backward=True)
    size, tokens = 10_000_000, 200_000_000
    run = flop_counting.training_flops(size, tokens)
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
                (flop_counting.matmul_flops(a[2:], b), "That is one product of the batch."),
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


QUIZZES: dict[str, tuple[str, Callable[[], list[Question]]]] = {
    "strides": ("Quiz: strides", strides),
    "flops": ("Quiz: FLOPs", flops),
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


def written(value: int) -> str:
    """An answer as the page shows it."""
    return numbers.fixed(value, 0) if value < 10**9 else f"{value:.3g}".replace("e+", "e")
