"""Draw what a public test expected and what came.

Only the student's own command draws: a picture shows expected values.
"""

import ast
import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, product, zip_longest
from typing import Any

from kit.expect import Mismatch
from kit.loaded_libraries import is_array, is_tensor

MOST, WIDEST = 64, 12  # entries of a picture, and of a row
Grid = list[list[str]]


def picture(error: Mismatch) -> str:
    """What was expected beside what came; "" if there is nothing to draw."""
    with suppress(Exception):  # of an answer of any kind
        expected: Any
        got: Any
        expected, got = error.pair or (None, None)
        layout = _layout(error)
        if layout and isinstance(got, (tuple, list)) and math.prod(layout[0]) <= MOST:
            shape, stride, new = layout
            right = [_offset(place, stride) for place in product(*map(range, shape))]
            came = [_offset(place, got) for place in product(*map(range, new))]
            return _beside("places in the storage", _grid(right, new), _grid(came, new))
        right, came = _drawn(expected), _drawn(got)
        if right and came and all(x == int(x) for x in right):
            return _beside("", _grid(right, expected.shape), _grid(came, got.shape))
        if "segments" in dict(error.values).get("inputs", "") and isinstance(expected, list):
            return f"  expected  {_runs(expected)}\n  got       {_runs(got)}"
    return ""


def _layout(error: Mismatch) -> tuple[Sequence[int], Sequence[int], Sequence[int]] | None:
    """Shape and strides, and the shape to view them in, of a test about strides."""
    if "strides" not in error.of:
        return None
    given = ast.literal_eval(f"({dict(error.values)['inputs']})")
    if isinstance(given[0], int):
        return given, [math.prod(given[i + 1 :]) for i in range(len(given))], given
    shape, stride, new = given
    return shape, stride, new


def _offset(place: Sequence[int], stride: Sequence[int]) -> int:
    return sum(index * step for index, step in zip(place, stride, strict=True))


def _drawn(x: Any) -> list[Any]:
    """The entries of a small tensor or array; empty if it is none."""
    has_shape = is_tensor(x) or is_array(x)
    is_drawn = has_shape and 0 < math.prod(x.shape) <= MOST and len(x.shape) > 0
    return x.reshape(-1).tolist() if is_drawn else []


def _grid(entries: Sequence[Any], shape: Sequence[int]) -> Grid:
    """Rows of the last dimension; an empty row ends each matrix."""
    if len(entries) > MOST:
        raise ValueError("too large to draw")
    texts = [f"{x:.4g}" if isinstance(x, float) else str(x) for x in entries]
    width, height = min((*shape[-1:], 1)[0], WIDEST), (*shape[-2:-1], 1)[0]
    rows = [texts[i : i + width] for i in range(0, len(texts), width)]
    gaps = [i for i in range(height, len(rows), height) if len(shape) > 2]
    for i in reversed(gaps):
        rows.insert(i, [])
    return rows


def _beside(title: str, expected: Grid, got: Grid) -> str:
    """Two grids; an entry of the second that differs has brackets. "" if no digit differs."""
    if expected == got:
        return ""
    marked = [
        [b if a == b else f"[{b}]" for a, b in zip_longest(x or [], y or []) if b is not None]
        for x, y in zip_longest(expected, got)
    ]
    left, right = (_aligned(grid) for grid in (expected, marked))
    wide = max(map(len, ["expected", *left])) + 4
    heads = [f"{'expected':<{wide}}got"]
    lines = [f"{a:<{wide}}{b}".rstrip() for a, b in zip_longest(left, right, fillvalue="")]
    return "\n".join(f"  {line}".rstrip() for line in [title, *heads, *lines])


def _aligned(grid: Grid) -> list[str]:
    wide = max(len(cell) for row in grid for cell in row)
    return [" ".join(f"{cell:>{wide}}" for cell in row) for row in grid]


def _runs(lengths: Sequence[int]) -> str:
    """Layers in brackets, one pair for each segment."""
    starts = [0, *accumulate(lengths)]
    if starts[-1] > MOST:
        raise ValueError("too long to draw")
    runs = (range(a, a + n) for a, n in zip(starts, lengths, strict=False))
    return "".join(f"[{' '.join(map(str, run))}]" for run in runs)
