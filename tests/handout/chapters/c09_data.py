"""Chapter 9: tokens in a file, and batches of them."""

import io
import tempfile
from pathlib import Path

import numpy as np
import torch

from grader.reference import data
from grader.reference import flop_counting as fc
from grader.reference import resource_accounting as ra
from tests.handout.claims import Claims, n, section, short

UINT16, INT32, INT64 = (np.dtype(name) for name in ("uint16", "int32", "int64"))
CORPUS = 300 * 10**9
PAGE = 4096  # of the operating systems and processors that most of us have
EXAMPLE = np.array([7, 3, 9, 4], dtype=UINT16)


def saved(tokens):
    """The bytes that np.save writes."""
    file = io.BytesIO()
    np.save(file, tokens)
    return file.getvalue()


def starts(tokens, length):
    """Every start that the reference draws, from so many draws that none is missed."""
    places = {token: place for place, token in enumerate(tokens.tolist())}
    x, _ = data.get_batch(tokens, 64 * len(tokens), length, "cpu", torch.Generator().manual_seed(0))
    return sorted({places[token] for token in x[:, 0].tolist()})


def listed(numbers):
    """`(3, 9)`."""
    return "(" + ", ".join(n(int(number)) for number in numbers) + ")"


class Chapter(Claims):
    """Every figure of the page."""

    def __init__(self) -> None:
        super().__init__("09_data.md")
        self.files()
        self.batches()
        self.example()

    def files(self) -> None:
        """What a token takes, and what np.save writes."""
        self.says(f"{short(CORPUS)} tokens are hundreds of gigabytes", f"| {short(CORPUS)} tokens |")
        for dtype, name in [(UINT16, "uint16"), (INT32, "int32"), (INT64, "int64, which embedding and loss want")]:
            largest = np.iinfo(dtype).max
            ids = n(largest, ",") if largest < 10**12 else short(largest, 1, 18)
            self.says(f"| {name} | {ids} | {n(dtype.itemsize)} | {n(CORPUS * dtype.itemsize // 10**9, ',')} GB |")
        gpt2 = 50257
        assert gpt2 - 1 <= np.iinfo(UINT16).max
        self.says(
            f"A vocabulary of at most {n(np.iinfo(UINT16).max + 1, ',')}, GPT-2's {n(gpt2, ',')} for instance, fits in a uint16",
            f"{n(PAGE, ',')} bytes each on most machines",
        )
        header = len(saved(EXAMPLE)) - EXAMPLE.nbytes
        self.says(f"a header first, {n(header)} bytes for a short one", f"that header is {n(header // UINT16.itemsize)} tokens")
        magic = saved(EXAMPLE)[:6]
        assert magic[1:] == b"NUMPY"
        self.says(f"The first six bytes, `\\x{n(f'{magic[0]:x}')}NUMPY`, tell")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "tokens")
            path.write_bytes(saved(EXAMPLE))
            wrong = np.memmap(path, dtype=UINT16, mode="r")
            extra = len(wrong) - len(data.open_tokens(path))
        self.says(f"it reads the {n(extra * UINT16.itemsize)} bytes of the header as {n(extra)} tokens")

    def batches(self) -> None:
        """Where windows start."""
        cases = [(np.random.default_rng(0).permutation(tokens), length) for tokens in (2, 5, 9) for length in range(1, tokens)]
        self.formula(
            r"s + t \le n - 1 \quad \text{so} \quad 0 \le s \le n - t - 1",
            [starts(tokens, t) == [s for s in range(len(tokens)) if s + t <= len(tokens) - 1] for tokens, t in cases]
            + [starts(tokens, t) == list(range(len(tokens) - t - 1 + 1)) for tokens, t in cases],
        )

    def example(self) -> None:
        """The four tokens, and a step's worth of data."""
        length = 2
        found = starts(EXAMPLE, length)
        last = found[-1]
        x, y = data.get_batch(EXAMPLE[last:], 1, length, "cpu")
        self.says(
            f"Tokens {listed(EXAMPLE)} with context length {n(length)}: n − t = {n(len(EXAMPLE))} − {n(length)} = {n(len(found))}, "
            f"so the starts are {' and '.join(map(n, found))}. Start {n(last)} gives x = {listed(x[0])} and y = {listed(y[0])}."
        )
        windows, context, parameters = 512, 1024, 1.27e9
        tokens = windows * context
        flops = fc.training_flops(int(parameters), tokens)
        seconds = flops / (8 * 0.5 * ra.H100_SXM.peak_flops[torch.bfloat16])
        read, moved = tokens * UINT16.itemsize, 2 * tokens * INT64.itemsize
        self.says(
            f"A batch of {n(windows)} windows of {n(context, ',')} tokens has {n(tokens, ',')} tokens, {n(read / 1e6, '.2f')} MB in the file. "
            f"A step on them with {short(parameters)} parameters takes {n(flops // (int(parameters) * tokens))}ND = {short(flops, 2, 15)} FLOPs, on {n(8)} H100 at an "
            f"MFU of {n(0.5)} ([§{section('napkin_math')}]({n('05')}_resource_accounting.md)) {n(seconds, '.2f')} s. "
            f"Any disk gives {n(read / 1e6, '.2f')} MB a second. But they lie in {n(windows)} places: no matter for a solid-state disk, which finds thousands of places a second, "
            f"and too many for a disk that turns, which finds about a hundred. On the GPU x and y take {n(moved / 1e6, '.2f')} MB"
        )
        self.says(f"`y = x + {n(1)}`, which is right for")
