"""Raises an exception whose text is never done.

group: attack the reader
target: tensor_memory
limits: wall_seconds=1
status: timeout
holds: the text is made in the worker, before the deadline.
"""


class Endless(Exception):
    def __str__(self):
        while True:
            pass


def storage_bytes(x):
    raise Endless
