"""Random frames that look like those of a hostile student, each made from a number.

Some are valid frames, some are the refused ones of test_protocol, both with a few changes, whose
numbers are near the limits of what is 8, 31, 32, 53, 63 or 64 bits wide, and beyond.
"""

import json
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from grader.wire import protocol, tensors
from tests.grader.wire.test_protocol import HOSTILE

MOST_BODY = 2**21
EDGES = [2**p + d for p in (8, 31, 32, 53, 59, 61, 62, 63, 64, 70) for d in (-1, 0, 1, 4)]
ODD: list[Any] = [
    None, True, False, 0.0, 1.0, -1.0, 1e308, float("nan"), float("inf"), 10**4299, -1, "", "id",
    "\ud800", "\x1b[31m", "‮", "x" * 300, "float32", "<f4", "|b1", ">f16", "|O", [], {},
]  # fmt: skip
ARRAY_DTYPES = ["<f4", "<f8", ">f2", "|b1", "<i8", "|u1", "<u2", "<c8", "<c16", "<f16"]
DTYPES = list(tensors.DTYPES.values())
SMALL_SHAPES = [[], [0], [1], [4], [2, 3], [3, 0, 2], [1, 1, 5], [2] * 6]
WORDS = ["id", "value", "raised", "policy", "unsendable", "text", "kinds", "where", "a", "\ud800"]


@dataclass(frozen=True)
class Frame:
    """The head and the body of a frame."""

    head: bytes
    body: bytes


def frame(seed: int, number: int) -> Frame:
    """The frame with this number; the same arguments give the same frame."""
    rng = random.Random(seed * 2**32 + number)
    tree, body = _valid(rng) if rng.random() < 0.8 else (_tree(rng), rng.randbytes(16))
    for _ in range(rng.choice([0, 0, 1, 1, 2, 3])):
        tree = _changed(rng, tree)
    if rng.random() < 0.3:
        name = rng.choice(WORDS[1:5])
        tree = {"dict": {"id": rng.choice([1, 1, True, 2]), name: tree}}
    return Frame(_text(rng, tree), body)


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


# --- valid frames ---------------------------------------------------------------------------------


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
    count = 1
    for n in shape:
        count *= n
    return data.view(dtype)[:count].reshape(shape)


def _view(rng: random.Random) -> torch.Tensor:
    base = torch.arange(24.0)
    large = torch.empty(rng.choice([2, 10**6]), 10**6, device="meta")
    # torch prints all entries of a tensor whose dimensions are 6 or less.
    shown = rng.choice([[24]] * 20 + [[2**10], [2**18], [6] * 7])
    return rng.choice(
        [base.view(4, 6).T, base[5:17:3], base.view(4, 6)[4:, 3:], base[:1].expand(shown), large]
    )


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


# --- hostile trees --------------------------------------------------------------------------------


def _number(rng: random.Random) -> Any:
    """A number for a place in a small body, a dimension, a stride or a dtype."""
    usual = [0, 0, 1, 1, 2, 3, 4, 6, 16, 32, 48, 64, rng.randrange(-2, 40)]
    return rng.choice(rng.choices([usual, EDGES, [-(2**63), *ODD]], [7, 2, 1])[0])


def _tree(rng: random.Random, depth: int = 0) -> Any:
    """A tree that is refused, alone or among others; it is made for a body of 16 bytes."""
    if depth < 3 and rng.random() < 0.3:
        parts = [_tree(rng, depth + 1) for _ in range(rng.randrange(1, 4))]
        return rng.choice([{"list": parts}, {"dict": dict(zip(WORDS, parts, strict=False))}])
    return rng.choice(list(HOSTILE.values())) if rng.random() < 0.95 else _deep(rng)


def _deep(rng: random.Random) -> Any:
    tree: Any = 1
    for _ in range(rng.choice([20, 24, 25, 60])):
        tree = {"list": [tree]}
    return tree
