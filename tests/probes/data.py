"""Probes for data.py.

Files are in a temporary folder; generators and memory maps are in the student's process.
"""

import tempfile
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch

from kit import gpu_stand_in
from kit.student import seed_generators, states_of_generators

Array = np.ndarray[Any, Any]


class Opened(TypedDict):
    is_memmap: bool
    tokens: Any
    dtype: str
    contents: bytes  # of the file, at the end


class OpenedLong(TypedDict):
    """The result of `opened_long`: bytes of memory that opening the file took."""

    length: Any
    allocated: int  # the most at any time
    mapped: int  # pages of the file in memory afterwards


class Copied(TypedDict):
    batch: list[Any]
    devices: list[str]
    pinned: bool  # whether each copy was from pinned memory
    waits: bool  # whether Python waited for a copy


class SeededBatches(TypedDict):
    """The result of `seeded_batches` for each pair of seeds."""

    batches: list[Any]
    generators_changed: list[str]


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

    Args:
        name: The name of the file.
        contents: Its bytes.
        dtype: The argument dtype; None to leave it out.
        as_text: Whether path and dtype are a str, and not a Path and a type.
        write: Whether to write to the array afterwards, if the array is writable.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(contents)
        options: dict[str, Any] = {}
        if dtype is not None:
            options = {"dtype": dtype if as_text else np.dtype(dtype).type}
        tokens = student.data.open_tokens(str(path) if as_text else path, **options)
        answer = np.array(tokens) if isinstance(tokens, np.ndarray) else tokens
        if write:
            with suppress(Exception):
                tokens += 1
                tokens.flush()
        return {
            "is_memmap": isinstance(tokens, np.memmap),
            "tokens": answer,
            "dtype": str(getattr(tokens, "dtype", "")),
            "contents": path.read_bytes(),
        }


def opened_long(student: Any, *, header: bytes, size: int) -> OpenedLong:
    """What it takes to open a file of this many bytes: a header, then zeros."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long"
        with path.open("wb") as file:
            file.write(header)
            file.truncate(size)
        tracemalloc.start()
        try:
            tokens = student.data.open_tokens(path)
            allocated = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        length = len(tokens) if isinstance(tokens, np.ndarray) and tokens.ndim else None
        return {"length": length, "allocated": allocated, "mapped": _mapped(path)}


def _mapped(path: Path) -> int:
    """Bytes of a file that are in memory because this process mapped the file and read them."""
    found, total = False, 0
    for line in Path("/proc/self/smaps").read_text(errors="replace").splitlines():
        if "-" in line.partition(" ")[0]:  # the line with addresses that begins each mapping
            found = line.endswith(str(path))
        elif found and line.startswith("Rss:"):
            total += 1024 * int(line.split()[1])
    return total


def parities(student: Any, *, batch_size: int) -> Any:
    """The x of a batch of one-token windows of 2²⁵ + 1 tokens, which are their place modulo 2."""
    tokens = np.arange(2**25 + 1, dtype=np.uint16)
    tokens &= 1
    return student.data.get_batch(tokens, batch_size, 1, "cpu")[0]


def batches(
    student: Any, *, dataset: Array, batch_size: int, context_length: int, count: int
) -> list[Any]:
    """Several batches in sequence."""
    return [
        student.data.get_batch(dataset, batch_size, context_length, "cpu") for _ in range(count)
    ]


# How the dataset is stored: each function stores a copy of the tokens in this way.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda a: a.copy(),
    "read-only": lambda a: np.frombuffer(a.tobytes(), dtype=a.dtype),
    "a file": lambda a: _in_a_file(a),
    "a slice of a file": lambda a: _in_a_file(np.concatenate([a[:3], a]))[3:],
}


def batch_of_layout(
    student: Any, *, tokens: Array, dtype: str, layout: str, batch_size: int, context_length: int
) -> Any:
    """A batch of these tokens, which are stored with this dtype in one of LAYOUTS."""
    dataset = LAYOUTS[layout](tokens.astype(dtype))
    with read_only_allowed():
        return student.data.get_batch(dataset, batch_size, context_length, "cpu")


def _in_a_file(tokens: Array) -> Array:
    """The tokens as a read-only memory-mapped file, which has no name any more."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.bin"
        tokens.tofile(path)
        return np.memmap(path, dtype=tokens.dtype, mode="r")


def batch_on_a_stand_in(
    student: Any,
    *,
    dataset: Array,
    batch_size: int,
    context_length: int,
    seed: int,
    device: str,
    as_text: bool,
) -> Copied:
    """A batch for a GPU, and how the copies to it were made. The GPU is a stand-in.

    The device is given `as_text` or as a torch.device.
    """
    given = device if as_text else torch.device(device)
    starts = torch.Generator().manual_seed(seed)
    with gpu_stand_in.gpu() as gpu:
        batch = student.data.get_batch(dataset, batch_size, context_length, given, starts)
        parts = list(batch) if isinstance(batch, (tuple, list)) else [batch]
        devices = [x.device.type if isinstance(x, torch.Tensor) else "none" for x in parts]
        values = [x.cpu() if isinstance(x, torch.Tensor) else x for x in parts]
        return {
            "batch": values,
            "devices": devices,
            # How many copies there are is free; see gpu_stand_in.described for the words.
            "pinned": bool(gpu.copies) and all(c.startswith("pinned") for c in gpu.copies),
            "waits": any("waited for" in c for c in gpu.copies),
        }


def memory_for_a_batch(student: Any) -> int:
    """The bytes that numpy allocates or reads for a batch of a file of 16 MiB of zeros."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long"
        with path.open("wb") as file:
            file.truncate(2**24)
        dataset: Array = np.memmap(path, dtype=np.uint16, mode="r")
        tracemalloc.start()
        try:
            with read_only_allowed():
                student.data.get_batch(dataset, 4, 6, "cpu")
            allocated = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        return max(allocated, _mapped(path))


def batch_of_endless_data(
    student: Any, *, token: int, dtype: str, length: int, batch_size: int, context_length: int
) -> Any:
    """A batch of `length` equal tokens, only one of which is in memory: the array has stride 0."""
    dataset = np.lib.stride_tricks.as_strided(np.full(1, token, dtype=dtype), (length,), (0,))
    batch = student.data.get_batch(dataset, batch_size, context_length, "cpu")
    parts = batch if isinstance(batch, (tuple, list)) else [batch]
    return [_sendable(part) for part in parts]


def _sendable(x: Any) -> Any:
    """The value, or a word for a value too large for memory, such as the dataset itself."""
    return "an array without end" if isinstance(x, np.ndarray) and x.nbytes > 2**30 else x


def seeded_batches(
    student: Any,
    *,
    dataset: Array,
    batch_size: int,
    context_length: int,
    seeds: Sequence[tuple[int, int | None]],
) -> list[SeededBatches]:
    """Two batches for each (global seed, generator's seed or None).

    Each entry with a generator also lists the global ones that its batches changed.
    """
    results: list[SeededBatches] = []
    for global_seed, seed in seeds:
        seed_generators(global_seed)
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        before = states_of_generators()
        pair = [
            student.data.get_batch(dataset, batch_size, context_length, "cpu", generator)
            for _ in range(2)
        ]
        after = states_of_generators()
        changed = [name for name in before if generator and before[name] != after[name]]
        results.append({"batches": pair, "generators_changed": changed})
    return results


@contextmanager
def read_only_allowed() -> Iterator[None]:
    """Ignore torch's warning about read-only arrays.

    torch raises it whenever from_numpy gets such an array, even if nothing writes to it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        yield
