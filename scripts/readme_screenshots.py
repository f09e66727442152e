"""Take the screenshots of the README.

    python scripts/readme_screenshots.py [GRADEBOOK]

GRADEBOOK belongs to a class that `examples/make_class.py` generated and `grader batch` graded. The
script writes examples/pictures/report.png and, with a gradebook, class.png. It needs Chromium.
"""

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from examples.build import build
from handout.site.browser import browser

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "examples" / "pictures"
GRADER = [sys.executable, "-m", "grader"]


def main() -> None:
    """Make the pages, and take a screenshot of the most important part of each."""
    if len(sys.argv) > 2 or "--help" in sys.argv:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as made:
        folder, parts = Path(made), {"report": "#mistakes"}
        build(folder / "sample.zip")
        _grader("grade", folder / "sample.zip", "--html", folder / "report.html")
        if sys.argv[1:]:
            parts["class"] = "#distribution"
            _grader("page", sys.argv[1], folder / "class.html")
        with browser() as started:
            for name, part in parts.items():
                opened = started.new_page(viewport={"width": 1000, "height": 850})
                opened.goto((folder / f"{name}.html").as_uri())
                opened.evaluate("part => document.querySelector(part).scrollIntoView()", part)
                taken = Image.open(io.BytesIO(opened.screenshot())).convert("RGB")
                # 64 colours without dithering: text stays crisp in a third of the bytes.
                few = taken.quantize(64, dither=Image.Dither.NONE)
                few.save(PICTURES / f"{name}.png", optimize=True)
    for picture in sorted(PICTURES.glob("*.png")):
        print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size:,} bytes")


def _grader(*arguments: object) -> None:
    done = subprocess.run([*GRADER, *map(str, arguments)], stdout=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"grader {arguments[0]} failed with exit code {done.returncode}")


if __name__ == "__main__":
    main()
