"""A program that writes a file."""

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Run the program.

    `python -m assignment.report FILE` reads its standard input and writes FILE: the different words
    in alphabetical order, one per line. It prints nothing and exits with 0. Called in another way,
    it writes nothing and exits with 2.

    Example:
        The input "b a b" makes a file of two lines, "a" and "b".
    """
    # BEGIN SOLUTION(report)
    if len(arguments) != 1:
        print("usage: python -m assignment.report FILE", file=sys.stderr)
        return 2
    words = sorted(set(sys.stdin.read().split()))
    Path(arguments[0]).write_text("".join(f"{word}\n" for word in words))
    return 0
    # END SOLUTION


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
