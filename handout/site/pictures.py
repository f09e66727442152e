"""The handout's pictures, drawn with the reference's functions, so they follow its formulas."""

import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple
from unittest import mock

import torch

from grader.solutions.reference import activation_checkpointing, gpu, optimizers, precision
from grader.solutions.reference import flop_counting as flops
from grader.solutions.reference import resource_accounting as accounting
from grader.solutions.reference import tensor_memory as memory
from handout.site.formulas import FORMATS, name_of
from handout.site.svg import Drawing, bottom_axis, left_axis, linear, logarithmic
from tests.probes import stand_in

WIDTH = 480  # narrow enough to be read on a telephone
CELL = 34


def strides() -> Drawing:
    """One storage, three windows on it."""
    storage = torch.arange(12)
    x = storage.view(3, 4)
    windows = [("x, shape (3, 4)", x), ("x.T", x.T), ("x[:, 1]", x[:, 1])]
    picture = Drawing(
        WIDTH,
        268,
        "Three tensors on one storage",
        "A storage of 12 elements; x of shape (3, 4) with strides (4, 1), "
        "its transpose with strides (1, 4), and its column 1 with stride 4 and offset 1 "
        "show elements of the same storage.",
    )
    picture.text(10, 18, "storage", style="heading")
    for i in range(12):
        _cell(picture, 10 + i * CELL, 26, i, f"s{i // 4 + 1}")
    for left, (name, window) in zip((10, 176, 342), windows, strict=True):
        picture.text(left, 92, name, style="heading")
        picture.text(
            left,
            110,
            f"stride ({', '.join(map(str, window.stride()))}), offset {window.storage_offset()}",
        )
        for position in (
            torch.cartesian_prod(*(torch.arange(size) for size in window.shape))
            .reshape(-1, window.dim())
            .tolist()
        ):
            element = memory.element_offset(window, position)
            row, column = position if window.dim() == 2 else (position[0], 0)
            _cell(picture, left + column * CELL, 120 + row * CELL, element, f"s{element // 4 + 1}")
    return picture


def _cell(picture: Drawing, x: float, y: float, number: int, style: str) -> None:
    picture.rect(x, y, CELL - 2, CELL - 2, style)
    picture.text(x + CELL / 2 - 1, y + CELL / 2 + 4, str(number), anchor="middle", style="inside")


def number_formats() -> Drawing:
    """Bit fields to scale, and the range of each format on a log scale."""
    formats = [getattr(torch, name) for name in FORMATS]  # float64 first
    picture = Drawing(
        WIDTH,
        640,
        "Six number formats: their bits and their range",
        "; ".join(_described(dtype) for dtype in formats),
    )
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
    ticks = [(10.0**e, f"1e{e}") for e in range(-40, 41, 20)]
    bottom_axis(picture, scale, 590, ticks, "pale: subnormal numbers, with fewer bits", 326)
    for row, dtype in enumerate(formats[1:]):
        spec, y = precision.float_spec(dtype), 346 + row * 48
        picture.text(24, y - 4, name_of(dtype))
        picture.rect(
            scale(spec.smallest_subnormal),
            y,
            scale(spec.smallest_normal) - scale(spec.smallest_subnormal),
            18,
            "s2 pale",
        )
        picture.rect(
            scale(spec.smallest_normal), y, scale(spec.max) - scale(spec.smallest_normal), 18, "s1"
        )
    return picture


def _described(dtype: torch.dtype) -> str:
    spec = precision.float_spec(dtype)
    bits = f"{spec.exponent_bits} exponent and {spec.mantissa_bits} mantissa bits"
    return (
        f"{name_of(dtype)} has {bits} "
        f"and reaches from {spec.smallest_subnormal:.2e} to {spec.max:.2e}"
    )


def roofline() -> Drawing:
    """The roof of an H100 in bfloat16, and what the lecture computes under it."""
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
    picture = Drawing(
        WIDTH,
        380,
        "Roofline of an H100 in bfloat16",
        "Attainable FLOP/s against FLOP per byte, both logarithmic. "
        + "; ".join(f"{name} reaches {share:.2%} of the peak" for name, share in reached.items()),
    )
    x, y = logarithmic(0.1, 1e4, 52, WIDTH - 30), logarithmic(1e11, 2e15, 320, 40)
    bottom_axis(
        picture, x, 320, [(10.0**e, f"{10.0**e:g}") for e in range(-1, 5)], "FLOP per byte", 40
    )
    left_axis(picture, y, 52, [(10.0**e, f"1e{e}") for e in range(11, 16)], "FLOP/s", WIDTH - 30)
    ridge = accounting.accelerator_intensity(hw, dtype)
    picture.path(
        [(x(i), y(peak * accounting.attainable_mfu(i, hw, dtype))) for i in (0.1, ridge, 1e4)],
        "curve s1",
    )
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
    picture = Drawing(
        WIDTH,
        290,
        "FLOPs of two layers, forward and backward",
        f"64 rows through layers of 32 by 32 and 32 by 16: forward {sum(forward):,}, "
        f"gradients of weights {sum(weights):,}, gradient of the second layer's input "
        f"{sum(inputs):,}, {total:,} together. The first layer's input needs no gradient.",
    )
    x = linear(0, 200_000, 20, WIDTH - 48)
    rows_of = [
        ("forward", forward),
        ("backward: gradients of the weights", weights),
        ("backward: gradients of the inputs", inputs),
    ]
    bottom_axis(
        picture,
        x,
        222,
        [(v, f"{v:,}") for v in (0, 50_000, 100_000, 150_000, 200_000)],
        "FLOPs",
        20,
    )
    for row, (name, parts) in enumerate(rows_of):
        y, start = 44 + row * 62, 0
        picture.text(20, y - 6, f"{name}: {sum(parts):,}")
        for part, whole, style in zip(parts, forward, ("s1", "s2"), strict=True):
            picture.rect(
                x(start), y, x(start + whole) - x(start) - 1, 26, style if part else "missing"
            )
            start += whole
    for left, name, style in (
        (20, "layer 1", "s1"),
        (130, "layer 2", "s2"),
        (240, "not needed", "missing"),
    ):
        picture.rect(left, 268, 14, 14, style)
        picture.text(left + 20, 280, name)
    return picture


def training_memory() -> Drawing:
    """Bytes per parameter of three recipes, stacked."""
    fp32, bf16 = torch.float32, torch.bfloat16
    recipes = [
        ("all in float32", accounting.TrainingRecipe(fp32, fp32, (fp32, fp32))),
        (
            "bfloat16, float32 states and master",
            accounting.TrainingRecipe(bf16, bf16, (fp32, fp32), fp32),
        ),
        (
            "bfloat16, float32 states, no master",
            accounting.TrainingRecipe(bf16, bf16, (fp32, fp32)),
        ),
    ]
    memory_bytes = 8 * accounting.H100_SXM.memory_bytes
    picture = Drawing(
        WIDTH,
        300,
        "Bytes per parameter of three recipes with AdamW",
        "; ".join(
            f"{name}: {accounting.bytes_per_parameter(recipe)} bytes" for name, recipe in recipes
        ),
    )
    x = linear(0, 16, 20, WIDTH - 20)
    bottom_axis(picture, x, 222, [(v, str(v)) for v in range(0, 17, 4)], "bytes per parameter", 20)
    for row, (name, recipe) in enumerate(recipes):
        y, start = 44 + row * 62, 0
        fits = accounting.max_parameters(memory_bytes, recipe) / 1e9
        picture.text(
            20, y - 6, f"{name}: {accounting.bytes_per_parameter(recipe)} bytes, {fits:.1f} billion"
        )
        parts = [
            recipe.parameter.itemsize,
            recipe.gradient.itemsize,
            *(d.itemsize for d in recipe.optimizer_state),
        ]
        parts += [recipe.master.itemsize] if recipe.master else []
        for part, style in zip(parts, ("s1", "s2", "s3", "s4", "s5"), strict=False):
            picture.rect(x(start), y, x(start + part) - x(start) - 1, 26, style)
            start += part
    x_key = 20.0
    for name, style in zip(
        ("weight", "gradient", "mean m", "mean v", "master"),
        ("s1", "s2", "s3", "s4", "s5"),
        strict=True,
    ):
        picture.rect(x_key, 274, 14, 14, style)
        picture.text(x_key + 20, 286, name)
        x_key += 92
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
    picture = Drawing(
        WIDTH,
        402,
        "Activation memory against checkpointed segments",
        f"Without checkpoints {plain:.0f} units are kept. "
        + "; ".join(
            f"{k} segments: {v:.0f} kept, and {2 * layers // k} more "
            "while one segment is computed again"
            for k, v in kept.items()
        ),
    )
    x, y = linear(-0.6, 5.6, 52, WIDTH - 16), linear(0, 40, 320, 40)
    left_axis(
        picture,
        y,
        52,
        [(v, str(v)) for v in range(0, 41, 8)],
        "units of one activation",
        WIDTH - 16,
    )
    bars = [("none", plain, 0)] + [(str(k), v, 2 * layers // k) for k, v in kept.items()]
    for i, (name, held, again) in enumerate(bars):
        left, width = x(i - 0.36), x(0.36) - x(-0.36)
        picture.rect(left, y(held), width, y(0) - y(held), "s1")
        if again:
            picture.rect(left, y(held + again), width, y(held) - y(held + again) - 1, "s2")
        picture.text(x(i), y(held + again) - 6, f"{held + again:.0f}", anchor="middle")
        picture.text(x(i), 336, name, anchor="middle", style="tick")
    picture.text(
        (52 + WIDTH - 16) / 2, 354, "segments; FLOPs × 4/3 with any number of them", anchor="middle"
    )
    picture.rect(52, 364, 14, 14, "s1")
    picture.text(72, 376, "kept until its backward pass")
    picture.rect(52, 386, 14, 14, "s2")
    picture.text(72, 398, "computed again, for one segment at a time")
    return picture


def learning_rate() -> Drawing:
    """Warm-up and cosine, as in the worked example."""
    top, low, warmup, end = 1.0, 0.1, 10, 30
    picture = Drawing(
        WIDTH,
        320,
        "Learning rate: warm-up and cosine",
        "The rate rises in a straight line from 0 to 1 in 10 iterations, "
        "falls along half a cosine to 0.1 at iteration 30, and stays there.",
    )
    x, y = linear(0, 40, 52, WIDTH - 30), linear(0, 1, 260, 40)
    bottom_axis(picture, x, 260, [(v, str(v)) for v in range(0, 41, 10)], "iteration", 40)
    left_axis(
        picture,
        y,
        52,
        [(v / 10, f"{v / 10:g}") for v in (0, 1, 5, 10)],
        "learning rate",
        WIDTH - 30,
    )
    picture.path(
        [(x(it), y(optimizers.lr_cosine_schedule(it, top, low, warmup, end))) for it in range(41)],
        "curve s1",
    )
    for it in (0, 5, 10, 15, 20, 25, 30):
        picture.dot(x(it), y(optimizers.lr_cosine_schedule(it, top, low, warmup, end)), "s2")
    return picture


class Span(NamedTuple):
    """One activity with its start and its end, in seconds.

    Python "makes" and "waits"; the GPU runs "copies" and "kernels".
    """

    what: str
    start: float
    stop: float


def timeline(*, prefetch: bool, batches: int = 4) -> list[Span]:
    """The activities of Python and the GPU, timed by the stand-in's clock.

    For each batch, Python takes 0.4 ms to make it, the copy 1 ms and the kernels 1.5 ms.
    """
    spans: list[Span] = []
    # On a slow link, a small batch is enough.
    slow_link = mock.patch.object(stand_in, "BYTES_PER_SECOND", 25e6)
    with slow_link, stand_in.gpu() as device:
        streams: Any = device.Stream
        give, synchronize = streams.give, streams.synchronize

        def noted(stream: Any, seconds: float, *work: Any, **when: Any) -> None:
            give(stream, seconds, *work, **when)
            if seconds > 1e-5:  # skips what is too small to see: targets, events
                spans.append(Span(running[-1], stream.free_at - seconds, stream.free_at))

        def waited(stream: Any) -> None:
            start = device.now
            synchronize(stream)
            spans.append(Span("waits", start, device.now))

        def made() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            for _ in range(batches):
                start = device.now
                time.sleep(0.4e-3)
                spans.append(Span("makes", start, device.now))
                yield torch.zeros(25_000, dtype=torch.uint8), torch.zeros(1)

        streams.give, streams.synchronize = noted, waited
        running = ["copies"]
        sent = (
            gpu.Prefetcher(made(), "cuda")
            if prefetch
            else ((x.to("cuda"), y.to("cuda")) for x, y in made())
        )
        for _ in sent:
            running.append("kernels")
            device.kernel(seconds=1.5e-3)
            running.pop()
    return spans


def prefetching() -> Drawing:
    """Python, copies and kernels over time, without and with prefetching."""
    panels = [
        ("without prefetching", timeline(prefetch=False)),
        ("with a Prefetcher of depth 2", timeline(prefetch=True)),
    ]
    ends = [max(span.stop for span in spans) * 1e3 for _, spans in panels]
    picture = Drawing(
        WIDTH,
        366,
        "Copies and kernels of four batches over time",
        "Without prefetching copies and kernels take turns, "
        f"and the last kernel ends after {ends[0]:.1f} ms. "
        f"With prefetching they overlap, and the last kernel ends after {ends[1]:.1f} ms.",
    )
    x = linear(0, 12, 70, WIDTH - 14)
    bottom_axis(picture, x, 286, [(v, str(v)) for v in range(0, 13, 2)], "milliseconds", 30)
    rows = {"Python": ("waits", "makes"), "copies": ("copies",), "kernels": ("kernels",)}
    styles = {"makes": "s3", "waits": "missing", "copies": "s2", "kernels": "s1"}
    for top, (name, spans) in zip((18, 158), panels, strict=True):
        picture.text(10, top, name, style="heading")
        for row, (label, kinds) in enumerate(rows.items()):
            y = top + 14 + row * 34
            picture.text(10, y + 18, label)
            for what in kinds:
                for number, span in enumerate(
                    (s for s in spans if s.what == what and s.stop - s.start > 1e-4), 1
                ):
                    left, right = x(span.start * 1e3), x(span.stop * 1e3)
                    picture.rect(left, y, right - left - 1, 26, styles[what])
                    if what != "waits":
                        picture.text(
                            (left + right) / 2, y + 18, str(number), anchor="middle", style="inside"
                        )
    for left, words, style in (
        (70, "Python makes a batch", "s3"),
        (262, "Python waits", "missing"),
    ):
        picture.rect(left, 338, 14, 14, style)
        picture.text(left + 20, 350, words)
    return picture


PICTURES = {
    "strides": strides,
    "number-formats": number_formats,
    "roofline": roofline,
    "two-layer-flops": two_layer_flops,
    "training-memory": training_memory,
    "checkpointing": checkpointing,
    "learning-rate": learning_rate,
    "prefetching": prefetching,
}
