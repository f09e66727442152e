"""Read hostile frames, and look at what arrives in each way in which a grade does.

Each frame is made from a number, and looks like one of a hostile student. Some are valid frames,
some are the refused ones of test_protocol, both with a few changes, whose numbers are near the
limits of what is 8, 31, 32, 53, 63 or 64 bits wide, and beyond.

The body of each frame lies against memory that no process may read: one byte further, before or
behind it, is a SIGSEGV. Each tensor and array is also compared with its place in numbers that torch
has not computed.
"""

import ctypes
import json
import math
import mmap
import random
import resource
import typing
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import kit
from grader.base.errors import StudentFault
from grader.course.courses import Limits
from grader.grading.blame import difference
from grader.grading.same_answers import elements, has_numbers, same
from grader.grading.verdict import verdict_on
from grader.sandbox import reply_checks
from grader.wire import protocol, torch_codec
from kit import expect
from tests.grader.wire.test_protocol import HOSTILE

pytestmark = pytest.mark.slow

FEW, MANY, PIECES = 300, 12_500, 8
# What reading and looking may take, in addition to what this process has. An answer may show
# 16 MiB, and a comparison makes a few copies in float64.
MOST_MEMORY = 1 << 30
LIMITS = Limits(**kit.USUAL_LIMITS)
KINDS: list[Any] = [
    torch.Tensor, np.ndarray, int, float, str, dict, list, tuple, type(None), typing.Any,
]  # fmt: skip
PROMISES = [
    reply_checks.check_of(kind)
    for kind in (
        *KINDS, list[torch.Tensor], dict[str, torch.Tensor], tuple[torch.Tensor, int],
        list[list[float]], int | None,
    )
]  # fmt: skip
PLAIN: list[Any] = [None, 3, 0.5, "a", torch.float32, [1, (2.0, "a")], {"a": 1, "id": [None]}]
MOST_BODY = 2**22
EDGES = [2**p + d for p in (8, 31, 32, 53, 59, 61, 62, 63, 64, 70) for d in (-1, 0, 1, 4)]
ODD: list[Any] = [
    None, True, False, 0.0, 1.0, -1.0, 1e308, float("nan"), float("inf"), 10**4299, -1, "", "id",
    "\ud800", "\x1b[31m", "‮", "x" * 300, "float32", "<f4", "|b1", ">f16", "|O", [], {},
]  # fmt: skip
ARRAY_DTYPES = ["<f4", "<f8", ">f2", "|b1", "<i8", "|u1", "<u2", "<c8", "<c16", "<f16"]
DTYPES = list(torch_codec.DTYPES.values())
SMALL_SHAPES = [[], [0], [1], [4], [2, 3], [3, 0, 2], [1, 1, 5], [2] * 6]
WORDS = ["id", "value", "raised", "policy", "unsendable", "text", "kinds", "where", "a", "\ud800"]


# --- frames ---------------------------------------------------------------------------------------


def frame(seed: int, number: int) -> tuple[bytes, bytes]:
    """The head and the body of the frame with this number, which are the same in each run."""
    rng = random.Random(seed * 2**32 + number)
    tree, body = _valid(rng) if rng.random() < 0.8 else (_tree(rng), rng.randbytes(16))
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        tree = _changed(rng, tree)
    if rng.random() < 0.3:
        name = rng.choice(WORDS[1:5])
        tree = {"dict": {"id": rng.choice([1, 1, True, 2]), name: tree}}
    return _text(rng, tree), body


def _text(rng: random.Random, tree: Any) -> bytes:
    """The tree as JSON; seldom with a key twice, or with changed or missing bytes."""
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.05:
        kind = rng.choice(list(protocol.READERS))
        text = text.replace(f'{{"{kind}":', f'{{"{kind}": [], "{kind}":')
    head = bytearray(text.encode("utf-8", "surrogatepass"))
    if rng.random() < 0.05:
        at = rng.randrange(len(head) + 1)
        head[at : at + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
    return bytes(head[: rng.randrange(len(head) + 1)] if rng.random() < 0.02 else head)


def _valid(rng: random.Random) -> tuple[Any, bytes]:
    """The tree and the body of a frame as our own encoder makes them."""
    value = _value(rng, 0)
    try:
        _, head, *body = protocol.encode(value, views=rng.random() < 0.7)
    except protocol.ProtocolError:  # it shows too much
        return None, b""
    return json.loads(str(head, "utf-8", "surrogatepass")), b"".join(map(bytes, body))


def _value(rng: random.Random, depth: int) -> Any:
    if depth < 3 and rng.random() < 0.3:
        parts = [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
        keys = [rng.choice([*WORDS, 1, None, (1, "a")]) for _ in parts]
        return rng.choice([parts, tuple(parts), dict(zip(keys, parts, strict=True))])
    return rng.choice([_tensor, _tensor, _view, _array, _atom])(rng)


def _tensor(rng: random.Random) -> torch.Tensor:
    shape, dtype = rng.choice(SMALL_SHAPES), rng.choice(DTYPES)
    data = torch.frombuffer(bytearray(rng.randbytes(1024)), dtype=torch.uint8)
    if dtype is torch.bool:
        data = data % 2
    return data.view(dtype)[: math.prod(shape)].reshape(shape)


def _view(rng: random.Random) -> torch.Tensor:
    base = torch.arange(24.0)
    large = torch.empty(rng.choice([2, 10**6]), 10**6, device="meta")
    # torch prints all entries of a tensor whose dimensions are 6 or less.
    shown = rng.choice([[24]] * 20 + [[2**10], [2**18], [6] * 7])
    table = base.view(4, 6)
    return rng.choice([table.T, base[5:17:3], table[4:, 3:], base[:1].expand(shown), large])


def _array(rng: random.Random) -> Any:
    dtype = np.dtype(rng.choice(ARRAY_DTYPES))
    return np.frombuffer(rng.randbytes(dtype.itemsize * rng.randrange(9)), dtype)


def _atom(rng: random.Random) -> Any:
    return rng.choice([None, True, 3, 0.5, "a", b"abc", torch.bfloat16, 10**30, float("nan")])


def _changed(rng: random.Random, tree: Any) -> Any:
    """The same tree with another value, one part less, or one part more, in a random place."""
    tree = json.loads(json.dumps(tree))  # a copy, in which no part is shared
    parts = [part for part in _containers(tree) if part]
    if not parts:
        return rng.choice(ODD)
    part = rng.choice(parts)
    place = rng.choice(list(part)) if type(part) is dict else rng.randrange(len(part))
    doing = rng.random()
    if doing < 0.1:
        del part[place]
    elif doing < 0.2 and type(part) is list:
        part.insert(place, rng.choice([part[place], _number(rng)]))
    elif doing < 0.3 and type(part) is dict:
        part[rng.choice([*protocol.READERS, *WORDS])] = part.pop(place)
    elif doing < 0.4:
        part[place] = _tree(rng)
    else:
        part[place] = _number(rng)
    return tree


def _containers(tree: Any) -> list[Any]:
    if type(tree) not in (list, dict):
        return []
    inside = tree.values() if type(tree) is dict else tree
    return [tree, *(one for part in inside for one in _containers(part))]


def _number(rng: random.Random) -> Any:
    """A number for a place in a small body, a dimension, a stride or a dtype."""
    usual = [0, 0, 1, 1, 2, 3, 4, 6, 16, 32, 48, 64, rng.randrange(-2, 40)]
    return rng.choice(rng.choices([usual, EDGES, [-(2**63), *ODD]], [7, 2, 1])[0])


def _tree(rng: random.Random, depth: int = 0) -> Any:
    """A tree that is refused, alone or among others; it is made for a body of 16 bytes."""
    if depth < 3 and rng.random() < 0.3:
        parts = [_tree(rng, depth + 1) for _ in range(rng.randrange(1, 4))]
        return rng.choice([{"list": parts}, {"dict": dict(zip(WORDS, parts, strict=False))}])
    return rng.choice(list(HOSTILE.values()))


# --- their memory ---------------------------------------------------------------------------------


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
    """Check that all bytes of a tensor or an array are in the body, from its sizes and strides."""
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
    reply_checks.foreign(value)
    reply_checks.is_used(value, 1)
    for reply in (value, {"id": 1, "value": value}):
        with suppress(StudentFault):
            reply_checks.value_of(reply, 1, LIMITS, None)
    seen.end(StudentFault, lambda: reply_checks.check(_probe, value))
    for wanted in KINDS[:-1]:
        seen.end(expect.Mismatch, partial(expect.kind, value, wanted, of="f"))
    for expected in PLAIN:
        seen.end(expect.Mismatch, partial(expect.value, value, expected, of="f"))
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
    """Compare a value as the tests do: with tensors, with arrays, and with a value like itself."""
    for wanted in (expected, torch.ones(2, 3), torch.zeros(4, dtype=torch.int64)):
        if isinstance(wanted, torch.Tensor):
            for options in ({}, {"atol": 1e-6, "rtol": 1e-5}):
                check = partial(expect.tensor, value, wanted, of="f", **options)
                seen.end(expect.Mismatch, check)
    for wanted in (expected, np.ones(3)):
        if isinstance(wanted, np.ndarray):
            seen.end(expect.Mismatch, partial(expect.array, value, wanted, of="f", atol=1e-6))


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


# --- the attack -----------------------------------------------------------------------------------


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let this process take little more memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as f:
        size = int(f.read().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + MOST_MEMORY, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, FEW), *(pytest.param(s, MANY, marks=pytest.mark.proof) for s in range(1, 1 + PIECES))],
)
@pytest.mark.usefixtures("little_memory")
def test_no_frame_leads_outside_its_bytes_or_ends_a_look(seed: int, count: int) -> None:
    """Each frame is read or refused, and each look at what arrives ends as it says."""
    memory, seen, counts = Memory(MOST_BODY), Looks(), Counter[str]()
    last: Any = torch.ones(2, 3)
    for number in range(count):
        head, content = frame(seed, number)
        body = memory.holding(content, at_the_end=number % 2 == 0)
        try:
            value = protocol.decode(head, body, protocol.MAX_ANSWER_BYTES)
        except protocol.ProtocolError:
            counts["refused"] += 1
            continue
        try:
            for part in parts(value):
                if isinstance(part, (torch.Tensor, np.ndarray)):
                    counts[type(part).__name__] += 1
                    check_place(part, body)
            look(value, last, seen)
        except BaseException as e:
            e.add_note(f"frame({seed}, {number}): {head!r}")
            raise
        last = value if number % 3 else torch.ones(2, 3)
        if last is value and number % 2 == 0 == number % 5:
            last = [value, value]
    # The frames are such that all of it happens.
    read = count - counts["refused"]
    assert read > count / 4
    assert counts["Tensor"] > count / 10
    assert counts["ndarray"] > count / 40
    assert seen.count > 5 * read
    assert len(seen.messages) > 100
