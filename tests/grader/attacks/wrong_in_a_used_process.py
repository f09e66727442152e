"""Is right as long as its process is new, and lies once an earlier test has used it.

group: cheat the exercise
target: tensor_memory
reference: before
earns: full
holds: what is wrong in a shared process is asked again in a new one, where it is right.
"""

import os

calls = 0


def moody(function):
    def called(*arguments):
        global calls
        calls += 1
        return function(*arguments) if calls < 40 else os.abort()

    return called


tensor_bytes, storage_bytes, unique_bytes = map(moody, (tensor_bytes, storage_bytes, unique_bytes))
