"""Pack the reference solutions as a submission: reference_submission.py OUT"""

import argparse
from pathlib import Path

from grader.proof import validate
from grader.publish import student as release

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Write the zip."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the zip to write; its folder is made")
    out = parser.parse_args().out
    out.parent.mkdir(parents=True, exist_ok=True)
    sources = validate.sources_in(ROOT / "grader" / "solutions" / "reference")
    out.write_bytes(release.zipped(sources))
    print(f"{out}: {len(sources)} modules")


if __name__ == "__main__":
    main()
