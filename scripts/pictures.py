"""Take the screenshots of the README and of docs/.

    python scripts/pictures.py [GRADEBOOK]

GRADEBOOK belongs to a class that `examples/make_class.py` generated and `grader batch` graded. The
script writes examples/pictures/report.png, gradescope.png and, with a gradebook, class.png. It
needs Chromium.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from grader.course.policies import Shows
from grader.report import gradescope_report, json_report
from grader.report.reported import Reported
from handout.site.browser import browser

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "examples" / "pictures"
GRADER = [sys.executable, "-m", "grader"]
SIZE = {"width": 1000, "height": 850}
SAMPLE = ROOT / "examples" / "sample.zip"

# What Gradescope shows a student, after its "Autograder Specifications".
MOMENTS = ("before the due date", "after it", "after grades are published")
SEEN_FROM = {"visible": 0, "after_due_date": 1, "after_published": 2, "hidden": 3}
# The settings of [policy.gradescope]: what is written, then `results`, `tests` and `reasons`.
SETTINGS: tuple[tuple[str, str, str, bool], ...] = (
    ("nothing", "visible", "", True),
    ('results = "after_due_date"', "after_due_date", "", True),
    ('results = "after_published"', "after_published", "", True),
    ('results = "hidden"', "hidden", "", True),
    ('tests = "after_published"', "visible", "after_published", True),
    ('tests = "hidden"', "visible", "hidden", True),
    ("reasons = false", "visible", "", False),
)
LOOK = """
body { font: 15px/1.4 system-ui, sans-serif; margin: 16px; color: #222; background: #fff }
table { border-collapse: separate; border-spacing: 8px }
th { text-align: left; font-weight: 600; padding: 4px } tr > th { width: 190px }
code { font: 13px ui-monospace, monospace }
td { border: 1px solid #c8ccd2; border-radius: 6px; padding: 8px; width: 230px; height: 92px;
     vertical-align: top }
.score { font-weight: 600 } .no { color: #6a6f76; font-weight: 400 }
.passed { color: #14703c } .failed { color: #b3261e } small { color: #444; font-size: 12px }
"""


def seen(results: str, tests: str, moment: int) -> tuple[bool, bool]:
    """Whether a student sees the score, and the entries of the tests.

    A test's own setting replaces that of the whole result. While tests wait for a time, the score
    is hidden; tests that are never shown do not hide it.
    """
    entries = SEEN_FROM[tests or results] <= moment
    whole = SEEN_FROM[results] <= moment
    return whole and (entries or tests == "hidden"), entries


def visibility(results: dict[str, Any], names: dict[str, Any]) -> str:
    """A page that shows what students see in Gradescope, for each setting and moment.

    Args:
        results: The results.json of a submission.
        names: The same without reasons.
    """
    head = Markup("").join(Markup("<th>{}</th>").format(moment) for moment in MOMENTS)
    rows = Markup("").join(_row(setting, results, names) for setting in SETTINGS)
    page = Markup(
        "<!doctype html><meta charset=utf-8><style>{}</style><table><tr><th>in policy.toml</th>"
        "{}</tr>{}</table>"
    )
    return str(page.format(Markup(LOOK), head, rows))


def _row(
    setting: tuple[str, str, str, bool], results: dict[str, Any], names: dict[str, Any]
) -> Markup:
    written, whole, tests, reasons = setting
    cells = [
        _cell(*seen(whole, tests, moment), results if reasons else names)
        for moment in range(len(MOMENTS))
    ]
    row = Markup("<tr><th><code>{}</code></th>{}</tr>")
    return row.format(written, Markup("").join(cells))


def _cell(score: bool, entries: bool, results: dict[str, Any]) -> Markup:
    top = sum(test["max_score"] for test in results["tests"])
    points = Markup("{} / {:g} points").format(f"{results['score']:.2f}", top)
    head = points if score else Markup('<span class="no">no score</span>')
    shown = [_entry(test) for test in results["tests"][:2]] if entries else []
    listed = Markup("<br>").join(shown) or Markup('<span class="no">no tests</span>')
    return Markup('<td><div class="score">{}</div>{}</td>').format(head, listed)


def _entry(test: dict[str, Any]) -> Markup:
    first = test["output"].splitlines()[0]
    text = first if len(first) <= 60 else f"{first[:60]}…"
    line = Markup('<span class="{}">{}</span><br><small>{}</small>')
    return line.format(test["status"], escape(test["name"]), escape(text))


def main() -> None:
    """Make the pages, and take a screenshot of the most important part of each."""
    if len(sys.argv) > 2 or "--help" in sys.argv:
        raise SystemExit(__doc__)
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        parts = {"report": "#mistakes", "gradescope": "table"}
        _grader("grade", SAMPLE, "--html", folder / "report.html")
        if sys.argv[1:]:
            parts["class"] = "#distribution"
            _grader("page", sys.argv[1], folder / "class.html")
        page = visibility(_results(folder, reasons=True), _results(folder, reasons=False))
        (folder / "gradescope.html").write_text(page, encoding="utf-8")
        with browser() as started:
            for name, part in parts.items():
                opened = started.new_page(viewport=SIZE)
                opened.goto((folder / f"{name}.html").as_uri())
                opened.evaluate("part => document.querySelector(part).scrollIntoView()", part)
                whole = opened.locator(part) if part == "table" else opened
                whole.screenshot(path=PICTURES / f"{name}.png")
    for picture in sorted(PICTURES.glob("*.png")):
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size:,} bytes")


def _results(folder: Path, *, reasons: bool) -> dict[str, Any]:
    """Gradescope's results.json of one problem of the sample."""
    sample = folder / "sample.json"
    if not sample.exists():
        _grader("grade", SAMPLE, "--only", "adamw", "--json", sample)
    one = Reported(json_report.read(sample), shows=Shows(reasons=reasons))
    found: dict[str, Any] = json.loads(gradescope_report.render(one))
    return found


def _grader(*arguments: object) -> None:
    done = subprocess.run([*GRADER, *map(str, arguments)], stdout=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"grader {arguments[0]} failed with exit code {done.returncode}")


if __name__ == "__main__":
    main()
