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

from kit import expect
from tests.probes import data as probes

# A check in the student's code, or the errors that torch, numpy and Python raise for an empty
# range.
TOO_SHORT = (ValueError, RuntimeError, IndexError)

# A student's process fills new integer memory with the largest integer.
UNWRITTEN = (
    ("2**63 - 1", "is memory of torch.empty read before it is written? It holds that number here."),
)


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def permutation(rng, n, dtype=np.int64):
    """The tokens 0 … n - 1 in random order, so that the token after t is not t + 1."""
    return torch.randperm(n, generator=rng).numpy().astype(dtype)


def pair(batch):
    """Check that a batch is two tensors, and return it."""
    expect.kind(batch, (tuple, list), of="get_batch", name="the batch")
    expect.that(
        len(batch) == 2, f"expected two tensors, x and y, got {len(batch)} values", of="get_batch"
    )
    for name, part in zip("xy", batch, strict=True):
        expect.kind(part, Tensor, of="get_batch", name=name)
        expect.that(
            not part.is_complex() and part.layout is torch.strided,
            f"{name} does not contain tokens",
            of="get_batch",
        )
    return batch


def values(part, shape, name):
    """A tensor's tokens as int64, or as float64 if they are floats, one row per window."""
    expect.that(
        part.device.type == "cpu", f"{name} is on {part.device.type}, expected cpu", of="get_batch"
    )
    got = tuple(part.shape)
    expect.that(
        got in (shape, shape[::-1]),
        f"wrong shape of {name}: expected {shape}, got {got}",
        of="get_batch",
    )
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
    expect.that(min(starts) >= 0, reason, of="get_batch", facts=facts, hint=hint)
    same = torch.equal(x, windows_at(starts, shape[1], dataset, x))
    expect.that(same, "a row of x is not a window of the data", of="get_batch", hint=hint)
    return starts


def check_targets(batch, starts, dataset, shape):
    y = values(batch[1], shape, "y")
    want = windows_at([start + 1 for start in starts], shape[1], dataset, y)
    hint = "y[i, j] = dataset[start_i + j + 1]: the next position, not the next number"
    expect.tensor(y, want, of="get_batch", name="y", hint=hint)


# Stays: it carries the points of the targets; the other test has windows of one token only.
@pytest.mark.core
@pytest.mark.points(9)
def test_targets_are_one_later_in_the_data(student, rng):
    """A row of x is a window of the data; the same row of y is that window one token later."""
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
                hint="(batch_size, context_length): each row is a window",
            )
        check_targets(batch, starts, dataset, shape)


# Stays: other tests see the dtype of x and y only on the device meta.
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
                hint="embeddings and cross_entropy need int64",
            )


def test_large_tokens_keep_their_value(student, rng):
    """Every token keeps its value, in every integer dtype and in both byte orders.

    Tokens may be as large as the dtype allows, except that uint64 tokens are below 2**63.
    """
    # float32 cannot represent odd numbers above 2**24, and float64 none above 2**53.
    odd = 2 * permutation(rng, 3000) + 1
    for dtype, tokens in [
        ("uint8", permutation(rng, 256)),
        ("int8", permutation(rng, 256) - 128),
        ("uint16", permutation(rng, 2**16)[:3000]),
        ("int16", permutation(rng, 2**16)[:3000] - 2**15),
        ("int32", 2**24 + odd),
        ("uint32", 2**32 - odd),
        ("int64", 2**63 - 2**20 + odd),
        ("uint64", 2**53 + odd),
        (">u2", permutation(rng, 2**16)[:3000]),
        (">i4", 2**24 + odd),
        (">i8", 2**53 + odd),
    ]:
        batch = student.run(
            probes.batch_of_layout,
            tokens=tokens,
            dtype=dtype,
            layout="plain",
            batch_size=64,
            context_length=7,
        )
        hint = "which dtypes do tokens pass through on their way to int64?"
        starts_of(batch, tokens, (64, 7), hint=hint)


def test_batches_of_one(student, rng):
    """x and y have two dimensions even for one window, for windows of one token, and for both."""
    dataset = permutation(rng, 50)
    long = permutation(rng, 2**15 + 100)
    starts_of(student.data.get_batch(long, 2, 2**15 + 50, "cpu"), long, (2, 2**15 + 50))
    for shape in [(1, integer(rng, 2, 9)), (integer(rng, 2, 9), 1), (1, 1)]:
        batch = student.data.get_batch(dataset, *shape, "cpu")
        starts = starts_of(batch, dataset, shape)
        values(batch[1], shape, "y")
        if shape[1] == 1:
            check_targets(batch, starts, dataset, shape)


# --- how starts are drawn


@pytest.mark.core
@pytest.mark.points(4)
def test_every_start_is_equally_likely(student, rng):
    """All starts from 0 to n - context_length - 1 are equally likely."""
    length, count, size = integer(rng, 2, 5), integer(rng, 8, 12), 4000
    dataset = permutation(rng, length + count)
    got = student.run(
        probes.batches, dataset=dataset, batch_size=size, context_length=length, count=2
    )
    starts = [s for batch in got for s in starts_of(batch, dataset, (size, length))]
    hint = "draw uniformly from 0 … n - context_length - 1, both included"
    reason = "a window starts so late that its last target is outside the data"
    expect.that(max(starts) < count, reason, of="get_batch", hint=hint)
    share, draws = 1 / count, 2 * size
    for start in range(count):
        fair = abs(starts.count(start) / draws - share) < 8 * math.sqrt(share * (1 - share) / draws)
        reason = f"of {count} starts, number {start} is drawn too rarely or too often"
        expect.that(fair, reason, of="get_batch", hint=hint)


# Stays: this test is the smallest case of a missing first or last start, and needs no statistics.
def test_data_of_one_window_and_of_two(student, rng):
    """Data of context_length + 1 tokens have one possible start; one token more gives two."""
    length, size = integer(rng, 3, 9), 200
    for count in (1, 2):
        dataset = permutation(rng, length + count)
        starts = starts_of(
            student.data.get_batch(dataset, size, length, "cpu"), dataset, (size, length)
        )
        hint = "draw the starts from 0 … n - context_length - 1, both included, with replacement"
        reason = f"of {count} possible starts, not all are drawn, or others are drawn too"
        expect.that(set(starts) == set(range(count)), reason, of="get_batch", hint=hint)


@pytest.mark.core
@pytest.mark.points(3)
def test_windows_of_a_batch_are_independent(student, rng):
    """The start of one window says nothing about the start of another.

    Starts may repeat, and are neither evenly spaced nor sorted.
    """
    dataset = permutation(rng, 20_000)
    starts = starts_of(student.data.get_batch(dataset, 64, 8, "cpu"), dataset, (64, 8))
    steps = [b - a for a, b in itertools.pairwise(starts)]
    hint = "draw a separate start for each window"
    expect.that(
        len(set(starts)) > 32,
        "many windows of a batch have the same start",
        of="get_batch",
        hint=hint,
    )
    expect.that(
        len(set(steps)) > 32, "the windows of a batch are evenly spaced", of="get_batch", hint=hint
    )
    expect.that(min(steps) < 0, "the windows of a batch are sorted", of="get_batch", hint=hint)
    dataset = permutation(rng, 108)
    starts = starts_of(student.data.get_batch(dataset, 100, 8, "cpu"), dataset, (100, 8))
    reason = "the starts of a batch are all different, so they are not drawn independently"
    expect.that(len(set(starts)) < 100, reason, of="get_batch", hint=hint)
    dataset, size = permutation(rng, 9), 4000
    starts = starts_of(student.data.get_batch(dataset, size, 4, "cpu"), dataset, (size, 4))
    check_pairs(list(zip(starts[::2], starts[1::2], strict=True)), 5)
    check_pairs(list(zip(starts[: size // 2], starts[size // 2 :], strict=True)), 5)
    check_pairs(list(zip(starts[: size // 2], starts[: size // 2 - 1 : -1], strict=True)), 5)


def check_pairs(pairs, count):
    """Check that all pairs of two of `count` starts are equally likely."""
    share = 1 / count**2
    bound = 8 * math.sqrt(share * (1 - share) / len(pairs))
    for pair_of_starts in itertools.product(range(count), repeat=2):
        fair = abs(pairs.count(pair_of_starts) / len(pairs) - share) < bound
        reason = "the start of one window depends on the start of another"
        hint = "draw a separate start for each window"
        expect.that(fair, reason, of="get_batch", hint=hint)


def test_starts_of_long_data(student):
    """Each start is also possible in data of 2**25 tokens.

    There, steps of a random float32 are two tokens apart.
    """
    got = student.run(probes.batch_of_long_data, starts=2**25, batch_size=128, context_length=3)
    x = values(pair(got)[0], (128, 3), "x")
    same = torch.equal(x, (x[:, :1] + torch.arange(3)) % 256)
    expect.that(same, "a row of x is not a window of the data", of="get_batch")
    hint = "a random float32 has 2**24 values: draw integers, as torch.randint does"
    expect.that(
        len(set((x[:, 0] % 2).tolist())) == 2,
        "of 2**25 starts, only every second one is ever drawn",
        of="get_batch",
        hint=hint,
    )


@pytest.mark.core
@pytest.mark.points(3)
def test_batches_differ(student, rng):
    """Each batch is drawn anew."""
    dataset = permutation(rng, 20_000)
    got = student.run(probes.batches, dataset=dataset, batch_size=32, context_length=4, count=3)
    starts = {tuple(starts_of(batch, dataset, (32, 4))) for batch in got}
    hint = "are starts drawn at all, and from a generator that advances from call to call?"
    expect.that(len(starts) == 3, "two calls return the same batch", of="get_batch", hint=hint)


# Stays: other tests see what is kept from an earlier call only if an earlier test made that call.
def test_batches_are_of_the_data_of_this_call(student, rng):
    """A batch consists of the tokens that its own dataset has when get_batch is called."""
    first, then = permutation(rng, 60), permutation(rng, 60) + 1000
    for shape in [(3, 5), (1, 5)]:
        got = student.run(
            probes.batches_of_changing_data,
            first=first,
            then=then,
            batch_size=shape[0],
            context_length=shape[1],
        )
        hint = "is something kept from an earlier call, or does a batch share the data's memory?"
        for batch, dataset in zip(got, (first, then, first), strict=True):
            starts_of(batch, dataset, shape, hint=hint)


def test_a_generator_decides_alone(student, rng):
    """With a generator, a batch depends only on that generator's seed and its earlier draws."""
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
    hint = "draw the starts with the given generator"
    expect.that(
        first == again,
        "two generators with the same seed give different batches",
        of="get_batch",
        hint=hint,
    )
    expect.that(
        first != other,
        "generators with different seeds give the same batches",
        of="get_batch",
        hint=hint,
    )
    hint = "a generator advances with each number that is drawn; do not reset it"
    common = len(set(first[0]) & set(first[1]))  # 12 or more with a probability below 1e-30
    reason = "most windows of two batches of a generator are the same"
    expect.that(first[0] == first[1] or common < 12, reason, of="get_batch", hint=hint)
    expect.that(
        first[0] != first[1], "a generator gives the same batch again", of="get_batch", hint=hint
    )


def test_a_generator_leaves_the_global_ones_alone(student, rng):
    """With a generator, no global random state changes, even if the data are too short."""
    dataset, seeds = permutation(rng, 100), [(integer(rng, 0, 2**30), integer(rng, 0, 2**30))]
    inputs = {"batch_size": 3, "context_length": 4, "seeds": seeds}
    (got,) = student.run(probes.seeded_batches, dataset=dataset, **inputs)
    for batch in got["batches"]:
        starts_of(batch, dataset, (3, 4))
    (failed,) = student.run(probes.seeded_batches, dataset=dataset[:4], fails=True, **inputs)
    changed = [*got["generators_changed"], *failed["generators_changed"]]
    expect.generators_left(changed, of="get_batch")


def test_without_a_generator_the_global_seed_decides(student, rng):
    """Without a generator, the global seed determines the batches."""
    dataset = permutation(rng, 1000)
    a, b = permutation(rng, 2**18)[:2].tolist()
    # A generator that was given before must not be used again.
    seeds = [(a, b), (a, None), (a, None), (b, None)]
    got = student.run(
        probes.seeded_batches, dataset=dataset, batch_size=16, context_length=4, seeds=seeds
    )
    _, first, again, other = (
        [starts_of(batch, dataset, (16, 4)) for batch in g["batches"]] for g in got
    )
    hint = "draw from a global generator, of torch, numpy or random"
    expect.that(
        first == again, "the same global seed gives different batches", of="get_batch", hint=hint
    )
    hint = "is a seed set inside get_batch, or is nothing drawn?"
    expect.that(first != other, "two global seeds give the same batches", of="get_batch", hint=hint)


# --- devices, files, large data


def test_batches_go_to_the_device(student, rng):
    """x and y are on the requested device, given as a string or as a torch.device."""
    dataset, shape = permutation(rng, 40), (3, 5)
    inputs = {"dataset": dataset, "batch_size": 3, "context_length": 5}
    starts_of(student.run(probes.batch_on_device, device="cpu", **inputs), dataset, shape)
    starts_of(student.data.get_batch(dataset, *shape, "cpu:0"), dataset, shape)
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
            got = f"{expect.dtype_name(part.dtype)} {tuple(part.shape)}"
            reason = f"wrong {name} on meta: expected int64 {shape}, got {got}"
            expect.that(got == f"int64 {shape}", reason, of="get_batch")


def test_a_gpu_gets_its_batch_from_pinned_memory(student, rng):
    """For a CUDA device, x and y are copied from pinned memory without waiting.

    The GPU is simulated.
    """
    dataset, shape = permutation(rng, 60), (3, 5)
    for device, as_text in [("cuda", True), ("cuda:0", True), ("cuda", False)]:
        got = student.run(
            probes.batch_on_a_simulated_gpu,
            dataset=dataset,
            batch_size=shape[0],
            context_length=shape[1],
            seed=integer(rng, 0, 2**30),
            device=device,
            as_text=as_text,
        )
        starts_of(got["batch"], dataset, shape)
        hint = "x.pin_memory().to(device, non_blocking=True)"
        expect.value(got["devices"], ["cuda"] * 2, of="get_batch", name="the devices of x and y")
        expect.that(
            got["pinned"], "a copy from memory that is not pinned", of="get_batch", hint=hint
        )
        expect.that(
            not got["waits"], "Python waits for a copy to the GPU", of="get_batch", hint=hint
        )


def test_batches_of_a_file(student, rng):
    """The dataset may be a memory-mapped file, read-only, or a slice, forwards or backwards."""
    datasets = [
        (permutation(rng, integer(rng, 900, 1100)), dtype, layout)
        for layout, dtype in itertools.product(sorted(probes.LAYOUTS), ("uint16", "int64"))
    ]
    inputs = {"datasets": datasets, "batch_size": 6, "context_length": 9}
    results = student.run(probes.batches_of_layouts, **inputs)
    for batch, (tokens, _, layout) in zip(results, datasets, strict=True):
        starts_of(batch, tokens, (6, 9), hint=f"this dataset is stored as: {layout}")


def test_only_the_batch_is_read(student, rng):
    """get_batch uses memory only for the batch, however long the data are.

    The test uses 2**50 tokens.
    """
    shape = (4, 6)
    dtypes = ("uint16", "int64", ">u2", ">i8", "uint32", "int16", "uint64", "uint8")
    datasets = [(integer(rng, 0, 2**8 if dtype == "uint8" else 2**15), dtype) for dtype in dtypes]
    inputs = {"length": 2**50, "batch_size": 4, "context_length": 6}
    results = student.run(probes.batches_of_endless_data, datasets=datasets, **inputs)
    for got, (token, _) in zip(results, datasets, strict=True):
        reason = f"{got['error']} on data that are far larger than memory"
        hint = "convert the windows, not the dataset, and do not build a list of all starts"
        expect.that(got["error"] is None, reason, of="get_batch", hint=hint)
        for name, part in zip("xy", pair(got["batch"]), strict=True):
            tokens = values(part, shape, name)
            reason = f"{name} contains a token that is not in the data"
            expect.that(bool((tokens == token).all()), reason, of="get_batch")
    for layout, dtype in [
        ("a file", "uint16"),
        ("a file from the end to the beginning", ">u2"),
        ("every second element", "uint8"),
        ("plain", ">i4"),
    ]:
        taken = student.run(probes.memory_for_a_batch, layout=layout, dtype=dtype)
        reason = f"more than the batch is read; the data are stored as: {layout}"
        # Python and numpy take some kilobytes, and a file is read in pages.
        expect.that(taken < 2**21, reason, of="get_batch", hint="convert the windows only")


# Stays: in other tests a change of the data shows only through its effect on later batches.
def test_data_are_left_as_they_were(student, rng):
    """Drawing a batch does not change the data."""
    dataset = permutation(rng, 60)
    batch, after = student.run(probes.batch_and_data, dataset=dataset.copy(), shape=(5, 7))
    starts_of(batch, dataset, (5, 7))
    expect.that(
        np.array_equal(after, dataset),
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
    for n in (length, length - 1, 0):
        with expect.raises(
            TOO_SHORT, of="get_batch", when="dataset has no more tokens than context_length"
        ):
            student.data.get_batch(dataset[:n], 2, length, "cpu")


# --- open_tokens


def npy(array, *, tokens=True, version=None):
    """The bytes that np.save writes; without the tokens, only the header."""
    file = io.BytesIO()
    if tokens:
        np.lib.format.write_array(file, array, version)
    else:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    return file.getvalue()


def check_opened(got, tokens, *, hint):
    """Check the tokens and their dtype. Other tests judge whether they are mapped and read-only."""
    found = got["tokens"]
    expect.kind(found, np.ndarray, of="open_tokens", name="the tokens")
    reason = f"wrong dtype: expected {tokens.dtype}, got {got['dtype']}"
    expect.that(got["dtype"] == str(tokens.dtype), reason, of="open_tokens", hint=hint)
    expect.value(found.shape, tokens.shape, of="open_tokens", name="the array's shape", hint=hint)
    expect.value(found.tolist(), tokens.tolist(), of="open_tokens", name="the tokens", hint=hint)


@pytest.mark.core
@pytest.mark.points(2)
def test_open_raw_tokens(student, rng):
    """A raw file contains uint16 tokens unless another dtype is given, however few they are."""
    files, expected = [], []
    for dtype, given_as in [
        (None, "type"),
        ("int32", "type"),
        ("int64", "dtype"),
        ("uint8", "str"),
        ("uint32", "str"),
        (">u2", "str"),
        (">i4", "dtype"),
    ]:
        for size in (1, 2, integer(rng, 200, 900)):
            tokens = permutation(rng, 2**16)[:size].astype(dtype or "uint16")
            file = {"name": "tokens.bin", "contents": tokens.tobytes()}
            files.append({**file, "dtype": dtype, "given_as": given_as})
            expected.append(tokens)
    for got, tokens in zip(student.run(probes.opened_each, files=files), expected, strict=True):
        check_opened(got, tokens, hint="use np.memmap with the given dtype")


# What other kinds of files begin with: zip, pickle, gzip, and almost the six bytes of .npy.
LOOK_ALIKES = (b"PK\x03\x04", b"PK\x05\x06", b"\x80\x04\x95", b"\x1f\x8b")
LOOK_ALIKES += (b"\x93NUMP.", b"\x93", b"\x92NUMPY", b"\x93numpy", b".NUMPY\x93NUMPY")


def test_open_a_npy_file(student, rng):
    """A file that starts with b'\\x93NUMPY' is mapped as its header says, whatever its name."""
    hint = (
        r"a file that starts with b'\x93NUMPY' has a header: np.load(path, mmap_mode='r') "
        r"reads it"
    )
    files, expected = [], []
    for name, dtype, shape, asked, version in [
        ("tokens.npy", "uint16", (-1,), None, None),
        ("tokens.bin", "int32", (-1,), None, (2, 0)),
        ("tokens", "uint8", (-1,), "uint16", (3, 0)),
        ("tokens.npy", "uint8", (3, -1), None, None),
        ("tokens.npy", "int64", (-1,), "int32", None),
        ("tokens.npy", ">u2", (-1,), None, (2, 0)),
        ("tokens.npy", "uint16", (6, -1), None, None),
        ("tokens.npy", "uint16", (0, 3), None, None),
    ]:
        count = 3 * (2 * integer(rng, 10, 20) + 1) if shape == (3, -1) else 6 * integer(rng, 20, 40)
        tokens = permutation(rng, count, dtype)  # an odd number of bytes, or an even one
        tokens = tokens.reshape(shape) if 0 not in shape else np.empty(shape, dtype)
        if shape == (6, -1):
            tokens = np.asfortranarray(tokens)  # np.save writes the columns one after the other
        contents = npy(tokens, version=version)
        files.append({"name": name, "contents": contents, "dtype": asked})
        expected.append(tokens)
    tokens = permutation(rng, 300, np.uint16)
    raw = [start + tokens.tobytes()[len(start) :] for start in (b"", *LOOK_ALIKES)]
    files += [{"name": "tokens.npy", "contents": contents} for contents in raw]
    results = student.run(probes.opened_each, files=files)
    for got, tokens in zip(results, expected, strict=False):
        check_opened(got, tokens, hint=hint)
        expect.that(
            got["is_memmap"],
            "the tokens of a .npy file are not a np.memmap",
            of="open_tokens",
            hint=hint,
        )
    for got, contents in zip(results[len(expected) :], raw, strict=True):
        check_opened(
            got,
            np.frombuffer(contents, dtype=np.uint16),
            hint="a file that does not start with b'\\x93NUMPY' is raw, whatever its name",
        )


def test_open_a_path_of_either_kind(student, rng):
    """A path may be a str or a Path."""
    tokens = permutation(rng, 300, np.uint16)
    for as_text in (False, True):
        got = student.run(probes.opened, name="tokens", contents=tokens.tobytes(), as_text=as_text)
        check_opened(got, tokens, hint="open() and np.memmap accept both str and Path")
    older, given = permutation(rng, 300, np.uint16), {"name": "tokens", "before": None}
    given |= {"contents": tokens.tobytes(), "before": older.tobytes()}
    hint = "is something kept from an earlier call?"
    check_opened(student.run(probes.opened, **given), tokens, hint=hint)


def test_tokens_are_mapped(student, rng):
    """The tokens of a raw file are a np.memmap, and opening a file does not read its tokens."""
    tokens = permutation(rng, 300, np.uint16)
    got = student.run(probes.opened, name="tokens.bin", contents=tokens.tobytes())
    check_opened(got, tokens, hint=None)
    expect.that(got["is_memmap"], "the tokens of a raw file are not a np.memmap", of="open_tokens")
    header = npy(np.broadcast_to(np.uint16(0), (2**23,)), tokens=False)
    for start in (b"", header):
        size = len(start) + 2**24
        got = student.run(probes.opened_long, header=start, size=size)
        name = "the number of tokens"
        expect.value(got["length"], 2**23, of="open_tokens", name=name)
        # Python and numpy take some kilobytes.
        reason = "opening a file of 16 MiB reads its tokens into memory"
        hint = "six bytes show the kind of the file: file.read(6)"
        least = max(got["allocated"], got["mapped"])
        expect.that(least < 2**21, reason, of="open_tokens", hint=hint)


def test_a_file_cannot_be_changed_by_accident(student, rng):
    """The array is read-only, for both kinds of files."""
    tokens = permutation(rng, 300, np.uint16)
    for name, contents in [("tokens.bin", tokens.tobytes()), ("tokens.npy", npy(tokens))]:
        got = student.run(probes.opened, name=name, contents=contents, write=True)
        if name == "tokens.bin":
            check_opened(got, tokens, hint=None)
        reason = "writing to the array changes the file"
        expect.that(got["contents"] == contents, reason, of="open_tokens", hint='mode="r"')
        reason = "the array can be written to"
        expect.that(not got["is_writable"], reason, of="open_tokens", hint='mode="r"')
