"""Forks twice to start a daemon that writes answers later.

group: survive or spread
target: tensor_memory
tests: storage_bytes
status: crashed, failed
holds: every process of a test has ended when the next test starts.
"""

import json
import os
import struct
import tempfile
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.umask(0)
        head = json.dumps({"value": {"dict": [["id", 1], ["value", 4]]}, "blobs": []}).encode()
        while True:
            open(f"{tempfile.gettempdir()}/attack-escaped", "w").close()
            time.sleep(0.01)
            try:
                os.write(3, struct.pack("!IQ", len(head), 0) + head)
            except OSError:
                pass
    os._exit(0)
os.wait()
os._exit(0)
