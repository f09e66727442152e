"""Ends the process while it is imported, with exit code 0.

group: forge the verdict
target: linear
status: crashed
holds: linear earns nothing, every other module keeps its points.
"""

import os

os._exit(0)
