"""Sends a thousand answers before the questions.

group: forge the verdict
target: tensor_memory
tests: storage_bytes
status: crashed, failed
holds: an answer counts only for the question whose id it carries, and it has to be right.
"""

import os
import sys

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]

for number in range(1000):
    os.write(3, b"".join(protocol.encode({"id": number, "value": True})))
