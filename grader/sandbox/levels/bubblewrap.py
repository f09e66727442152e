"""The box that a submission runs in, as a bubblewrap command line.

Theory of operation. bubblewrap builds a new, empty root and shows in it only what this file lists:
the C library, the Python interpreter with its standard library, the packages that a submission may
import, the worker and the probes. All of this is read-only. The grader, its reference solutions and
the hidden tests are never in the box, so nothing has to hide them. One small tmpfs is writable. The
box has no network, no other processes, no inherited environment and no capabilities, and its
processes cannot create new namespaces (seccomp.py).

If root runs the grader, bubblewrap needs no user namespace. Instead, the worker switches to an
unused user id before it imports anything. This makes the limit on processes effective, and nothing
in /proc or /sys belongs to that user. If any other user runs the grader, bubblewrap creates a user
namespace. The seccomp filter also forbids further user namespaces, because older versions of
bubblewrap have no option for that.

Every version of bubblewrap since 0.4 works. Options of newer versions are used if its help lists
them (`Bubblewrap`).

With a GPU, the box also shows the GPU's device files, the driver's libraries and the few files of
/sys that CUDA reads (`_gpu`). No other GPU is visible.

`command` builds the command line in steps; each step is one function that returns arguments.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from grader.base import interrupts
from grader.base.errors import SandboxUnavailable
from grader.sandbox import seccomp, visible_files
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels.level import Isolation, Level, Order, holding
from grader.tools.tool import Tool
from kit.safe_text import printable

PYTHON, SITE, RUNTIME, COURSE, SCRATCH, DRIVER = (
    "/python", "/site", "/runtime", "/course", "/tmp", "/driver",
)  # fmt: skip

# The files of /proc that torch's library for CPU detection and other libraries read.
OF_THE_MACHINE = ("cpuinfo", "meminfo")

# Kernel settings that may forbid user namespaces to ordinary users, with the value that forbids
# them and one that allows them.
FORBIDDING = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "10000"),
}


class BubblewrapLevel(Level):
    """The level "bubblewrap", the strongest."""

    name: Isolation = "bubblewrap"

    def why_not(self) -> str | None:
        """Try to create a box without a worker; return why bubblewrap cannot, or None if it can.

        The text includes the fix.
        """
        try:
            found = find_bubblewrap()
        except SandboxUnavailable as e:
            return str(e)
        user = visible_files.unused_user()
        program = [f"{PYTHON}/bin/{visible_files.interpreter().name}", "-s", "-S", "-P", "-c", ""]
        command = [*_box(found, user, [], scratch_bytes=2**20, gpu=None), *program]
        try:
            # A bubblewrap that is killed while it starts leaves a process that waits forever.
            with interrupts.held():
                done = subprocess.run(
                    command, env={}, capture_output=True, text=True, timeout=60, process_group=0
                )
        except (OSError, subprocess.TimeoutExpired) as e:
            return f"bubblewrap does not run: {e}"
        if done.returncode == 0:
            return None
        first = done.stderr.strip().partition("\n")[0].rstrip(".")
        said = printable(first, 300)
        return f"the sandbox cannot be started: {said or 'bubblewrap fails'}; {advice()}"

    def start(self, order: Order) -> "subprocess.Popen[bytes]":
        """Start the worker in its box."""
        with holding(seccomp.program(cuda=order.gpu is not None)) as rules:
            line = command(order, seccomp_fd=rules.fileno())
            # bubblewrap's own environment is readable inside the box, so it is empty.
            return order.run(line, {}, rules.fileno())

    def promises(self, facts: Mapping[str, Any]) -> dict[str, bool]:
        """The properties of the box, and whether the zygote reports that it has them."""
        return {
            "it is process 1 of its namespace": facts["pid"] == 1,
            "it is not root": facts["uid"] != 0,
            "it has no capabilities": facts["capabilities"] == 0,
            "it cannot gain privileges": facts["no_new_privileges"],
            "its system calls are filtered": facts["seccomp"] == 2,
            "it cannot create user namespaces": not facts["nests"],
        }

    def advice(self, said: str) -> str:
        """How to fix what bubblewrap said; Python inside the box speaks without its prefix."""
        return advice() if said.startswith("bwrap:") else ""


def command(order: Order, *, seccomp_fd: int) -> list[str]:
    """The command line that starts the worker in its box.

    Args:
        order: The worker. Its folder, which is empty, gets what the box shows of the grader's and
            the course's files.
        seccomp_fd: The descriptor that the filter is read from.

    Raises:
        SandboxUnavailable: See `find_bubblewrap`, or the worker's user may not open the GPU's
            device files.
    """
    found = find_bubblewrap()
    gpu, user = order.gpu, order.user
    files = [*_worker(order.folder, order.tests), *_packages(order.packages)]
    files += _tools(order.tools)
    return [
        *_box(found, user, files, scratch_bytes=order.scratch_bytes, gpu=gpu),
        *("--seccomp", str(seccomp_fd)),
        *order.boot(
            f"{PYTHON}/bin/{visible_files.interpreter().name}",
            RUNTIME,
            [SITE, COURSE],
            user,
            filter=seccomp.of_tests(cuda=gpu is not None).hex(),
        ),
    ]


def _box(
    found: "Bubblewrap", user: int, files: list[str], *, scratch_bytes: int, gpu: Gpu | None
) -> list[str]:
    """The arguments that describe the box; `files` show the worker, the course and the packages."""
    return [
        found.path,
        *_namespaces(user, found),
        *_privileges(user),
        *_environment(gpu),
        *_folders(),
        *_system_libraries(),
        *_python(),
        *files,
        *_kernel_files(gpu),
        *_gpu(gpu, user),
        *_scratch(scratch_bytes, found),
        *_seal(gpu),
    ]


def advice() -> str:
    """How to fix a box that does not start, guessed from this machine's settings."""
    for setting, (forbids, allows) in FORBIDDING.items():
        with suppress(OSError):
            if Path("/proc/sys", *setting.split(".")).read_text().strip() == forbids:
                return (
                    "this machine forbids user namespaces to ordinary users; "
                    f"either run the grader as root, or: sudo sysctl {setting}={allows}"
                )
    if os.geteuid() == 0:
        return "start the container with --privileged"
    return "run the grader as root, or on a machine that allows user namespaces"


class Bubblewrap(NamedTuple):
    """An installed bubblewrap."""

    path: str  # the path of the program
    options: frozenset[str]  # the options that its help lists


def find_bubblewrap() -> Bubblewrap:
    """Find the bubblewrap that is installed on this machine.

    Raises:
        SandboxUnavailable: bubblewrap is not installed, or does not run.
    """
    path = shutil.which("bwrap")
    if path is None:
        raise SandboxUnavailable(
            "bubblewrap is not installed: install the package bubblewrap, "
            "for example with `apt-get install bubblewrap`"
        )
    try:
        listed = subprocess.run(
            [path, "--help"], env={}, capture_output=True, text=True, errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise SandboxUnavailable(f"bubblewrap does not run: {e}") from None
    return Bubblewrap(path, frozenset(re.findall(r"--[a-z0-9-]+", listed.stdout)))


Place = str | Path


def _each(option: str, arguments: Iterable[Place | tuple[Place, Place]]) -> list[str]:
    """An option that is given once for each of these: a word, or two."""
    pairs = (given if isinstance(given, tuple) else (given,) for given in arguments)
    return [str(word) for given in pairs for word in (option, *given)]


def _namespaces(user: int, found: Bubblewrap) -> list[str]:
    kinds = [
        "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try",
    ]  # fmt: skip
    if not user:
        further = {"--disable-userns"} & found.options
        kinds += ["--unshare-user", *further]
    return [*kinds, "--hostname", "box", "--as-pid-1", "--die-with-parent", "--new-session"]


def _privileges(user: int) -> list[str]:
    # Just enough to switch to that user id. The switch then drops these capabilities too.
    kept = ["CAP_SETUID", "CAP_SETGID"] if user else []
    return ["--cap-drop", "ALL", *_each("--cap-add", kept)]


def _environment(gpu: Gpu | None) -> list[str]:
    libraries = f"{PYTHON}/lib:{DRIVER}" if gpu else f"{PYTHON}/lib"
    values = visible_files.environment(SCRATCH, libraries) | (
        gpu.environment(alone=True) if gpu else {}
    )
    # bubblewrap itself has an empty environment.
    return _each("--setenv", values.items())


def _folders() -> list[str]:
    """The parent folders of everything that the box shows.

    bubblewrap would create them by itself, but readable only by their owner.
    """
    libraries = {f"{PYTHON}/lib", f"{PYTHON}/{sys.platlibdir}"}
    below = ["/usr", "/usr/lib", "/etc", "/sys", PYTHON, f"{PYTHON}/bin", *sorted(libraries), SITE]
    return _each("--dir", [*below, RUNTIME, COURSE])


def _system_libraries() -> list[str]:
    """The folders of the C library and its loader, and nothing else from /usr."""
    folders = visible_files.library_folders()
    arguments = _each("--ro-bind", ((one, one) for one in folders))
    for link in (Path("/lib"), Path("/lib64")):
        inside = link / visible_files.MULTIARCH
        shown = inside if inside.is_dir() else link
        if link.is_symlink():
            arguments += ["--symlink", os.readlink(link), str(link)]
        elif link.is_dir():
            arguments += ["--ro-bind", str(shown), str(shown)]
    arguments += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    return arguments + [word for one in folders for word in _without_packages(one, str(one))]


def _python() -> list[str]:
    """The interpreter and its standard library under /python, without other installed packages."""
    executable, library = visible_files.interpreter(), visible_files.standard_library()
    shown_library = f"{PYTHON}/{sys.platlibdir}/{library.name}"
    shared = [(one, f"{PYTHON}/lib/{one.name}") for one in visible_files.loaded("libpython")]
    return [
        *_each("--ro-bind", [(executable, f"{PYTHON}/bin/{executable.name}")]),
        *_each("--ro-bind", [(library, shown_library)]),
        *_without_packages(library, shown_library),
        *_each("--ro-bind", shared),
    ]


def _without_packages(folder: Path, place: str) -> list[str]:
    """Hide the packages installed inside a system folder, because the grader may be among them."""
    hidden = (Path(place, f.relative_to(folder)) for f in visible_files.installed_inside(folder))
    return [word for one in hidden for word in _nothing_at(str(one))]


def _nothing_at(folder: str) -> list[str]:
    """Hide a folder behind an empty one.

    It is read-only, because it belongs to an ordinary user who runs the grader, and so to the
    submission.
    """
    return ["--tmpfs", folder, "--remount-ro", folder]


def _packages(packages: tuple[str, ...]) -> list[str]:
    """Show each file or folder of an allowed package under /site, one by one."""
    shown = ((path, f"{SITE}/{path.name}") for path in visible_files.package_paths(packages))
    return _each("--ro-bind", shown)


def _worker(folder: Path, tests: Path) -> list[str]:
    """Show copies, in this folder, of the code of the worker and of the probes."""
    runtime, course = folder / "runtime", folder / "course"
    visible_files.copy(visible_files.WORKER, runtime / "grader")
    visible_files.copy_code_of_tests(tests, course)
    return ["--ro-bind", str(runtime), RUNTIME, "--ro-bind", str(course), COURSE]


def _tools(tools: Iterable[Tool]) -> list[str]:
    """Show the files of programs that submissions may start, where those programs expect them."""
    binds = [pair for tool in tools for pair in tool.files]
    headers = [tool.headers for tool in tools if tool.headers]
    binds += [(folder, Path(PYTHON) / "include" / folder.name) for folder in headers]
    above = {str(parent) for _, place in binds for parent in place.parents} - {"/"}
    values = [pair for tool in tools for pair in tool.environment.items()]
    return [
        *_each("--dir", sorted(above)),
        *_each("--ro-bind", binds),
        *_each("--setenv", values),
    ]


def _kernel_files(gpu: Gpu | None) -> list[str]:
    return [
        *("--proc", "/proc"),
        # CUDA reads more of them than anybody has listed.
        *([] if gpu else _nothing_of_the_machine()),
        *_devices(gpu),
        *_each("--ro-bind-try", ((one, one) for one in visible_files.HUGE_PAGES)),
    ]


def _nothing_of_the_machine() -> list[str]:
    """Hide the files of /proc that are not about processes: a submission could read their counters.

    They count what all programs do, so they would tell it what another box did before. A device on
    a read-only place cannot be opened.
    """
    arguments = []
    for entry in sorted(Path("/proc").iterdir()):
        if entry.name.isdigit() or entry.is_symlink() or entry.name in OF_THE_MACHINE:
            continue
        hidden = str(entry)
        arguments += _nothing_at(hidden) if entry.is_dir() else ["--ro-bind", os.devnull, hidden]
    return arguments


def _devices(gpu: Gpu | None) -> list[str]:
    """Create /dev; a submission needs no terminals, of which the machine has a limited number.

    /dev/shm is the scratch folder, because semaphores and shared memory are files there. So they
    count as files of the test, and are removed with them.
    """
    devices = {name: name for name in ("null", "full", "random", "urandom")}
    # Shared pages of /dev/zero would be memory that is in no resident set. /dev/full reads the
    # same, and has no pages. Nobody has checked whether CUDA needs the pages.
    devices["zero"] = "zero" if gpu else "full"
    links = {"fd": "/proc/self/fd", "shm": SCRATCH}
    links |= {name: f"/proc/self/fd/{n}" for n, name in enumerate(("stdin", "stdout", "stderr"))}
    return [
        *("--dir", "/dev"),
        *_each("--dev-bind", ((f"/dev/{it}", f"/dev/{name}") for name, it in devices.items())),
        *_each("--symlink", ((target, f"/dev/{name}") for name, target in links.items())),
    ]


def _gpu(gpu: Gpu | None, user: int) -> list[str]:
    """Show one GPU: the driver's libraries, the files of /sys that CUDA reads, the device files.

    The libraries appear under the names by which CUDA loads them.

    /proc/driver/nvidia needs no argument, because every /proc contains it. /dev stays read-only,
    because devices in a read-only folder can still be written to.
    """
    if gpu is None:
        return []
    gpu.require_open_nodes(to_others=user != 0)
    folder = gpu.nodes[0].parent
    libraries = [(file, f"{DRIVER}/{name}") for name, file in gpu.libraries]
    nodes = [(node, f"/dev/{node.relative_to(folder)}") for node in gpu.nodes]
    files = [(file, file) for file in gpu.files]
    shown = [*libraries, *files, *nodes]
    above = {str(parent) for _, place in shown for parent in Path(place).parents}
    return [
        *_each("--dir", sorted(above - {"/", "/dev", "/sys"})),
        *_each("--ro-bind", libraries),
        *_each("--ro-bind-try", files),
        *_each("--dev-bind", nodes),
    ]


def _scratch(size: int, found: Bubblewrap) -> list[str]:
    """Create the writable folder.

    The worker makes it accessible to the worker's own user, and also monitors its size.
    """
    limit = ["--size", str(size)] if "--size" in found.options else []
    return [*limit, "--tmpfs", SCRATCH, "--chdir", SCRATCH]


def _seal(gpu: Gpu | None) -> list[str]:
    """Make everything except the scratch folder read-only, including /proc/sys.

    With a GPU, /proc is not made read-only: CUDA names its threads by writing to files in
    /proc/self/task, and fails with error 304 if it cannot. Everything else that is writable in
    /proc belongs to root, and bubblewrap always makes the kernel's settings read-only.
    """
    return [*([] if gpu else ["--remount-ro", "/proc"]), "--remount-ro", "/"]
