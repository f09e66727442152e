"""Probes that do not call the student's code, to measure the cost of a round trip."""

from functools import cache
from typing import Any

import torch
from torch import Tensor


def nothing(student: Any) -> None:
    """Answer at once."""


def take(student: Any, *, x: Tensor) -> int:
    """Receive a tensor."""
    return x.numel()


def give(student: Any, *, count: int) -> Tensor:
    """Send a tensor of `count` bytes, which is made once."""
    return _ones(count)


@cache
def _ones(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.uint8)
