"""Read hostile frames, and look at what arrives in each way in which a grade does.

    python -m tests.grader.wire.attack_codec SEED FIRST COUNT REACHED

The body of each frame lies against memory that no process may read: one byte further, before or
behind it, is a SIGSEGV. Each tensor and array is also compared with its place in numbers that torch
has not computed. The program prints what it counted as JSON. At the first thing that must
not happen, it ends with a traceback; the file REACHED, of 8 bytes, has the number of the frame.
"""

import ctypes
import faulthandler
import json
import math
import mmap
import resource
import sys
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from grader.base.errors import StudentFault
from grader.course.courses import Limits
from grader.grading.blame import difference
from grader.grading.same_answers import elements, has_numbers, same
from grader.grading.verdict import verdict_on
from grader.sandbox import replies
from grader.wire import protocol
from kit import expect
from tests.grader.wire.hostile_frames import MOST_BODY, frame

# What reading and looking may take, in addition to the imported libraries. An answer may show
# 16 MiB, and a comparison makes a few copies in float64.
MOST_MEMORY = 1 << 30
LIMITS = Limits(
    wall_seconds=10, cpu_seconds=10, memory_bytes=2**29, device_memory_bytes=2**30, processes=8,
    file_bytes=2**20, output_bytes=2**20, submission_seconds=300.0,
)  # fmt: skip
KINDS: list[Any] = [
    torch.Tensor, np.ndarray, int, float, str, dict, list, tuple, type(None), typing.Any,
]  # fmt: skip
PROMISES = [
    replies.check_of(kind)
    for kind in (
        *KINDS, list[torch.Tensor], dict[str, torch.Tensor], tuple[torch.Tensor, int],
        list[list[float]], int | None,
    )
]  # fmt: skip
PLAIN: list[Any] = [None, 3, 0.5, "a", torch.float32, [1, (2.0, "a")], {"a": 1, "id": [None]}]


class Memory:
    """Pages between two that nobody may read."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        self._whole = mmap.mmap(-1, size + 2 * page)
        whole = ctypes.addressof(ctypes.c_char.from_buffer(self._whole))
        self.first, self.end = whole + page, whole + page + size
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (whole, self.end):
            assert 0 == libc.mprotect(ctypes.c_void_p(guard), page, 0)

    def holding(self, data: bytes, *, at_the_end: bool) -> memoryview:
        """These bytes at one end of the pages, aligned as the body of a frame is."""
        size = len(data)
        start = self.end - size - -size % protocol.ALIGNMENT if at_the_end else self.first
        body = memoryview((ctypes.c_char * size).from_address(start)).cast("B")
        body[:] = data
        return body


# --- what must hold of each value -----------------------------------------------------------------


def parts(value: Any) -> Iterator[Any]:
    """A value and everything inside it."""
    yield value
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from parts(part)


def check_place(x: Any, body: memoryview) -> None:
    """Check that all bytes of a tensor or an array are in the body, and that its numbers are sane.

    Everything is computed here, from its sizes and strides.
    """
    is_array = isinstance(x, np.ndarray)
    width = x.itemsize if is_array else x.element_size()
    steps = list(x.strides) if is_array else [width * step for step in x.stride()]
    shape, filled = list(x.shape), math.prod(filter(None, x.shape))
    assert 0 <= filled * width < 2**63
    assert all(0 <= (n or 1) * step < 2**63 for n, step in zip(shape, steps, strict=True))
    if is_array:
        start = x.__array_interface__["data"][0]
    else:
        assert x.numel() == (0 if 0 in shape else filled)
        assert 0 <= x.storage_offset() * width < 2**63
        if x.device.type == "meta":
            return
        storage = x.untyped_storage()
        if storage.nbytes():
            assert_inside(storage.data_ptr(), storage.nbytes(), body)
        start = storage.data_ptr() + x.storage_offset() * width
        assert 0 in shape or start == x.data_ptr()
    if 0 not in shape:
        reach = sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) + width
        assert_inside(start, reach, body)
        assert start % min(width, protocol.ALIGNMENT) == 0


def assert_inside(start: int, size: int, body: memoryview) -> None:
    first = ctypes.addressof(ctypes.c_char.from_buffer(body)) if len(body) else 0
    assert first <= start, (start, first)
    assert start + size <= first + len(body), (start, size, first, len(body))


# --- the looks ------------------------------------------------------------------------------------


def look(value: Any, other: Any, seen: "Looks") -> None:
    """Do with an answer everything that a grade does with one; `other` is the reference's."""
    for fits in PROMISES:
        fits(value)
    replies.foreign(value)
    replies.is_used(value, 1)
    for reply in (value, {"id": 1, "value": value}):
        with suppress(StudentFault):
            replies.value_of(reply, 1, LIMITS, None)
    seen.end(StudentFault, lambda: replies.check(_probe, value))
    for wanted in KINDS[:-1]:
        seen.end(expect.Mismatch, lambda wanted=wanted: expect.kind(value, wanted, of="f"))
    for expected in PLAIN:
        seen.end(expect.Mismatch, lambda e=expected: expect.value(value, e, of="f"))
    for expected in (other, value):
        compare(value, expected, seen)
        difference(value, expected)
        same(value, expected)
    seen.end(expect.Mismatch, lambda: expect.number(value, 0.5, of="f", tolerance=1e-6))
    seen.end(expect.Mismatch, lambda: expect.lines(value, ["a", "b"], of="f"))
    expect.hint_for(value, [(0.5, "half?"), ([1, 2], "a list?"), (torch.ones(2), "ones?")])
    assert len(expect.short(value)) <= 200
    assert len(expect.describe(value)) < 10_000
    assert elements(value) >= 0
    has_numbers(value)


def _probe(student: Any) -> list[torch.Tensor]:
    return []


def compare(value: Any, expected: Any, seen: "Looks") -> None:
    """Compare it as the tests do, with a tensor, an array and with what it is like itself."""
    for wanted in (expected, torch.ones(2, 3), torch.zeros(4, dtype=torch.int64)):
        if isinstance(wanted, torch.Tensor):
            for options in ({}, {"atol": 1e-6, "rtol": 1e-5}):
                seen.end(
                    expect.Mismatch,
                    lambda w=wanted, o=options: expect.tensor(value, w, of="f", **o),
                )
    for wanted in (expected, np.ones(3)):
        if isinstance(wanted, np.ndarray):
            seen.end(expect.Mismatch, lambda w=wanted: expect.array(value, w, of="f", atol=1e-6))


class Looks:
    """Counts looks, and the different messages that they end with."""

    def __init__(self) -> None:
        self.count = 0
        self.messages: set[str] = set()

    def end(self, allowed: type[Exception], doing: Callable[[], object]) -> None:
        """Look; the look may end with this exception."""
        self.count += 1
        try:
            doing()
        except allowed as e:
            self.messages.add(verdict_on(e, test="t", rule="the rule", asked="f").what)
            expect.render(e, problem="p", section="1") if type(e) is expect.Mismatch else None


# --- frames ---------------------------------------------------------------------------------------


def attack(seed: int, numbers: range, progress: mmap.mmap) -> dict[str, int]:
    """Read these frames; return what was counted."""
    memory, seen, counts = Memory(MOST_BODY), Looks(), Counter[str]()
    last: Any = torch.ones(2, 3)
    for number in numbers:
        progress[:8] = number.to_bytes(8)
        one = frame(seed, number)
        body = memory.holding(one.body, at_the_end=number % 2 == 0)
        try:
            value = protocol.decode(one.head, body, protocol.MAX_ANSWER_BYTES)
        except protocol.ProtocolError:
            counts["refused"] += 1
            continue
        counts["read"] += 1
        for part in parts(value):
            if isinstance(part, (torch.Tensor, np.ndarray)):
                counts[type(part).__name__] += 1
                check_place(part, body)
        look(value, last, seen)
        last = value if number % 3 else torch.ones(2, 3)
        if last is value and number % 2 == 0 == number % 5:
            last = [value, value]
    return {**counts, "looks": seen.count, "messages": len(seen.messages)}


if __name__ == "__main__":
    faulthandler.enable()
    protocol.learn()
    torch.set_num_threads(1)
    seed, first, count = map(int, sys.argv[1:4])
    with open("/proc/self/statm") as f:
        size = int(f.read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + MOST_MEMORY,) * 2)
    with open(sys.argv[4], "r+b") as file, mmap.mmap(file.fileno(), 8) as progress:
        print(json.dumps(attack(seed, range(first, first + count), progress)))
