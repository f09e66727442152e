"""`python -m assignment`: how far you are, by the public tests. `python -m assignment submit`: a zip ready to hand in."""

import sys

from tests import student_side

if __name__ == "__main__":
    sys.exit(student_side.main(sys.argv[1:]))
