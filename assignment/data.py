"""Chapter 9: tokens in a file, and batches of them.

A dataset of billions of tokens does not fit in memory and need not: `np.memmap` makes an array of a file, and only the
pages that are looked at are read. A batch is then a few short windows on that array.
"""

import os
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Int, Int64
from numpy.typing import DTypeLike
from torch import Tensor


def write_tokens(path: str | os.PathLike[str], tokens: Sequence[int], dtype: DTypeLike = np.uint16) -> None:
    """Write tokens to a file, raw, one after the other: a worked neighbour of the functions below.

    The file has no header: bytes = number of tokens · bytes of one dtype element.

    Args:
        path: The file to write; an existing one is replaced.
        tokens: Token ids.
        dtype: An integer dtype that holds every one of them.

    Raises:
        ValueError: A token does not fit `dtype`.

    Example:
        Three tokens as uint16, the default, make a file of 6 bytes.
    """
    limits = np.iinfo(np.dtype(dtype))
    if not all(limits.min <= token <= limits.max for token in tokens):
        raise ValueError(f"tokens must lie between {limits.min} and {limits.max} to fit dtype {limits.dtype}")
    np.array(tokens, dtype=dtype).tofile(path)


def open_tokens(path: str | os.PathLike[str], dtype: DTypeLike = np.uint16) -> np.memmap:
    """The tokens of a file as a read-only array that is read from the file where it is looked at.

    A file is either raw, tokens of `dtype` and nothing else (what ndarray.tofile writes), or a real .npy file (what
    np.save writes), whose header says its dtype and shape. The first six bytes tell, b"\\x93NUMPY" in a .npy file; the
    name does not.

    Args:
        path: The file.
        dtype: Of a raw file's tokens; a .npy file's header has its own.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A raw file is empty, or its size is no multiple of a token's bytes.

    Example:
        A file of 6 bytes without a header holds three uint16 tokens.

    Handout §9.1 · get_batch · `pytest -k get_batch`
    """
    # TODO(get_batch): about 8 lines.
    raise NotImplementedError("get_batch: see handout §9.1")


def get_batch(
    dataset: Int[np.ndarray, "n"],
    batch_size: int,
    context_length: int,
    device: torch.device | str,
    generator: torch.Generator | None = None,
) -> tuple[Int64[Tensor, "batch_size context_length"], Int64[Tensor, "batch_size context_length"]]:
    """Random windows of the data as inputs x, and the tokens that follow each of their tokens as targets y.

    x[i, j] = dataset[start_i + j] and y[i, j] = dataset[start_i + j + 1], with the starts drawn independently, each of
    0 … n - context_length - 1 equally likely. Only the tokens returned are read, however long the dataset is.

    Args:
        dataset: Tokens of any integer dtype; a memory-mapped file as well.
        batch_size: Number of windows, at least 1; it may exceed the number of starts.
        context_length: Tokens in a window, at least 1.
        device: Where x and y are wanted. For a CUDA device they are pinned and copied with non_blocking=True.
        generator: Source of the starts, on the CPU, which moves on while the global ones stay as they are; None for a
            global one.

    Raises:
        ValueError: `batch_size` or `context_length` is below 1, or `dataset` has fewer than the context_length + 1
            tokens of one window and its last target.

    Example:
        dataset (7, 3, 9, 4) with context_length 2 has the starts 0 and 1; start 1 gives x = (3, 9) and y = (9, 4).

    Handout §9.1 · get_batch · `pytest -k get_batch`
    """
    # TODO(get_batch): about 11 lines.
    raise NotImplementedError("get_batch: see handout §9.1")
