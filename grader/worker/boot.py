"""First code inside the sandbox: give up every privilege, import what is slow, become the zygote.

    python boot.py CONTROL_FD UID RUNTIME PATH...

CONTROL_FD is the zygote's socket, UID the user to become (0: stay), RUNTIME the folder of the worker's own code, PATH the
folders that a submission may import from: the packages, and the probes.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4


def main() -> None:
    control, uid, runtime, paths = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    if uid:
        os.chmod(os.environ["TMPDIR"], 0o1777)  # it is root's
        become(uid)
    libc = ctypes.CDLL(None)
    libc.prctl(
        PR_SET_PDEATHSIG, signal.SIGKILL
    )  # changing the user cleared what bubblewrap had set
    libc.prctl(PR_SET_DUMPABLE, 0)  # no process of the sandbox may look into another one's memory
    sys.path[:] = [runtime, *sys.path, *paths]
    from grader.worker import zygote

    zygote.import_slow_packages()
    forget_runtime(runtime)
    zygote.serve(control)


def become(uid: int) -> None:
    """Drop root for good: groups, group and user, and with them every capability."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def forget_runtime(runtime: str) -> None:
    """Make the worker's own code impossible to import by name, so that `import grader` fails for a submission.

    What is loaded keeps working: its functions hold their globals.
    """
    sys.path.remove(runtime)
    for name in [m for m in sys.modules if m == "grader" or m.startswith("grader.")]:
        del sys.modules[name]


if __name__ == "__main__":
    main()
