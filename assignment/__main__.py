"""`python -m assignment` shows your progress; `python -m assignment submit` makes your zip.

Progress is measured by the public tests. The zip is ready to hand in.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - checked before importing modules that 3.10 lacks
    found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    sys.exit(f"Python 3.11 or later is needed; this is {found} ({sys.executable})")

from tests import student_side

if __name__ == "__main__":
    sys.exit(student_side.main(sys.argv[1:]))
