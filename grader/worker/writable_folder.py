"""The writable folder: how much a test has written, and a folder without traces for the next test.

`use` runs while a test runs, so the files may change at any moment, and hostile code may close
folders, nest them or exchange them for links. It keeps to folders that it has opened, never
follows a link, and stops as soon as a limit is exceeded. `empty` runs after the last process of a
test has ended.
"""

import os
import secrets
import stat
from contextlib import suppress

READABLE = stat.S_IRUSR | stat.S_IXUSR
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Uncountable(Exception):
    """The test has files whose size cannot be found out."""


class _Folder:
    """An open folder; closed with the last reference to it."""

    descriptor: int

    def __init__(self, name: str, parent: "_Folder | None") -> None:
        above = parent.descriptor if parent else None
        try:
            self.descriptor = os.open(name, OPEN_FOLDER, dir_fd=above)
        except PermissionError:
            # Its owner has closed it, and may open it again.
            os.chmod(name, stat.S_IRWXU, dir_fd=above)
            self.descriptor = os.open(name, OPEN_FOLDER, dir_fd=above)
        if os.fstat(self.descriptor).st_mode & READABLE != READABLE:
            os.fchmod(self.descriptor, stat.S_IRWXU)

    def __del__(self) -> None:
        with suppress(AttributeError):  # it could not be opened
            os.close(self.descriptor)


def use(top: str, *, most_files: int, most_bytes: int) -> tuple[int, int]:
    """The number of files in a folder, and their bytes; no more than it takes to exceed a limit.

    Files without a name are not found.

    Raises:
        Uncountable: The test makes it impossible to count.
    """
    files, size = 0, 0
    waiting: list[tuple[str, _Folder | None]] = [(top, None)]
    try:
        while waiting:
            with suppress(FileNotFoundError, NotADirectoryError):  # it has just been removed
                folder = _Folder(*waiting.pop())
                with os.scandir(folder.descriptor) as entries:
                    for entry in entries:
                        files += 1
                        with suppress(FileNotFoundError):
                            size += entry.stat(follow_symlinks=False).st_blocks * 512
                            if entry.is_dir(follow_symlinks=False):
                                waiting.append((entry.name, folder))
                        if files > most_files or size > most_bytes:
                            return files, size
    except OSError as e:
        raise Uncountable from e
    return files, size


def free(top: str) -> tuple[int, int]:
    """How many more files and bytes fit on the disk of a folder."""
    disk = os.statvfs(top)
    return disk.f_ffree, disk.f_bfree * disk.f_frsize


def replace(top: str) -> None:
    """Empty a folder, and replace it by a new one, which has no attributes of the old one."""
    empty(top)
    os.rmdir(top)
    os.mkdir(top, 0o700)


def empty(top: str) -> None:
    """Remove everything in a folder, at any depth and with any permissions; reset its times.

    Nested folders are moved to the top under unused names, so that no path gets too long.
    Everything belongs to this user, and no process is left that could change it in the meantime.
    """
    # If the folder belongs to root, nobody else could have changed its permissions either.
    with suppress(PermissionError):
        os.chmod(top, 0o1777)
    unused, moved = secrets.token_hex(8), 0
    while entries := list(os.scandir(top)):
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry)
                continue
            os.chmod(entry, 0o700)
            for inner in list(os.scandir(entry)):
                if inner.is_dir(follow_symlinks=False):
                    moved += 1
                    os.chmod(inner, 0o700)
                    os.rename(inner, f"{top}/{unused}-{moved}")
                else:
                    os.unlink(inner)
            os.rmdir(entry)
    with suppress(PermissionError):  # as above
        os.utime(top, (0, 0))
