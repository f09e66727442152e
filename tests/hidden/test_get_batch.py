"""get_batch: tokens of a file, and batches of them.

Accepted on purpose, since the result is the same: starts from torch's, numpy's or Python's global generator where none
is given, and any use of a given one that moves it on; windows by slices, by an array of positions, by a sliding view of
the data; a list in place of the tuple; x and y on one storage; any ValueError for data that are too short (`dataset` or
`context_length` may be the one that is wrong) and for a file that does not hold whole tokens (numpy's own is clear).
Read-only data come from memory-mapped files alone, where torch's warning about them is switched off.

Tokens are a permutation or otherwise distinct, so that a window's first token shows its start; the oracle is the data
itself. Nothing fails by chance: counts get 8 standard deviations, other chances are below 1e-30.
"""

import io
import itertools
import math

import numpy as np
import torch
from torch import Tensor

from tests import expect
from tests.probes import call_and_keep_inputs
from tests.probes import data as probes


def integer(rng, low, high):
    return int(torch.randint(low, high, (), generator=rng))


def permutation(rng, n, dtype=np.int64):
    """The tokens 0 … n - 1 in random order: a token says where it lies, and its successor is not the next number."""
    return torch.randperm(n, generator=rng).numpy().astype(dtype)


def check_kind(batch, shape, *, device="cpu"):
    """Two int64 tensors of this shape on this device."""
    expect.that(batch is not None, "returned None: is a `return` missing?", of="get_batch")
    is_pair = isinstance(batch, (tuple, list)) and len(batch) == 2
    expect.that(is_pair, f"expected two tensors, x and y, got {expect.type_name(batch)}", of="get_batch")
    like = torch.empty(shape, dtype=torch.int64, device="meta")
    for name, part in zip("xy", batch, strict=True):
        expect.tensor(part.to("meta") if isinstance(part, Tensor) else part, like, of="get_batch", name=name)
        where = part.device.type
        expect.that(where == device, f"{name} is on {where}, expected {device}", of="get_batch", hint="x.to(device)")


def check_batch(batch, dataset, shape, *, hint=None):
    """x and y are windows of the data, y one later; the windows' starts."""
    check_kind(batch, shape)
    x, y = batch
    positions = {token: i for i, token in enumerate(dataset.tolist())}
    starts = [positions.get(token, -1) for token in x[:, 0].tolist()]
    expect.that(min(starts) >= 0, "x holds a token that is not in the data", of="get_batch", hint=hint)
    late = max(starts) + shape[1] >= len(dataset)
    expect.that(not late, "a window starts so late that its last target is outside the data", of="get_batch", hint=hint)
    tokens = torch.from_numpy(dataset.astype(np.int64))
    windows = torch.tensor(starts)[:, None] + torch.arange(shape[1])
    expect.tensor(x, tokens[windows], of="get_batch", name="x", hint=hint)
    expect.tensor(y, tokens[windows + 1], of="get_batch", name="y", hint=hint)
    return starts


# Stays: it is the rule itself on plain data, and every other test leans on it.
def test_targets_are_one_later_in_the_data(student, rng):
    """x is a window of neighbours in the data and y is the same window one later, both int64."""
    for _ in range(3):
        dataset, shape = permutation(rng, integer(rng, 60, 90)), (integer(rng, 5, 9), integer(rng, 10, 20))
        batch = student.data.get_batch(dataset, *shape, "cpu")
        check_batch(batch, dataset, shape, hint="y[i, j] = dataset[start + j + 1], a position and not a value")


def test_batches_of_one(student, rng):
    """One window, windows of one token, or both."""
    dataset = permutation(rng, 50)
    for shape in [(1, integer(rng, 2, 9)), (integer(rng, 2, 9), 1), (1, 1)]:
        batch = student.data.get_batch(dataset, *shape, "cpu")
        check_batch(batch, dataset, shape, hint="the shape is (batch_size, context_length), also for sizes of 1")


def test_every_integer_dtype_keeps_its_tokens(student, rng):
    """Tokens keep their value whatever the data's dtype: 40,000 in uint16, 2**24 + 1 in int32, 2**53 + 1 in int64."""
    odd = 2 * permutation(rng, 3000) + 1  # odd numbers past 2**24 are no float32, past 2**53 no float64
    for dataset in (
        permutation(rng, 2**16)[:3000].astype(np.uint16),
        permutation(rng, 250, np.uint8),
        (2**24 + odd).astype(np.int32),
        2**53 + odd,
    ):
        shape = (64, integer(rng, 3, 20))
        batch = student.data.get_batch(dataset, *shape, "cpu")
        check_batch(batch, dataset, shape, hint="straight to int64, through no narrower and no float dtype")


def test_data_of_one_window(student, rng):
    """Data of context_length + 1 tokens have exactly one start, 0, for every window of the batch."""
    length, size = integer(rng, 3, 9), integer(rng, 8, 20)
    dataset = permutation(rng, length + 1)
    got = student.run(probes.batch_or_error, dataset=dataset, batch_size=size, context_length=length)
    hint = "the starts are 0 … n - context_length - 1, both included, and drawn with replacement"
    expect.that(got["error"] is None, f"{got['error']} although one window fits", of="get_batch", hint=hint)
    check_batch(got["batch"], dataset, (size, length), hint=hint)


# Stays: it is the smallest case in which the last start can be missed, and it needs no statistics.
def test_data_of_two_windows(student, rng):
    """Data of context_length + 2 tokens have two starts, and a large batch shows both."""
    length = integer(rng, 3, 9)
    dataset = permutation(rng, length + 2)
    hint = "the last start is n - context_length - 1"
    got = student.run(probes.batch_or_error, dataset=dataset, batch_size=200, context_length=length)
    expect.that(got["error"] is None, f"{got['error']} although two windows fit", of="get_batch", hint=hint)
    starts = check_batch(got["batch"], dataset, (200, length), hint=hint)
    expect.that(set(starts) == {0, 1}, "only one of two starts is ever drawn", of="get_batch", hint=hint)


def test_every_start_is_equally_likely(student, rng):
    """Of many windows each start from the first to the last gets its share."""
    length, count, size = integer(rng, 2, 5), integer(rng, 8, 12), 4000
    dataset = permutation(rng, length + count)
    got = student.run(probes.batches, dataset=dataset, batch_size=size, context_length=length, count=2)
    starts = [s for batch in got for s in check_batch(batch, dataset, (size, length))]
    share, draws = 1 / count, 2 * size
    for start in range(count):
        hint = "uniform over 0 … n - context_length - 1, both included"
        fair = abs(starts.count(start) / draws - share) < 8 * math.sqrt(share * (1 - share) / draws)
        reason = f"of {count} starts, number {start} is drawn too seldom or too often"
        expect.that(fair, reason, of="get_batch", hint=hint)


def test_windows_of_a_batch_are_independent(student, rng):
    """The windows of a batch start at different places, and not evenly spaced."""
    dataset = permutation(rng, 20_000)
    (batch,) = student.run(probes.batches, dataset=dataset, batch_size=64, context_length=8, count=1)
    starts = check_batch(batch, dataset, (64, 8))
    steps = [b - a for a, b in itertools.pairwise(starts)]
    hint = "a start of its own for each window"
    expect.that(len(set(starts)) > 32, "many windows of a batch have the same start", of="get_batch", hint=hint)
    expect.that(len(set(steps)) > 32, "the windows of a batch are evenly spaced", of="get_batch", hint=hint)


def test_batches_differ(student, rng):
    """Each batch is drawn anew."""
    dataset = permutation(rng, 20_000)
    got = student.run(probes.batches, dataset=dataset, batch_size=32, context_length=4, count=3)
    starts = {tuple(check_batch(batch, dataset, (32, 4))) for batch in got}
    expect.that(len(starts) == 3, "the same batch again", of="get_batch", hint="is a seed set in each call?")


def test_a_generator_decides_alone(student, rng):
    """With a generator the batch depends on it alone: its seed, and how often it was used."""
    dataset = permutation(rng, 20_000)
    a, b, c, d = permutation(rng, 2**30 // 2**12)[:4].tolist()
    got = student.run(probes.seeded_batches, dataset=dataset, batch_size=16, context_length=4, seeds=[(a, c), (b, c), (a, d)])
    first, again, other = ([check_batch(batch, dataset, (16, 4)) for batch in g["batches"]] for g in got)
    hint = "draw the starts with the generator that is given"
    expect.that(first == again, "two generators of one seed give different batches", of="get_batch", hint=hint)
    expect.that(first != other, "generators of different seeds give the same batches", of="get_batch", hint=hint)
    expect.that(first[0] != first[1], "a generator gives the same batch again", of="get_batch", hint="is it set back?")


def test_a_generator_leaves_the_global_ones_alone(student, rng):
    """With a generator no global random state moves."""
    seeds = [(integer(rng, 0, 2**30), integer(rng, 0, 2**30))]
    got = student.run(probes.seeded_batches, dataset=permutation(rng, 100), batch_size=3, context_length=4, seeds=seeds)
    for name, unchanged in got[0]["unchanged"].items():
        reason = f"the global generator of {name} was used although a generator was given"
        expect.that(unchanged, reason, of="get_batch", hint="generator=generator, and no manual_seed")


def test_without_a_generator_the_global_seed_decides(student, rng):
    """Without a generator the same global seed gives the same batches, another one others."""
    dataset = permutation(rng, 20_000)
    a, b = permutation(rng, 2**18)[:2].tolist()
    seeds = [(a, None), (a, None), (b, None)]
    got = student.run(probes.seeded_batches, dataset=dataset, batch_size=16, context_length=4, seeds=seeds)
    first, again, other = ([check_batch(batch, dataset, (16, 4)) for batch in g["batches"]] for g in got)
    expect.that(first == again, "one global seed gives different batches", of="get_batch", hint="a private generator?")
    expect.that(first != other, "two global seeds give the same batches", of="get_batch", hint="is a seed set inside?")


def test_batches_go_to_the_device(student, rng):
    """x and y are on the device asked for, whether that is text or a torch.device."""
    dataset, shape = permutation(rng, 40), (3, 5)
    check_kind(student.data.get_batch(dataset, *shape, "meta"), shape, device="meta")
    inputs = {"dataset": dataset, "batch_size": 3, "context_length": 5}
    for device in ("meta", "cpu"):
        check_kind(student.run(probes.batch_on_device, device=device, **inputs), shape, device=device)


def test_batches_of_a_file(student, rng):
    """A memory-mapped file that is read-only serves as well as an array."""
    for dtype in (np.uint16, np.int64):
        dataset = permutation(rng, 5000, dtype)
        batch = student.run(probes.batch_of_file, tokens=dataset, batch_size=6, context_length=9)
        check_batch(batch, dataset, (6, 9))


def test_only_the_batch_is_read(student, rng):
    """A batch takes memory for its own tokens, however long the data are: 2**50 tokens here."""
    token, shape = integer(rng, 0, 2**16), (4, 6)
    for dtype in ("uint16", "int64"):
        got = student.run(probes.batch_of_endless_data, token=token, dtype=dtype, length=2**50, batch_size=4, context_length=6)
        reason = f"{got['error']} on data that are far larger than memory"
        hint = "convert the windows, not the dataset, and make no list of all starts"
        expect.that(got["error"] is None, reason, of="get_batch", hint=hint)
        check_kind(got["batch"], shape)
        for name, part in zip("xy", got["batch"], strict=True):
            expect.tensor(part, torch.full(shape, token), of="get_batch", name=name, hint=hint)


# Stays: elsewhere a change of the data is seen by what it does to later batches, and only here as what it is.
def test_data_are_left_as_they_were(student, rng):
    """Drawing a batch does not change the data."""
    dataset = permutation(rng, 60)
    args = (dataset.copy(), 5, 7, "cpu")
    got = student.run(call_and_keep_inputs, module="data", function="get_batch", args=args)
    expect.value(got["inputs"][0].tolist(), dataset.tolist(), of="get_batch", hint="are the data changed in place?")


def test_data_that_are_too_short(student, rng):
    """Data of context_length tokens or fewer are a ValueError: the last target is missing."""
    length = integer(rng, 3, 9)
    student.data.get_batch(permutation(rng, length + 1), 2, length, "cpu")
    for n in (length, length - 1, 1, 0):
        with expect.raises(ValueError, of="get_batch", when="dataset has no more tokens than context_length"):
            student.data.get_batch(permutation(rng, n), 2, length, "cpu")


def test_wrong_sizes_are_refused(student, rng):
    """A batch_size or context_length below 1 is a ValueError that names it."""
    dataset = permutation(rng, 30)
    student.data.get_batch(dataset, 1, 1, "cpu")
    for size in (0, -1):
        with expect.raises(ValueError, of="get_batch", when="batch_size is below 1", naming="batch_size"):
            student.data.get_batch(dataset, size, 4, "cpu")
    for length in (0, -2):
        with expect.raises(ValueError, of="get_batch", when="context_length is below 1", naming="context_length"):
            student.data.get_batch(dataset, 3, length, "cpu")


def npy(tokens):
    """The bytes that np.save writes."""
    file = io.BytesIO()
    np.save(file, tokens)
    return file.getvalue()


def check_opened(got, tokens, contents, *, hint):
    """A read-only memory map of these tokens, and the file as it was."""
    expect.that(got["tokens"] is not None, "returned None: is a `return` missing?", of="open_tokens")
    expect.that(got["is_memmap"], "the tokens are not a np.memmap", of="open_tokens", hint=hint)
    reason = f"wrong dtype: expected {tokens.dtype}, got {got['tokens'].dtype}"
    expect.that(got["tokens"].dtype == tokens.dtype, reason, of="open_tokens", hint=hint)
    expect.value(got["tokens"].shape, tokens.shape, of="open_tokens", hint=hint)
    expect.value(got["tokens"].tolist(), tokens.tolist(), of="open_tokens", hint=hint)
    expect.that(not got["is_writeable"], "the memory map can be written to", of="open_tokens", hint='mode="r"')
    expect.that(got["contents"] == contents, "the file was changed", of="open_tokens", hint='mode="r"')


def test_open_raw_tokens(student, rng):
    """A raw file holds uint16 tokens unless another dtype is named."""
    for dtype in (None, "uint16", "int32", "uint8", "int64"):
        tokens = permutation(rng, 2**16)[: integer(rng, 200, 900)].astype(dtype or "uint16")
        contents = tokens.tobytes()
        got = student.run(probes.opened, name="tokens.bin", contents=contents, dtype=dtype)
        check_opened(got, tokens, contents, hint="np.memmap with the dtype that is given")


def test_open_a_path_of_either_kind(student, rng):
    """A path may be text or a Path."""
    tokens = permutation(rng, 300, np.uint16)
    for contents in (tokens.tobytes(), npy(tokens)):
        for as_text in (False, True):
            got = student.run(probes.opened, name="tokens", contents=contents, as_text=as_text)
            check_opened(got, tokens, contents, hint="a str or an os.PathLike")


def test_open_a_npy_file_by_its_header(student, rng):
    """A .npy file is read by its header: no header read as tokens, and the dtype is the one that the header names."""
    for dtype, asked in [("uint16", None), ("int32", None), ("uint8", "uint16"), ("int64", "int64")]:
        tokens = permutation(rng, integer(rng, 100, 250), dtype)
        contents = npy(tokens)
        got = student.run(probes.opened, name="tokens.npy", contents=contents, dtype=asked)
        check_opened(got, tokens, contents, hint="np.memmap knows nothing of a header; np.load(mmap_mode='r') does")


def test_the_first_bytes_tell_a_npy_file(student, rng):
    """What a file is, its first six bytes tell, whatever its name ends in."""
    tokens = permutation(rng, 2**16)[:400].astype(np.uint16)
    almost = np.concatenate([np.frombuffer(b"\x93NUM", dtype=np.uint16), tokens])
    hint = r"b'\x93NUMPY', in full, and not the name"
    for name, contents, expected in [
        ("tokens.bin", npy(tokens), tokens),
        ("tokens.npy", tokens.tobytes(), tokens),
        ("tokens", npy(tokens), tokens),
        ("tokens.bin", almost.tobytes(), almost),
    ]:
        got = student.run(probes.opened, name=name, contents=contents)
        check_opened(got, expected, contents, hint=hint)


def test_open_a_file_of_few_tokens(student, rng):
    """A raw file may be shorter than a header's first bytes, down to a single byte."""
    for count, dtype in [(1, "uint16"), (2, "uint16"), (1, "uint8")]:
        tokens = permutation(rng, 2**16)[:count].astype(dtype)
        got = student.run(probes.opened, name="tokens.bin", contents=tokens.tobytes(), dtype=dtype)
        check_opened(got, tokens, tokens.tobytes(), hint="reading six bytes may give fewer")


def test_files_that_hold_no_whole_tokens(student, rng):
    """An empty raw file, or one that ends inside a token, is a ValueError."""
    contents = permutation(rng, 201, np.uint8).tobytes()
    student.run(probes.opened, name="tokens.bin", contents=contents[:2], dtype=None)
    for size, dtype in [(0, None), (201, None), (1, "uint16"), (198, "int32"), (197, "int64")]:
        with expect.raises(ValueError, of="open_tokens", when="the file does not hold whole tokens"):
            student.run(probes.opened, name="tokens.bin", contents=contents[:size], dtype=dtype)


def test_a_file_that_is_not_there(student):
    """A missing file is a FileNotFoundError."""
    student.run(probes.opened, name="tokens.bin", contents=b"ab")
    for name in ("tokens.bin", "tokens.npy"):
        with expect.raises(FileNotFoundError, of="open_tokens", when="there is no such file"):
            student.run(probes.opened, name=name, contents=None)
