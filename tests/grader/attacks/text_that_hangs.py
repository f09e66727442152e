"""Raises an exception whose __str__ never returns.

group: attack the reader
target: tensor_memory
limits: wall_seconds=1
tests: storage_bytes_is_the_whole_storage
status: timeout
holds: the text is computed in the worker, so the deadline applies to it.
"""


class Endless(Exception):
    def __str__(self):
        while True:
            pass


def storage_bytes(x):
    raise Endless
