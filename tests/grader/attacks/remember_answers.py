"""Stores its first answer in builtins, leaves a marker file, and returns that answer for every question.

group: cheat the exercise
target: tensor_memory
reference: before
status: failed
earns: less
holds: a test asks more than one question, and no test finds the answers of another.
"""

import builtins
import os
import tempfile


def remembering(function):
    def remembered(x):
        if not hasattr(builtins, "answer"):
            if os.path.exists(f"{tempfile.gettempdir()}/attack-escaped"):
                raise RuntimeError("BREACH")
            open(f"{tempfile.gettempdir()}/attack-escaped", "w").close()
            builtins.answer = function(x)
        return builtins.answer

    return remembered


tensor_bytes, storage_bytes, unique_bytes = map(
    remembering, (tensor_bytes, storage_bytes, unique_bytes)
)
