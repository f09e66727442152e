"""get_batch: tokens in a file, and random batches of them.

Accepted on purpose, because the result is the same: starts from torch's, numpy's or Python's global generator where none is
given, and any use of a given generator that moves it on; windows by slices, by an array of positions, or by a sliding view; a
list instead of the tuple; x and y on one storage; any clear exception for data that are too short; a file mapped
copy-on-write instead of read-only. Read-only data come from memory-mapped files alone, with torch's warning about them off.

Most tests look at x alone, whatever its dtype and even when it is transposed: wrong targets, a wrong dtype and a wrong layout
each have a test of their own. Tokens are distinct, so the first token of a window shows where the window starts. No right
solution fails by chance: counts get 8 standard deviations, and every other chance is below 1e-30.
"""

import io
import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests import expect
from tests.probes import call_and_keep_inputs
from tests.probes import data as probes

TOO_SHORT = (
    ValueError,
    RuntimeError,
    IndexError,
)  # one's own check, or what torch, numpy and Python say of an empty range

# A student's process fills new memory of integers with the largest one.
UNWRITTEN = (
    ("2**63 - 1", "is memory of torch.empty read before it is written? It holds that number here."),
)


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def permutation(rng, n, dtype=np.int64):
    """The tokens 0 … n - 1 in random order, so that the token after t is not t + 1."""
    return torch.randperm(n, generator=rng).numpy().astype(dtype)


def pair(batch):
    """The two tensors of a batch."""
    expect.kind(batch, (tuple, list), of="get_batch", name="the batch")
    expect.that(
        len(batch) == 2, f"expected two tensors, x and y, got {len(batch)} values", of="get_batch"
    )
    for name, part in zip("xy", batch, strict=True):
        expect.kind(part, Tensor, of="get_batch", name=name)
        expect.that(
            not part.is_complex() and part.layout is torch.strided,
            f"{name} holds no tokens",
            of="get_batch",
        )
    return batch


def values(part, shape, name):
    """A tensor's tokens as float64, which holds all tokens used here, with one row per window."""
    expect.that(
        part.device.type == "cpu", f"{name} is on {part.device.type}, expected cpu", of="get_batch"
    )
    got = tuple(part.shape)
    expect.that(
        got in (shape, shape[::-1]),
        f"wrong shape of {name}: expected {shape}, got {got}",
        of="get_batch",
    )
    return part.detach().double() if got == shape else part.detach().double().T


def starts_of(batch, dataset, shape, *, hint=None):
    """Where in the data the windows of x start. Past the end of the data a window may go on at the beginning."""
    x = values(pair(batch)[0], shape, "x")
    positions = {token: i for i, token in enumerate(dataset.tolist())}
    starts = [positions.get(token, -1) for token in x[:, 0].tolist()]
    facts = UNWRITTEN if bool((x == torch.iinfo(torch.int64).max).any()) else ()
    reason = "x holds a token that is not in the data"
    expect.that(min(starts) >= 0, reason, of="get_batch", facts=facts, hint=hint)
    windows = np.array(starts)[:, None] + np.arange(shape[1])
    same = torch.equal(
        x, torch.from_numpy(np.take(dataset, windows, mode="wrap").astype(np.float64))
    )
    expect.that(same, "a row of x is not a window of the data", of="get_batch", hint=hint)
    return starts


@pytest.mark.core
@pytest.mark.points(9)
def test_targets_are_one_later_in_the_data(student, rng):
    """A row of x is a window of the data, and the same row of y is that window one token later in the data."""
    for _ in range(3):
        dataset, shape = (
            permutation(rng, integer(rng, 1500, 2000)),
            (integer(rng, 5, 9), integer(rng, 10, 20)),
        )
        batch = student.data.get_batch(dataset, *shape, "cpu")
        starts = starts_of(batch, dataset, shape, hint="x[i, j] = dataset[start_i + j]")
        for name, part in zip("xy", batch, strict=True):
            got = tuple(part.shape)
            reason = f"wrong shape of {name}: expected {shape}, got {got}"
            expect.that(
                got == shape,
                reason,
                of="get_batch",
                hint="(batch_size, context_length): a row is a window",
            )
        later = np.array(starts)[:, None] + np.arange(shape[1]) + 1
        want = torch.from_numpy(np.take(dataset, later, mode="wrap").astype(np.float64))
        hint = "y[i, j] = dataset[start_i + j + 1], one position later and not one number higher"
        expect.tensor(values(batch[1], shape, "y"), want, of="get_batch", name="y", hint=hint)


@pytest.mark.core
@pytest.mark.points(3)
def test_batches_are_int64(student, rng):
    """x and y are int64, whatever integer dtype the data have."""
    for dtype in (np.uint16, np.int32, np.int64):
        dataset, shape = permutation(rng, 60, dtype), (4, 6)
        batch = student.data.get_batch(dataset, *shape, "cpu")
        starts_of(batch, dataset, shape)
        for name, part in zip("xy", batch, strict=True):
            reason = f"wrong dtype of {name}: expected int64, got {expect.dtype_name(part.dtype)}"
            expect.that(
                part.dtype is torch.int64,
                reason,
                of="get_batch",
                hint="embeddings and cross_entropy want int64",
            )


def test_large_tokens_keep_their_value(student, rng):
    """A token keeps its value: 40,000 of uint16 data, and 2**24 + 1 of int32 data."""
    odd = 2 * permutation(rng, 3000) + 1  # float32 holds no odd number above 2**24
    for dataset in (
        permutation(rng, 2**16)[:3000].astype(np.uint16),
        (2**24 + odd).astype(np.int32),
    ):
        batch = student.data.get_batch(dataset, 64, 7, "cpu")
        starts_of(
            batch,
            dataset,
            (64, 7),
            hint="which dtypes do tokens pass through on their way to int64?",
        )


def test_batches_of_one(student, rng):
    """x and y have two dimensions also for one window, for windows of one token, and for both."""
    dataset = permutation(rng, 50)
    for shape in [(1, integer(rng, 2, 9)), (integer(rng, 2, 9), 1), (1, 1)]:
        batch = student.data.get_batch(dataset, *shape, "cpu")
        starts_of(batch, dataset, shape)
        values(batch[1], shape, "y")


# --- how starts are drawn


@pytest.mark.core
@pytest.mark.points(4)
def test_every_start_is_equally_likely(student, rng):
    """Each start from the first, 0, to the last, n - context_length - 1, gets its share of many windows."""
    length, count, size = integer(rng, 2, 5), integer(rng, 8, 12), 4000
    dataset = permutation(rng, length + count)
    got = student.run(
        probes.batches, dataset=dataset, batch_size=size, context_length=length, count=2
    )
    starts = [s for batch in got for s in starts_of(batch, dataset, (size, length))]
    hint = "uniform over 0 … n - context_length - 1, both included"
    reason = "a window starts so late that its last target is outside the data"
    expect.that(max(starts) < count, reason, of="get_batch", hint=hint)
    share, draws = 1 / count, 2 * size
    for start in range(count):
        fair = abs(starts.count(start) / draws - share) < 8 * math.sqrt(share * (1 - share) / draws)
        reason = f"of {count} starts, number {start} is drawn too seldom or too often"
        expect.that(fair, reason, of="get_batch", hint=hint)


# Stays: it is the smallest case of a missing first or last start, without statistics.
def test_data_of_one_window_and_of_two(student, rng):
    """Data of context_length + 1 tokens have one start for all windows of a batch, and one token more gives two starts."""
    length, size = integer(rng, 3, 9), 200
    for count in (1, 2):
        dataset = permutation(rng, length + count)
        starts = starts_of(
            student.data.get_batch(dataset, size, length, "cpu"), dataset, (size, length)
        )
        hint = "the starts are 0 … n - context_length - 1, both included, drawn with replacement"
        reason = f"of {count} possible starts, other ones than these are drawn, or not all of them"
        expect.that(set(starts) == set(range(count)), reason, of="get_batch", hint=hint)


@pytest.mark.core
@pytest.mark.points(3)
def test_windows_of_a_batch_are_independent(student, rng):
    """The windows of a batch start at different places, and not evenly spaced."""
    dataset = permutation(rng, 20_000)
    starts = starts_of(student.data.get_batch(dataset, 64, 8, "cpu"), dataset, (64, 8))
    steps = [b - a for a, b in itertools.pairwise(starts)]
    hint = "draw a start for each window"
    expect.that(
        len(set(starts)) > 32,
        "many windows of a batch have the same start",
        of="get_batch",
        hint=hint,
    )
    expect.that(
        len(set(steps)) > 32, "the windows of a batch are evenly spaced", of="get_batch", hint=hint
    )


@pytest.mark.core
@pytest.mark.points(3)
def test_batches_differ(student, rng):
    """Each batch is drawn anew."""
    dataset = permutation(rng, 20_000)
    got = student.run(probes.batches, dataset=dataset, batch_size=32, context_length=4, count=3)
    starts = {tuple(starts_of(batch, dataset, (32, 4))) for batch in got}
    hint = "are starts drawn at all, and from a generator that goes on from call to call?"
    expect.that(len(starts) == 3, "two calls return the same batch", of="get_batch", hint=hint)


def test_a_generator_decides_alone(student, rng):
    """With a generator the batch depends on it alone: on its seed, and on how often it was used."""
    dataset = permutation(rng, 20_000)
    a, b, c, d = permutation(rng, 2**30 // 2**12)[:4].tolist()
    got = student.run(
        probes.seeded_batches,
        dataset=dataset,
        batch_size=16,
        context_length=4,
        seeds=[(a, c), (b, c), (a, d)],
    )
    first, again, other = (
        [starts_of(batch, dataset, (16, 4)) for batch in g["batches"]] for g in got
    )
    hint = "draw the starts with the generator that is given"
    expect.that(
        first == again,
        "two generators of one seed give different batches",
        of="get_batch",
        hint=hint,
    )
    expect.that(
        first != other,
        "generators of different seeds give the same batches",
        of="get_batch",
        hint=hint,
    )
    hint = "a generator moves on when it is used, and must not be set back"
    expect.that(
        first[0] != first[1], "a generator gives the same batch again", of="get_batch", hint=hint
    )


def test_a_generator_leaves_the_global_ones_alone(student, rng):
    """With a generator no global random state moves."""
    dataset, seeds = permutation(rng, 100), [(integer(rng, 0, 2**30), integer(rng, 0, 2**30))]
    (got,) = student.run(
        probes.seeded_batches, dataset=dataset, batch_size=3, context_length=4, seeds=seeds
    )
    for batch in got["batches"]:
        starts_of(batch, dataset, (3, 4))
    for name, unchanged in got["unchanged"].items():
        reason = f"the global generator of {name} was used although a generator was given"
        expect.that(
            unchanged, reason, of="get_batch", hint="pass the generator on, and call no manual_seed"
        )


def test_without_a_generator_the_global_seed_decides(student, rng):
    """Without a generator the same global seed gives the same batches, and another seed gives others."""
    dataset = permutation(rng, 20_000)
    a, b = permutation(rng, 2**18)[:2].tolist()
    seeds = [(a, None), (a, None), (b, None)]
    got = student.run(
        probes.seeded_batches, dataset=dataset, batch_size=16, context_length=4, seeds=seeds
    )
    first, again, other = (
        [starts_of(batch, dataset, (16, 4)) for batch in g["batches"]] for g in got
    )
    hint = "draw from a global generator, of torch, numpy or random"
    expect.that(
        first == again, "one global seed gives different batches", of="get_batch", hint=hint
    )
    hint = "is a seed set inside, or is nothing drawn?"
    expect.that(first != other, "two global seeds give the same batches", of="get_batch", hint=hint)


# --- devices, files, large data


def test_batches_go_to_the_device(student, rng):
    """x and y are on the device asked for, whether that is text or a torch.device."""
    dataset, shape = permutation(rng, 40), (3, 5)
    inputs = {"dataset": dataset, "batch_size": 3, "context_length": 5}
    starts_of(student.run(probes.batch_on_device, device="cpu", **inputs), dataset, shape)
    for batch in (
        student.data.get_batch(dataset, *shape, "meta"),
        student.run(probes.batch_on_device, device="meta", **inputs),
    ):
        for name, part in zip("xy", pair(batch), strict=True):
            where = part.device.type
            reason = f"{name} is on {where}, expected meta"
            expect.that(
                where == "meta", reason, of="get_batch", hint="x.to(device) and y.to(device)"
            )


def test_batches_of_a_file(student, rng):
    """A memory-mapped file that is read-only serves as well as an array."""
    for dtype in (np.uint16, np.int64):
        dataset = permutation(rng, 5000, dtype)
        starts_of(
            student.run(probes.batch_of_file, tokens=dataset, batch_size=6, context_length=9),
            dataset,
            (6, 9),
        )


def test_only_the_batch_is_read(student, rng):
    """A batch takes memory for its own tokens only, however long the data are: 2**50 tokens here."""
    token, shape = integer(rng, 0, 2**15), (4, 6)
    for dtype in ("uint16", "int64"):
        got = student.run(
            probes.batch_of_endless_data,
            token=token,
            dtype=dtype,
            length=2**50,
            batch_size=4,
            context_length=6,
        )
        reason = f"{got['error']} on data that are far larger than memory"
        hint = "convert the windows and not the dataset, and make no list of all starts"
        expect.that(got["error"] is None, reason, of="get_batch", hint=hint)
        x = values(pair(got["batch"])[0], shape, "x")
        expect.that(
            bool((x == token).all()), "x holds a token that is not in the data", of="get_batch"
        )


# Stays: elsewhere a change of the data is seen only by what it does to later batches.
def test_data_are_left_as_they_were(student, rng):
    """Drawing a batch does not change the data."""
    dataset = permutation(rng, 60)
    args = (dataset.copy(), 5, 7, "cpu")
    got = student.run(call_and_keep_inputs, module="data", function="get_batch", args=args)
    starts_of(got["result"], dataset, (5, 7))
    unchanged = np.array_equal(got["inputs"][0], dataset)
    expect.that(
        unchanged,
        "the data are changed in place",
        of="get_batch",
        hint="read from dataset, never write to it",
    )


def test_data_that_are_too_short(student, rng):
    """Data of context_length tokens or fewer raise an error instead of giving shorter windows."""
    length = integer(rng, 3, 9)
    dataset = permutation(rng, length + 1)
    with expect.right_call("context_length + 1 tokens, enough for one window and its last target"):
        starts_of(student.data.get_batch(dataset, 2, length, "cpu"), dataset, (2, length))
    for n in (length, length - 1):
        with expect.raises(
            TOO_SHORT, of="get_batch", when="dataset has no more tokens than context_length"
        ):
            student.data.get_batch(dataset[:n], 2, length, "cpu")


# --- open_tokens


def npy(tokens):
    """The bytes that np.save writes."""
    file = io.BytesIO()
    np.save(file, tokens)
    return file.getvalue()


def check_opened(got, tokens, *, hint):
    """These tokens in this dtype. Whether they are mapped, and read-only, is for tests of their own."""
    found = got["tokens"]
    expect.kind(found, np.ndarray, of="open_tokens", name="the tokens")
    reason = f"wrong dtype: expected {tokens.dtype}, got {found.dtype}"
    expect.that(found.dtype == tokens.dtype, reason, of="open_tokens", hint=hint)
    expect.value(found.shape, tokens.shape, of="open_tokens", name="the array's shape", hint=hint)
    expect.value(found.tolist(), tokens.tolist(), of="open_tokens", name="the tokens", hint=hint)


@pytest.mark.core
@pytest.mark.points(2)
def test_open_raw_tokens(student, rng):
    """A raw file holds uint16 tokens unless another dtype is given."""
    for dtype in (None, "int32", "int64", "uint8"):
        tokens = permutation(rng, 2**16)[: integer(rng, 200, 900)].astype(dtype or "uint16")
        got = student.run(probes.opened, name="tokens.bin", contents=tokens.tobytes(), dtype=dtype)
        check_opened(got, tokens, hint="np.memmap with the dtype that is given")


def test_open_a_npy_file(student, rng):
    """A file that begins with b'\\x93NUMPY' is read, and mapped, as its header says, whatever the file's name is."""
    hint = r"what b'\x93NUMPY' begins has a header: np.load(path, mmap_mode='r') reads that"
    for name, dtype, asked in [
        ("tokens.npy", "uint16", None),
        ("tokens.bin", "int32", None),
        ("tokens", "uint8", "uint16"),
    ]:
        tokens = permutation(rng, integer(rng, 100, 250), dtype)
        got = student.run(probes.opened, name=name, contents=npy(tokens), dtype=asked)
        check_opened(got, tokens, hint=hint)
        expect.that(
            got["is_memmap"],
            "the tokens of a .npy file are not a np.memmap",
            of="open_tokens",
            hint=hint,
        )
    tokens = permutation(rng, 300, np.uint16)
    got = student.run(probes.opened, name="tokens.npy", contents=tokens.tobytes())
    check_opened(
        got,
        tokens,
        hint="without b'\\x93NUMPY' at its beginning a file is raw, whatever its name is",
    )


def test_open_a_path_of_either_kind(student, rng):
    """A path may be text or a Path."""
    tokens = permutation(rng, 300, np.uint16)
    for as_text in (False, True):
        got = student.run(probes.opened, name="tokens", contents=tokens.tobytes(), as_text=as_text)
        check_opened(got, tokens, hint="open() and np.memmap take a str and a Path")


def test_tokens_are_mapped(student, rng):
    """The tokens of a raw file are a np.memmap: they are not read into memory when the file is opened."""
    tokens = permutation(rng, 300, np.uint16)
    got = student.run(probes.opened, name="tokens.bin", contents=tokens.tobytes())
    check_opened(got, tokens, hint=None)
    expect.that(got["is_memmap"], "the tokens of a raw file are not a np.memmap", of="open_tokens")


def test_a_file_cannot_be_changed_by_accident(student, rng):
    """Writing to the array never changes the file."""
    tokens = permutation(rng, 300, np.uint16)
    for name, contents in [("tokens.bin", tokens.tobytes()), ("tokens.npy", npy(tokens))]:
        got = student.run(probes.opened, name=name, contents=contents, write=True)
        if name == "tokens.bin":
            check_opened(got, tokens, hint=None)
        reason = "what is written to the array gets into the file"
        expect.that(got["contents"] == contents, reason, of="open_tokens", hint='mode="r"')
