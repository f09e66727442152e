"""`python -m assignment` shows your progress; `python -m assignment submit` makes your zip.

Progress is measured by the public tests. The zip is ready to hand in.
"""

import sys

from tests import student_side

if __name__ == "__main__":
    sys.exit(student_side.main(sys.argv[1:]))
