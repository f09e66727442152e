"""Raises a chain of exceptions whose message is a hundred megabytes of lines.

group: attack the reader
target: tensor_memory
tests: tensor_bytes_counts_what_a_view_shows
status: failed, memory
holds: a message has a maximum length, and the worker cuts it.
"""


def tensor_bytes(x):
    try:
        raise ValueError("passed\n" * 15_000_000)
    except ValueError as e:
        raise LookupError(str(e) + "!") from e


storage_bytes = unique_bytes = tensor_bytes
