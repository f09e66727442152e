"""Raises exceptions named like the grader's own faults, or like a test that was not attempted.

group: forge the verdict
target: tensor_memory
status: failed, memory
holds: an exception's name has no effect: it causes neither a grader fault nor a deferred test.
"""


def named(name):
    return type(
        name,
        (Exception,),
        {"__module__": "builtins", "from_grader": True, "status": "deferred", "errno": 10**100},
    )


def tensor_bytes(x):
    raise named("GraderFault")("the sandbox ended")


def storage_bytes(x):
    raise named("MemoryError")("deferred")


def unique_bytes(tensors):
    raise type("Mismatch", (AssertionError,), {"__module__": "kit.expect"})("passed")
