"""Chapter 9: tokens in a file, and batches of them.

A dataset of billions of tokens does not fit in memory, and does not have to: `np.memmap` turns a
file into an array and reads only the pages that are indexed. A batch is then a few short windows
of that array.
"""

import os
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, Int64
from numpy.typing import DTypeLike
from torch import Tensor


def write_tokens(
    path: str | os.PathLike[str], tokens: Sequence[int], dtype: DTypeLike = np.uint16
) -> None:
    """Write tokens one after the other to a raw file: a solved example for this module.

    The file has no header: bytes = number of tokens · bytes per token.

    Args:
        path: The file to write; an existing one is replaced.
        tokens: Token ids.
        dtype: An integer dtype that can hold every token.

    Raises:
        ValueError: A token does not fit `dtype`.

    Example:
        Three tokens as uint16, the default dtype, give a file of 6 bytes.
    """
    limits = np.iinfo(np.dtype(dtype))
    if not all(limits.min <= token <= limits.max for token in tokens):
        raise ValueError(
            f"tokens must lie between {limits.min} and {limits.max} to fit dtype {limits.dtype}"
        )
    np.array(tokens, dtype=dtype).tofile(path)


def open_tokens(path: str | os.PathLike[str], dtype: DTypeLike = np.uint16) -> np.memmap:
    """Open a token file as an np.memmap.

    A file that begins with b"\\x93NUMPY" is from np.save: its header gives the dtype. Others
    are raw, whatever their names. No write may reach the file.

    Args:
        path: A str or a Path.
        dtype: Of a raw file's tokens.

    Example:
        A raw file of 6 bytes: three uint16 tokens.

    Handout §9.1 · `python -m assignment check get_batch`
    """
    # TODO(get_batch): about 5 lines.
    raise NotImplementedError("get_batch: see handout §9.1")


def get_batch(
    dataset: Int[np.ndarray, "n"],
    batch_size: int,
    context_length: int,
    device: torch.device | str,
    generator: torch.Generator | None = None,
) -> tuple[Int64[Tensor, "batch_size context_length"], Int64[Tensor, "batch_size context_length"]]:
    """Draw random windows of tokens x and their targets y.

    x[i, j] = dataset[start_i + j] and y[i, j] = dataset[start_i + j + 1]. The starts are drawn
    independently, each of 0 … n - context_length - 1 equally likely. Read only what is returned.

    Args:
        dataset: Token ids, usually an np.memmap of uint16.
        batch_size: Windows per batch.
        context_length: Tokens per window.
        device: The device of x and y. For a CUDA device, pin both and copy with non_blocking=True.
        generator: The CPU generator that draws the starts; None for a global one.

    Raises:
        ValueError: `dataset` has fewer than context_length + 1 tokens.

    Example:
        Dataset (7, 3, 9, 4) and context_length 2: start 1 gives x = (3, 9) and y = (9, 4).

    Handout §9.1
    """
    # TODO(get_batch): about 13 lines.
    raise NotImplementedError("get_batch: see handout §9.1")
