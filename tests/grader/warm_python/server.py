"""The server: imports the libraries once, then forks a process for each request."""

import atexit
import gc
import importlib
import io
import marshal
import multiprocessing
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import threading
import types
import weakref
from contextlib import suppress
from functools import partial
from pathlib import Path

# Not jaxtyping or hypothesis: pytest imports its plugins itself.
IMPORTED = (
    *("torch", "torch._dynamo", "numpy", "pytest", "typer", "pydantic", "msgspec"),
    *("rich.console", "rich.live", "packaging.requirements", "yaml", "sqlite3", "jinja2"),
    # What typer imports when a command starts, and for its help and errors.
    *("typer._adapters", "typer.rich_utils", "rich.markdown", "rich.traceback", "pydantic.fields"),
    *("pdb", "tomllib", "numpy.typing", "_pytest.junitxml", "_pytest.unittest"),  # as pytest starts
)
HIGHEST = 512  # a process's own descriptors are below

# Freed in a forked process, these objects would close descriptors that have become other files.
never_freed = []


class Server:
    """Forks a process for each connection, passes signals on to it, and answers how it ended."""

    def __init__(self, address):
        self._folder = Path(address).parent
        self._running = {}  # connection → process
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(64)
        self._events = selectors.DefaultSelector()
        self._events.register(self._listener, selectors.EVENT_READ, self._begin)
        self._events.register(0, selectors.EVENT_READ, self._stop)
        never_freed.extend((self._listener, self._events, self._running))

    def serve(self):
        """Answer requests. Returns only in a forked process, with its request."""
        while True:
            for key, _ in self._events.select():
                if request := key.data(key.fileobj):
                    return request

    def _begin(self, listener):
        """Fork a process; return its request in that process."""
        connection, _ = listener.accept()
        request = received(connection)
        if request is None:
            return None
        pid = os.fork()
        if pid == 0:
            never_freed.append(connection)
            return request
        for descriptor in request[1]:
            os.close(descriptor)
        self._running[connection] = pid
        self._events.register(connection, selectors.EVENT_READ, self._pass_on)
        ended = partial(self._answer, connection)
        self._events.register(os.pidfd_open(pid), selectors.EVENT_READ, ended)
        return None

    def _pass_on(self, connection):
        """Send signals to a process; kill it if the caller is gone."""
        if connection not in self._running:  # it has ended in the meantime
            return
        numbers = connection.recv(64)
        if not numbers:
            self._events.unregister(connection)
        for number in numbers or [signal.SIGKILL]:
            os.kill(self._running[connection], number)

    def _answer(self, connection, pidfd):
        """Tell the caller how its process ended."""
        _, status = os.waitpid(self._running.pop(connection), 0)
        self._events.unregister(pidfd)
        os.close(pidfd)
        if connection in self._events.get_map():
            self._events.unregister(connection)
        with suppress(OSError):  # the caller may be gone
            connection.sendall(status.to_bytes(4, "big"))
        connection.close()

    def _stop(self, _):
        """Kill all processes and end, because the tests have ended."""
        for pid in self._running.values():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self._folder)
        os._exit(0)


def received(connection):
    """What a process shall run, and the descriptors that it gets; None if the caller is gone."""
    descriptors = []
    with suppress(OSError):
        length, descriptors, *_ = socket.recv_fds(connection, 4, 256)
        size = int.from_bytes(length, "big")
        content = connection.recv(size, socket.MSG_WAITALL)
        if content and len(content) == size:
            return marshal.loads(content), descriptors
    for descriptor in descriptors:
        os.close(descriptor)
    return None


def become(request, descriptors, executable):
    """Turn this process into what the caller would be; return the arguments of Python."""
    arguments, folder, environment, umask, opened = request
    numbers = sorted(int(n) for n in os.listdir("/proc/self/fd"))
    kept = [os.dup2(n, HIGHEST + i, inheritable=False) for i, n in enumerate(descriptors)]
    for number in numbers:
        if number < HIGHEST:
            close(number)
    for number, source in zip(opened, kept, strict=True):
        os.dup2(source, number)
        os.close(source)
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin = sys.__stdin__ = stream(0, "r")
    sys.stdout = sys.__stdout__ = stream(1, "w")
    sys.stderr = sys.__stderr__ = stream(2, "w", errors="backslashreplace")
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    tempfile.tempdir = None
    multiprocessing.set_executable(executable)
    if arguments[:2] == ["-m", "assignment"]:  # it runs pytest with sys.executable
        sys.executable = executable
    return arguments


def close(number):
    """Close a descriptor that may be closed already."""
    with suppress(OSError):
        os.close(number)


def stream(number, mode, errors="strict"):
    """A text stream like those with which Python starts, or None if its descriptor is closed."""
    try:
        raw = open(number, f"{mode}b", closefd=False)  # noqa: SIM115  open until the process ends
    except OSError:
        return None
    lines = mode == "w" and (number == 2 or raw.isatty())
    encoding = os.environ.get("PYTHONIOENCODING", "").partition(":")[0] or None
    return io.TextIOWrapper(raw, encoding, errors, line_buffering=lines)


def start(arguments):
    """Run `-m module`, `-c program` or a script, as Python does."""
    sys.orig_argv = [sys.executable, *arguments]
    safe = arguments[0] == "-P"
    kind, *rest = arguments[1:] if safe else arguments
    safe = safe or os.environ.get("PYTHONSAFEPATH")
    first = {"-m": os.getcwd(), "-c": ""}.get(kind, str(Path(kind).resolve().parent))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [*([] if safe else [first]), *filter(None, paths)]
    sys.modules.pop("sitecustomize", None)
    with suppress(ImportError):  # as each start of Python does
        importlib.import_module("sitecustomize")
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = [kind, *(rest[1:] if kind in ("-c", "-m") else rest)]
    if kind == "-m":
        runpy._run_module_as_main(rest[0])
        return
    if kind != "-c":
        main.__file__ = str(Path(kind).absolute())
    source = rest[0] if kind == "-c" else Path(kind).read_text(encoding="utf-8")
    exec(compile(source, "<string>" if kind == "-c" else kind, "exec"), main.__dict__)


def end(code):
    """Exit as Python does, but without freeing everything that was imported, which takes 0.2 s."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for opened in (sys.stdout, sys.stderr):
        if opened is not None and not opened.closed:
            opened.flush()
    os._exit(code)


if __name__ == "__main__":
    address, executable = sys.argv[1:]
    server = Server(address)
    print("listens", flush=True)  # who connects now waits until the imports are done
    path = list(sys.path)
    for name in IMPORTED:
        with suppress(ImportError):  # not every version of a library needs every other library
            importlib.import_module(name)
    sys.path[:] = path  # the compiler of torch 2.6 adds a folder of its own
    for info in weakref.finalize._registry.values():
        info.atexit = False  # what the imports created is freed by the end of the process
    gc.collect()
    gc.freeze()
    arguments = become(*server.serve(), executable)
    try:
        start(arguments)
    except SystemExit as e:
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
        end(e.code if isinstance(e.code, int) else int(e.code is not None))
    except KeyboardInterrupt:
        raise
    except BaseException:
        sys.excepthook(*sys.exc_info())
        end(1)
    end(0)
