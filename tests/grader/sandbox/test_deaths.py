"""Whose fault it is that a test's process died: never the grader's, whatever the process did."""

import os
import re
import subprocess
import sys
from threading import Timer

import pytest

from grader.base.errors import Crashed, GraderFault, StudentFault
from tests.grader.in_the_sandbox import LEVELS, answer, ask, session
from tests.grader.processes import processes
from tests.grader.sampling import every

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandbox")]
ARM = os.uname().machine == "aarch64"
SOURCE = f"""
import ctypes, fcntl, os, resource, signal, struct, sys, threading, time

ARM = {ARM}
libc = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    result = libc.syscall(number[ARM], *map(ctypes.c_long, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result


def ignore_the_limit():
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    while True:
        pass


def tid_of_a_thread():
    found = []
    def note():
        found.append(threading.get_native_id())
        time.sleep(60)
    threading.Thread(target=note, daemon=True).start()
    while not found:
        time.sleep(0.001)
    return found[0]


def in_a_child(act):
    if os.fork() == 0:
        try:
            act()
        finally:
            os._exit(0)
    time.sleep(0.05)
    os.wait()


def timer():
    event = ctypes.create_string_buffer(struct.pack("PiiQ", 0, 9, 0, 0) + bytes(64))
    made = ctypes.c_int()
    if libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(made)):
        raise OSError(ctypes.get_errno(), "refused")
    libc.timer_settime(made, 0, struct.pack("qqqq", 0, 0, 0, 1000), None)
    time.sleep(5)


def queue(*thread):
    info = ctypes.create_string_buffer(struct.pack("iii", 9, 0, -1) + bytes(116))  # SI_QUEUE
    number = (297, 240) if thread else (129, 138)
    call(number, os.getpid(), *thread, 9, ctypes.addressof(info))


def old_limit():
    limit = ctypes.create_string_buffer(struct.pack("QQ", 1, 1))
    call((160, 164), 0, ctypes.addressof(limit))
    ignore_the_limit()


def signal_of_a_file():
    r, w = os.pipe()
    fcntl.fcntl(r, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(r, fcntl.F_SETSIG if hasattr(fcntl, "F_SETSIG") else 10, 9)
    fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(w, b"x")
    time.sleep(5)


def end_of_a_child():
    if call((56, 220), 9, 0, 0, 0, 0) == 0:
        os._exit(0)
    time.sleep(5)


def close_the_channel(then):
    os.closerange(3, 100)
    then()


def broken_program():
    resource.setrlimit(resource.RLIMIT_STACK, (4096, 4096))
    resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))
    os.execv(sys.executable, ["x"])


WAYS = {{
    "kill": lambda: os.kill(os.getpid(), 9),
    "group": lambda: os.kill(0, 9),
    "everything": lambda: os.kill(-1, 9),
    "raise": lambda: signal.raise_signal(9),
    "thread": lambda: os.kill(tid_of_a_thread(), 9),
    "tkill": lambda: call((200, 130), threading.get_native_id(), 9),
    "tgkill": lambda: call((234, 131), os.getpid(), threading.get_native_id(), 9),
    "sigqueue": queue,
    "sigqueue of a thread": lambda: queue(threading.get_native_id()),
    "pidfd": lambda: signal.pidfd_send_signal(os.pidfd_open(os.getpid()), 9),
    "child": lambda: in_a_child(lambda: os.kill(os.getppid(), 9)),
    "child kills everything": lambda: in_a_child(lambda: os.kill(-1, 9)),
    "timer": timer,
    "file": signal_of_a_file,
    "end of a child": end_of_a_child,
    "limit": lambda: (resource.setrlimit(resource.RLIMIT_CPU, (1, 1)), ignore_the_limit()),
    "old limit": old_limit,
    "parent": lambda: (libc.prctl(1, 9), time.sleep(0.1)),
    "program": broken_program,
    "abort": os.abort,
    "crash": lambda: ctypes.string_at(0),
    "terminate": lambda: os.kill(os.getpid(), 15),
    "channel": lambda: close_the_channel(lambda: time.sleep(60)),
    "channel and busy": lambda: close_the_channel(ignore_the_limit),
    "channel and exit": lambda: close_the_channel(lambda: os._exit(0)),
    "channel and first thread": lambda: (
        tid_of_a_thread(), close_the_channel(lambda: call((60, 93), 0))
    ),
}}


def f(way):
    WAYS[way]()
    return "still here"
"""
WAYS = re.findall(r'^    "(.*?)": ', SOURCE, re.MULTILINE)


@pytest.fixture(params=LEVELS)
def sandbox(request, plain):
    return plain(request.param)


@pytest.mark.parametrize("way", every(2, WAYS))
def test_a_process_that_ends_itself_is_the_students_fault(sandbox, way):
    """It cannot look as if the kernel, or anybody else, had killed it."""
    before = sandbox.host_pid
    try:
        said = answer(sandbox, SOURCE, way)
    except StudentFault as e:
        said = str(e)
    assert "signal 9" not in said
    assert before == sandbox.host_pid


MANY = """
import os, signal, threading, time

def f(number):
    way, when = number % 5, (number * 7919) % 40 / 1000
    def act():
        time.sleep(when)
        if way == 3:
            os.closerange(3, 100)
        os.kill([os.getpid(), os.getppid(), -1, os.getpid(), first][way], 9)
    first = os.getpid()
    if way in (1, 2) and os.fork() == 0:
        try:
            act()
        finally:
            os._exit(0)
    elif way == 4:
        threading.Thread(target=act).start()
    elif way not in (1, 2):
        act()
    os.kill(first, [15, 6, 11, 9][number % 4])
    time.sleep(when)
    os._exit(number % 256)
"""
BUSY = "while True: pass"


@pytest.mark.proof
def test_under_load_no_end_of_a_process_is_a_fault_of_ours(sandbox):
    """Processes end in many ways and at many moments while every core is busy."""
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
    try:
        ours = []
        for number in range(500):
            try:
                answer(sandbox, MANY, number)
            except StudentFault:
                pass
            except GraderFault as e:
                ours.append((number, str(e)))
        assert ours == []
    finally:
        for process in load:
            process.kill()
            process.wait()


@pytest.mark.parametrize("signal", [9, 15])
def test_a_kill_from_outside_costs_nothing(sandbox, signal):
    """SIGKILL from outside is a fault of ours; the student's code could have sent any other."""
    kind = GraderFault if signal == 9 else Crashed
    said = "killed from outside" if signal == 9 else "signal 15"
    with session(sandbox, "def f(busy):\n    while busy: pass\n") as made:
        ask(made, False)
        (process,) = processes("PPid", sandbox.host_pid)
        Timer(0.1, os.kill, [process, signal]).start()
        with pytest.raises(kind, match=said):
            ask(made, True)
