"""The first code inside the sandbox: drop all privileges, do slow imports, become the zygote.

    python boot.py CONTROL_FD UID RUNTIME PATH...

CONTROL_FD is the zygote's socket. UID is the user to become (0: stay). RUNTIME is the folder of the
worker's own code. Each PATH is a folder that a submission may import from: the packages and the
probes.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4


def main() -> None:
    control, uid, runtime, paths = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    if uid:
        os.chmod(os.environ["TMPDIR"], 0o1777)  # the folder belongs to root
        become(uid)
    libc = ctypes.CDLL(None)
    # bubblewrap had set this signal, but changing the user cleared it.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # No process in the sandbox may read another one's memory.
    libc.prctl(PR_SET_DUMPABLE, 0)
    sys.path[:] = [runtime, *sys.path, *paths]
    from grader.worker import zygote

    zygote.import_slow_packages()
    forget_runtime(runtime)
    zygote.serve(control)


def become(uid: int) -> None:
    """Drop root permanently: groups, group and user, and with them every capability."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def forget_runtime(runtime: str) -> None:
    """Make the worker's own code impossible to import by name, so that `import grader` fails.

    Loaded code keeps working, because its functions hold references to their globals.
    """
    sys.path.remove(runtime)
    for name in [m for m in sys.modules if m == "grader" or m.startswith("grader.")]:
        del sys.modules[name]


if __name__ == "__main__":
    main()
