"""Writes an answer that claims a pass to every open file descriptor.

group: forge the verdict
target: tensor_memory
tests: storage_bytes
status: failed, crashed
holds: a reply can carry a value but never a verdict.
"""

import json
import os
import struct

answer = {
    "dict": [
        ["id", 1],
        ["status", "passed"],
        ["value", {"dict": [["status", "passed"], ["score", 4.0]]}],
    ]
}
head = json.dumps({"value": answer, "blobs": []}).encode()
for fd in range(1, 1024):
    try:
        os.write(fd, struct.pack("!IQ", len(head), 0) + head)
    except OSError:
        pass
