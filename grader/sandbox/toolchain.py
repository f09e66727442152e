"""The C++ compiler of this machine, for courses whose problems compile code.

Code is compiled in one step, in a process of its own that sees all files of the compiler and no
GPU. The tests then run with what that step has written, which they cannot change, and with the
compiler's driver only: torch asks it for its version, which is part of the names of compiled files.
Without the compiler proper, headers, assembler and linker, the driver compiles nothing.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grader.base.errors import StudentFault

NAMES = ("g++", "c++")
SECONDS = 60
# Inside the box, below its writable folder; torch's compiler and Triton keep their files there. The
# name is the same in both steps, because compiled files contain it.
CACHE = "submission/.compiled"
NAME = re.compile(r"(?!\.\.?$)[\w.+-]{1,200}", re.ASCII)
MOST_FOLDERS = 8


@dataclass(frozen=True)
class Toolchain:
    """A compiler.

    Attributes:
        driver: The program that torch starts.
        seen_by_driver: Files that the driver names with its version if they exist. So they have to
            exist in both steps, too.
        tools: All its other files and folders, which compiling needs; each with the path where it
            must be.
        headers: The folder of Python's headers, which torch's compiler needs; None without one.
    """

    driver: Path
    seen_by_driver: tuple[Path, ...]
    tools: tuple[tuple[Path, Path], ...]
    headers: Path | None

    def environment(self, scratch: str, compiled: str) -> dict[str, str]:
        """Environment variables for torch's compiler.

        Args:
            scratch: The writable folder.
            compiled: The folder with what the first step has written.
        """
        return {
            "PATH": "/usr/bin:/bin",
            "CXX": str(self.driver),
            "GRADER_COMPILED": compiled,
            "TORCHINDUCTOR_CACHE_DIR": f"{scratch}/{CACHE}",
            "TRITON_CACHE_DIR": f"{scratch}/{CACHE}/triton",
            # Other processes would be started in advance, and a forked child would not have them.
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            # What the processor has is compiled for, without a trial of each instruction set.
            "TORCHINDUCTOR_VEC_ISA_OK": "1",
            # They take 200 MB.
            "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
        }


@cache
def find() -> Toolchain | None:
    """The compiler that is installed on this machine; None if there is none that works."""
    for name in NAMES:
        if found := shutil.which(name):
            with suppress(OSError, subprocess.SubprocessError):
                return _described(found)
    return None


def _described(command: str) -> Toolchain:
    """Ask a compiler where its files are."""
    places = [_said(command, f"-print-prog-name={name}") for name in ("cc1plus", "collect2")]
    places.append(_said(command, "-print-file-name=crtbegin.o"))
    folders = {Path(place).parent for place in places if os.path.isabs(place)}
    search = _said(command, "-E", "-Wp,-v", "-xc++", os.devnull, errors=True).splitlines()
    folders |= {Path(line.strip()) for line in search if line.startswith(" /")}
    real = {Path(os.path.realpath(folder)) for folder in folders if folder.is_dir()}
    outer = {f for f in real if not any(o in f.parents for o in real)}
    tools = [(folder, folder) for folder in sorted(outer)]
    for name in ("as", "ld"):
        found = _said(command, f"-print-prog-name={name}")
        program = shutil.which(found) or found
        tools.append((Path(os.path.realpath(program)), Path("/usr/bin") / name))
    headers = Path(sysconfig.get_paths(vars=_of_the_base())["include"])
    wrapper = Path(_said(command, "-print-prog-name=lto-wrapper"))
    seen = (wrapper,) if wrapper.is_absolute() else ()
    driver = Path(os.path.realpath(command))
    return Toolchain(driver, seen, tuple(tools), headers if headers.is_dir() else None)


def checked(files: dict[str, bytes], most_bytes: int) -> dict[str, bytes]:
    """The files that a process in the box says it has compiled, if they can be shown to others.

    Raises:
        StudentFault: They are too large or too many, or a path is not one below their folder.
    """
    if (size := sum(map(len, files.values()))) > most_bytes:
        raise StudentFault(
            f"what it compiles takes {size:,} bytes, and {most_bytes:,} are the limit"
        )
    for path in files:
        parts = path.split("/")
        if len(parts) > MOST_FOLDERS or not all(map(NAME.fullmatch, parts)):
            raise StudentFault("what it compiles has a file name that cannot be used")
    folders = {"/".join(p.split("/")[:n]) for p in files for n in range(1, p.count("/") + 1)}
    if folders & files.keys():
        raise StudentFault("what it compiles has a file name that cannot be used")
    return files


def _of_the_base() -> dict[str, str]:
    """Variables of sysconfig for the Python that a virtual environment is made of."""
    return {"base": sys.base_prefix, "installed_base": sys.base_prefix}


def _said(command: str, *options: str, errors: bool = False) -> str:
    done = subprocess.run(
        [command, *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    return (done.stderr if errors else done.stdout).strip()
