"""Try the autograder as Gradescope would run it: a minimal system, few rights, little memory.

    debootstrap --variant=minbase bookworm roots/bookworm
    grader release gradescope autograder.zip --wheels wheels/
    python scripts/try_in_a_container.py roots/bookworm --set-up autograder.zip
    python scripts/try_in_a_container.py roots/bookworm ada.zip bob.zip

Needs root. The system in the folder runs with the rights that Docker's default profile gives to
root: Docker's default capabilities, no new namespaces and no mounts. Set-up has a network unless
--offline is given; grading never has one. A control group limits memory and processors to
Gradescope's defaults. For each submission, the script prints the time, the peak memory, how many
processes the kernel killed for lack of memory, and the score.
"""

import argparse
import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from grader.sandbox import seccomp
from grader.worker import kernel

GROUPS = Path("/sys/fs/cgroup")
MIB = 2**20
# chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw,
# sys_chroot, mknod, audit_write, setfcap
OF_DOCKER = {0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31}
LAST_CAPABILITY = 40
PR_CAPBSET_DROP = 24
DENIED_BY_DOCKER = (
    "mount", "umount2", "pivot_root", "unshare", "setns", "bpf", "keyctl", "add_key", "ptrace",
    "perf_event_open", "open_tree", "fsopen", "fsmount", "move_mount",
)  # fmt: skip
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOUNTS = """
mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" &&
exec "$@"
"""


def main() -> int:
    """Set up, or grade each submission; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="the folder with the system")
    parser.add_argument("submissions", type=Path, nargs="*", help="zips to grade")
    parser.add_argument("--set-up", type=Path, metavar="ZIP", help="unpack it and run setup.sh")
    parser.add_argument("--offline", action="store_true", help="no network for set-up")
    parser.add_argument("--memory-mib", type=int, default=768)
    parser.add_argument("--processors", type=float, default=0.5)
    parser.add_argument("--inside", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        enter(given.root, given.inside)
    home = given.root / "autograder"
    if given.set_up:
        _unpack(given.set_up, home)
        return _run(given.root, "/autograder/source/setup.sh", network=not given.offline)
    print(f"{'submission':30} {'seconds':>8} {'peak MiB':>9} {'killed':>7} {'score':>8}")
    for submission in given.submissions:
        _put(submission, home)
        with _Limits(given.memory_mib, given.processors) as limits:
            began = time.monotonic()
            _run(given.root, "/autograder/run_autograder", group=limits.folders)
            seconds = time.monotonic() - began
            peak, killed = limits.used()
        written = home / "results" / "results.json"
        result = json.loads(written.read_text()) if written.is_file() else {}
        score = f"{result['score']:.2f}" if "score" in result else "none"
        print(f"{submission.stem:30.30} {seconds:8.1f} {peak:9} {killed:7} {score:>8}", flush=True)
    return 0


def _unpack(archive: Path, home: Path) -> None:
    """Unpack the zip into Gradescope's folder for it, with the permissions of its files."""
    shutil.rmtree(home, ignore_errors=True)
    for name in ("source", "submission", "results"):
        (home / name).mkdir(parents=True)
    with zipfile.ZipFile(archive) as files:
        for info in files.infolist():
            Path(files.extract(info, home / "source")).chmod(info.external_attr >> 16)
    shutil.copy(home / "source" / "run_autograder", home)


def _put(submission: Path, home: Path) -> None:
    for name in ("submission", "results"):
        shutil.rmtree(home / name, ignore_errors=True)
        (home / name).mkdir()
    with zipfile.ZipFile(submission) as files:
        files.extractall(home / "submission")


def _run(root: Path, script: str, *, network: bool = False, group: tuple[Path, ...] = ()) -> int:
    """Run a script in the system; its output goes to a log next to the system's folder."""
    if network:
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")
    again = [sys.executable, __file__, str(root), "--inside", "/bin/bash", script]
    spaces = ["--mount", "--pid", "--fork", "--ipc", *([] if network else ["--net"])]

    def join() -> None:
        for folder in group:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    with root.with_suffix(".log").open("wb") as log:
        return subprocess.run(
            ["unshare", *spaces, "sh", "-c", MOUNTS, str(root), *again],
            stdout=log,
            stderr=log,
            preexec_fn=join,
        ).returncode


def enter(root: Path, command: list[str]) -> None:
    """Replace this process by a command in the system, with the rights that Docker gives."""
    program = _filter()
    os.chroot(root)
    os.chdir("/")
    for capability in range(LAST_CAPABILITY + 1):
        if capability not in OF_DOCKER:
            kernel.prctl(PR_CAPBSET_DROP, capability)
    kernel.filter_calls(program)
    mask = sum(1 << capability for capability in OF_DOCKER)
    header = struct.pack("Ii", kernel.CAPABILITIES_VERSION, 0)
    kernel.LIBC.capset(header, struct.pack("6I", mask, mask, 0, 0, 0, 0))
    os.execve(command[0], command, {"PATH": PATH, "HOME": "/root"})


def _filter() -> bytes:
    """A filter for the main calls that Docker's profile denies to root without CAP_SYS_ADMIN."""
    this = seccomp.MACHINES[os.uname().machine]
    deny = seccomp._return(seccomp.ERRNO | errno.EPERM)
    allow = seccomp._return(seccomp.ALLOW)
    new_namespaces = seccomp._when(seccomp.ANY_BIT, seccomp.NEW_NAMESPACES, deny)
    return b"".join(
        [
            seccomp._load(seccomp.NUMBER),
            *(this.at(name, deny) for name in DENIED_BY_DOCKER if name in this.calls),
            this.at("clone3", seccomp._return(seccomp.ERRNO | errno.ENOSYS)),
            this.at("clone", seccomp._load(seccomp.FIRST_ARGUMENT) + new_namespaces + allow),
            allow,
        ]
    )


class _Limits:
    """A control group of either version for one run."""

    def __init__(self, memory_mib: int, processors: float) -> None:
        self._old = (GROUPS / "memory").is_dir()
        tops = (GROUPS / "memory", GROUPS / "cpu") if self._old else (GROUPS,)
        self.folders = tuple(top / f"try-{os.getpid()}" for top in tops)
        quota = int(100_000 * processors)
        self._values = (
            {
                "memory/memory.limit_in_bytes": memory_mib * MIB,
                "cpu/cpu.cfs_period_us": 100_000,
                "cpu/cpu.cfs_quota_us": quota,
            }
            if self._old
            else {"memory.max": memory_mib * MIB, "cpu.max": f"{quota} 100000"}
        )

    def __enter__(self) -> "_Limits":
        for folder in self.folders:
            folder.mkdir()
        for name, value in self._values.items():
            place = Path(name)
            (GROUPS / place.parent / self.folders[0].name / place.name).write_text(str(value))
        return self

    def __exit__(self, *_: object) -> None:
        for folder in self.folders:
            folder.rmdir()

    def used(self) -> tuple[int, int]:
        """The peak memory in MiB, and how many processes the kernel killed for lack of memory."""
        names = (
            ("memory.max_usage_in_bytes", "memory.oom_control")
            if self._old
            else ("memory.peak", "memory.events")
        )
        peak, events = ((self.folders[0] / name).read_text() for name in names)
        killed = dict(line.split() for line in events.splitlines())["oom_kill"]
        return int(peak) // MIB, int(killed)


if __name__ == "__main__":
    sys.exit(main())
