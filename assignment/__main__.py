"""`python -m assignment` shows your progress; `python -m assignment submit` makes your zip.

Progress is measured by the public tests. The zip is ready to hand in. The course's own commands are
listed below.
"""

import sys
from pathlib import Path
from types import ModuleType

from kit import student_command
from kit.safe_text import ticking

COMMANDS = {
    "fly": "train a small model made of your modules (and of given ones for the rest)",
    "bet": "answer the handout's bets and quizzes, with a score that is yours alone",
    "race": "reach the lowest loss with a fixed budget of FLOPs, for no points",
}


def command_of(name: str) -> ModuleType:
    """The module of one of the course's own commands; importing torch takes seconds."""
    if name == "fly":
        from flight import fly_command

        return fly_command
    if name == "race":
        from flight import race

        return race
    from flight import bets

    return bets


if __name__ == "__main__":
    root, arguments = Path(__file__).absolute().parents[1], sys.argv[1:]
    if not (arguments and arguments[0] in COMMANDS):
        sys.exit(student_command.main(root, arguments, COMMANDS))
    try:
        with ticking("starting ", sys.stdout):
            module = command_of(arguments[0])
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(module.main(root, arguments[1:]))
