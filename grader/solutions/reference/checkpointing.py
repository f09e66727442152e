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

    Save the model's state_dict (parameters and buffers), the optimizer's state with the options of
    its groups, the iteration, and the RNG states of torch on the CPU and on every GPU, of np.random
    and of Python's random. Saving changes none of these, and no mode or gradient.

    Replace the file at a path atomically: write a temporary file in the same folder (or in a folder
    inside it), sync it to the disk (os.fsync), and rename it (os.replace). At any moment the path
    then contains either the complete old checkpoint or the complete new one. If an exception (such
    as OSError or KeyboardInterrupt) interrupts one of these steps, remove the temporary file and
    let the exception propagate. If the process is killed, the temporary file stays behind; it must
    not prevent the next save.

    Args:
        model: Any module. Its parameters may be tied.
        optimizer: The optimizer of the model's parameters. Its state and options are tensors and
            plain Python data.
        iteration: Number of iterations done so far.
        out: Either a path in an existing folder, which may be a bare file name, or a binary
            file-like object: a BytesIO, an open file, or any object with the methods of one. Write
            to a file-like object from its current position, and leave it open. The checkpoint is a
            single file.

    Example:
        Save at iteration 7 and load in another process: load_checkpoint returns 7, and the
        next torch.rand, np.random.rand and random.random return what they would have returned
        after the save.

    Handout §10.1 · `python -m assignment check checkpoint`
    """
    # BEGIN SOLUTION(checkpoint)
    checkpoint = {**_states(model, optimizer), "iteration": iteration}
    if isinstance(out, (str, os.PathLike)):
        _replace(os.fspath(out), checkpoint)
    else:
        torch.save(checkpoint, out)
    # END SOLUTION


def load_checkpoint(
    src: str | os.PathLike[str] | BinaryIO, model: nn.Module, optimizer: torch.optim.Optimizer
) -> int:
    """Load a checkpoint into model, optimizer and random number generators; return its iteration.

    Copy the values into the model's existing parameters and buffers, so that tied weights stay tied
    and the optimizer still updates the model's own parameters. Leave modes, requires_grad and
    gradients as they are. Load with weights_only=True, which refuses to run code from the file. A
    machine without GPUs must be able to load a checkpoint that was saved on a GPU (map_location).
    Ignore the RNG states of GPUs that the machine does not have. The optimizer's state may get its
    parameters' dtypes, as optimizer.load_state_dict does it, even if the load fails.

    Load either everything or nothing: if the checkpoint does not fit, raise an exception and leave
    model, optimizer and random number generators as they were. (`model.load_state_dict` copies
    everything that fits before it raises an error for the rest.)

    Args:
        src: A path, or a binary file-like object that is read from its current position and
            contains nothing after the checkpoint.
        model: A model of the same architecture as the saved one, with any values, on any device.
            It can be copied with copy.deepcopy.
        optimizer: An optimizer of the same class and with the same groups as the saved one,
            with any options.

    Raises:
        Exception: The file is missing, cut short or not a checkpoint; the names or shapes in its
            state_dict do not fit the model, as model.load_state_dict checks them; or the sizes of
            its groups differ from the optimizer's. Any type of exception will do; torch's own
            errors are clear.

    Example:
        Load a linear layer's checkpoint into a layer with a different number of outputs: the
        call raises RuntimeError, and neither the layer nor the optimizer nor the next random
        number has changed.

    Handout §10.1 · `python -m assignment check checkpoint`
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
