"""Chapters 0 to 3: a layer, windows on a storage, number formats, heads."""

from itertools import pairwise, product

import torch
from einops import rearrange

from grader.solutions.reference import precision
from grader.solutions.reference import tensor_memory as memory
from handout.site import wren
from handout.site.calculator_formulas import FORMATS, name_of
from handout.site.svg import WIDTH, Drawing, bottom_axis, logarithmic, powers

CELL = 34


def layer() -> Drawing:
    """A layer of Wren from top to bottom: its matrices, and what it adds to the stream."""
    config = wren.WREN
    d, wide = f"{config.d_model:,}", f"{config.d_ff:,}"
    heads = f"{config.num_heads} heads of {wren.HEAD_WIDTH}"
    # What stands side by side in a row, with colours: the same matrix sizes have the same colour.
    rows = [
        [("norm", "s6")],
        [(name, "s1") for name in ("queries", "keys", "values")],
        [(f"scores, causal mask, softmax, values: {heads}", "s3")],
        [(f"output: {d} × {d}", "s1")],
        [("norm", "s6")],
        [(f"{d} × {wide}", "s2")],
        [("GELU", "s6")],
        [(f"{wide} × {d}", "s2")],
    ]
    said = "From top to bottom, attention: " + "; ".join(
        " and ".join(w for w, _ in r) for r in rows
    )
    picture = Drawing(436, "A layer of a transformer", said)
    picture.text(6, 16, f"residual stream: {d} features per token", style="heading")
    picture.line(16, 24, 16, 430)
    for number, row in enumerate(rows):
        y, width = 36 + 48 * number, (WIDTH - 46) / len(row)
        for place, (words, style) in enumerate(row):
            picture.box(40 + place * width, y, width - 6, 32, words, style)
        if number in (0, 4):
            picture.path([(16, y + 16), (40, y + 16)], "arrow")
        else:
            picture.down(40 + (WIDTH - 52) / 2, y - 2)
        if number == 1:
            picture.text(WIDTH - 10, y - 5, f"each {d} × {d}", anchor="end")
        if number in (3, 7):
            picture.path([(40, y + 16), (18, y + 16)], "arrow")
            picture.path([(26, y + 10), (18, y + 16), (26, y + 22)], "arrow")
            picture.text(4, y + 21, "+", style="heading")
    return picture


def strides() -> Drawing:
    """One storage, three windows on it."""
    storage = torch.arange(12)
    x = storage.view(3, 4)
    windows = [("x, shape (3, 4)", x), ("x.T", x.T), ("x[:, 1]", x[:, 1])]
    said = (
        "A storage of 12 elements; x of shape (3, 4) with strides (4, 1), "
        "its transpose with strides (1, 4), and its column 1 with stride 4 and offset 1 "
        "show elements of the same storage."
    )
    picture = Drawing(268, "Three tensors on one storage", said)
    picture.text(10, 18, "storage", style="heading")
    for i in range(12):
        _cell(picture, 10 + i * CELL, 26, i, f"s{i // 4 + 1}")
    for left, (name, window) in zip((10, 176, 342), windows, strict=True):
        picture.text(left, 92, name, style="heading")
        steps = ", ".join(map(str, window.stride()))
        picture.text(left, 110, f"stride ({steps}), offset {window.storage_offset()}")
        for position in product(*map(range, window.shape)):
            element = memory.element_offset(window, position)
            row, column = position if window.dim() == 2 else (position[0], 0)
            _cell(picture, left + column * CELL, 120 + row * CELL, element, f"s{element // 4 + 1}")
    return picture


def _cell(picture: Drawing, x: float, y: float, number: int, style: str) -> None:
    picture.box(x, y, CELL - 2, CELL - 2, str(number), style)


def number_formats() -> Drawing:
    """Bit fields to scale, and the range of each format on a log scale."""
    formats = [getattr(torch, name) for name in FORMATS]  # float64 first
    said = "; ".join(_described(dtype) for dtype in formats)
    picture = Drawing(640, "Six number formats: their bits and their range", said)
    picture.text(10, 18, "bits: sign, exponent, mantissa", style="heading")
    for row, dtype in enumerate(formats):
        spec, y, bit = precision.float_spec(dtype), 44 + row * 42, (WIDTH - 20) / 64
        picture.text(
            10, y - 4, f"{name_of(dtype)}: 1 + {spec.exponent_bits} + {spec.mantissa_bits}"
        )
        x = 10.0
        for bits, style in ((1, "s3"), (spec.exponent_bits, "s1"), (spec.mantissa_bits, "s2")):
            picture.rect(x, y, bits * bit - 1, 18, style)
            x += bits * bit
    picture.text(10, 316, "range without float64 (which reaches 1.8e308)", style="heading")
    scale = logarithmic(1e-46, 1e40, 24, WIDTH - 30)
    label = "pale: subnormal numbers, with fewer bits"
    bottom_axis(picture, scale, 590, powers(range(-40, 41, 20)), label, 326)
    for row, dtype in enumerate(formats[1:]):
        spec, y = precision.float_spec(dtype), 346 + row * 48
        picture.text(24, y - 4, name_of(dtype))
        ends = [scale(x) for x in (spec.smallest_subnormal, spec.smallest_normal, spec.max)]
        for (left, right), style in zip(pairwise(ends), ("s2 pale", "s1"), strict=True):
            picture.rect(left, y, right - left, 18, style)
    return picture


def _described(dtype: torch.dtype) -> str:
    spec = precision.float_spec(dtype)
    bits = f"{spec.exponent_bits} exponent and {spec.mantissa_bits} mantissa bits"
    return (
        f"{name_of(dtype)} has {bits} "
        f"and reaches from {spec.smallest_subnormal:.2e} to {spec.max:.2e}"
    )


def heads() -> Drawing:
    """Six features of one position, split into two heads by both patterns."""
    features, count = torch.arange(6), 2
    panels = {
        pattern: rearrange(features, f"{pattern} -> heads d", heads=count)
        for pattern in ("(heads d)", "(d heads)")
    }
    said = "; ".join(
        f"{pattern} gives head 0 the features {split[0].tolist()} "
        f"and head 1 the features {split[1].tolist()}"
        for pattern, split in panels.items()
    )
    picture = Drawing(196, "One vector of six features, split into two heads in two ways", said)
    for left, (pattern, split) in zip((10, 250), panels.items(), strict=True):
        picture.text(left, 18, pattern, style="heading")
        head_of = {feature: head for head, row in enumerate(split.tolist()) for feature in row}
        for feature in features.tolist():
            _cell(picture, left + feature * CELL, 28, feature, f"s{head_of[feature] + 1}")
        for head, row in enumerate(split.tolist()):
            picture.text(left, 112 + head * 44, f"head {head}")
            for i, feature in enumerate(row):
                _cell(picture, left + (i + 2) * CELL, 90 + head * 44, feature, f"s{head + 1}")
    return picture
