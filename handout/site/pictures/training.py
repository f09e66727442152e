"""Chapters 6 to 12: what training computes, keeps, reads and writes."""

import math
from functools import partial
from itertools import pairwise

import torch

from grader.solutions.reference import activation_checkpointing, optimizers
from handout.site import wren
from handout.site.svg import (
    WIDTH,
    Drawing,
    Tick,
    bottom_axis,
    left_axis,
    linear,
    logarithmic,
    powers,
)


def gradients() -> Drawing:
    """The product of a linear layer and the two products of its backward pass, to scale."""
    sizes, unit = {"T": 5, "in": 3, "out": 4}, 15
    shapes = {"x": ("T", "in"), "W": ("out", "in"), "Wᵀ": ("in", "out"), "y": ("T", "out")}
    shapes |= {"G": ("T", "out"), "Gᵀ": ("out", "T"), "dx": ("T", "in"), "dW": ("out", "in")}
    styles = {"x": "s1", "W": "s2", "y": "s3", "G": "s3"}
    products = [("x", "Wᵀ", "y"), ("G", "W", "dx"), ("Gᵀ", "x", "dW")]
    said = "; ".join(
        f"{a}, {' by '.join(shapes[a])}, times {b}, {' by '.join(shapes[b])}, "
        f"is {c}, {' by '.join(shapes[c])}"
        for a, b, c in products
    )
    picture = Drawing(
        330, "A linear layer's product, and the two products of its backward pass", said
    )
    for row, (product, title) in enumerate(
        zip(products, ("forward", "backward, input", "backward, weight"), strict=True)
    ):
        middle, left = 60 + row * 108, 150
        picture.text(10, middle + 4, title, style="heading")
        for name, sign in zip(product, ("×", "=", ""), strict=True):
            rows, columns = (sizes[size] * unit for size in shapes[name])
            style = styles[name.strip("dᵀ")]
            picture.box(left, middle - rows / 2, columns, rows, name, style)
            below = left + columns / 2, middle + rows / 2 + 14
            picture.text(*below, " × ".join(shapes[name]), anchor="middle", style="tick")
            picture.text(left + 75 + 16, middle + 5, sign, anchor="middle")
            left += 108
    return picture


def signal() -> Drawing:
    """The size of a signal on its way through twenty layers, for three initial deviations."""
    width, depth = 1024, 20
    cases = [(0.05, "σ = 0.05", "s2"), (width**-0.5, "σ = 1/√in", "s1"), (0.02, "σ = 0.02", "s3")]
    unit = _sizes(width, depth)  # each layer is linear, so σ scales its signal
    sizes = {name: [size * sigma**n for n, size in enumerate(unit)] for sigma, name, _ in cases}
    said = "; ".join(
        f"with {name} it is {after[-1]:.1e} at the end" for name, after in sizes.items()
    )
    picture = Drawing(
        330, "Standard deviation of a signal after each of 20 layers of width 1,024", said
    )
    x, y = linear(0, depth, 62, WIDTH - 80), logarithmic(1e-5, 1e5, 270, 40)
    bottom_axis(picture, x, 270, range(0, depth + 1, 5), "layers", 40)
    left_axis(picture, y, 62, powers(range(-4, 5, 2)), "standard deviation", WIDTH - 80)
    for _, name, style in cases:
        points = [(x(layer), y(size)) for layer, size in enumerate(sizes[name])]
        picture.path(points, f"curve {style}")
        picture.text(points[-1][0] + 6, points[-1][1] + 4, name)
    return picture


def _sizes(width: int, depth: int) -> list[float]:
    """Measure a signal before and after each layer, with weights of standard deviation 1."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(32, width, generator=generator)
    sizes = [x.std().item()]
    for _ in range(depth):
        x = x @ torch.randn(width, width, generator=generator).T
        sizes.append(x.std().item())
    return sizes


BOWL_START, BOWL_STEPS = (-5.0, -2.0), 20


def bowl_value(x: float, y: float) -> float:
    """The height of the bowl of chapter 8."""
    return 0.1 * x**2 + 2 * y**2


def bowl_path(lr: float, momentum: float) -> list[tuple[float, float]]:
    """The points that SGD visits in the bowl: b ← μ b + g, p ← p − lr · b."""
    (x, y), (bx, by), points = BOWL_START, (0.0, 0.0), [BOWL_START]
    for _ in range(BOWL_STEPS):
        bx, by = momentum * bx + 0.2 * x, momentum * by + 4 * y
        x, y = x - lr * bx, y - lr * by
        points.append((x, y))
    return points


def bowl() -> Drawing:
    """The paths of SGD in a long, narrow bowl: two learning rates, and momentum."""
    cases = [(0.4, 0.0, "s1"), (0.6, 0.0, "s2"), (0.6, 0.5, "s3")]
    names = [f"lr = {lr}" + (f", μ = {mu}" if mu else ", no momentum") for lr, mu, _ in cases]
    paths = [bowl_path(lr, mu) for lr, mu, _ in cases]
    ends = [
        f"{name}: from ({path[0][0]:g}, {path[0][1]:g}) to ({path[-1][0]:.3f}, {path[-1][1]:.3f})"
        for name, path in zip(names, paths, strict=True)
    ]
    said = f"{BOWL_STEPS} steps each; " + "; ".join(ends)
    picture = Drawing(528, "Three paths of SGD in the bowl 0.1 x² + 2 y²", said)
    left, right, height = 10, WIDTH - 10, 136
    x = linear(-6, 1, left, right)
    for row, ((_, _, style), name, path) in enumerate(zip(cases, names, paths, strict=True)):
        top = 26 + row * (height + 30)
        y = linear(-3, 3, top + height, top)
        picture.text(left, top - 8, name, style="heading")
        for value in (0.25, 1, 2.5, 5, 10):
            for side in (1, -1):
                contour = [(px, side * py) for px, py in _contour(value, -6, 1)]
                picture.path([(x(px), y(py)) for px, py in contour], "grid")
        picture.line(x(0) - 5, y(0), x(0) + 5, y(0))
        picture.line(x(0), y(0) - 5, x(0), y(0) + 5)
        inside = [(x(px), y(py)) for px, py in _until_it_leaves(path, 3)]
        picture.path(inside, f"curve {style}")
        picture.dot(*inside[0], style)
        if len(inside) == len(path):
            picture.dot(*inside[-1], style)
        else:
            picture.text(inside[-1][0] + 8, y(-3) - 4, "and so on: y explodes", style="tick")
    picture.text(left, 520, "Lines of equal height; the cross is the lowest point.")
    return picture


def _contour(value: float, low: float, high: float) -> list[tuple[float, float]]:
    """The upper half of the bowl's line of this height, between two values of x."""
    along, across = math.sqrt(value / 0.1), math.sqrt(value / 2)
    first, last = math.acos(min(1, high / along)), math.acos(max(-1, low / along))
    turns = [first + (last - first) * step / 48 for step in range(49)]
    return [(along * math.cos(turn), across * math.sin(turn)) for turn in turns]


def _until_it_leaves(path: list[tuple[float, float]], highest: float) -> list[tuple[float, float]]:
    """The path up to the point where it first crosses y = ±highest."""
    for number, ((ax, ay), (bx, by)) in enumerate(pairwise(path), 1):
        if abs(by) > highest:
            edge = math.copysign(highest, by)
            return [*path[:number], (ax + (bx - ax) * (edge - ay) / (by - ay), edge)]
    return path


def learning_rate() -> Drawing:
    """Warm-up and cosine, as in the solved example."""
    top, low, warmup, end = 1.0, 0.1, 10, 30
    said = (
        "The rate rises in a straight line from 0 to 1 in 10 iterations, "
        "falls along half a cosine to 0.1 at iteration 30, and stays there."
    )
    picture = Drawing(320, "Learning rate: warm-up and cosine", said)
    x, y = linear(0, 40, 52, WIDTH - 30), linear(0, 1, 260, 40)
    bottom_axis(picture, x, 260, range(0, 41, 10), "iteration", 40)
    ticks: list[Tick] = [0, (0.1, "0.1"), (0.5, "0.5"), 1]
    left_axis(picture, y, 52, ticks, "learning rate", WIDTH - 30)
    rates = [optimizers.lr_cosine_schedule(it, top, low, warmup, end) for it in range(41)]
    picture.path([(x(it), y(rate)) for it, rate in enumerate(rates)], "curve s1")
    for it in range(0, end + 1, 5):
        picture.dot(x(it), y(rates[it]), "s2")
    return picture


def life_of_a_batch() -> Drawing:
    """Where the tokens of one batch of Wren are, from the file to the GPU."""
    tokens = wren.STEP_TOKENS
    places = [
        ("file, uint16", f"{2 * wren.TOKENS / 1e9:.1f} GB, all tokens", "s6"),
        ("windows, uint16", f"{2 * tokens / 1e6:.2f} MB are read", "s3"),
        ("x and y, int64", f"{16 * tokens / 1e6:.2f} MB", "s1"),
        ("pinned memory", f"{16 * tokens / 1e6:.2f} MB", "s4"),
        ("one of the GPUs", f"{16 * tokens / wren.DEVICES / 1e6:.2f} MB, its part", "s2"),
    ]
    steps = ["memmap: only the pages of the windows", "cast to int64, y shifted by one"]
    steps += ["copied", "copy queued"]
    said = "; ".join(f"{place}: {size}" for place, size, _ in places)
    picture = Drawing(330, "The life of a batch", said)
    for row, (place, size, style) in enumerate(places):
        y = 10 + row * 64
        picture.box(10, y, 170, 36, place, style)
        picture.text(192, y + 23, size)
        if row:
            picture.line(95, y - 28, 95, y - 2)
            picture.down(95, y - 2)
            picture.text(112, y - 10, steps[row - 1], style="tick")
    return picture


def rename() -> Drawing:
    """What a reader finds at each moment while a checkpoint is written in two ways."""
    half = ("half", 1.0, 4.0)
    renamed = {"checkpoint": [("old", 0, 4.5), ("new", 4.5, 6)]}
    renamed["checkpoint.tmp"] = [half, ("synced", 4, 4.5)]
    lanes = {
        "written in place": {"checkpoint": [("old", 0.0, 1.0), half, ("new", 4.0, 6.0)]},
        "temporary file, then rename": renamed,
    }
    styles = {"old": "s1", "half": "missing", "new": "s2", "synced": "s3"}
    said = (
        "If it is written in place, a crash while writing leaves half a file. If it is written to "
        "another file, the old checkpoint stays whole until the rename replaces it."
    )
    picture = Drawing(
        250, "A checkpoint written in place, and one written to another file and renamed", said
    )
    x = linear(0, 6, 112, WIDTH - 10)
    top = 20
    for title, files in lanes.items():
        picture.text(10, top, title, style="heading")
        for row, (name, spans) in enumerate(files.items()):
            y = top + 12 + row * 40
            picture.text(10, y + 20, name, style="tick")
            for state, start, stop in spans:
                picture.rect(x(start), y, x(stop) - x(start) - 2, 30, styles[state])
                middle = (x(start) + x(stop)) / 2
                style = "label" if state == "half" else "inside"
                if state != "synced":
                    picture.text(middle, y + 20, state, anchor="middle", style=style)
        top += 84
    picture.line(x(1.7), 28, x(1.7), 204, "limit")
    picture.text(x(1.7), 222, "a crash here", anchor="middle")
    picture.keys(210, [330], {"synced to disk": "s3"})
    return picture


def _micro_batch(gradients: float) -> list[dict[str, float]]:
    """Bytes of each part over a micro-batch that starts with this share of the gradients.

    The moments are the layers of the forward pass, the loss, the layers of the backward pass, and
    six for the optimizer.
    """
    peak, layers = wren.PEAK, wren.WREN.num_layers

    def parts(gradients: float, kept: float, logits: int = 0) -> dict[str, float]:
        return {
            "weights": peak.weights,
            "moments": peak.moments,
            "gradients": gradients * peak.gradients,
            "copies": kept * peak.copies,
            "layers": kept * (peak.layers + peak.head),
            "logits": logits * peak.logits,
        }

    shares = [layer / layers for layer in range(1, layers + 1)]
    forward = [parts(gradients, share) for share in shares]
    backward = [parts(max(gradients, share), 1 - share) for share in shares]
    return [*forward, *[parts(gradients, 1, 1)] * 2, *backward, *[parts(1, 0)] * 6]


def step_memory() -> Drawing:
    """Memory over the first and a later micro-batch of Wren, with AdamW under autocast."""
    peak, layers = wren.PEAK, wren.WREN.num_layers
    first, later = _micro_batch(0), _micro_batch(1)
    highest = [max(sum(parts.values()) for parts in steps) for steps in (first, later)]
    assert highest[1] == peak.total
    said = (
        f"Weights take {peak.weights / 1e9:.1f} GB and AdamW's moments {peak.moments / 1e9:.1f} GB "
        f"throughout. Activations grow to {(peak.layers + peak.head) / 1e9:.1f} GB and autocast's "
        f"copies of the weights to {peak.copies / 1e9:.1f} GB in the forward pass, and both are "
        f"freed in the backward pass. The loss takes {peak.logits / 1e9:.1f} GB for a moment. In "
        f"the first micro-batch gradients grow to {peak.gradients / 1e9:.1f} GB in the backward "
        f"pass, and the peak is {highest[0] / 1e9:.1f} GB. In later ones they are there from the "
        f"start, and the peak is {highest[1] / 1e9:.1f} GB."
    )
    picture = Drawing(398, "Memory over a step of Wren with one micro-batch of 8 sequences", said)
    x, y = linear(0, len(first), 52, WIDTH - 10), linear(0, 44, 280, 30)
    left_axis(picture, y, 52, range(0, 41, 8), "GB", WIDTH - 10)
    styles = {"weights": "s1", "moments": "s3", "gradients": "s2", "copies": "s6", "layers": "s4"}
    styles["logits"] = "s5"
    for i, parts in enumerate(first):
        start = 0.0
        for part, size in parts.items():
            top = start + size / 1e9
            if size:
                picture.rect(x(i), y(top), x(1) - x(0), y(start) - y(top), styles[part])
            start = top
    outline = [
        (x(i + right), y(sum(parts.values()) / 1e9))
        for i, parts in enumerate(later)
        for right in (0, 1)
    ]
    picture.path(outline, "limit")
    ends = [0, layers, layers + 2, 2 * layers + 2, len(first)]
    names = ["forward", "loss", "backward", "step"]
    for start, stop, name in zip(ends, ends[1:], names, strict=False):
        picture.line(x(start), 280, x(start), 292)
        picture.text((x(start) + x(stop)) / 2, 298, name, anchor="middle", style="tick")
    picture.keys(316, (52, 250), {"weights": "s1", "AdamW's moments": "s3"})
    picture.keys(342, (52, 250), {"gradients": "s2", "bfloat16 copies of the weights": "s6"})
    picture.keys(368, (52, 250), {"activations": "s4", "loss": "s5"})
    return picture


def segments() -> Drawing:
    """Which activations of 16 layers with GELU are in memory, with and without segments."""
    layers, count = 16, 4
    each = layers // count
    starts = range(0, layers, each)
    stack = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()) for _ in range(layers)]
    model, data = activation_checkpointing.CheckpointedSequential(stack, count), torch.zeros(8, 32)
    kept = activation_checkpointing.saved_activation_bytes(partial(model, data), model.parameters())
    assert kept == len(starts) * data.numel() * 4, "the inputs of the segments, and nothing else"

    # Of each layer, the state of its input and of the GELU's input.
    dropped = [("s1" if layer in starts else "missing", "missing") for layer in range(layers)]

    def backward(segment: int) -> list[tuple[str, str]]:
        """The states while the backward pass works on a segment."""
        first, after = segment * each, (segment + 1) * each
        again = [("s1" if layer == first else "s2", "s2") for layer in range(first, after)]
        return [*dropped[:first], *again, *[("done", "done")] * (layers - after)]

    rows = [
        ("without checkpoints, after the forward pass", [("s1", "s1")] * layers),
        (f"{count} segments, after the forward pass", dropped),
        ("backward pass of the last segment", backward(count - 1)),
        ("backward pass of the segment before it", backward(count - 2)),
    ]
    alive = [sum(state in ("s1", "s2") for cell in cells for state in cell) for _, cells in rows]
    said = "; ".join(f"{name}: {units} units" for (name, _), units in zip(rows, alive, strict=True))
    picture = Drawing(268, f"The activations of {layers} layers that are in memory", said)
    cell, half = 28, 12
    for row, ((name, cells), units) in enumerate(zip(rows, alive, strict=True)):
        top = 26 + row * 56
        picture.text(10, top - 7, f"{name}: {units} units")
        for layer, states in enumerate(cells):
            for part, state in enumerate(states):
                if state != "done":
                    at = 10 + layer * cell + 4 * (layer // each) + part * half
                    picture.rect(at + 0.5, top, half - 1, 24, state)
    styles = {"kept": "s1", "computed again": "s2", "dropped": "missing"}
    picture.keys(242, (10, 100, 262), styles)
    return picture


def checkpointing() -> Drawing:
    """Activations alive at once against the number of segments, for 16 linear layers with GELU."""
    layers, kept = 16, {}
    unit = 8 * 32 * 4  # one activation of the small model that is measured
    stack = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()) for _ in range(layers)]
    data = torch.zeros(8, 32)
    weights = [p for layer in stack for p in layer.parameters()]
    saved = activation_checkpointing.saved_activation_bytes
    for segments in (1, 2, 4, 8, 16):
        model = activation_checkpointing.CheckpointedSequential(stack, segments)
        kept[segments] = saved(partial(model, data), weights) / unit
    plain = saved(partial(torch.nn.Sequential(*stack), data), weights) / unit
    said = f"Without checkpoints {plain:.0f} units are kept. " + "; ".join(
        f"{k} segments: {v:.0f} kept, and {2 * layers // k - 1} more "
        "while one segment is computed again"
        for k, v in kept.items()
    )
    picture = Drawing(402, "Activation memory against checkpointed segments", said)
    x, y = linear(-0.6, 5.6, 52, WIDTH - 16), linear(0, 40, 320, 40)
    left_axis(picture, y, 52, range(0, 41, 8), "units of one activation", WIDTH - 16)
    # The input of the segment is among those that were kept.
    bars = [("none", plain, 0)] + [(str(k), v, 2 * layers // k - 1) for k, v in kept.items()]
    for i, (name, held, again) in enumerate(bars):
        left, width = x(i - 0.36), x(0.36) - x(-0.36)
        picture.rect(left, y(held), width, y(0) - y(held), "s1")
        if again:
            picture.rect(left, y(held + again), width, y(held) - y(held + again) - 1, "s2")
        picture.text(x(i), y(held + again) - 6, f"{held + again:.0f}", anchor="middle")
        picture.text(x(i), 336, name, anchor="middle", style="tick")
    picture.text(
        (52 + WIDTH - 16) / 2, 354, "segments (with any number, FLOPs × 4/3)", anchor="middle"
    )
    picture.keys(364, [52], {"kept until the backward pass needs it": "s1"})
    picture.keys(386, [52], {"computed again for one segment at a time": "s2"})
    return picture
