"""Temporary folders: what a killed grader leaves behind, the next one removes.

As long as a grader lives, it holds a lock on each of its folders. The kernel ends the lock with the
process, also of a process in another container that shares the place. So a folder without a lock is
left over, and one whose lock cannot be taken is never touched.
"""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import weakref
from contextlib import suppress

PREFIX = "grader-tmp-"  # short, because a box's folder holds sockets, whose paths are limited
HIDDEN = ".grader-tmp-"
NAME = re.compile(r"\.?grader-tmp-\w{8}")

_looked: set[str] = set()  # the places in which this process has looked for what was left


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A temporary folder that the next grader removes if this one is killed.

    Args:
        place: The folder that it is in (default: the folder for temporary files).
        prefix: The beginning of its name, PREFIX or HIDDEN.
    """

    def __init__(self, place: str | None = None, prefix: str = PREFIX) -> None:
        place = tempfile.gettempdir() if place is None else place
        if place not in _looked:
            _looked.add(place)
            remove_left(place)
        while True:
            super().__init__(prefix=prefix, dir=place)
            lock = _open(self.name)
            if lock is not None and _is_held(lock, self.name):
                break
            # Another grader took it for a folder that was left, before it had its lock.
            super().cleanup()
        self._unlock = weakref.finalize(self, os.close, lock)

    def cleanup(self) -> None:
        """Remove the folder, then end its lock."""
        super().cleanup()
        self._unlock()


def _open(path: str) -> int | None:
    """A descriptor of a folder; None if there is none, or a link."""
    with suppress(OSError):
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    return None


def _is_held(lock: int, path: str) -> bool:
    """Take the lock of a folder; return whether the folder is still there.

    Some file systems have no locks. There, nothing is ever taken for left over.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    except OSError:
        return True
    with suppress(OSError):
        if os.path.samestat(os.fstat(lock), os.lstat(path)):
            return True
    os.close(lock)
    return False


def remove_left(place: str) -> None:
    """Remove the folders of this user whose graders have ended."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if NAME.fullmatch(entry.name):
                with suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        _remove_if_left(entry.path)


def _remove_if_left(path: str) -> None:
    lock = _open(path)
    if lock is None:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        empty(path)
    except OSError:
        return  # it is in use, or there are no locks here
    finally:
        os.close(lock)


def empty(folder: str | os.PathLike[str]) -> None:
    """Remove a folder that a student's code may have filled.

    Folders that student code leaves behind may be nested too deep for shutil.rmtree.
    """
    remove = shutil.which("rm", path=os.defpath) or "rm"
    with suppress(OSError):  # then the caller's own clean-up must suffice
        subprocess.run([remove, "-rf", "--one-file-system", str(folder)], capture_output=True)
