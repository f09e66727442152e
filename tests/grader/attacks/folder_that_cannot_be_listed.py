"""Writes more than the limit into folders that may be entered but not listed, or that are nested and exchanged for links.

group: exhaust the host
target: tensor_memory
tests: storage_bytes_is_the_whole_storage
status: crashed, failed
holds: files in such folders count as well, and the zygote follows no link out of the folder.
"""

import os
import tempfile
import time

TMP = tempfile.gettempdir()
MIB = 2**20


def storage_bytes(x):
    os.mkdir(f"{TMP}/closed")
    os.symlink("/", f"{TMP}/closed/everything")
    os.chmod(f"{TMP}/closed", 0o300)
    try:
        for n in range(60):
            with open(f"{TMP}/closed/{n}", "wb", buffering=0) as file:
                file.write(bytes(2 * MIB))
    except OSError:
        raise LookupError("the file system itself has the limit") from None
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pass
    raise LookupError("BREACH")


tensor_bytes = unique_bytes = storage_bytes
