"""The files of this machine that a submission may see, at every level of isolation.

They are the C library, the Python interpreter with its standard library, the packages that a
submission may import, the worker's own code and the course's probes. The grader, its reference
solutions and the hidden tests are not among them.
"""

import importlib.metadata
import os
import secrets
import shutil
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement

import kit
from grader.base.errors import GraderFault

MULTIARCH = sysconfig.get_config_var("MULTIARCH") or "no-multiarch"
FIRST_USER, USERS = 1_000_000_000, 1_000_000_000
# glibc reads these.
HUGE_PAGES = tuple(
    f"/sys/kernel/mm/transparent_hugepage/{name}" for name in ("enabled", "hpage_pmd_size")
)
# malloc then asks for huge pages, which make a fork cheaper.
HUGE_PAGES_OF_MALLOC = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
GRADER = Path(__file__).parent.parent
# The worker's code, and the modules that it shares with the grader.
WORKER = (GRADER / "wire", GRADER / "worker")


def unused_user() -> int:
    """Return a random user id that no account has.

    Because the id is random, no other box uses it either, even in another container. The result is
    0 if this process may not change its user id.
    """
    return FIRST_USER + secrets.randbelow(USERS) if os.geteuid() == 0 else 0


def environment(scratch: str, libraries: str) -> dict[str, str]:
    """The environment of the worker.

    Args:
        scratch: The writable folder.
        libraries: The folders of shared libraries that belong to Python and to a GPU's driver.
    """
    return {
        "HOME": scratch,
        "USER": "student",  # some versions of torch ask for it, and no account has the user's id
        "TMPDIR": scratch,
        "LANG": "C.UTF-8",
        "LD_LIBRARY_PATH": libraries,
        # With more threads, forked children would hang, and results would depend on the machine.
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        **HUGE_PAGES_OF_MALLOC,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
    }


def interpreter() -> Path:
    """The Python interpreter that runs this process and will run the worker."""
    return Path(sys.executable).resolve()


def standard_library() -> Path:
    """The folder of Python's standard library."""
    variables = {"base": sys.base_prefix, "installed_base": sys.base_prefix}
    return Path(sysconfig.get_paths(vars=variables)["stdlib"])


def library_folders() -> list[Path]:
    """The folders of the C library and its loader below /usr."""
    folders = [Path("/usr/lib") / MULTIARCH, Path("/usr/lib64")]
    return [f for f in folders if f.is_dir()] or [Path("/usr/lib")]


def loaded(name: str) -> list[Path]:
    """The files of this process's loaded shared libraries whose names begin with `name`."""
    with open("/proc/self/maps") as f:
        paths = {Path(line.split(maxsplit=5)[5].strip()) for line in f if name in line}
    return sorted(path for path in paths if path.name.startswith(name))


def installed_inside(folder: Path) -> list[Path]:
    """The folders of installed packages inside a system folder; the grader may be among them."""
    installed = {
        folder / "site-packages",
        folder / "dist-packages",
        *map(Path, site.getsitepackages()),
    }
    return sorted(f for f in installed if f.is_dir() and f.is_relative_to(folder))


@cache
def package_paths(packages: tuple[str, ...]) -> tuple[Path, ...]:
    """The top-level files and folders of the allowed packages and their requirements.

    Args:
        packages: The packages that a submission may import, as in `Course`.

    Raises:
        GraderFault: A package is not installed, or was not installed by pip or a similar tool.
    """
    wanted = [Requirement(package) for package in packages]
    waiting = [(r.name, extra) for r in wanted for extra in ("", *r.extras)]
    seen, paths = set[tuple[str, str]](), set[Path]()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise GraderFault(
                f"{name} is not installed in {sys.prefix}, but one of the packages that a "
                f"submission may import requires it: run `{sys.executable} -m pip install {name}`"
            ) from None
        record = distribution.read_text("RECORD")
        if record is None:
            raise GraderFault(
                f"{name} was installed without a list of its files: install it with pip"
            )
        names = {line.split("/", 1)[0].split(",", 1)[0].strip('"') for line in record.splitlines()}
        found = (
            Path(str(distribution.locate_file(top))) for top in names - {"..", "__pycache__", ""}
        )
        paths |= {path for path in found if path.exists()}
        requirements = [Requirement(text) for text in distribution.requires or []]
        needed = [
            r for r in requirements if r.marker is None or r.marker.evaluate({"extra": extra})
        ]
        waiting += [(r.name, extra) for r in needed for extra in ("", *r.extras)]
    return tuple(sorted(paths))


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, which every user may list, whatever the umask is."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir()
        folder.chmod(0o755)


def copy(paths: Iterable[Path], place: Path) -> None:
    """Copy files and folders, so that it does not matter which users may read the originals.

    Cached bytecode is copied too, which saves the worker compiling them.
    """
    make_folder(place)
    for path in paths:
        if path.is_dir():
            inside = [one for one in path.iterdir() if one.name != "__pycache__"]
            copy(sorted(inside), place / path.name)
            continue
        cached = Path(cache_from_source(path))
        for source, folder in [(path, place), (cached, place / "__pycache__")]:
            if source == path or source.is_file():
                make_folder(folder)
                copied = shutil.copy2(source, folder)  # keeps the time that bytecode refers to
                os.chmod(copied, 0o644)


def copy_code_of_tests(tests: Path, place: Path) -> None:
    """Copy the course's probes and their data, and what of the kit they need."""
    copy([tests / "probes"], place / "tests")
    copy(kit.files_in_the_box(), place / "kit")
