"""get_batch: tokens in a file, and batches of tokens. Handout §9.1."""

import contextlib
import random

import numpy as np
import torch

from kit import expect, gpu_stand_in
from kit.student import watching_generators


def test_get_batch_of_the_example(student):
    """(7, 3, 9, 4) with context_length 2 has two windows.

    (7, 3) goes with the target (3, 9), and (3, 9) with the target (9, 4).
    """
    dataset = np.array([7, 3, 9, 4], dtype=np.uint16)
    inputs = "dataset (7, 3, 9, 4), batch_size 100, context_length 2"
    with expect.suspecting("the last target of the last window is the last token"):
        x, y = student.data.get_batch(dataset, 100, 2, "cpu")
    starts = (x[:, 0] == 3).long()
    want = torch.tensor([[7, 3], [3, 9]])[starts]
    expect.tensor(x, want, of="get_batch", name="x", inputs=inputs)
    hints = [
        (x, "y is x: is each target the token after its input?"),
        (x + 1, "the next token in the dataset, not the next id"),
        (x.roll(-1, 1), "the last target is the token after the window, not the window's first"),
    ]
    want = torch.tensor([[3, 9], [9, 4]])[starts]
    expect.tensor(y, want, of="get_batch", name="y", inputs=inputs, hints=hints)
    starts = starts.tolist()
    which = "(7, 3)" if starts[0] == 0 else "(3, 9)"
    reason = f"100 windows are {which}: there are two starts, and each row draws its own"
    expect.that(len(set(starts)) == 2, reason, of="get_batch")


def test_get_batch_reads_only_the_batch(student):
    """Two windows of 2**40 tokens are drawn without touching the rest.

    Converting the whole dataset, or listing all starts, would take terabytes.
    """
    dataset = np.lib.stride_tricks.as_strided(np.full(1, 7, dtype=np.uint16), (2**40,), (0,))
    x, y = student.data.get_batch(dataset, 2, 4, "cpu")
    expect.tensor(x, torch.full((2, 4), 7), of="get_batch", name="x")
    expect.tensor(y, torch.full((2, 4), 7), of="get_batch", name="y")


def test_get_batch_refuses_data_that_is_too_short(student):
    """A window of 4 tokens and its target take 5."""
    refusals, when = (ValueError, RuntimeError), "dataset has 4 tokens and context_length is 4"
    with expect.raises(refusals, of="get_batch", when=when):
        student.data.get_batch(np.arange(4), 2, 4, "cpu")


def test_open_tokens_of_a_raw_file(student, tmp_path):
    """A raw file of 6 bytes contains three uint16 tokens, mapped and not loaded."""
    np.array([5, 60000, 7], dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    got = student.data.open_tokens(tmp_path / "tokens.bin")
    reason = f"expected np.memmap, got {expect.type_name(got)}"
    expect.that(isinstance(got, np.memmap), reason, of="open_tokens")
    expect.value(got.tolist(), [5, 60000, 7], of="open_tokens", inputs="uint16 tokens 5, 60000, 7")


def test_open_tokens_of_a_npy_file(student, tmp_path):
    """A file written by np.save has a header, which gives the dtype and contains no tokens."""
    np.save(tmp_path / "tokens.npy", np.array([5, 70000, 7], dtype=np.int32))
    got = student.data.open_tokens(tmp_path / "tokens.npy").tolist()
    hint = "these tokens begin with the file's header" if got[:1] == [20115] else None
    hints = [
        ([5, 0, 4464, 1, 7, 0], "the header gives the dtype: int32 here"),
        ([5, 4464, 7], "the header gives the dtype: int32 here"),
    ]
    inputs = "int32 tokens 5, 70000, 7, saved by np.save"
    expect.value(got, [5, 70000, 7], of="open_tokens", inputs=inputs, hint=hint, hints=hints)


def starts_of(student, count, generator=None, tokens=8):
    """The starts of many windows of two tokens in 0, 1, 2, …."""
    x, _ = student.data.get_batch(np.arange(tokens), count, 2, "cpu", generator)
    return x[:, 0]


def test_get_batch_draws_every_start_equally_often(student):
    """Eight tokens have six windows of two. Each is drawn 500 times in 3000, give or take 130.

    The starts of one batch are independent: neighbours in a batch are not evenly spaced.
    """
    starts = starts_of(student, 3000, torch.Generator().manual_seed(3))
    counts = starts.bincount(minlength=6).tolist()
    expect.value(len(counts), 6, of="get_batch", name="the number of different starts")
    even = all(370 <= count <= 630 for count in counts)
    expect.that(even, f"the six starts were drawn {counts} times in 3000", of="get_batch")
    steps = starts.diff().remainder(6).bincount(minlength=6).tolist()
    even = all(350 <= count <= 650 for count in steps)
    reason = f"the distances of a start from the one before it, 0 to 5, occur {steps} times"
    expect.that(even, reason, of="get_batch", hint="is each start drawn by itself?")


def test_get_batch_goes_on_with_its_generator(student):
    """A second batch differs from the first, and the global generators keep their states."""
    generator = torch.Generator().manual_seed(1)
    with watching_generators() as changed:
        first, second = (starts_of(student, 30, generator) for _ in range(2))
    expect.that(not torch.equal(first, second), "both batches are the same", of="get_batch")
    expect.that(not changed, "a global generator was used or seeded", of="get_batch")


def test_get_batch_without_a_generator_follows_the_seed(student):
    """Seeding the global generators again gives the same batch, and then a different one."""

    def seeded():
        torch.manual_seed(7)
        np.random.seed(7)
        random.seed(7)
        return [starts_of(student, 30) for _ in range(2)]

    (first, second), (again, _) = seeded(), seeded()
    expect.tensor(again, first, of="get_batch", name="x after the same seed")
    expect.that(not torch.equal(first, second), "two batches are the same", of="get_batch")


def test_get_batch_of_large_tokens_and_one_window(student):
    """Token ids up to 2³¹ - 1 come through exactly, and the only window fills the batch."""
    dataset = np.array([2**31 - 1, 2**24 + 1, 40_000], dtype=np.int64)
    x, y = student.data.get_batch(dataset, 3, 2, "cpu")
    expect.tensor(x, torch.tensor([[2**31 - 1, 2**24 + 1]] * 3), of="get_batch", name="x")
    expect.tensor(y, torch.tensor([[2**24 + 1, 40_000]] * 3), of="get_batch", name="y")
    x, _ = student.data.get_batch(dataset, 1, 1, "cpu")
    name = "the shape of one window of one token"
    expect.value(tuple(x.shape), (1, 1), of="get_batch", name=name)


def test_get_batch_reads_a_map_and_moves_both(student, tmp_path):
    """A np.memmap is a dataset; for a GPU, here a simulated one, both tensors come from pins."""
    np.arange(20, dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    dataset = np.memmap(tmp_path / "tokens.bin", dtype=np.uint16, mode="c")
    generator = torch.Generator().manual_seed(1)
    with gpu_stand_in.gpu() as gpu:
        batch = student.data.get_batch(dataset, 2, 3, "cuda", generator)
        devices = [part.device.type for part in batch]
    expect.value(devices, ["cuda", "cuda"], of="get_batch", name="the devices of x and y")
    pinned = all(copy.startswith("pinned") for copy in gpu.copies)
    expect.that(pinned, "a copy from memory that is not pinned", of="get_batch", hint="pin_memory")
    waits = any("waited for" in copy for copy in gpu.copies)
    expect.that(not waits, "Python waits for a copy", of="get_batch", hint="non_blocking=True")


def test_open_tokens_looks_into_the_file(student, tmp_path):
    """The file's name does not decide its format, and a raw file has the given dtype."""
    np.save(tmp_path / "a.npy", np.array([5, 70000], dtype=np.int32))
    (tmp_path / "a.npy").rename(tmp_path / "a.bin")
    np.array([-5, 7], dtype=np.int16).tofile(tmp_path / "b.npy")
    cases = [("a.bin", np.uint16, [5, 70000]), ("b.npy", np.int16, [-5, 7])]
    for name, dtype, expected in cases:
        got = student.data.open_tokens(str(tmp_path / name), dtype)
        expect.that(isinstance(got, np.memmap), "the tokens are not mapped", of="open_tokens")
        inputs = f"{name} as a str, dtype {dtype.__name__}"
        hint = "these tokens begin with the file's header" if got[:1].tolist() == [20115] else None
        hints = [([65531, 7], "a raw file has the dtype that is given: int16 here")]
        got_list = got.tolist()
        expect.value(got_list, expected, of="open_tokens", inputs=inputs, hint=hint, hints=hints)
        before = (tmp_path / name).read_bytes()
        with contextlib.suppress(ValueError):
            got[0] = 9
            got.flush()
        same = before == (tmp_path / name).read_bytes()
        expect.that(same, "a write to the tokens changes the file", of="open_tokens")
