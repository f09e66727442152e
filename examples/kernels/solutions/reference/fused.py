"""Chapter 1: six operators in one loop."""

from collections.abc import Callable

import torch
from torch import Tensor


def plain(x: Tensor, y: Tensor) -> Tensor:
    """Given: 30 tanh(x/30) σ(y) + x, entry by entry, in six operators."""
    return 30 * torch.tanh(x / 30) * torch.sigmoid(y) + x


def compiled() -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function that computes the same as `plain` in at most 0.8 times its time.

    Example:
        For x = y = 0, the function returns 0.

    Handout §1.2 · `python -m assignment check fused`
    """
    # BEGIN SOLUTION(fused)
    return torch.compile(plain)
    # END SOLUTION
