"""`python -m handout.site`: check the handout's text and build the site and the PDF.

First, the text, the stubs and problems.toml must agree. The results are written to handout/build/.
"""

import argparse
import gc
import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

from grader import OBJECTS_BETWEEN_COLLECTIONS
from grader.course import courses
from handout.site import agreement

HANDOUT = Path(__file__).parents[1]
BUILD = HANDOUT / "build"


def main(arguments: list[str] | None = None) -> int:
    """Build the handout.

    Return the exit code: 0 if everything was written, or 1 if the text is wrong or the PDF could
    not be made.
    """
    parser = argparse.ArgumentParser(
        prog="python -m handout.site",
        description="Build the handout: a site to open from its files, and a PDF.",
    )
    parser.add_argument(
        "--out", type=Path, default=BUILD, help="folder to write to (default: handout/build)"
    )
    parser.add_argument(
        "--no-pdf", action="store_true", help="build only the site, which needs no browser"
    )
    options = parser.parse_args(arguments)

    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)  # Sphinx makes hardly any garbage
    if (options.out / "site").exists() and not (options.out / "made_from").exists():
        parser.error(
            f"{options.out / 'site'} is not a built handout and would be replaced: "
            "choose another folder"
        )
    course = courses.load(HANDOUT.parent)
    if found := agreement.complaints(course, agreement.pages(), agreement.stubs(course)):
        print(
            "\n".join(found), "\nthe handout is not built: fix these first", sep="", file=sys.stderr
        )
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        if not site(options.out / "site", Path(scratch)):
            return 1
        print(f"site: {options.out / 'site' / 'index.html'}")
        # An older PDF would have been made from another text.
        (options.out / "handout.pdf").unlink(missing_ok=True)
        (options.out / "made_from").write_text(course.handout_sha256(), encoding="utf-8")
        if not options.no_pdf and not _pdf(options.out / "handout.pdf", Path(scratch)):
            return 1
    return 0


def site(out: Path, scratch: Path, builder: str = "html") -> bool:
    """Run Sphinx on the handout; warnings are errors. Return whether everything succeeded.

    In the same scratch folder, the text is read only once.
    """
    written = scratch / builder
    quiet = ["-q", "-W", "--keep-going", "-d", str(scratch / "doctrees")]
    if build_main(["-b", builder, *quiet, str(HANDOUT), str(written)]):
        print("the handout is not built: see the warnings above", file=sys.stderr)
        return False
    for left in (".buildinfo", "objects.inv"):
        (written / left).unlink(missing_ok=True)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(written, out)
    return True


def _pdf(out: Path, scratch: Path) -> bool:
    # Imported only here, because the site can be built without a browser and its driver.
    from handout.site import pdf
    from handout.site.browser import NoBrowser, executable

    try:
        executable()  # before the page is built that only a browser needs
        if not site(scratch / "single", scratch, "singlehtml"):
            return False
        pages = pdf.write(scratch / "single" / "index.html", out)
    except NoBrowser as e:
        print(f"the PDF is not made: {e}", file=sys.stderr)
        return False
    print(f"PDF: {out}, {pages} pages")
    return True


if __name__ == "__main__":
    sys.exit(main())
