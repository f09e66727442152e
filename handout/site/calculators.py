"""The calculators as HTML. Without a script, as in print, they show the results of the defaults."""

from pathlib import Path
from typing import Any

import jinja2

from handout.site import calculator_formulas, calculator_rounding

TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
)


def html(name: str) -> str:
    """The form of a calculator, with the results of its defaults.

    Raises:
        KeyError: There is no calculator of that name.
    """
    calculator = calculator_formulas.load()[name]
    values, table = calculator_formulas.evaluate(calculator)
    return TEMPLATES.get_template("calculator.html").render(
        c=calculator,
        values=values,
        table=table,
        offered={
            kind: calculator_formulas.choices(calculator, kind)
            for kind in calculator_formulas.CHOICES
        },
        display=calculator_rounding.display,
        units=calculator_rounding.UNITS if has_bytes(calculator) else (),
        typed=typed,
    )


def has_bytes(calculator: calculator_formulas.Calculator) -> bool:
    """Whether a result is in bytes, so that the page offers a choice of units."""
    return any(r.show == "bytes" for r in [*calculator.result, *calculator.column])


def typed(value: Any) -> str:
    """A default as a person would type it: `70e9`, `1e-8`, `1024`."""
    if isinstance(value, str):
        return value
    for power in (12, 9, 6):
        if value >= 10**power:
            return f"{value / 10**power:g}e{power}"
    return f"{value:g}".replace("e-0", "e-")
