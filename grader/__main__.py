"""Makes `python -m grader` the same command as `grader`."""

from grader.commands.cli import main

main()
