"""Chapter 10: checkpoints from which a training run resumes as if it had never stopped.

A training step depends not only on the weights but also on the buffers, the optimizer's moments and
learning rates, the iteration, and the state of each random number generator. A checkpoint is needed
most after a crash, so a crash must not destroy the last good checkpoint.
"""

import copy
import os
import random
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor, nn


def copy_of_state(module: nn.Module) -> dict[str, Tensor]:
    """Copy a module's parameters and buffers as they are now: a solved example for this module.

    `state_dict` alone returns the live tensors, which the optimizer's next step changes in place. A
    copy keeps its values.

    Args:
        module: Any module.

    Example:
        Take a copy and a state_dict of a module with a weight of 1, then set the weight to 2. The
        copy contains 1, the state_dict contains 2.
    """
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def save_checkpoint(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    iteration: int,
    out: str | os.PathLike[str] | BinaryIO,
) -> None:
    """Save everything that a run needs to continue bit for bit in a new process.

    That is the state_dicts of model and optimizer, the iteration, and the RNG states of torch (on
    the CPU and on every GPU), np.random and Python's random.

    A file at a path is replaced atomically: write a temporary file in the same folder, sync it
    (os.fsync), and rename it (os.replace). If anything fails, even by Ctrl-C, remove the temporary
    file and let the exception propagate. A temporary file left by a killed run must not prevent the
    next save.

    Args:
        model, optimizer: Those of the run.
        iteration: Iterations done so far, a Python int.
        out: A path, or an open binary file or BytesIO to write to and leave open.

    Example:
        Save at iteration 7 and load in another process: load_checkpoint returns 7.

    Handout §10.1 · `python -m assignment check checkpoint`
    """
    # TODO(checkpoint): about 5 lines, plus about 32 for the problem's helpers.
    raise NotImplementedError("checkpoint: see handout §10.1")


def load_checkpoint(
    src: str | os.PathLike[str] | BinaryIO, model: nn.Module, optimizer: torch.optim.Optimizer
) -> int:
    """Load a checkpoint into model, optimizer and random number generators; return its iteration.

    Copy the values into the existing parameters and buffers, so that tied weights stay tied. Load
    with weights_only=True and map_location="cpu".

    Load everything or nothing: if the checkpoint does not fit, raise, and leave model, optimizer
    and generators as they were. (`load_state_dict` copies all that fits before it raises.)

    Args:
        src: A path, or a binary file or BytesIO to read from its current position.
        model, optimizer: Built as the saved ones were.

    Raises:
        Exception: The file is missing, cut short or no checkpoint, or the names or sizes of
            parameters or buffers, or the sizes of groups, differ.

    Example:
        Load a linear layer into one with more outputs: RuntimeError, and nothing has changed.

    Handout §10.1
    """
    # TODO(checkpoint): about 8 lines, plus about 32 for the problem's helpers.
    raise NotImplementedError("checkpoint: see handout §10.1")
