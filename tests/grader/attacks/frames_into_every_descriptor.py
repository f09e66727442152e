"""Writes an answer that claims a pass to every open file descriptor.

group: forge the verdict
target: tensor_memory
tests: storage_bytes
status: failed, crashed
holds: a reply can carry a value but never a verdict.
"""

import os
import sys

# The codec cannot be imported, but a caller of this module has it.
frame = sys._getframe()
while "protocol" not in frame.f_globals:
    frame = frame.f_back
protocol = frame.f_globals["protocol"]

answer = {"id": 1, "status": "passed", "value": {"status": "passed", "score": 4.0}}
for fd in range(1, 1024):
    try:
        os.write(fd, b"".join(protocol.encode(answer)))
    except OSError:
        pass
