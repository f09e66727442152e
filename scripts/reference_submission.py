"""Pack the reference solutions as a submission: reference_submission.py OUT"""

import argparse
from pathlib import Path

from grader.course import courses
from kit import handing_in


def main() -> None:
    """Write the zip."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the zip to write; its folder is created")
    out = parser.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    sources = courses.sources_in(courses.load().reference)
    out.write_bytes(handing_in.zipped(sources))
    print(f"{out}: {len(sources)} modules")


if __name__ == "__main__":
    main()
