"""What can be handed in: which files, how large, and the zip and the hash of them.

The student's command makes the zip by these rules, and the grader accepts a submission by them.
"""

import difflib
import hashlib
import io
import re
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PurePosixPath

from kit.safe_text import one_line

# The grader uses the course's copies of these files.
THE_COURSES = (
    "assignment/__init__.py",
    "assignment/__main__.py",
    "assignment/assignment.py",
    "assignment/problems.toml",
)
# Below assignment/: a course whose `files` accept it shows the class a table of these, without
# points. It has a name, a loss and a recipe.
ENTRY = "race.json"
MEANT = "was it meant as"
SOURCE = re.compile(r"assignment/(?:[A-Za-z_]\w*/)*[A-Za-z_]\w*\.py", re.ASCII)
MAX_BYTES = 10 * 2**20  # of all sources together
MAX_FILES = 200
# Of a source's path. Every file system accepts them, and the sources make few folders in the box.
MAX_NAME = 100  # bytes of one name, in UTF-8
MAX_FOLDERS = 10  # below each other
TIME = (2020, 1, 1, 0, 0, 0)  # fixed: the same files give the same zip


def path_of(module: str) -> str:
    """The path of a module of the assignment, such as "assignment/model/layers.py"."""
    return f"assignment/{module.replace('.', '/')}.py"


@dataclass(frozen=True)
class Accepted:
    """What of a submission a course grades."""

    modules: tuple[str, ...] = ()  # the paths of the modules that have problems
    # Patterns of files beside the modules, below assignment/, such as "vocab/*.json".
    files: tuple[str, ...] = ()
    # The paths of modules that the course adds where a submission lacks them.
    given: tuple[str, ...] = ()
    # The id of each problem, after which its module may be misnamed, and the path.
    problems: tuple[tuple[str, str], ...] = ()

    def has(self, path: str) -> bool:
        """Whether a file beside the modules is accepted."""
        parts = path.split("/")[1:]
        patterns = [pattern.split("/") for pattern in self.files]
        return not any(part[:1] in ("", ".") for part in parts) and any(
            len(parts) == len(pattern) and all(map(fnmatchcase, parts, pattern))
            for pattern in patterns
        )


EVERY_COURSE = Accepted()


def reason_to_leave_out(path: str, accepted: Accepted = EVERY_COURSE) -> str:
    """Why the file of this path below assignment/ is not graded, or "" if it is."""
    if path in THE_COURSES:
        return "the course's own copy is used"
    if path.rsplit("/", 1)[-1] == "conftest.py":
        return "tests and their settings are the course's"
    if not SOURCE.fullmatch(path):
        if path.endswith(".py"):
            return "its name cannot be imported"
        if accepted.has(path):
            return ""
        others = "".join(f" or {pattern}" for pattern in accepted.files)
        return f"not a Python module{others}"
    return ""


def unfit(paths: Collection[str], accepted: Accepted = EVERY_COURSE) -> str:
    """Why files of these paths cannot be graded together, in a sentence; "" if they can.

    Every file system can hold paths that fit, beside the course's own files.
    """
    if len(paths) > MAX_FILES:
        return f"there are more than {MAX_FILES} files to grade under assignment/"
    for path in sorted(paths):
        if why := _unfit(path):
            return f"the path '{one_line(path, 60)}' {why}"
    files = {*paths, *THE_COURSES, *accepted.modules, *accepted.given}
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    both = sorted(files & folders)
    return f"{both[0]} is both a file and a folder" if both else ""


def _unfit(path: str) -> str:
    """What is wrong with one path, after its name in a sentence."""
    if one_line(path, len(path)) != path:
        return "has a character that cannot be printed"
    *folders, name = path.split("/")
    if long := next((part for part in (*folders, name) if len(part.encode()) > MAX_NAME), ""):
        return (
            f"is too long: the name '{one_line(long, 40)}' in it has {len(long.encode())} bytes; "
            f"the name of a file or of its folder may have {MAX_NAME}"
        )
    if len(folders) > MAX_FOLDERS:
        return f"is too long: it is in {len(folders)} folders; a source may be in {MAX_FOLDERS}"
    return ""


# What is added to the name of a copy, besides numbers.
ADDED = (
    *(".py", ".txt", ".bak", " v", "_v", "-v"),
    *("copy", "kopie", "final", "solution", "new", "old"),
)
COPY_OF = re.compile("(copy of|kopie von) ")
SHORTEST = 4  # letters of a name that another one begins with, such as that of train.py


def look_alike(path: str, accepted: Accepted) -> str:
    """The module that a file of this path may be meant as, which has another name; "" if none."""
    wanted = _by_folded_name(accepted)
    name = _folded(path)
    near = difflib.get_close_matches(name, wanted, n=1, cutoff=0.9)
    if path.endswith(".py") and len(name) >= SHORTEST:
        near += [one for one in wanted if one.startswith(name) or name.startswith(one)]
    return wanted[near[0]] if near else ""


@cache  # asked for each file of a submission
def _by_folded_name(accepted: Accepted) -> dict[str, str]:
    names = {_folded(problem): module for problem, module in accepted.problems}
    return names | {_folded(module): module for module in accepted.modules}


def _folded(path: str) -> str:
    """A file's name without what a browser, a system or a person adds to it."""
    name, longer = COPY_OF.sub("", path.rsplit("/", 1)[-1].lower()), ""
    while name != longer:
        longer = name
        for ending in ADDED:
            name = name.rstrip(" _-()0123456789").removesuffix(ending)
    return "".join(char for char in name if char.isascii() and char.isalnum())


def sha256(sources: Mapping[str, bytes]) -> str:
    """Hash paths and contents. The `sources` line of a report shows the first digits.

    A path of `unfit` has no line end. So each line before a content can be found again, and two
    different submissions are never hashed as the same bytes.
    """
    digest = hashlib.sha256()
    for path, source in sorted(sources.items()):
        digest.update(f"{path} {len(source)}\n".encode() + source)
    return digest.hexdigest()


def zipped(files: Mapping[str, bytes], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Make a zip. The same files give the same bytes; uncompressed ones, on any machine.

    Args:
        files: The contents, by path. A file that begins with `#!` can be executed.
        compression: As in the module `zipfile`.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in sorted(files.items()):
            info = zipfile.ZipInfo(path, TIME)
            info.create_system = 3  # Unix, on any machine
            info.compress_type = compression
            info.external_attr = (0o100755 if content.startswith(b"#!") else 0o100644) << 16
            archive.writestr(info, content)
    return buffer.getvalue()
