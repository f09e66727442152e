"""Is wrong the first time that a process calls it, and right from then on.

group: cheat the exercise
target: tensor_memory
reference: before
status: failed
holds: a test that fails ends its process, so that each test meets the first call.
"""

calls = 0


def late(function):
    def called(*arguments):
        global calls
        calls += 1
        return function(*arguments) if calls > 1 else -1

    return called


tensor_bytes, storage_bytes, unique_bytes = map(late, (tensor_bytes, storage_bytes, unique_bytes))
