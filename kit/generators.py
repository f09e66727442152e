"""The random generators of tests, whichever kind a course uses."""

import copy
import random
import sys
from collections.abc import Sequence
from typing import Any


def made(seed: int, packages: Sequence[str]) -> Any:
    """A generator with this seed.

    It is a torch.Generator in a course that uses torch, a NumPy Generator in one that uses NumPy,
    and otherwise a random.Random.

    Args:
        seed: A whole number of at most 63 bits.
        packages: The names of the packages that the course lists.
    """
    if "torch" in packages:
        import torch

        return torch.Generator().manual_seed(seed)
    if "numpy" in packages:
        import numpy as np

        return np.random.default_rng(seed)
    return random.Random(seed)


def copy_of(generator: Any) -> Any:
    """A generator of the same kind in the same state."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(generator, torch.Generator):
        return torch.Generator().set_state(generator.get_state())
    return copy.deepcopy(generator)
