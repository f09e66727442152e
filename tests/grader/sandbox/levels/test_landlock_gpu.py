"""A GPU at the second level of isolation, as far as a machine without one can test it.

The device files are real ones, which `mknod` makes: each is another device of the kernel (the
memory devices, such as /dev/null) under the name of one of the driver's. So opening, reading,
writing and requests of ioctl meet the real rules of Landlock and seccomp. A request that both let
through reaches a device that does not know it, which answers ENOTTY.
"""

import errno
import os
import stat
from functools import partial
from pathlib import Path

import pytest

from grader.base.errors import SandboxUnavailable
from grader.sandbox import ioctls
from grader.sandbox.levels import landlock
from grader.sandbox.sandbox import Sandbox
from tests.grader.in_the_sandbox import MIB, NEEDS_LANDLOCK, PLAIN
from tests.grader.in_the_sandbox import answer as answer_with_torch
from tests.grader.sandbox.levels.test_landlock import GOOD, LEVEL
from tests.grader.sandbox.test_gpus import environment_in_which_cuda_works, library, stand_in

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("landlock gpu"), NEEDS_LANDLOCK]
WITHOUT_TORCH = {"device_memory_bytes": 0}
answer = partial(answer_with_torch, **WITHOUT_TORCH)
NULL, ZERO, FULL = 3, 5, 7  # minor numbers of the memory devices, whose major number is 1
OURS = {"nvidiactl": ZERO, "nvidia-uvm": FULL, "nvidia1": NULL}
CLOSED = ["nvidia-uvm-tools", "nvidia0", "nvidia-modeset", "nvidia-caps/nvidia-cap1", "dri/card0"]


@pytest.fixture(scope="module")
def driver():
    """A folder of device files that everybody may open, as a driver makes them."""
    with LEVEL.new_folder() as made:
        yield with_devices(Path(made))


def with_devices(folder):
    """Make the device files in a folder, or skip the tests where that is forbidden."""
    for name, minor in (OURS | dict.fromkeys(CLOSED, NULL)).items():
        (folder / name).parent.mkdir(exist_ok=True)
        try:
            os.mknod(folder / name, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            (folder / name).chmod(0o666)
            os.close(os.open(folder / name, os.O_RDWR))
        except PermissionError:
            pytest.skip("this machine or file system has no device files of one's own")
    return folder


@pytest.fixture(scope="module")
def boxed(driver):
    """A sandbox of the second level with that GPU and one library of its driver."""
    named = "libcuda.so.1"
    gpu = stand_in(driver, index=1, libraries=[(named, library(driver / "lib", named))])
    with with_a_gpu(gpu) as running:
        yield running


def with_a_gpu(gpu, packages=()):
    options = {"scratch_bytes": MIB, "packages": packages, "preload": packages, "gpu": gpu}
    return Sandbox(PLAIN.tests, isolation="landlock", **options)


@pytest.mark.proof
def test_torch_works_beside_a_gpu(driver):
    adds_up = "import torch\ndef f(): return torch.ones(2).sum().item()"
    with with_a_gpu(stand_in(driver, index=1), packages=("torch",)) as running:
        assert answer_with_torch(running, adds_up) == 2


OPENS = """
    import os
    def f(folder, names):
        found = []
        for name in names:
            try:
                node = os.open(f"{folder}/{name}", os.O_RDWR)
                found.append((name, os.write(node, b"x") if name != "nvidia-uvm" else 0))
            except OSError as e:
                found.append((name, e.strerror))
        return found
"""


def test_the_chosen_gpu_can_be_opened_and_nothing_else_of_the_driver(boxed, driver):
    """Everybody may open all of these files; Landlock allows those of one GPU."""
    got = answer(boxed, OPENS, str(driver), [*OURS, *CLOSED])
    allowed = [(name, 0 if name == "nvidia-uvm" else 1) for name in OURS]
    assert [*allowed, *((name, "Permission denied") for name in CLOSED)] == got


ASKS = """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    def f(path, requests):
        node = os.open(path, os.O_RDWR)
        found = []
        for request in requests:
            ctypes.set_errno(0)
            libc.ioctl(node, ctypes.c_ulong(request), None)
            found.append(ctypes.get_errno())
        return found
"""
SIZES = (0, 4, 48, 0x3FFF)
# The numbers on the list, once more: a wrong digit would be seen only where a driver is.
OF_THE_GPU = (39, 41, 42, 43, 52, 53, 74, 78, 79, 94, 200, 201, 206, 207, 210, 212, 214, 215, 218)
OF_MEMORY = [0x30000001, 0x30000002, *range(23, 32), 33, 34, 37, 38, 39, *range(42, 48), 51, 53]
OF_MEMORY += [65, 66, 68, 72, 73, 75]


def test_the_listed_requests_reach_the_driver(boxed, driver):
    """The size in a request of the GPU differs from driver to driver, so any size is allowed."""
    of_the_gpu = [
        ioctls.READ_AND_WRITE | size << 16 | ioctls.TYPE | number
        for number in OF_THE_GPU
        for size in SIZES
    ]
    for name in OURS:
        asked = OF_MEMORY if name == "nvidia-uvm" else of_the_gpu
        assert {errno.ENOTTY} == set(answer(boxed, ASKS, str(driver / name), asked))


def test_every_other_request_is_denied(boxed, driver):
    """All numbers of the driver's type, all small numbers, other types, and 32 higher bits."""
    of_the_type = [ioctls.TYPE | number for number in range(256)]
    small = [*range(256), 0x30000000, 0x30000003]
    others = [other << 8 | 0x2A for other in range(256)]
    listed = {*OF_MEMORY, *(ioctls.TYPE | number for number in OF_THE_GPU)}
    asked = [request for request in of_the_type + small + others if request not in listed]
    asked += [*ioctls.TRIED.values(), 1 << 40 | 62, 1 << 32 | ioctls.TRIED["a DMA buffer"]]
    assert len(asked) > 600
    for name in OURS:
        assert {errno.EPERM} == set(answer(boxed, ASKS, str(driver / name), asked))


EVERYDAY = """
    import os, socket
    def f():
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        os.set_inheritable(ours.fileno(), True)
        os.set_inheritable(ours.fileno(), False)
        return os.isatty(1), os.fork() or os._exit(0)
"""


def test_what_every_program_asks_is_listed(boxed):
    """Descriptors, sockets and terminals: Python itself makes such requests."""
    is_terminal, child = answer(boxed, EVERYDAY)
    assert not is_terminal
    assert child


SOCKETS = """
    import os, socket
    def f():
        found = {}
        own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own.bind(b"\\0cuda-uvmfd-1-%d" % os.getpid())
        own.listen()
        def tried(what, act):
            try:
                act()
                found[what] = "done"
            except OSError as e:
                found[what] = e.strerror
        other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        tried("connect", lambda: other.connect(own.getsockname()))
        tried("accept", own.accept)
        tried("send", lambda: other.sendto(b"x", own.getsockname()))
        tried("datagrams", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        tried("internet", lambda: socket.socket(socket.AF_INET))
        tried("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
        return found
"""


def test_cuda_can_bind_its_socket_and_nobody_can_connect_to_it(boxed):
    """The driver needs the socket to start, and another process of a student must not use it."""
    got = answer(boxed, SOCKETS)
    assert "Transport endpoint is not connected" == got.pop("send")
    assert {"Operation not permitted"} == set(got.values())


def test_cuda_finds_what_it_needs(boxed):
    """CUDA finds its GPU by its UUID, and no server to share it."""
    seen = environment_in_which_cuda_works(boxed, landlock.READ_BY_CUDA, **WITHOUT_TORCH)
    assert ("GPU-0a1b", "1") == (seen["CUDA_VISIBLE_DEVICES"], seen["CUDA_CACHE_DISABLE"])
    assert seen["CUDA_MPS_PIPE_DIRECTORY"].endswith("/work/scratch/no-mps")


def test_the_promises_come_from_tries(boxed):
    """`grader isolation --device cuda` prints them; each try that fails breaks one."""
    boxed.wait_until_ready()
    good = {"cannot_open": [], "opens": [], "requests": [], "connects": False}
    tried = {**GOOD, "sockets": ["local streams"], "gpu": good}
    assert [*LEVEL.promises({"tried": tried})] == boxed.promises
    assert all(LEVEL.promises({"tried": tried}).values())
    broken = {"cannot_open": ["/dev/nvidia0"], "opens": ["x"], "requests": ["x"], "connects": True}
    assert broken.keys() == good.keys()
    for name, value in broken.items():
        worse = {**tried, "gpu": {**good, name: value}}
        assert 1 == [*LEVEL.promises({"tried": worse}).values()].count(False), name
    for kind in ("local datagrams", "the internet"):
        worse = {**tried, "sockets": ["local streams", kind]}
        assert not all(LEVEL.promises({"tried": worse}).values())


def test_a_box_that_shows_another_gpu_is_refused(driver, monkeypatch):
    real = landlock._devices

    def with_too_much(gpu):
        found = real(gpu)
        return {**found, "nodes": [*found["nodes"], str(driver / "nvidia0")]}

    monkeypatch.setattr(landlock, "_devices", with_too_much)
    said = "it can open no other device file of the driver"
    with (
        with_a_gpu(stand_in(driver, index=1)) as box,
        pytest.raises(SandboxUnavailable, match=said),
    ):
        box.wait_until_ready()


def test_a_device_file_that_only_root_may_open_is_named_with_the_fix(driver):
    """The student's user must be able to open it, whatever root can do."""
    node, gpu = driver / "nvidia1", stand_in(driver, index=1)
    node.chmod(0o660)
    try:
        with pytest.raises(SandboxUnavailable, match=rf"may not open {node}: chmod a\+rw {node}"):
            with_a_gpu(gpu)
    finally:
        node.chmod(0o666)
