"""Pack what a bare machine with a GPU lacks: pack_gpu.py FOLDER [--python 3.12] [--tar]

    python scripts/pack_gpu.py gpu --python 3.12 --tar
    # on that machine, which needs no network:
    tar xf gpu.tar.gz && python3 gpu/tree/scripts/prove_gpu.py results

The folder has

- tree/        this repository's tracked files, as they are now
- wheels/      the packages of the grader and the assignment for that Python, without torch
- bubblewrap/  this machine's bubblewrap with its libraries and their loader

Exit codes: 0 packed; 2 a wrong command; 3 this machine lacks something.
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
EXTRAS = ("assignment", "grader", "cuda")
MORE = ("hypothesis>=6.100", "pytest-xdist>=3.6")  # for the attack suite
# bubblewrap gets an empty environment from the grader, so its own loader finds its libraries.
START = """#!/bin/sh
here=${0%/*}
exec "$here/LOADER" --library-path "$here" "$here/bubblewrap" "$@"
"""


class Lacks(Exception):
    """This machine lacks something; the text names it."""


def main() -> int:
    """Write the folder, and say what is in it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a new or empty folder")
    parser.add_argument("--python", default="3.12", help="the machine's Python (default: 3.12)")
    parser.add_argument("--tar", action="store_true", help="also write FOLDER.tar.gz")
    given = parser.parse_args()
    if not re.fullmatch(r"3\.\d+", given.python):
        return _ended(2, f"--python {given.python}: expected a version such as 3.12")
    if given.folder.exists() and any(given.folder.iterdir()):
        return _ended(2, f"{given.folder} is not empty")
    try:
        for name, pack in PARTS.items():
            place = given.folder / name
            place.mkdir(parents=True)
            said = pack(place, given.python)
            size = sum(f.stat().st_size for f in place.rglob("*") if f.is_file())
            print(f"{name:<11} {size / 2**20:6.1f} MiB  {said}", flush=True)
    except Lacks as e:
        return _ended(3, str(e))
    if given.tar:
        archive = given.folder.with_name(f"{given.folder.name}.tar.gz")
        with tarfile.open(archive, "w:gz") as file:
            file.add(given.folder, given.folder.name)
        print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB")
    print("it contains the hidden tests and the solutions: never give it to a student")
    return 0


def _ended(code: int, text: str) -> int:
    print(f"pack_gpu.py: {text}", file=sys.stderr)
    return code


def pack_tree(place: Path, python: str) -> str:
    """Copy the tracked files."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, check=True)
    names = [name for name in done.stdout.decode().split("\0") if name]
    for name in names:
        if (TREE / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TREE / name, place / name)
    return f"{len(names)} files"


def pack_wheels(place: Path, python: str) -> str:
    """Download the wheels of what the project declares, without torch."""
    extras = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    wanted = [*extras["dependencies"], *MORE]
    wanted += [line for name in EXTRAS for line in extras["optional-dependencies"][name]]
    wanted = [w for w in wanted if not w.startswith(("torch", "resource-accounting"))]
    machine = platform.machine()
    platforms = [f"manylinux{kind}_{machine}" for kind in ("_2_28", "_2_17", "2014")]
    line = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
    line += ["--python-version", python, "--implementation", "cp", "--dest", str(place)]
    line += [word for name in platforms for word in ("--platform", name)]
    done = subprocess.run([*line, *wanted], capture_output=True, text=True)
    if done.returncode:
        raise Lacks(f"the packages cannot be downloaded: {done.stderr.strip()[-300:]}")
    return f"{len(list(place.glob('*.whl')))} packages for Python {python}"


def pack_bubblewrap(place: Path, python: str) -> str:
    """Copy bubblewrap, the libraries that it names, and their loader."""
    path = shutil.which("bwrap")
    if path is None:
        raise Lacks("bubblewrap is not installed: make bubblewrap")
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=True)
    libraries = [Path(found) for found in re.findall(r"(/\S+) \(0x", done.stdout)]
    for library in libraries:
        shutil.copy(library, place / library.name)
    shutil.copy(path, place / "bubblewrap")
    loader = next(library.name for library in libraries if library.name.startswith("ld-"))
    (place / "bwrap").write_text(START.replace("LOADER", loader))
    for file in place.iterdir():
        file.chmod(0o755)
    said = subprocess.run([place / "bwrap", "--version"], env={}, capture_output=True, text=True)
    return f"{said.stdout.strip()}, {len(libraries)} libraries"


PARTS = {"tree": pack_tree, "wheels": pack_wheels, "bubblewrap": pack_bubblewrap}


if __name__ == "__main__":
    sys.exit(main())
