"""The executable, which starts in 10 ms: sends arguments, environment and files, and waits."""

import _signal
import _socket
import marshal
import os
import sys

# Python and the libraries read variables of these names only when they start.
READ_AT_THE_START = (
    "PYTHON", "LC_", "LANG", "LD_", "OMP_", "MKL_", "OPENBLAS_", "MALLOC_", "GLIBC_",
)  # fmt: skip
CAN_BE_FOLLOWED = ("PYTHONPATH", "PYTHONSAFEPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING")
PASSED_ON = (
    *(_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP),
    *(_signal.SIGUSR1, _signal.SIGUSR2, _signal.SIGQUIT),
)


def for_start(environment):
    """The variables that a running interpreter could not follow."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_AT_THE_START) and name not in CAN_BE_FOLLOWED
    }


def run(python, address, own_environment):
    """Run what Python's arguments say, in a process of the server if it can follow them."""
    arguments = sys.argv[1:]
    what = arguments[1:2] if arguments[:1] == ["-P"] else arguments[:1]
    can_be_warm = what and (what[0] in ("-m", "-c") or not what[0].startswith("-"))
    if not can_be_warm or for_start(os.environ) != own_environment:
        os.execv(python, [python, *arguments])
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    server.connect(address)
    ask(server, arguments)
    status = server.recv(4)
    end_like(int.from_bytes(status, "big") if status else _signal.SIGKILL)


def ask(server, arguments):
    """Ask the server for a process, and pass signals on to it from now on."""
    umask = os.umask(0)
    opened = [n for n in map(int, os.listdir("/proc/self/fd")) if inherited(n)]
    request = marshal.dumps((arguments, os.getcwd(), dict(os.environ), umask, opened))
    rights = b"".join(n.to_bytes(4, sys.byteorder) for n in opened)
    length = len(request).to_bytes(4, "big")
    server.sendmsg([length], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])
    server.sendall(request)
    for number in PASSED_ON:
        if _signal.getsignal(number) != _signal.SIG_IGN:
            _signal.signal(number, lambda number, frame: pass_on(server, number))
    for number in opened:
        os.close(number)


def pass_on(server, number):
    """Send a signal to the process, unless it has ended."""
    try:  # noqa: SIM105  contextlib takes 5 ms to import
        server.send(bytes([number]))
    except OSError:
        pass


def inherited(descriptor):
    """Whether a descriptor is open and comes from the process that started this one."""
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False


def end_like(status):
    """End like a process that ended with this wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
        if number != _signal.SIGKILL:
            _signal.signal(number, _signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))
