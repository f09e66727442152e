"""get_batch: tokens in a file, and batches of tokens. Handout §9.1."""

import numpy as np
import torch

from tests import expect


def test_get_batch_of_the_example(student):
    """(7, 3, 9, 4) with context_length 2 has two windows.

    (7, 3) goes with the target (3, 9), and (3, 9) with the target (9, 4).
    """
    dataset = np.array([7, 3, 9, 4], dtype=np.uint16)
    x, y = student.data.get_batch(dataset, 100, 2, "cpu")
    starts = (x[:, 0] == 3).long()
    inputs = "dataset (7, 3, 9, 4), batch_size 100, context_length 2"
    expect.tensor(
        x, torch.tensor([[7, 3], [3, 9]])[starts], of="get_batch", name="x", inputs=inputs
    )
    expect.tensor(
        y, torch.tensor([[3, 9], [9, 4]])[starts], of="get_batch", name="y", inputs=inputs
    )
    expect.that(0 < int(starts.sum()) < 100, "100 windows have the same start", of="get_batch")


def test_get_batch_draws_from_the_generator(student):
    """Two generators with the same seed give the same batch."""
    dataset = np.arange(1000)
    first, second = (
        student.data.get_batch(dataset, 8, 4, "cpu", generator=torch.Generator().manual_seed(1))
        for _ in range(2)
    )
    expect.tensor(
        second[0],
        first[0],
        of="get_batch",
        name="x",
        hint="is the generator given to torch.randint?",
    )


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
    with expect.raises(
        (ValueError, RuntimeError),
        of="get_batch",
        when="dataset has 4 tokens and context_length is 4",
    ):
        student.data.get_batch(np.arange(4), 2, 4, "cpu")


def test_open_tokens_of_a_raw_file(student, tmp_path):
    """A raw file of 6 bytes contains three uint16 tokens, mapped and not loaded."""
    np.array([5, 60000, 7], dtype=np.uint16).tofile(tmp_path / "tokens.bin")
    got = student.data.open_tokens(tmp_path / "tokens.bin")
    expect.that(
        isinstance(got, np.memmap),
        f"expected np.memmap, got {expect.type_name(got)}",
        of="open_tokens",
    )
    expect.value(got.tolist(), [5, 60000, 7], of="open_tokens", inputs="uint16 tokens 5, 60000, 7")


def test_open_tokens_of_a_npy_file(student, tmp_path):
    """A file written by np.save has a header, which gives the dtype and contains no tokens."""
    np.save(tmp_path / "tokens.npy", np.array([5, 70000, 7], dtype=np.int32))
    got = student.data.open_tokens(tmp_path / "tokens.npy")
    expect.value(
        got.tolist(),
        [5, 70000, 7],
        of="open_tokens",
        inputs="int32 tokens 5, 70000, 7, saved by np.save",
    )
