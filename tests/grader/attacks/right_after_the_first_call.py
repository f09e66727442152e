"""Returns a wrong answer to the first call in each process, and right answers after that.

group: cheat the exercise
target: tensor_memory
reference: before
status: failed
holds: a failed test ends its process, so each test is the first call in its process.
"""

calls = 0


def late(function):
    def called(*arguments):
        global calls
        calls += 1
        return function(*arguments) if calls > 1 else -1

    return called


tensor_bytes, storage_bytes, unique_bytes = map(late, (tensor_bytes, storage_bytes, unique_bytes))
