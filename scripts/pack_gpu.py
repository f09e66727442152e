"""Pack what a bare machine with a GPU lacks: pack_gpu.py FOLDER [--python 3.12]

    python scripts/pack_gpu.py gpu --python 3.12 && tar czf gpu.tar.gz gpu
    tar xf gpu.tar.gz && gpu/prove          # on that machine, which needs no network

The folder has

- tree/        this repository's tracked files, as they are staged
- packages/    the packages of the grader and the assignment for that Python, without torch
- bubblewrap/  this machine's bubblewrap with its libraries and their loader
- prove        runs scripts/prove_gpu.py for nine minutes, with these and with pytest's options
"""

import argparse
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
EXTRAS = ("assignment", "grader", "cuda")
MORE = ("hypothesis>=6.100", "pytest-xdist>=3.6")  # for the attack suite
PROVE = """#!/bin/sh
cd "${0%/*}/tree" && here=${PWD%/*} || exit
export PYTHONPATH="$here/packages" PATH="$PATH:$here/bubblewrap" OMP_NUM_THREADS=1
exec timeout -s INT 9m python3 -m pytest scripts/prove_gpu.py -sv "$@"
"""
# bubblewrap gets an empty environment from the grader, so its own loader finds its libraries.
START = """#!/bin/sh
here=${0%/*}
exec "$here/LOADER" --library-path "$here" "$here/bubblewrap" "$@"
"""


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument("--python", default="3.12", help="the machine's Python (default: 3.12)")
    given = parser.parse_args()
    if not re.fullmatch(r"3\.\d+", given.python):
        parser.error(f"--python {given.python}: expected a version such as 3.12")
    if given.folder.exists():
        parser.error(f"{given.folder} exists: name a new folder")
    pack_tree(given.folder / "tree")
    pack_packages(given.folder / "packages", given.python)
    pack_bubblewrap(given.folder / "bubblewrap")
    (given.folder / "prove").write_text(PROVE)
    (given.folder / "prove").chmod(0o755)
    print(f"{given.folder} has the hidden tests and the solutions: never give it to a student")


def pack_tree(place: Path) -> None:
    """Copy the tracked files."""
    words = ["git", "checkout-index", "--all", f"--prefix={place.resolve()}/"]
    subprocess.run(words, cwd=TREE, check=True)


def pack_packages(place: Path, python: str) -> None:
    """Download and unpack what the project declares, without torch."""
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *MORE]
    wanted += [line for name in EXTRAS for line in project["optional-dependencies"][name]]
    wanted = [w for w in wanted if not w.startswith(("torch", "resource-accounting"))]
    kinds = [f"manylinux{kind}_{platform.machine()}" for kind in ("_2_28", "_2_17", "2014")]
    line = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
    line += ["--python-version", python, "--implementation", "cp", "--target", str(place)]
    line += [word for kind in kinds for word in ("--platform", kind)]
    if code := subprocess.run([*line, *wanted]).returncode:
        sys.exit(f"pack_gpu.py: pip could not get the packages: exit code {code}")


def pack_bubblewrap(place: Path) -> None:
    """Copy bubblewrap, the libraries that it names, and their loader."""
    path = shutil.which("bwrap")
    if path is None:
        sys.exit("pack_gpu.py: bubblewrap is not installed: make bubblewrap")
    place.mkdir(parents=True)
    done = subprocess.run(["ldd", path], capture_output=True, text=True, check=True)
    libraries = [Path(found) for found in re.findall(r"(/\S+) \(0x", done.stdout)]
    for library in libraries:
        shutil.copy(library, place / library.name)
    shutil.copy(path, place / "bubblewrap")
    loader = next(library.name for library in libraries if library.name.startswith("ld-"))
    (place / "bwrap").write_text(START.replace("LOADER", loader))
    for file in place.iterdir():
        file.chmod(0o755)


if __name__ == "__main__":
    main()
