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

from kit import stand_in
from kit.student import seed_generators, states_of_generators

Array = np.ndarray[Any, Any]


class Opened(TypedDict):
    """The result of `opened`."""

    is_memmap: bool
    is_writable: bool
    tokens: Any
    dtype: str
    contents: bytes  # of the file, at the end


class Found(TypedDict):
    """The result of `opened_each` for a file: a part of that of `opened`."""

    is_memmap: bool
    tokens: Any
    dtype: str


class OpenedLong(TypedDict):
    """The result of `opened_long`: bytes of memory that opening the file took."""

    length: Any
    allocated: int  # the most at any time
    mapped: int  # pages of the file in memory afterwards


class Copied(TypedDict):
    """The result of `batch_on_a_simulated_gpu`."""

    batch: list[Any]
    devices: list[str]
    pinned: bool  # whether each copy was from pinned memory
    waits: bool  # whether Python waited for a copy


class BatchOrError(TypedDict):
    """The result of `batch_or_error`."""

    batch: Any
    error: str | None


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
    given_as: str = "type",
    as_text: bool = False,
    write: bool = False,
    before: bytes | None = None,
) -> Opened:
    """The result of open_tokens for a file.

    Args:
        student: The student's package.
        name: The name of the file.
        contents: Its bytes.
        dtype: The argument dtype; None to leave it out.
        given_as: How dtype is given: as a "type" such as np.uint16, a "dtype" or a "str".
        as_text: Whether the path is a str and not a Path.
        write: Whether to write to the array afterwards, if the array is writable.
        before: The bytes of an older file of that name, which has been opened and replaced. The
            new one has been opened with another dtype, too.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if before is not None:
            path.write_bytes(before)
            student.data.open_tokens(str(path) if as_text else path)
            path.unlink()
        path.write_bytes(contents)
        if before is not None:
            student.data.open_tokens(str(path) if as_text else path, np.uint8)
        options: dict[str, Any] = {}
        if dtype is not None:
            forms = {"type": np.dtype(dtype).type, "dtype": np.dtype(dtype), "str": dtype}
            options = {"dtype": forms[given_as]}
        tokens = student.data.open_tokens(str(path) if as_text else path, **options)
        answer = np.array(tokens) if isinstance(tokens, np.ndarray) else tokens
        if write:
            with suppress(Exception):
                tokens += 1
                tokens.flush()
        return {
            "is_memmap": isinstance(tokens, np.memmap),
            "is_writable": isinstance(tokens, np.ndarray) and tokens.flags.writeable,
            "tokens": answer,
            "dtype": str(getattr(tokens, "dtype", "")),
            "contents": path.read_bytes(),
        }


def opened_each(student: Any, *, files: Sequence[dict[str, Any]]) -> list[Found]:
    """The result of `opened` for each of these inputs, in short."""
    results = (opened(student, **file) for file in files)
    return [
        {"is_memmap": got["is_memmap"], "tokens": got["tokens"], "dtype": got["dtype"]}
        for got in results
    ]


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


def batches(
    student: Any, *, dataset: Array, batch_size: int, context_length: int, count: int
) -> list[Any]:
    """Several batches in sequence."""
    return [
        student.data.get_batch(dataset, batch_size, context_length, "cpu") for _ in range(count)
    ]


def batch_and_data(student: Any, *, dataset: Array, shape: tuple[int, int]) -> tuple[Any, Any]:
    """A batch, and the data after it was drawn."""
    return student.data.get_batch(dataset, *shape, "cpu"), dataset


def batch_on_device(
    student: Any,
    *,
    dataset: Array,
    batch_size: int,
    context_length: int,
    device: str,
) -> Any:
    """A batch for a device given as a torch.device."""
    return student.data.get_batch(dataset, batch_size, context_length, torch.device(device))


# How the dataset is stored: each function stores a copy of the tokens in this way.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "plain": lambda a: a.copy(),
    "every second element": lambda a: np.repeat(a, 2)[::2],
    "from the end to the beginning": lambda a: a[::-1].copy()[::-1],
    "a slice": lambda a: np.concatenate([a[:3], a, a[:4]])[3:-4],
    "read-only": lambda a: np.frombuffer(a.tobytes(), dtype=a.dtype),
    "a file": lambda a: _in_a_file(a),
    "a slice of a file": lambda a: _in_a_file(np.concatenate([a[:3], a]))[3:],
}


def batch_of_layout(
    student: Any, *, tokens: Array, dtype: str, layout: str, batch_size: int, context_length: int
) -> Any:
    """A batch of these tokens, which are stored with this dtype in one of LAYOUTS."""
    dataset = LAYOUTS[layout](tokens.astype(dtype))
    with _read_only_allowed():
        return student.data.get_batch(dataset, batch_size, context_length, "cpu")


def batches_of_layouts(
    student: Any,
    *,
    datasets: Sequence[tuple[Array, str, str]],
    batch_size: int,
    context_length: int,
) -> list[Any]:
    """A batch of each of these datasets: its tokens, their dtype and its layout."""
    shape = {"batch_size": batch_size, "context_length": context_length}
    return [
        batch_of_layout(student, tokens=tokens, dtype=dtype, layout=layout, **shape)
        for tokens, dtype, layout in datasets
    ]


def _in_a_file(tokens: Array) -> Array:
    """The tokens as a read-only memory-mapped file, which has no name any more."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tokens.bin"
        tokens.tofile(path)
        return np.memmap(path, dtype=tokens.dtype, mode="r")


def batch_of_long_data(
    student: Any, *, starts: int, batch_size: int, context_length: int
) -> list[Any]:
    """A batch of the tokens 0, 1, …, 255, 0, 1, … with this many possible starts."""
    count = starts + context_length
    dataset = np.tile(np.arange(256, dtype=np.uint8), count // 256 + 1)[:count]
    return list(student.data.get_batch(dataset, batch_size, context_length, "cpu"))


def batches_of_changing_data(
    student: Any, *, first: Array, then: Array, batch_size: int, context_length: int
) -> list[Any]:
    """A batch of an array, one after the array has changed, and one of another array."""
    dataset = first.copy()

    def batch(of: Array) -> Any:
        return student.data.get_batch(of, batch_size, context_length, "cpu")

    batches = [batch(dataset)]
    dataset[:] = then
    return [*batches, batch(dataset), batch(first.copy())]


def batch_on_a_simulated_gpu(
    student: Any,
    *,
    dataset: Array,
    batch_size: int,
    context_length: int,
    seed: int,
    device: str,
    as_text: bool,
) -> Copied:
    """A batch for a GPU, and how the copies to it were made. The GPU is simulated.

    The device is given `as_text` or as a torch.device.
    """
    given = device if as_text else torch.device(device)
    starts = torch.Generator().manual_seed(seed)
    with stand_in.gpu() as gpu:
        batch = student.data.get_batch(dataset, batch_size, context_length, given, starts)
        parts = list(batch) if isinstance(batch, (tuple, list)) else [batch]
        devices = [x.device.type if isinstance(x, torch.Tensor) else "none" for x in parts]
        values = [x.cpu() if isinstance(x, torch.Tensor) else x for x in parts]
        return {
            "batch": values,
            "devices": devices,
            # How many copies there are is free; see stand_in.described for the words.
            "pinned": bool(gpu.copies) and all(c.startswith("pinned") for c in gpu.copies),
            "waits": any("waited for" in c for c in gpu.copies),
        }


def memory_for_a_batch(student: Any, *, layout: str, dtype: str) -> int:
    """The bytes that numpy allocates, or reads from a file, for a batch of 16 MiB of zeros."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long"
        with path.open("wb") as file:
            file.truncate(2**24)
        mapped: Array = np.memmap(path, dtype=dtype, mode="r")
        stored: dict[str, Callable[[], Array]] = {
            "a file": lambda: mapped,
            "a file from the end to the beginning": lambda: mapped[::-1],
            "every second element": lambda: np.zeros(mapped.shape, dtype)[::2],
            "plain": lambda: np.zeros(mapped.shape, dtype),
        }
        dataset = stored[layout]()
        tracemalloc.start()
        try:
            with _read_only_allowed():
                student.data.get_batch(dataset, 4, 6, "cpu")
            allocated = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        return max(allocated, _mapped(path))


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


def batches_of_endless_data(
    student: Any,
    *,
    datasets: Sequence[tuple[int, str]],
    length: int,
    batch_size: int,
    context_length: int,
) -> list[BatchOrError]:
    """The same for each of these tokens and their dtypes."""
    shape = {"length": length, "batch_size": batch_size, "context_length": context_length}
    return [
        batch_of_endless_data(student, token=token, dtype=dtype, **shape)
        for token, dtype in datasets
    ]


def _sendable(x: Any) -> Any:
    """The value, or a word for a value too large for memory, such as the dataset itself."""
    return "an array without end" if isinstance(x, np.ndarray) and x.nbytes > 2**30 else x


def batch_or_error(
    student: Any, *, dataset: Array, batch_size: int, context_length: int
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
    dataset: Array,
    batch_size: int,
    context_length: int,
    seeds: Sequence[tuple[int, int | None]],
    fails: bool = False,
) -> list[SeededBatches]:
    """Two batches for each (global seed, generator's seed or None).

    Each entry with a generator also lists the global ones that its batches changed. With `fails`,
    calls may raise an exception, and then there are no batches.
    """
    results: list[SeededBatches] = []
    for global_seed, seed in seeds:
        seed_generators(global_seed)
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        before = states_of_generators()
        pair: list[Any] = []
        for _ in range(2):
            with suppress(*[Exception] if fails else []):
                pair.append(
                    student.data.get_batch(dataset, batch_size, context_length, "cpu", generator)
                )
        after = states_of_generators()
        changed = [name for name in before if generator and before[name] != after[name]]
        results.append({"batches": pair, "generators_changed": changed})
    return results


@contextmanager
def _read_only_allowed() -> Iterator[None]:
    """Ignore torch's warning about read-only arrays.

    torch raises it whenever from_numpy gets such an array, even if nothing writes to it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writ")
        yield
