"""Probes for data.py.

Files are in a temporary folder; generators and memory maps are in the student's process.
"""

import random
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch


class Opened(TypedDict):
    """The result of `opened`."""

    is_memmap: bool
    tokens: Any
    contents: bytes  # of the file, at the end


class BatchOrError(TypedDict):
    """The result of `batch_or_error`."""

    batch: Any
    error: str | None


class SeededBatches(TypedDict):
    """The result of `seeded_batches` for each pair of seeds."""

    batches: list[Any]
    unchanged: dict[str, bool]


def opened(
    student: Any,
    *,
    name: str,
    contents: bytes,
    dtype: str | None = None,
    as_text: bool = False,
    write: bool = False,
) -> Opened:
    """The result of open_tokens for a file.

    With `write`, then write to the array, if the array is writable.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(contents)
        options = {} if dtype is None else {"dtype": np.dtype(dtype).type}
        tokens = student.data.open_tokens(str(path) if as_text else path, **options)
        answer = np.array(tokens) if isinstance(tokens, np.ndarray) else tokens
        if write:
            with suppress(Exception):
                tokens += 1
                tokens.flush()
        return {
            "is_memmap": isinstance(tokens, np.memmap),
            "tokens": answer,
            "contents": path.read_bytes(),
        }


def batches(
    student: Any, *, dataset: np.ndarray[Any, Any], batch_size: int, context_length: int, count: int
) -> list[Any]:
    """Several batches in sequence."""
    return [
        student.data.get_batch(dataset, batch_size, context_length, "cpu") for _ in range(count)
    ]


def batch_on_device(
    student: Any,
    *,
    dataset: np.ndarray[Any, Any],
    batch_size: int,
    context_length: int,
    device: str,
) -> Any:
    """A batch for a device given as a torch.device."""
    return student.data.get_batch(dataset, batch_size, context_length, torch.device(device))


def batch_of_file(
    student: Any, *, tokens: np.ndarray[Any, Any], batch_size: int, context_length: int
) -> Any:
    """A batch of a read-only memory-mapped file with these tokens."""
    with tempfile.TemporaryDirectory() as folder, _read_only_allowed():
        path = Path(folder) / "tokens.bin"
        tokens.tofile(path)
        dataset = np.memmap(path, dtype=tokens.dtype, mode="r")
        return student.data.get_batch(dataset, batch_size, context_length, "cpu")


def batch_of_endless_data(
    student: Any, *, token: int, dtype: str, length: int, batch_size: int, context_length: int
) -> BatchOrError:
    """A batch of `length` equal tokens.

    Only one token is in memory: the array has stride 0.
    """
    dataset = np.lib.stride_tricks.as_strided(np.full(1, token, dtype=dtype), (length,), (0,))
    got = batch_or_error(
        student, dataset=dataset, batch_size=batch_size, context_length=context_length
    )
    batch = got["batch"]
    parts = (
        [_sendable(part) for part in batch]
        if isinstance(batch, (tuple, list))
        else _sendable(batch)
    )
    return {**got, "batch": parts}


def _sendable(x: Any) -> Any:
    """The value, or a word for a value too large for memory, such as the dataset itself."""
    return "an array without end" if isinstance(x, np.ndarray) and x.nbytes > 2**30 else x


def batch_or_error(
    student: Any, *, dataset: np.ndarray[Any, Any], batch_size: int, context_length: int
) -> BatchOrError:
    """A batch, or the name of the error that was raised instead."""
    try:
        batch = student.data.get_batch(dataset, batch_size, context_length, "cpu")
    except NotImplementedError:
        raise
    except (IndexError, MemoryError, RuntimeError, ValueError) as e:
        return {"batch": None, "error": type(e).__name__}
    return {"batch": batch, "error": None}


def seeded_batches(
    student: Any,
    *,
    dataset: np.ndarray[Any, Any],
    batch_size: int,
    context_length: int,
    seeds: Sequence[tuple[int, int | None]],
) -> list[SeededBatches]:
    """Two batches for each (global seed, generator's seed or None).

    Each entry also lists the global RNG states that the batches left unchanged.
    """
    results: list[SeededBatches] = []
    for global_seed, seed in seeds:
        torch.manual_seed(global_seed)
        np.random.seed(global_seed)
        random.seed(global_seed)
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        before = _global_states()
        pair = [
            student.data.get_batch(dataset, batch_size, context_length, "cpu", generator)
            for _ in range(2)
        ]
        after = _global_states()
        results.append(
            {"batches": pair, "unchanged": {name: before[name] == after[name] for name in before}}
        )
    return results


def _global_states() -> dict[str, Any]:
    name, keys, *rest = np.random.get_state()
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": (name, np.asarray(keys).tolist(), rest),
        "random": random.getstate(),
    }


@contextmanager
def _read_only_allowed() -> Iterator[None]:
    """Ignore torch's warning about read-only arrays.

    torch raises it whenever from_numpy gets such an array, even if nothing writes to it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        yield
