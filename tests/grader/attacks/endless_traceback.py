"""Prints what looks like the start of a traceback, without an end, and kills itself.

group: attack the reader
target: linear
status: crashed
holds: looking for the line that crashed takes no time that grows with the square of what was printed.
"""

import os

print("Fatal Python error" + 'File "' * 170_000, end="", flush=True)
os.kill(os.getpid(), 9)
