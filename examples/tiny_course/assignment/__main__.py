"""`python -m assignment` shows your progress; `python -m assignment submit` makes your zip."""

import sys
from pathlib import Path

from kit import student_command

if __name__ == "__main__":
    sys.exit(student_command.main(Path(__file__).absolute().parents[1], sys.argv[1:]))
