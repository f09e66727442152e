"""get_batch: tokens in a file, and random batches of them.

Accepted on purpose, because the result is the same: any use of a given generator that advances it;
windows by slices, by an array of positions, or by a sliding view; a list instead of the tuple;
x and y on one storage. torch's warning about read-only data is turned off.

Most tests look only at x, with any dtype and even if it is transposed: wrong targets, a wrong dtype
and a wrong layout each have a test of their own. Tokens are distinct, so the first token of a
window shows where the window starts. No right solution fails by chance: counts may deviate by 8
standard deviations, and any other accidental failure has a probability below 1e-30.
"""

import io
import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.hidden import ExpectOf, integer
from tests.probes import data as probes

expect = ExpectOf("get_batch")

# A check in the student's code, or the errors that torch, numpy and Python raise for an empty
# range.
TOO_SHORT = (ValueError, RuntimeError, IndexError)

# A student's process fills new integer memory with the largest integer.
READ_TOO_EARLY = "is memory of torch.empty read before it is written? It holds that number here."
UNWRITTEN = (("2**63 - 1", READ_TOO_EARLY),)


def permutation(rng, n, dtype=np.int64):
    """The tokens 0 … n - 1 in random order, so that the token after t is not t + 1."""
    return torch.randperm(n, generator=rng).numpy().astype(dtype)


def pair(batch):
    expect.kind(batch, (tuple, list), name="the batch")
    expect.that(len(batch) == 2, f"expected two tensors, x and y, got {len(batch)} values")
    for name, part in zip("xy", batch, strict=True):
        expect.kind(part, Tensor, name=name)
        reason = f"{name} does not contain tokens"
        expect.that(not part.is_complex() and part.layout is torch.strided, reason)
    return batch


def values(part, shape, name):
    """A tensor's tokens as int64, or as float64 if they are floats, one row per window."""
    expect.that(part.device.type == "cpu", f"{name} is on {part.device.type}, expected cpu")
    got = tuple(part.shape)
    expect.that(got in (shape, shape[::-1]), f"wrong shape of {name}: expected {shape}, got {got}")
    exact = part.detach().double() if part.is_floating_point() else part.detach().long()
    return exact if got == shape else exact.T


def windows_at(starts, length, dataset, like):
    """The windows of the data that start there, with the dtype of another tensor."""
    positions = np.array(starts)[:, None] + np.arange(length)
    return torch.from_numpy(np.take(dataset, positions, mode="wrap").astype(np.int64)).to(like)


def starts_of(batch, dataset, shape, *, hint=None):
    """Where in the data the windows of x start. The data are treated as a ring."""
    x = values(pair(batch)[0], shape, "x")
    positions = {token: i for i, token in enumerate(dataset.tolist())}
    starts = [positions.get(token, -1) for token in x[:, 0].tolist()]
    facts = UNWRITTEN if bool((x == torch.iinfo(torch.int64).max).any()) else ()
    reason = "x contains a token that is not in the data"
    expect.that(min(starts) >= 0, reason, facts=facts, hint=hint)
    same = torch.equal(x, windows_at(starts, shape[1], dataset, x))
    expect.that(same, "a row of x is not a window of the data", hint=hint)
    return starts


def check_targets(batch, starts, dataset, shape):
    y = values(batch[1], shape, "y")
    want = windows_at([start + 1 for start in starts], shape[1], dataset, y)
    hint = "y[i, j] = dataset[start_i + j + 1]: the next position, not the next number"
    expect.tensor(y, want, name="y", hint=hint)


@pytest.mark.harm("trains worse")
def test_targets_are_one_later_in_the_data(student, rng):
    """A row of x is a window of the data; the same row of y is that window one token later."""
    for _ in range(3):
        dataset = permutation(rng, integer(rng, 1500, 2000))
        shape = integer(rng, 5, 9), integer(rng, 10, 20)
        batch = student.data.get_batch(dataset, *shape, "cpu")
        starts = starts_of(batch, dataset, shape, hint="x[i, j] = dataset[start_i + j]")
        for name, part in zip("xy", batch, strict=True):
            got = tuple(part.shape)
            reason = f"wrong shape of {name}: expected {shape}, got {got}"
            hint = "(batch_size, context_length): each row is a window"
            expect.that(got == shape, reason, hint=hint)
        check_targets(batch, starts, dataset, shape)


@pytest.mark.harm("crash")
def test_batches_are_int64(student, rng):
    """x and y are int64 of two dimensions, whatever integer dtype and shape the batch has."""
    for dtype, shape in [(np.uint16, (4, 6)), (np.int32, (1, 5)), (np.int64, (7, 1))]:
        dataset = permutation(rng, 60, dtype)
        batch = student.data.get_batch(dataset, *shape, "cpu")
        starts_of(batch, dataset, shape)
        for name, part in zip("xy", batch, strict=True):
            reason = f"wrong dtype of {name}: expected int64, got {expect.dtype_name(part.dtype)}"
            hint = "embeddings and cross_entropy need int64"
            expect.that(part.dtype is torch.int64, reason, hint=hint)
            values(part, shape, name)


@pytest.mark.harm("wrong number")
def test_large_tokens_keep_their_value(student, rng):
    """Every token keeps its value: uint16 above 32,767, and ids that float32 does not have."""
    # float32 cannot represent odd numbers above 2**24.
    odd = 2 * permutation(rng, 3000) + 1
    small, large = permutation(rng, 2**16)[:3000], 2**24 + odd
    for dtype, tokens in [("uint16", small), ("int32", large), ("int64", large)]:
        more = {"layout": "plain", "batch_size": 64, "context_length": 7}
        batch = student.run(probes.batch_of_layout, tokens=tokens, dtype=dtype, **more)
        hint = "which dtypes do tokens pass through on their way to int64?"
        starts_of(batch, tokens, (64, 7), hint=hint)


# --- how starts are drawn


@pytest.mark.harm("wrong number")
def test_every_start_is_equally_likely(student, rng):
    """All starts from 0 to n - context_length - 1 are equally likely, also if there are few.

    A start may occur twice in a batch.
    """
    hint = "draw uniformly from 0 … n - context_length - 1, both included, with replacement"
    length = integer(rng, 3, 9)
    for count in (2, 1):
        dataset, shape = permutation(rng, length + count), (200, length)
        starts = starts_of(student.data.get_batch(dataset, *shape, "cpu"), dataset, shape)
        reason = f"of {count} possible starts, not all are drawn, or others are drawn too"
        expect.that(set(starts) == set(range(count)), reason, hint=hint)
    count, shape = integer(rng, 8, 12), (8000, length)
    dataset = permutation(rng, length + count)
    starts = starts_of(student.data.get_batch(dataset, *shape, "cpu"), dataset, shape)
    reason = "a window starts so late that its last target is outside the data"
    expect.that(max(starts) < count, reason, hint=hint)
    share = 1 / count
    for start in range(count):
        fair = abs(starts.count(start) / 8000 - share) < 8 * math.sqrt(share * (1 - share) / 8000)
        reason = f"of {count} starts, number {start} is drawn too rarely or too often"
        expect.that(fair, reason, hint=hint)
    # Four of four possible starts are all different in 9 % of batches.
    dataset = permutation(rng, 7)
    got = student.run(probes.batches, dataset=dataset, batch_size=4, context_length=3, count=50)
    expect.parts(got, 50, name="batches")
    again = any(len(set(starts_of(batch, dataset, (4, 3)))) < 4 for batch in got)
    expect.that(again, "no start occurs twice in a batch", hint=hint)
    drawn = values(student.run(probes.parities, batch_size=64), (64, 1), "x")
    reason, hint = "no start is odd, or none even", "a float32 has 24 bits: torch.randint"
    expect.that(0 < int(drawn.sum()) < 64, reason, hint=hint)


# Stays: it names the mistake; counts of starts say only that some are drawn too often.
@pytest.mark.harm("trains worse")
def test_windows_of_a_batch_are_independent(student, rng):
    """Each window has a start of its own: they are neither equal, evenly spaced nor sorted."""
    dataset = permutation(rng, 20_000)
    starts = starts_of(student.data.get_batch(dataset, 64, 8, "cpu"), dataset, (64, 8))
    steps = [b - a for a, b in itertools.pairwise(starts)]
    hint = "draw a separate start for each window"
    expect.that(len(set(starts)) > 32, "many windows of a batch have the same start", hint=hint)
    expect.that(len(set(steps)) > 32, "the windows of a batch are evenly spaced", hint=hint)
    expect.that(min(steps) < 0, "the windows of a batch are sorted", hint=hint)


@pytest.mark.harm("trains worse")
def test_batches_differ(student, rng):
    """Each batch is drawn anew."""
    dataset = permutation(rng, 20_000)
    got = student.run(probes.batches, dataset=dataset, batch_size=32, context_length=4, count=3)
    starts = {tuple(starts_of(batch, dataset, (32, 4))) for batch in got}
    hint = "are starts drawn at all, and from a generator that advances from call to call?"
    expect.that(len(starts) == 3, "two calls return the same batch", hint=hint)


def seeded(student, dataset, seeds):
    """The starts of the batches for each pair of a global seed and a generator's seed."""
    shape = {"batch_size": 16, "context_length": 4}
    got = student.run(probes.seeded_batches, dataset=dataset, seeds=seeds, **shape)
    return [[starts_of(batch, dataset, (16, 4)) for batch in g["batches"]] for g in got]


@pytest.mark.harm("wrong number")
def test_a_generator_decides_alone(student, rng):
    """With a generator, a batch depends only on that generator's seed and its earlier draws."""
    dataset = permutation(rng, 20_000)
    a, b, c, d = permutation(rng, 2**30 // 2**12)[:4].tolist()
    first, again, other = seeded(student, dataset, [(a, c), (b, c), (a, d)])
    hint = "draw the starts with the given generator"
    reason = "two generators with the same seed give different batches"
    expect.that(first == again, reason, hint=hint)
    expect.that(first != other, "generators with different seeds give the same batches", hint=hint)
    hint = "a generator advances with each number that is drawn; do not reset it"
    common = len(set(first[0]) & set(first[1]))  # 12 or more with a probability below 1e-30
    reason = "most windows of two batches of a generator are the same"
    expect.that(first[0] == first[1] or common < 12, reason, hint=hint)
    expect.that(first[0] != first[1], "a generator gives the same batch again", hint=hint)


@pytest.mark.harm("not refused")
def test_a_batch_leaves_all_else_as_it_was(student, rng):
    """A batch does not change the data, nor, with a generator, any global random state."""
    dataset, seeds = permutation(rng, 100), [(integer(rng, 0, 2**30), integer(rng, 0, 2**30))]
    given = {"dataset": dataset, "batch_size": 3, "context_length": 4, "seeds": seeds}
    (got,) = student.run(probes.seeded_batches, **given)
    for batch in got["batches"]:  # the second one shows whether the first one changed the data
        starts_of(batch, dataset, (3, 4), hint="read from dataset, never write to it")
    expect.generators_left(got["generators_changed"])


# Stays: a starting point from the system's clock cannot be listed as a mistake of the reference.
@pytest.mark.harm("crash")
def test_without_a_generator_the_global_seed_decides(student, rng):
    """Without a generator, the global seed determines the batches."""
    dataset = permutation(rng, 1000)
    a, b = permutation(rng, 2**18)[:2].tolist()
    # A generator that was given before must not be used again.
    seeds = [(a, b), (a, None), (a, None), (b, None)]
    _, first, again, other = seeded(student, dataset, seeds)
    hint = "draw from a global generator, of torch, numpy or random"
    expect.that(first == again, "the same global seed gives different batches", hint=hint)
    hint = "is a seed set inside get_batch, or is nothing drawn?"
    expect.that(first != other, "two global seeds give the same batches", hint=hint)


# --- devices, files, large data


@pytest.mark.harm("crash")
def test_a_gpu_gets_its_batch_from_pinned_memory(student, rng):
    """For a CUDA device, x and y are copied from pinned memory without waiting.

    The GPU is simulated. The device is a str or a torch.device.
    """
    dataset, shape = permutation(rng, 60), (3, 5)
    for device, as_text in [("cuda", True), ("cuda:0", True), ("cuda", False)]:
        given = {"dataset": dataset, "batch_size": shape[0], "context_length": shape[1]}
        where = {"seed": integer(rng, 0, 2**30), "device": device, "as_text": as_text}
        got = student.run(probes.batch_on_a_stand_in, **given, **where)
        starts_of(got["batch"], dataset, shape)
        hint = "x.pin_memory().to(device, non_blocking=True)"
        expect.value(got["devices"], ["cuda"] * 2, name="the devices of x and y")
        expect.that(got["pinned"], "a copy from memory that is not pinned", hint=hint)
        expect.that(not got["waits"], "Python waits for a copy to the GPU", hint=hint)


# Stays: a file is what the data are in practice; other tests pass arrays in memory.
@pytest.mark.harm("crash")
def test_batches_of_a_file(student, rng):
    """The dataset may be a memory-mapped file, read-only, or a slice of it."""
    for layout, dtype in itertools.product(sorted(probes.LAYOUTS), ("uint16", "int64")):
        tokens = permutation(rng, integer(rng, 900, 1100))
        given = {"tokens": tokens, "dtype": dtype, "layout": layout}
        batch = student.run(probes.batch_of_layout, **given, batch_size=6, context_length=9)
        starts_of(batch, tokens, (6, 9), hint=f"this dataset is stored as: {layout}")


@pytest.mark.harm("crash")
def test_only_the_batch_is_read(student, rng):
    """get_batch uses memory only for the batch, however long the data are.

    The test uses 2**50 tokens.
    """
    shape = {"length": 2**50, "batch_size": 4, "context_length": 6}
    for dtype in ("uint16", "int64"):
        given = {"token": integer(rng, 0, 2**15), "dtype": dtype}
        batch = student.run(probes.batch_of_endless_data, **given, **shape)
        for name, part in zip("xy", pair(batch), strict=True):
            right = bool((values(part, (4, 6), name) == given["token"]).all())
            expect.that(right, f"{name} contains a token that is not in the data")
    taken = student.run(probes.memory_for_a_batch)
    # Python and numpy take some kilobytes, and a file is read in pages.
    reason = "more of a file is read than the batch"
    expect.that(taken < 2**21, reason, hint="convert the windows only")


@pytest.mark.harm("not refused")
def test_data_that_are_too_short(student, rng):
    """Data of context_length tokens raise an error instead of giving shorter windows."""
    length = integer(rng, 3, 9)
    dataset = permutation(rng, length + 1)
    with expect.right_call("context_length + 1 tokens, enough for one window and its last target"):
        starts_of(student.data.get_batch(dataset, 2, length, "cpu"), dataset, (2, length))
    with expect.raises(TOO_SHORT, when="dataset has no more tokens than context_length"):
        student.data.get_batch(dataset[:length], 2, length, "cpu")


# --- open_tokens


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def check_opened(got, tokens, *, hint):
    """Check the tokens and their dtype. Other tests judge whether they are mapped and read-only."""
    found = got["tokens"]
    expect.kind(found, np.ndarray, of="open_tokens", name="the tokens")
    reason = f"wrong dtype: expected {tokens.dtype}, got {got['dtype']}"
    expect.that(got["dtype"] == str(tokens.dtype), reason, of="open_tokens", hint=hint)
    expect.value(found.shape, tokens.shape, of="open_tokens", name="the array's shape", hint=hint)
    expect.value(found.tolist(), tokens.tolist(), of="open_tokens", name="the tokens", hint=hint)


@pytest.mark.harm("wrong number")
def test_open_raw_tokens(student, rng):
    """A raw file contains uint16 tokens unless another dtype is given, whatever its name."""
    files = [("tokens.bin", None, False), ("tokens", "int32", True), ("tokens.npy", "int64", False)]
    for name, dtype, as_text in [*files, ("tokens.bin", "uint8", True)]:
        tokens = permutation(rng, 2**16)[: integer(rng, 200, 900)].astype(dtype or "uint16")
        file = {"name": name, "contents": tokens.tobytes()}
        got = student.run(probes.opened, **file, dtype=dtype, as_text=as_text)
        check_opened(got, tokens, hint="use np.memmap with the given dtype")


@pytest.mark.harm("wrong number")
def test_open_a_npy_file(student, rng):
    """A file that starts with b'\\x93NUMPY' is mapped as its header says, whatever its name."""
    hint = r"a file that starts with b'\x93NUMPY' has a header: np.load(path, mmap_mode='r')"
    files = [("tokens.npy", "uint16", None), ("tokens.bin", "int32", None)]
    files += [("tokens", "uint8", "uint16"), ("tokens.npy", "int64", "int32")]
    for name, dtype, asked in files:
        tokens = permutation(rng, 2 * integer(rng, 20, 40) + 1, dtype)
        file = {"name": name, "contents": npy(tokens)}
        check_opened(student.run(probes.opened, **file, dtype=asked), tokens, hint=hint)


@pytest.mark.harm("crash")
def test_tokens_are_mapped(student, rng):
    """The tokens are a np.memmap, and opening a file does not read its tokens."""
    tokens = permutation(rng, 300, np.uint16)
    for contents in (tokens.tobytes(), npy(tokens)):
        got = student.run(probes.opened, name="tokens.bin", contents=contents)
        check_opened(got, tokens, hint=None)
        expect.that(got["is_memmap"], "the tokens are not a np.memmap", of="open_tokens")
    for header in (b"", npy(np.zeros(2**23, np.uint16))[:128]):
        got = student.run(probes.opened_long, header=header, size=len(header) + 2**24)
        expect.value(got["length"], 2**23, of="open_tokens", name="the number of tokens")
        # Python and numpy take some kilobytes.
        reason = "opening a file of 16 MiB reads its tokens into memory"
        hint = "six bytes show the kind of the file: file.read(6)"
        least = max(got["allocated"], got["mapped"])
        expect.that(least < 2**21, reason, of="open_tokens", hint=hint)


@pytest.mark.harm("not refused")
def test_a_file_cannot_be_changed_by_accident(student, rng):
    """Writing to the array does not change the file."""
    tokens = permutation(rng, 300, np.uint16)
    for name, contents in [("tokens.bin", tokens.tobytes()), ("tokens.npy", npy(tokens))]:
        got = student.run(probes.opened, name=name, contents=contents, write=True)
        check_opened(got, tokens, hint=None)
        reason = "writing to the array changes the file"
        expect.that(got["contents"] == contents, reason, of="open_tokens", hint='mode="r"')
