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
    # BEGIN SOLUTION(program)
    if len(arguments) != 2 or arguments[0] != "apply":
        print("usage: python -m assignment.bpe apply MERGES", file=sys.stderr)
        return 2
    try:
        with open(arguments[1], encoding="utf-8") as file:
            merges = json.load(file)
    except OSError as e:
        print(f"{arguments[1]}: {e.strerror}", file=sys.stderr)
        return 2
    for line in sys.stdin:
        tokens = list(line.strip())
        for first, second in merges:
            i = 0
            while i < len(tokens) - 1:
                if tokens[i] == first and tokens[i + 1] == second:
                    tokens[i : i + 2] = [first + second]
                i += 1
        print(*tokens)
    return 0
    # END SOLUTION


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
