"""Chapter 1.4: the program `python -m assignment.bpe`."""

import json
import sys


def main(arguments: list[str]) -> int:
    """Run the program.

    `python -m assignment.bpe apply MERGES` reads words from its standard input, one a line, and
    prints the tokens of each on a line, separated by blanks. MERGES is a JSON file: a list of pairs
    of strings, in the order in which they are merged. All characters are ASCII.

    Exits with 2, and prints nothing to its standard output, if it is called in another way or there
    is no such file.

    Example:
        With [["a", "b"]] in m.json, `apply m.json` prints "a ab" for the word "aab".

    Handout §1.4 · `python -m assignment check program`
    """
    # TODO(program): about 19 lines.
    raise NotImplementedError("program: see handout §1.4")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
