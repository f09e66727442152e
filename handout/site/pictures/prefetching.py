"""Chapter 13: copies and kernels over time."""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch

from grader.solutions.reference import gpu
from handout.site.svg import WIDTH, Drawing, bottom_axis, linear
from kit import gpu_stand_in


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
    # A slow link makes the copy of a small batch long enough.
    slow_link = mock.patch.object(gpu_stand_in, "BYTES_PER_SECOND", 25e6)
    with slow_link, gpu_stand_in.gpu() as device:
        streams: Any = device.Stream
        give, synchronize = streams.give, streams.synchronize

        def noted(stream: Any, seconds: float, *work: Any, **when: Any) -> None:
            give(stream, seconds, *work, **when)
            if seconds > 1e-5:  # targets and events are too short to be visible
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
        plainly = ((x.to("cuda"), y.to("cuda")) for x, y in made())
        sent = gpu.Prefetcher(made(), "cuda") if prefetch else plainly
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
    said = (
        "Without prefetching copies and kernels take turns, "
        f"and the last kernel finishes after {ends[0]:.1f} ms. "
        f"With prefetching they overlap, and the last kernel finishes after {ends[1]:.1f} ms."
    )
    picture = Drawing(366, "Copies and kernels of four batches over time", said)
    x = linear(0, 12, 70, WIDTH - 14)
    bottom_axis(picture, x, 286, range(0, 13, 2), "milliseconds", 30)
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
    picture.keys(338, (70, 262), {"Python makes a batch": "s3", "Python waits": "missing"})
    return picture
