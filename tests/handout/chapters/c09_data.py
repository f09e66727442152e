"""Chapter 9: tokens in a file, and batches of them."""

import io
import math

import numpy as np
import torch

from grader.solutions.reference import data
from handout.site import wren
from tests.handout.page_figures import Figures, n

UINT16, INT32, INT64 = (np.dtype(name) for name in ("uint16", "int32", "int64"))
CORPUS = 300 * 10**9
# Bytes per memory page on the most common operating systems and processors.
PAGE = 4096
EXAMPLE = np.array([7, 3, 9, 4], dtype=UINT16)


def saved(tokens):
    file = io.BytesIO()
    np.save(file, tokens)
    return file.getvalue()


def starts(tokens, length):
    """Every start that the reference can sample, found by sampling often enough."""
    places = {token: place for place, token in enumerate(tokens.tolist())}
    often = 32 * (len(tokens) - length + 1)
    x, _ = data.get_batch(tokens, often, length, "cpu", torch.Generator().manual_seed(0))
    return sorted({places[token] for token in x[:, 0].tolist()})


class Chapter(Figures):
    def files(self) -> None:
        llama = 14 * 10**11  # Touvron et al. (2023), LLaMA
        self.gives(corpus=CORPUS, first_llama=llama, first_llama_tb=llama * UINT16.itemsize / 1e12)
        for dtype in (UINT16, INT32, INT64):
            largest = np.iinfo(dtype).max
            self.gives(dtype_row=(largest, dtype.itemsize, CORPUS * dtype.itemsize // 10**9))
        gpt2 = 50257
        self.gives(uint16_ids=np.iinfo(UINT16).max + 1, gpt2_vocabulary=gpt2, page=PAGE)
        header = len(saved(EXAMPLE)) - EXAMPLE.nbytes
        self.gives(header=header, header_tokens=header // UINT16.itemsize)
        self.gives(magic=n(saved(EXAMPLE)[0], "x"))
        # Measured once, on Linux with two cores: by how many MB the resident memory of a process
        # grew while it read 100 batches of 64 windows of 1,024 tokens from a file of 400 MB, with
        # one map for all batches and with a new map for each batch.
        self.gives(leak_windows=64, leak_read_mb=100 * 64 * 1024 * UINT16.itemsize / 1e6)
        self.gives(leak_grown_mb=275, leak_anew_mb=12)

    def batches(self) -> None:
        count = 9
        holds = []
        for t in range(1, count):
            found = starts(np.arange(count), t)
            holds.append(found == [s for s in range(count) if s + t <= count - 1])
            holds.append(found[-1] == count - t - 1)
        rule = r"s + t \le n - 1 \quad \text{so} \quad 0 \le s \le n - t - 1"
        self.formula("start_range", rule, holds)

    def example(self) -> None:
        length = 2
        found = starts(EXAMPLE, length)
        last = found[-1]
        x, y = data.get_batch(EXAMPLE[last:], 1, length, "cpu")
        self.gives(tokens=EXAMPLE, length=length, start_count=(len(EXAMPLE), length, len(found)))
        self.gives(starts=found, last_start=last, x=x[0], y=y[0])

    def model(self) -> None:
        tokens = wren.STEP_TOKENS
        read, moved = tokens * UINT16.itemsize, 2 * tokens * INT64.itemsize
        self.gives(wren_corpus_gb=wren.TOKENS * UINT16.itemsize / 1e9, windows=wren.SEQUENCES)
        self.gives(context=wren.WREN.context_length, batch_tokens=tokens, read_mb=read / 1e6)
        self.gives(step_seconds=wren.STEP_SECONDS, moved_mb=moved / 1e6)
        assert wren.DEVICES == 8, "an eighth of the batch on each GPU"
        missed = (1 - wren.WREN.context_length / wren.TOKENS) ** (wren.STEPS * wren.SEQUENCES)
        assert abs(missed - math.exp(-1)) < 1e-6
        self.gives(unseen=100 * missed, llama=3)

    def exercises(self) -> None:
        tokens = np.arange(1000, dtype=UINT16)
        assert starts(tokens, 999) == [0]
        count = len(starts(tokens, 100))
        self.gives(ex_tokens=1000, ex_context=100, ex_longest=999, ex_starts=(1000, 100, count))
        window = wren.WREN.context_length + 1
        touched = []
        for start in range(PAGE // UINT16.itemsize):
            first, last = (start * UINT16.itemsize, (start + window) * UINT16.itemsize - 1)
            touched.append(last // PAGE - first // PAGE + 1)
        self.gives(ex_window_bytes=window * UINT16.itemsize, ex_pages=sum(touched) / len(touched))
        self.gives(ex_inverse_e=math.exp(-1), ex_twice=math.exp(-2))
        # Lee et al. (2022), abstract.
        self.gives(dedup_words=61, dedup_times=60000, dedup_share=4)
