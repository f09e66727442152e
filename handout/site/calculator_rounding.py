"""Numbers as text, in the calculators: units, thousands, signs, rounding.

static/calculators.js formats numbers too, and tests/handout/test_calculators_in_browser.py checks
that the two agree to the last digit. So numbers are rounded like JavaScript's toFixed and
toExponential (exact halves up), not like Python's format() (halves to even).
"""

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any


def fixed(value: float, digits: int) -> str:
    """Format with that many decimals and commas between thousands.

    Exact halves are rounded up, as by JavaScript's toFixed.
    """
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{abs(rounded):,}" if rounded == 0 else f"{rounded:,}".replace("-", "−")


def scientific(value: float, digits: int = 3) -> str:
    """Format like `6.300e24` or `1.001e-08`, with the digits of JavaScript's toExponential."""
    if value == 0:
        return "0"
    exact = Decimal(value)
    exponent = exact.adjusted()
    mantissa = exact.scaleb(-exponent).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    if abs(mantissa) >= 10:
        mantissa, exponent = mantissa / 10, exponent + 1
    return f"{mantissa:.{digits}f}".replace("-", "−") + (
        f"e{exponent}" if exponent >= 0 else f"e-{-exponent:02}"
    )


SPACE = "\u00a0"  # prevents a line break between a number and its unit
NAMED = [(1e12, "trillion"), (1e9, "billion"), (1e6, "million")]
DECIMAL_UNITS = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")]
UNITS = ("GB", "GiB", "bytes")  # the page's ways to write bytes; here, the first one is used
TIMES = [
    *((86400, "days"), (3600, "h"), (60, "min"), (1, "s")),
    *((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
]


def _scaled(value: float, units: list[tuple[float, str]], digits: int) -> str | None:
    for size, unit in units:
        if value >= size:
            return f"{fixed(value / size, digits)}{SPACE}{unit}"
    return None


def _count(value: float) -> str:
    if value >= 1e15:
        return scientific(value)
    named = _scaled(value, NAMED, 2)
    if named:
        return f"{fixed(value, 0)} ({named})"
    return fixed(value, 0 if value == math.floor(value) else 2)


def _bytes(value: float) -> str:
    if value >= 1e21:
        return f"{scientific(value)}{SPACE}B"
    return _scaled(value, DECIMAL_UNITS, 3) or f"{fixed(value, 0)}{SPACE}B"


def _seconds(value: float) -> str:
    if value >= 1e9 * 86400:
        return f"{scientific(value / 86400)}{SPACE}days"
    return _scaled(value, TIMES, 2) or f"{scientific(value)}{SPACE}s"


def _float(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    is_short = value == math.floor(value) and abs(value) < 1e7
    return fixed(value, 0) if is_short else scientific(value, 4)


def _percent(value: float) -> str:
    if value >= 1e4:
        return f"{scientific(value * 100)} %"
    return f"{fixed(value * 100, 1 if value >= 0.1 else 2)} %"


SHOWN: dict[str, Callable[[Any], str]] = {
    "count": _count,
    "integer": lambda value: fixed(value, 0),
    "bytes": _bytes,
    "intensity": lambda value: fixed(value, 1 if value >= 10 else 2),
    "percent": _percent,
    "seconds": _seconds,
    "billions": lambda value: f"{fixed(value / 1e9, 1)} billion",
    "float": _float,
    "held": _float,
    "list": lambda value: (
        "(" + ", ".join(f"{item:.0f}" for item in value) + ("," if len(value) == 1 else "") + ")"
    ),
    "yes": lambda value: "yes" if value else "no",
    "bound": lambda value: "compute" if value else "memory",
}


def display(value: object, show: str) -> str:
    """Format a result as the page does at first; `–` if there is no result."""
    if isinstance(value, float) and not math.isfinite(value) and show != "held":
        return "–"
    return SHOWN[show](value)
