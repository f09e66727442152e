"""Takes from Python on Linux what Windows lacks. Put this folder on PYTHONPATH.

Python imports this module when it starts, also in the processes that the first one starts. What is
taken away, and how a call then fails, follows the notes on availability in the documentation of
Python's modules os, signal, subprocess and multiprocessing, and of CreateProcessW and DeleteFileW.

What torch, NumPy and pytest use by themselves on Linux, such as os.getuid, stays.
"""

import builtins
import io
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

MISSING_MODULES = {"fcntl", "resource", "termios", "tty", "pty", "grp", "syslog", "readline"}
KEPT_SIGNALS = {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
LONGEST_COMMAND = 8_191  # that of cmd.exe; CreateProcessW accepts 32,767


class NoSuchModules:
    """Refuses to import what Windows lacks."""

    def find_spec(self, name, path=None, target=None):
        """Nothing, or an error."""
        if name in MISSING_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def without_posix():
    """Remove functions, signals and modules."""
    for name in [*MISSING_MODULES]:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, NoSuchModules())
    functions = "fork forkpty killpg setsid getpgid setpgid mkfifo openpty sched_setaffinity"
    for name in functions.split():
        delattr(os, name)
    for name in [name for name in dir(signal) if name.startswith("SIG") and name.isupper()]:
        if name not in KEPT_SIGNALS | {"SIG_DFL", "SIG_IGN"}:
            delattr(signal, name)
    functions = "alarm setitimer getitimer pause pthread_kill pthread_sigmask sigwait"
    for name in functions.split():
        delattr(signal, name)
    multiprocessing.set_start_method("spawn")
    multiprocessing.get_all_start_methods = lambda: ["spawn"]


def with_windows_processes():
    """A process gets no signal but can be ended, and a command line has a limit."""
    plain_init, plain_send = subprocess.Popen.__init__, subprocess.Popen.send_signal

    def init(self, args, *others, **options):
        command = args if isinstance(args, str) else subprocess.list2cmdline(args)
        if len(command) > LONGEST_COMMAND:
            raise OSError(206, "The filename or extension is too long")
        if options.get("preexec_fn") or options.get("start_new_session"):
            raise ValueError("preexec_fn is not supported on Windows platforms")
        plain_init(self, args, *others, **options)

    def send_signal(self, number):
        if number != signal.SIGTERM:
            raise ValueError(f"Unsupported signal: {number}")
        plain_send(self, number)

    def kill(self):
        plain_send(self, 9)

    subprocess.Popen.__init__ = init
    subprocess.Popen.send_signal = send_signal
    subprocess.Popen.kill = subprocess.Popen.terminate = kill


def is_open(path):
    """Whether this process has the file open, or mapped into its memory."""
    wanted = os.path.realpath(path)
    for number in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{number}") == wanted:
                return True
        except OSError:
            continue
    # pytest also deletes folders of earlier runs, whose names need not be UTF-8.
    return b" " + os.fsencode(wanted) + b"\n" in Path("/proc/self/maps").read_bytes()


def with_locked_files():
    """Nobody can delete or replace a file that is open."""

    def refusing(plain):
        def changed(*paths, **options):
            for path in paths:
                if os.path.isfile(path) and is_open(path):
                    raise PermissionError(13, "used by another process", str(path))
            return plain(*paths, **options)

        return changed

    for name in ("unlink", "remove", "rename", "replace"):
        setattr(os, name, refusing(getattr(os, name)))
    plain_rename = os.rename

    def rename(source, target, **options):
        if os.path.exists(target):
            raise FileExistsError(17, "Cannot create a file when that file already exists")
        return plain_rename(source, target, **options)

    os.rename = rename
    shutil._use_fd_functions = False  # so that rmtree calls os.unlink with the whole path


def with_another_encoding():
    """Files are opened in cp1252 where no encoding is given."""
    plain = io.open

    def opened(file, mode="r", buffering=-1, encoding=None, *others, **options):
        if "b" not in mode and encoding in (None, "locale"):
            encoding = "cp1252"
        return plain(file, mode, buffering, encoding, *others, **options)

    io.open = builtins.open = opened


without_posix()
with_windows_processes()
with_locked_files()
with_another_encoding()
