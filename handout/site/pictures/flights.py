"""The flights of the last page: losses of a small model, trained with right and wrong parts."""

import json
import math
from pathlib import Path
from typing import Any

from flight.flight_page import smooth
from handout.site.svg import WIDTH, Drawing, bottom_axis, left_axis, linear

RECORDS = Path(__file__).parents[2] / "flights"
SMOOTH = 10  # losses that each point is the mean of


def record(name: str) -> dict[str, Any]:
    """A flight's record, as `python -m assignment fly` wrote it."""
    found: dict[str, Any] = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def flights() -> Drawing:
    """The loss of the egg with right parts, a wrong optimizer, and targets that are not shifted."""
    shown = [
        ("egg", "right parts", "s1"),
        ("wrong_adamw", "a wrong AdamW", "s2"),
        ("wrong_targets", "targets not shifted", "s4"),
    ]
    curves = {name: smooth(record(name)["losses"], SMOOTH) for name, *_ in shown}
    entropy = record("egg")["entropy"]
    said = (
        "; ".join(f"{words}: the loss ends at {curves[name][-1]:.2f}" for name, words, *_ in shown)
        + f". A guess has {math.log(256):.2f}, and a model of single bytes {entropy:.2f}."
    )
    picture = Drawing(400, "Loss of the egg by step", said)
    steps = max(map(len, curves.values()))
    x, y = linear(0, steps, 52, WIDTH - 16), linear(0, 6, 300, 30)
    left_axis(picture, y, 52, range(7), "nats per byte", WIDTH - 16)
    bottom_axis(picture, x, 300, range(0, steps + 1, 50), "step", 30)
    for level, words in ((math.log(256), "a guess"), (entropy, "single bytes")):
        picture.line(52, y(level), WIDTH - 16, y(level), "limit")
        picture.text(WIDTH - 18, y(level) - 6, words, anchor="end", style="tick")
    for name, _, style in shown:
        picture.path([(x(i), y(loss)) for i, loss in enumerate(curves[name])], f"curve {style}")
    picture.keys(360, (20, 160, 300), {words: style for _, words, style in shown})
    return picture
