"""Returns 500 MiB of bytes where a bool is expected, for the grader to write them down as text.

group: exhaust the host
target: storage_views
tests: shares_storage
status: crashed
holds: no such value is sent, and of one that is sent only the beginning becomes text.
"""


def shares_storage(a, b):
    return bytes(500 * 2**20)
