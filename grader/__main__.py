"""Makes `python -m grader` the same command as `grader`."""

from grader.cli import main

main()
