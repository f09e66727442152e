"""Makes `python -m grader` the same command as `grader`."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  pip refuses such a Python, but a checkout needs no pip
    print(
        f"grader: Python 3.11 or later is needed; this is {sys.version.split()[0]}", file=sys.stderr
    )
    sys.exit(3)

from grader.commands.cli import main

main()
