"""Answers correctly in a new process, and crashes once earlier tests have used the process.

group: cheat the exercise
target: tensor_memory
reference: before
earns: full
holds: a wrong answer from a shared process is asked for again in a new process, where it is right.
"""

import os

calls = 0


def moody(function):
    def called(*arguments):
        global calls
        calls += 1
        return function(*arguments) if calls < 100 else os.abort()

    return called


tensor_bytes, storage_bytes, unique_bytes = map(moody, (tensor_bytes, storage_bytes, unique_bytes))
