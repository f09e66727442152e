"""Imports the hidden tests, the reference, the grader and pytest by every name that they could have.

group: read the answers
target: tensor_memory
tests: storage_bytes
status: failed
holds: none of them can be imported.
"""

import importlib

for name in (
    "tests.hidden.tensor_memory.test_hidden",
    "tests.hidden",
    "kit.expect",
    "kit.fixtures",
    "grader",
    "grader.grading.grade",
    "grader.solutions.reference.tensor_memory",
    "grader.wire.protocol",
    "grader.worker.test_process",
    "pytest",
    "_pytest",
    "msgspec",
):
    try:
        module = importlib.import_module(name)
    except ImportError:
        continue
    raise RuntimeError(f"BREACH: {module}")
raise LookupError("nothing to import")
