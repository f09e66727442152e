"""The C++ compiler of this machine, for C++ that submissions load and for torch's compiler.

A process of a test compiles with its own limits, into its own folder. A submission gains nothing by
it: machine code that it brings along would run in the same box.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from functools import cache
from pathlib import Path

from grader.tools.tool import Tool

NAMES = ("g++", "c++")
SECONDS = 60
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    # What the processor has is compiled for, without a trial of each instruction set.
    "TORCHINDUCTOR_VEC_ISA_OK": "1",
    # They take 200 MB.
    "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
}


@cache
def find() -> Tool | None:
    """The compiler that is installed on this machine; None if there is none that works."""
    for name in NAMES:
        if found := shutil.which(name):
            with suppress(OSError, subprocess.SubprocessError):
                return _described(found)
    return None


def _described(command: str) -> Tool:
    """Ask a compiler where its files are."""
    places = [_said(command, f"-print-prog-name={name}") for name in ("cc1plus", "collect2")]
    places.append(_said(command, "-print-file-name=crtbegin.o"))
    folders = {Path(place).parent for place in places if os.path.isabs(place)}
    search = _said(command, "-E", "-Wp,-v", "-xc++", os.devnull, errors=True).splitlines()
    folders |= {Path(line.strip()) for line in search if line.startswith(" /")}
    real = {Path(os.path.realpath(folder)) for folder in folders if folder.is_dir()}
    outer = {f for f in real if not any(o in f.parents for o in real)}
    driver = Path(os.path.realpath(command))
    files = [(path, path) for path in (driver, *sorted(outer))]
    for name in ("as", "ld"):
        found = _said(command, f"-print-prog-name={name}")
        program = shutil.which(found) or found
        files.append((Path(os.path.realpath(program)), Path("/usr/bin") / name))
    # For the Python that a virtual environment is made of.
    of_the_base = {"base": sys.base_prefix, "installed_base": sys.base_prefix}
    headers = Path(sysconfig.get_paths(vars=of_the_base)["include"])
    return Tool(
        tuple(files), headers if headers.is_dir() else None, {**ENVIRONMENT, "CXX": str(driver)}
    )


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
