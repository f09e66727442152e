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


# BEGIN SOLUTION(checkpoint)
def _states(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Everything that the next steps depend on, in types that load with weights_only=True."""
    name, keys, *rest = np.random.get_state()
    version, words, *last = random.getstate()
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all(),
        # Hundreds of numbers: a tensor of them loads in a third of a list's time.
        "numpy": [name, torch.tensor(keys.astype(np.int64)), *rest],
        "random": [version, torch.tensor(words), *last],
    }


def _restore(states: dict[str, Any], model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    model.load_state_dict(states["model"])
    optimizer.load_state_dict(states["optimizer"])
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)
    name, keys, *rest = states["numpy"]
    np.random.set_state((name, keys.numpy(), *rest))
    version, words, *last = states["random"]
    random.setstate((version, tuple(words.tolist()), *last))


def _replace(path: str, checkpoint: dict[str, Any]) -> None:
    """Write the complete file under a temporary name, then rename it."""
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "wb") as file:
            torch.save(checkpoint, file)  # also flushes the file
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


# END SOLUTION


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
    # BEGIN SOLUTION(checkpoint)
    checkpoint = {**_states(model, optimizer), "iteration": int(iteration)}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        torch.save(checkpoint, out)
    # END SOLUTION


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
    # BEGIN SOLUTION(checkpoint)
    checkpoint = torch.load(src, map_location="cpu", weights_only=True)
    before = copy.deepcopy(_states(model, optimizer))
    try:
        _restore(checkpoint, model, optimizer)
        return checkpoint["iteration"]
    except BaseException:
        _restore(before, model, optimizer)
        raise
    # END SOLUTION
