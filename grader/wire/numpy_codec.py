"""How NumPy's values cross between the grader and the sandbox; see protocol.py."""

import re
from typing import Any

import numpy as np

from grader.wire.protocol import (
    CONVERSIONS,
    READERS,
    WRITERS,
    Decoder,
    Encoder,
    Tree,
    elements,
    index,
)

ARRAY_DTYPE = re.compile(r"[<>|]?[biufc](1|2|4|8|16)")


def teach() -> None:
    """Teach the codec arrays and NumPy's scalars."""
    WRITERS.update(dict.fromkeys([np.ndarray, np.memmap], write_array))
    READERS["array"] = read_array
    CONVERSIONS.append((np.generic, _plain_number))
    CONVERSIONS.append((np.ndarray, lambda value: np.ndarray.view(value, np.ndarray)))


def write_array(encoder: Encoder, value: "np.ndarray[Any, Any]", depth: int) -> Tree:
    """The tree of an array."""
    if not ARRAY_DTYPE.fullmatch(value.dtype.str):
        return encoder.other(f"numpy array of {value.dtype}")
    contiguous = np.ascontiguousarray(value).reshape(value.shape)
    encoder.shown += value.nbytes
    start = encoder.blob(contiguous.reshape(-1).view(np.uint8).data)
    return {"array": [value.dtype.str, list(value.shape), start, value.nbytes]}


def read_array(decoder: Decoder, content: Tree, depth: int) -> "np.ndarray[Any, Any]":
    """The array of a tree."""
    name, shape, start, size = content
    if not ARRAY_DTYPE.fullmatch(name):
        raise ValueError("not a plain numpy dtype")
    dtype = np.dtype(name)
    if elements(shape) * dtype.itemsize != index(size):
        raise ValueError("not the size of its bytes")
    decoder.show(size)
    return np.frombuffer(decoder.blob(start, size), dtype=dtype).reshape(shape)


def _plain_number(value: "np.generic[Any]") -> object:
    number = np.generic.item(value)
    if isinstance(number, np.longdouble) and float(number) == number:
        return float(number)
    return number if type(number) in (bool, int, float) else value
