"""Chapters 4 and 5, and the first page: FLOPs, the roofline, and what one step of Wren takes."""

from itertools import pairwise

import torch

from grader.solutions.reference import flop_counting as flops
from grader.solutions.reference import resource_accounting as accounting
from handout.site import calculator_formulas, wren
from handout.site.svg import WIDTH, Drawing, bottom_axis, left_axis, linear, logarithmic, powers


def roofline() -> Drawing:
    """The roofline of an H100 in bfloat16, and the lecture's operations under it."""
    hw, dtype = accounting.H100_SXM, torch.bfloat16
    square = {n: accounting.matmul_intensity(n, n, n, dtype) for n in (512, 1024, 4096)}
    # Name, intensity, and where to write the name: dx, dy, anchor.
    works = [
        ("ReLU", accounting.elementwise_intensity(1, 1, 1, dtype), 10, 5, "start"),
        ("matrix · vector", accounting.matmul_intensity(1024, 1024, 1, dtype), 10, 5, "start"),
        ("product, n = 512", square[512], -10, 0, "end"),
        ("n = 1024", square[1024], -4, 22, "start"),
        ("n = 4096", square[4096], 0, -12, "middle"),
    ]
    peak = hw.peak_flops[dtype]
    reached = {
        name: accounting.attainable_mfu(intensity, hw, dtype) for name, intensity, *_ in works
    }
    said = "Attainable FLOP/s against FLOP per byte, both logarithmic. " + "; ".join(
        f"{name} reaches {share:.2%} of the peak" for name, share in reached.items()
    )
    picture = Drawing(380, "Roofline of an H100 in bfloat16", said)
    x, y = logarithmic(0.1, 1e4, 52, WIDTH - 30), logarithmic(1e11, 2e15, 320, 40)
    bottom_axis(
        picture, x, 320, [(10.0**e, f"{10.0**e:g}") for e in range(-1, 5)], "FLOP per byte", 40
    )
    left_axis(picture, y, 52, powers(range(11, 16)), "FLOP/s", WIDTH - 30)
    ridge = accounting.accelerator_intensity(hw, dtype)
    picture.path(
        [(x(i), y(peak * accounting.attainable_mfu(i, hw, dtype))) for i in (0.1, ridge, 1e4)],
        "curve s1",
    )
    # Without tensor cores, by NVIDIA's H100 white paper.
    lower, turn = 133.8e12, 133.8e12 / hw.memory_bandwidth
    picture.path([(x(turn), y(lower)), (x(1e4), y(lower))], "curve s3 dashed")
    picture.text(x(1e4), y(lower) + 20, "without matrix products", anchor="end", style="tick")
    for name, intensity, dx, dy, anchor in works:
        at = x(intensity), y(peak * reached[name])
        picture.dot(*at, "s2")
        picture.text(at[0] + dx, at[1] + dy, name, anchor=anchor)
    picture.text(x(ridge), y(peak) - 12, f"ridge: {ridge:.1f}", anchor="end")
    return picture


def two_layer_flops() -> Drawing:
    """Forward and backward FLOPs of two layers; the first needs no gradient of its input."""
    rows, sizes = 64, (32, 32, 16)
    layers = list(pairwise(sizes))
    forward = [flops.linear_flops(rows, *layer) for layer in layers]
    weights = [
        flops.linear_flops(rows, *layer, backward=True, input_grad=False) - f
        for layer, f in zip(layers, forward, strict=True)
    ]
    inputs = [0, flops.linear_flops(rows, *layers[1], backward=True) - forward[1] - weights[1]]
    total = sum(forward) + sum(weights) + sum(inputs)
    assert total == flops.mlp_flops(rows, sizes, backward=True)
    said = (
        f"64 rows through layers of 32 by 32 and 32 by 16: forward {sum(forward):,}, "
        f"gradients of weights {sum(weights):,}, gradient of the second layer's input "
        f"{sum(inputs):,}, {total:,} together. The first layer's input needs no gradient."
    )
    picture = Drawing(290, "FLOPs of two layers, forward and backward", said)
    x = linear(0, 200_000, 20, WIDTH - 48)
    rows_of = {"forward": forward, "backward: gradients of the weights": weights}
    rows_of["backward: gradients of the inputs"] = inputs
    bottom_axis(picture, x, 222, range(0, 200_001, 50_000), "FLOPs", 20)
    for row, (name, parts) in enumerate(rows_of.items()):
        y, start = 44 + row * 62, 0
        picture.text(20, y - 6, f"{name}: {sum(parts):,}")
        for part, whole, style in zip(parts, forward, ("s1", "s2"), strict=True):
            picture.rect(
                x(start), y, x(start + whole) - x(start) - 1, 26, style if part else "missing"
            )
            start += whole
    styles = {"layer 1": "s1", "layer 2": "s2", "not needed": "missing"}
    picture.keys(268, (20, 130, 240), styles)
    return picture


def training_memory() -> Drawing:
    """Bytes per parameter of three recipes, stacked."""
    recipes = [
        ("all in float32", calculator_formulas.FULL),
        ("bfloat16, float32 states and master", calculator_formulas.MASTER),
        ("bfloat16, float32 states, no master", calculator_formulas.SLIM),
    ]
    names = ("weight", "gradient", "mean m", "mean v", "master")
    styles = {name: f"s{number}" for number, name in enumerate(names, 1)}
    memory_bytes = 8 * accounting.H100_SXM.memory_bytes
    said = "; ".join(
        f"{name}: {accounting.bytes_per_parameter(recipe)} bytes" for name, recipe in recipes
    )
    picture = Drawing(300, "Bytes per parameter of three recipes with AdamW", said)
    x = linear(0, 16, 20, WIDTH - 20)
    bottom_axis(picture, x, 222, range(0, 17, 4), "bytes per parameter", 20)
    for row, (name, recipe) in enumerate(recipes):
        y, start = 44 + row * 62, 0
        fits = accounting.max_parameters(memory_bytes, recipe) / 1e9
        picture.text(
            20, y - 6, f"{name}: {accounting.bytes_per_parameter(recipe)} bytes, {fits:.1f} billion"
        )
        parts = [recipe.parameter, recipe.gradient, *recipe.optimizer_state]
        parts += [recipe.master] if recipe.master else []
        for part, style in zip(parts, styles.values(), strict=False):
            stop = start + part.itemsize
            picture.rect(x(start), y, x(stop) - x(start) - 1, 26, style)
            start = stop
    picture.keys(274, range(20, WIDTH, 92), styles)
    return picture


def _flops(count: float) -> str:
    """A count as the chapters write it, such as 1.34e15."""
    return f"{count:.2e}".replace("e+", "e")


def _gb(size: float) -> str:
    return f"{size / 1e9:.1f} GB"


def one_step() -> Drawing:
    """One training step of Wren on one GPU, with the chapter that explains each stage."""
    share = wren.DEVICES
    forward = wren.STEP_FLOPS / 3 / share  # 2 of the 6 FLOPs per parameter and token
    kept = _gb(wren.PEAK.layers + wren.PEAK.head)
    stages = [
        ("read a batch", "9", f"{2 * wren.STEP_TOKENS / share / 1e6:.2f} MB of tokens", "s6"),
        ("forward pass", "3, 4, 7", f"{_flops(forward)} FLOPs", "s1"),
        ("keep activations", "12", f"{kept} for {wren.MICRO_BATCH} sequences at a time", "s4"),
        ("backward pass", "6", f"{_flops(2 * forward)} FLOPs", "s1"),
        ("clip, AdamW step", "8", f"{_gb(wren.OPTIMIZER_STEP_BYTES)} read and written", "s2"),
        ("save a checkpoint", "10", f"{_gb(wren.CHECKPOINT_BYTES)}, now and then", "s3"),
    ]
    bill = f"× {wren.STEPS:,} steps (chapter 11) = {wren.HOURS:.0f} hours on "
    bill += f"{wren.DEVICES} H100 (chapter 5)"
    said = "; ".join(f"{name}, chapter {of}: {takes}" for name, of, takes, _ in stages)
    said += f"; {bill}: about {wren.DOLLARS:.0f} dollars"
    picture = Drawing(420, "One training step of Wren on one of its GPUs, stage by stage", said)
    for row, (name, of, takes, style) in enumerate(stages):
        y = 10 + row * 56
        picture.box(34, y, 176, 40, name, style)
        picture.text(222, y + 17, f"chapter{'s' * (',' in of)} {of}", style="heading")
        picture.text(222, y + 35, takes)
        if row:
            picture.down(122, y - 2)
    bottom = 10 + (len(stages) - 1) * 56 + 20
    picture.path([(34, bottom), (16, bottom), (16, 30), (32, 30)], "arrow")
    picture.path([(24, 24), (32, 30), (24, 36)], "arrow")
    picture.text(10, 370, bill, style="heading")
    picture.text(
        10, 392, f"about ${wren.DOLLARS:.0f} at ${wren.DOLLARS_PER_HOUR:.0f} per GPU and hour"
    )
    return picture
