"""Take the README's screenshots: the report of the sample, and the page of a generated class.

    python scripts/pictures.py GRADEBOOK

GRADEBOOK belongs to a class that `examples/make_class.py` generated and `grader batch` graded. The
script writes examples/pictures/report.png and class.png, and needs Chromium.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from handout.site.browser import browser

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "examples" / "pictures"
GRADER = [sys.executable, "-m", "grader"]
SIZE = {"width": 1000, "height": 850}


def main() -> None:
    """Make both pages, and take a screenshot of the most important part of each."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        report, page = Path(folder, "report.html"), Path(folder, "class.html")
        sample = str(ROOT / "examples" / "sample.zip")
        for command in (["grade", sample, "--html", report], ["page", sys.argv[1], page]):
            done = subprocess.run([*GRADER, *map(str, command)], stdout=subprocess.DEVNULL)
            if done.returncode:
                raise SystemExit(f"grader {command[0]} failed with exit code {done.returncode}")
        with browser() as started:
            for path, part in ((report, "#mistakes"), (page, "#distribution")):
                opened = started.new_page(viewport=SIZE)
                opened.goto(path.as_uri())
                opened.evaluate("part => document.querySelector(part).scrollIntoView()", part)
                opened.screenshot(path=PICTURES / f"{path.stem}.png")
    for picture in sorted(PICTURES.glob("*.png")):
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
