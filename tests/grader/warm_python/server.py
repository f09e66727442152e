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
from contextlib import suppress
from pathlib import Path

# Not jaxtyping or hypothesis: pytest imports its plugins itself.
IMPORTED = ("torch", "torch._dynamo", "numpy", "pytest", "typer", "rich", "msgspec", "jinja2")
HIGHEST = 512  # a process's own descriptors are below

# In a forked process, freeing one of these would close a descriptor that has become another file.
never_freed = []


def serve(address):
    """Fork a process for each request. Returns only in such a process, with the request."""
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    events = selectors.DefaultSelector()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    events.register(listener, selectors.EVENT_READ, "a request")
    events.register(0, selectors.EVENT_READ, "the end")
    print("ready", flush=True)
    running = {}  # connection → process
    never_freed.extend((events, listener, running))
    while True:
        for key, _ in events.select():
            if key.data == "the end":
                for pid in running.values():
                    os.kill(pid, signal.SIGKILL)
                shutil.rmtree(Path(address).parent)
                os._exit(0)
            elif key.data == "a request":
                connection, _ = listener.accept()
                request = receive(connection)
                pid = os.fork()
                if not pid:
                    never_freed.append(connection)
                    return request
                for descriptor in request[1]:
                    os.close(descriptor)
                running[connection] = pid
                events.register(connection, selectors.EVENT_READ, "a signal")
                events.register(os.pidfd_open(pid), selectors.EVENT_READ, connection)
            elif key.data == "a signal":
                connection = key.fileobj
                numbers = connection.recv(64)
                if not numbers:  # the caller was killed
                    events.unregister(connection)
                for number in numbers or [signal.SIGKILL]:
                    os.kill(running[connection], number)
            else:
                connection = key.data
                _, status = os.waitpid(running.pop(connection), 0)
                events.unregister(key.fileobj)
                os.close(key.fileobj)
                if connection in events.get_map():
                    events.unregister(connection)
                    connection.sendall(status.to_bytes(4, "big"))
                connection.close()


def receive(connection):
    """Receive what a process shall run, and the descriptors that it gets."""
    length, descriptors, *_ = socket.recv_fds(connection, 4, 256)
    waiting = int.from_bytes(length, "big")
    parts = []
    while waiting:
        parts.append(connection.recv(waiting))
        waiting -= len(parts[-1])
    return marshal.loads(b"".join(parts)), descriptors


def become(request, descriptors, executable):
    """Turn this process into what the caller would be; return the arguments of Python."""
    arguments, folder, environment, umask, opened, ignored, blocked = request
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
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
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
    return io.TextIOWrapper(raw, errors=errors, line_buffering=lines)


def start(arguments):
    """Run `-m module`, `-c program` or a script, as Python does."""
    sys.orig_argv = [sys.executable, *arguments]
    safe = arguments[0] == "-P"
    kind, *rest = arguments[1:] if safe else arguments
    first = {"-m": os.getcwd(), "-c": ""}.get(kind, str(Path(kind).resolve().parent))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = [*([] if safe else [first]), *filter(None, paths)]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = (
        ["-c", *rest[1:]] if kind == "-c" else [kind, *rest] if kind != "-m" else ["-m", *rest[1:]]
    )
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
    arguments = become(*serve(sys.argv[1]), sys.argv[2])
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
