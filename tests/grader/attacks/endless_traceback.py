"""Prints the start of a traceback that never ends, and kills itself.

group: attack the reader
target: linear
status: crashed
holds: the search for the line that crashed takes less than quadratic time in the length of the output.
"""

import os

print("Fatal Python error" + 'File "' * 170_000, end="", flush=True)
os.kill(os.getpid(), 15)
