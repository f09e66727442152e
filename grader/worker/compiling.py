"""The files that a compiler writes: where they are while code is compiled, and when it runs.

A process that compiles has an empty folder for them, and answers with all files in it. A process
that runs what was compiled has a folder of the same name, whose folders are links to a place that
it cannot write to. Its own folder is writable, because torch's compiler locks files beside them.
"""

import os
import re
from typing import Any

FOLDER = ".compiled"
LOCKS = "locks"
# A line of a compiler, an assembler or a linker; that of collect2 only says that a linker failed.
COMPLAINT = re.compile(
    r"^(?!collect2).*(?:\b[eE]rror: |out of memory|memory exhausted|link failed|limit exceeded).*$",
    re.MULTILINE,
)
MAX_COMPLAINT = 600


def prepare(submission: str) -> None:
    """Make the folder, and show in it what has been compiled.

    Args:
        submission: The folder of the submission's files.
    """
    if "GRADER_COMPILED" not in os.environ:
        return
    folder, compiled = f"{submission}/{FOLDER}", os.environ["GRADER_COMPILED"]
    os.makedirs(f"{folder}/{LOCKS}", exist_ok=True)
    if os.path.isdir(compiled):  # in a box that only compiles, there is no such place
        for name in os.listdir(compiled):
            os.symlink(f"{compiled}/{name}", f"{folder}/{name}")


def built(answer: dict[str, Any], error: BaseException | None) -> dict[str, Any]:
    """What a process that has compiled answers: the files, or the compiler's first complaint.

    Args:
        answer: The answer to the probe that compiles.
        error: The exception that it raised.
    """
    if error is not None and (found := COMPLAINT.search(_said(error))):
        answer["raised"]["text"] = found[0].strip()[:MAX_COMPLAINT]
    return {"value": _files(os.environ["TORCHINDUCTOR_CACHE_DIR"])} if "value" in answer else answer


def _said(error: BaseException) -> str:
    """All that an exception holds of what a compiler printed."""
    held = [getattr(error, name, None) for name in ("stderr", "stdout", "output")]
    texts = [text.decode(errors="replace") if isinstance(text, bytes) else text for text in held]
    try:
        return "\n".join([str(error), *(text for text in texts if isinstance(text, str))])
    except Exception:  # student code may have written the exception's class
        return ""


def _files(top: str) -> dict[str, bytes]:
    """Each file below a folder, by its path; locks and links are left out."""
    found = {}
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if name != LOCKS]
        for name in names:
            path = f"{folder}/{name}"
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, top)] = file.read()
    return found
