"""`python -m assignment` shows your progress; `python -m assignment submit` makes your zip.

Progress is measured by the public tests. The zip is ready to hand in. The course's own commands are
listed below.
"""

import sys
from importlib import import_module
from pathlib import Path

from kit import student_command
from kit.safe_text import ticking

COMMANDS = {
    "fly": "train a small model made of your modules (and of given ones for the rest)",
    "bet": "answer the handout's bets and quizzes, with a score that is yours alone",
    "race": "reach the lowest loss with a fixed budget of FLOPs, for no points",
}
MODULES = {"fly": "flight.fly_command", "bet": "flight.bets", "race": "flight.race"}

if __name__ == "__main__":
    root, arguments = Path(__file__).absolute().parents[1], sys.argv[1:]
    if not (arguments and arguments[0] in COMMANDS):
        sys.exit(student_command.main(root, arguments, COMMANDS))
    try:
        with ticking("starting ", sys.stdout):
            module = import_module(MODULES[arguments[0]])  # importing torch takes seconds
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(module.main(root, arguments[1:]))
