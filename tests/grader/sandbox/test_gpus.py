"""Running on a GPU, as far as a machine without a GPU can test it.

Sandboxes, zygotes and the dynamic loader are real. Other character devices replace the
GPU's, and where a test needs the driver's memory counts, the test supplies the numbers.
"""

import _ctypes
import errno
import json
import os
import re
import shutil
import sys
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pynvml
import pytest
import torch

from grader.base.errors import GraderFault, OutOfMemory, Raised, SandboxUnavailable, UsageError
from grader.course import courses
from grader.grading import gpu_health
from grader.grading.grade import grade
from grader.sandbox import (
    cuda_driver,
    gpu_readings,
    gpu_turns,
    gpus,
    preflight,
    seccomp,
    visible_files,
)
from grader.sandbox.gpus import Gpu
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.session import Session
from grader.submission.submissions import Submission
from tests.grader.in_the_sandbox import (
    COURSE,
    LIMITS,
    MACHINE,
    MIB,
    PLAIN,
    SYSCALLS,
    answer,
    ask,
    fault,
    plain_box,
    session,
)  # fmt: skip
from tests.grader.processes import alive, ran
from tests.grader.small_courses import LISTS, with_lists
from tests.grader.warm_python import python

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gpu")]  # one warm sandbox serves this file

ROOT = Path(__file__).resolve().parents[3]
GIB = 2**30
STAND_INS = {
    "nvidia-uvm-tools": "/dev/null", "nvidiactl": "/dev/zero", "nvidia-uvm": "/dev/full",
    "nvidia0": "/dev/urandom",
}  # fmt: skip
OF_EVERY_BOX = {"fd", "full", "null", "random", "shm", "urandom", "zero"}
OF_EVERY_BOX |= {"stderr", "stdin", "stdout"}
without_gpu = pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
without_cuda = pytest.mark.skipif(
    torch.version.cuda is not None, reason="this torch is built for CUDA"
)


class Counted(Gpu):
    """A GPU whose memory use a test sets, because no driver reports it."""

    used = staticmethod(lambda: 0)

    def used_bytes(self):
        return type(self).used()


def stand_in(folder, *, kind=Counted, libraries=(), index=0):
    """A GPU made of other devices: its nodes are links to them."""
    folder.mkdir(exist_ok=True)
    for name, device in STAND_INS.items():
        if not (folder / name).exists():
            (folder / name).symlink_to(device)
    nodes = gpus.nodes_of(index, folder=folder)
    known = ("GPU-0a1b", "Stand-in 8000", "599.01", 16 * GIB, "0000:01:00.0")
    return kind(index, *known, nodes=nodes, libraries=tuple(libraries))


def library(folder, name):
    """Install a real library under another name, as a driver does: a link to a longer name."""
    folder.mkdir(exist_ok=True)
    file = folder / name.replace(".so.1", ".so.599.01")
    shutil.copy(_ctypes.__file__, file)
    (folder / name).symlink_to(file.name)
    return file


@pytest.fixture(scope="module")
def boxed(tmp_path_factory):
    """A sandbox with the stand-in GPU and one library of its driver."""
    folder, name = tmp_path_factory.mktemp("driver"), "libcuda.so.1"
    given = stand_in(folder / "dev", libraries=[(name, library(folder / "lib", name))])
    with Sandbox(PLAIN.tests, isolation="bubblewrap", scratch_bytes=8 * MIB, gpu=given) as running:
        yield running


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    """The same without a driver and without torch, for tests that have the box replaced."""
    options = {"isolation": "bubblewrap", "scratch_bytes": 8 * MIB, "packages": (), "preload": ()}
    given = stand_in(tmp_path_factory.mktemp("light") / "dev")
    with Sandbox(PLAIN.tests, gpu=given, **options) as running:
        yield running


WITHOUT_TORCH = {"device_memory_bytes": 0}  # a test's process sets that limit by torch


# --- finding the GPU ------------------------------------------------------------------------------


@without_gpu
def test_without_a_gpu_the_command_says_so_in_one_line(grader, root):
    done = grader("grade", root, "--device", "cuda")
    assert (2, "", 1) == (done.returncode, done.stdout, done.stderr.count("\n"))
    assert done.stderr.startswith("grader: --device cuda: no NVIDIA GPU was found in /dev: ")


@pytest.mark.parametrize("others", ["", "nvidiactl", "nvidiactl nvidia-modeset nvidia-uvm"])
def test_a_machine_without_a_gpus_own_node_has_none(others, tmp_path):
    """Other files left behind by a driver are no GPU; a container may have only the fourth."""
    for name in others.split():
        (tmp_path / name).touch()
    with pytest.raises(UsageError, match=r"^--device cuda: no NVIDIA GPU was found in "):
        gpus.require_node(tmp_path)
    for name in ("nvidiactl", "nvidia3"):
        (tmp_path / name).touch()
    gpus.require_node(tmp_path)


def test_a_torch_that_cannot_use_a_gpu_is_refused(tmp_path):
    """The check reads torch's version.py, so the grader's process need not import torch for it."""
    file = tmp_path / "version.py"
    without = pytest.raises(UsageError, match=r"^--device cuda: torch is a build without CUDA: ins")
    for cuda in (": Optional[str] = None", " = None"):
        file.write_text(f"__version__ = '2.9.0'\ncuda{cuda}\nhip = '6.4'\n")
        with without:
            gpus.require_cuda(file)
    with pytest.raises(UsageError, match="torch is not installed in the grader"):
        gpus.require_cuda(None)
    file.write_text("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\n")
    gpus.require_cuda(file)
    with nullcontext() if torch.version.cuda else without:
        gpus.require_cuda(gpus._version_file_of_torch())


DEVICES = ([0, 1, 1, 2], ["GPU-aaaa", "MIG-1111", "MIG-2222", "GPU-abcd"])


def test_the_first_gpu_is_used_or_the_first_that_is_named():
    """By its index or the beginning of its UUID: to CUDA, any other name is no GPU at all."""
    for named, number in {
        None: 0, "2": 3, "1,0": 1, " 0 ": 0, "GPU-ab": 3, "GPU-aaaa,GPU-abcd": 0, "MIG-2222": 2,
    }.items():  # fmt: skip
        assert number == gpus.chosen(named, *DEVICES)
    for named in ("", "-1", "7", "GPU-ffff", "aaaa"):
        with pytest.raises(UsageError, match=r"names none of: GPU-aaaa, MIG-1111, MIG-2222, GPU-a"):
            gpus.chosen(named, *DEVICES)
    with pytest.raises(UsageError, match=r"^--device cuda: the driver lists no GPU"):
        gpus.chosen(None, [], [])


def test_of_all_nodes_only_those_that_cuda_opens_are_taken(tmp_path):
    """Those of displays and other GPUs are left out; an instance of a GPU has capabilities, too."""
    wanted = ["nvidia-uvm-tools", "nvidiactl", "nvidia-uvm", "nvidia1"]
    instance = ["nvidia-cap12", "nvidia-cap13"]
    (tmp_path / "nvidia-caps").mkdir()
    for name in (*wanted, "nvidia0", "nvidia-modeset", *(f"nvidia-caps/{it}" for it in instance)):
        (tmp_path / name).symlink_to("/dev/full")
    assert wanted + instance == [n.name for n in gpus.nodes_of(1, [12, 13], folder=tmp_path)]
    (tmp_path / "nvidia-uvm-tools").unlink()
    assert wanted[1:] == [n.name for n in gpus.nodes_of(1, folder=tmp_path)]
    (tmp_path / "nvidia-uvm").unlink()
    (tmp_path / "nvidia-uvm").touch()  # a plain file is not a node
    missing = f"there is no {tmp_path}/nvidia-uvm and no {tmp_path}/nvidia2: run `nvidia-modprobe -"
    with pytest.raises(GraderFault, match=f"^the driver runs, but {missing}u -c 0` as root$"):
        gpus.nodes_of(2, folder=tmp_path)


def test_a_capability_without_a_number_is_our_fault(tmp_path):
    file = tmp_path / "access"
    file.write_text("DeviceFileMinor: 13\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
    assert gpus.capability(file) == 13
    for text in ("", "DeviceFileMode: 292\n", "DeviceFileMinor: many\n", None):
        file.unlink() if text is None else file.write_text(text)
        with pytest.raises(GraderFault, match="access does not name the device file of its instan"):
            gpus.capability(file)


def test_without_its_library_the_driver_cannot_be_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(UsageError, match=r"nvidia-ml-py is not installed: pip install nvidia-ml-"):
        gpus._nvml()


@without_gpu
def test_a_driver_that_does_not_answer_is_our_fault(tmp_path):
    with pytest.raises(GraderFault, match=r"^the GPU's driver does not answer \(NVML\): \w"):
        stand_in(tmp_path, kind=Gpu).used_bytes()


def test_a_driver_of_another_version_than_its_library_has_a_remedy():
    said = r"mismatch\.?: the driver was updated while it was loaded, and the machine must be rest"
    with pytest.raises(GraderFault, match=said), gpus._faults_of(pynvml):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)


# --- the driver -----------------------------------------------------------------------------------


def test_the_drivers_libraries_are_found_however_the_loader_finds_them(tmp_path):
    """A short-lived process asks the loader; a driver elsewhere needs LD_LIBRARY_PATH as well."""
    file = library(tmp_path, "libnvidia-ml.so.1")
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    done = ran([sys.executable, "-I", cuda_driver.__file__], env=environment)
    assert str(file) == json.loads(done.stdout)["libraries"]["libnvidia-ml.so.1"]


@without_gpu
def test_a_driver_that_does_not_start_is_our_fault():
    said = r"^CUDA does not start on this machine, not even outside a sandbox: \S"
    with pytest.raises(GraderFault, match=said):
        gpus._start_driver("GPU-0a1b")


# --- the sandbox ----------------------------------------------------------------------------------


# What CUDA does, and what a student may try with its files.
AS_CUDA = """
    import ctypes, os, threading

    def library():
        ctypes.CDLL("libcuda.so.1")
        mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line}
        return [os.stat(path).st_ino for path in mapped]

    def readable(paths):
        return [bool(os.listdir(p) if os.path.isdir(p) else open(p)) for p in paths]

    def name_a_thread():
        wait = threading.Event()
        other = threading.Thread(target=wait.wait)
        other.start()
        error = ctypes.CDLL(None).pthread_setname_np(ctypes.c_ulong(other.ident), b"cuda-EvtHandlr")
        wait.set()
        return error

    def environment():
        return dict(os.environ)

    def nodes():
        names = [n for n in os.listdir("/dev") if os.path.exists("/dev/" + n)]
        return {n: os.stat("/dev/" + n).st_rdev for n in names}, os.listdir("/sys")

    def writes(path):
        with open(path, "r+b", buffering=0) as node:
            return node.write(b"..."), list(node.read(2))

    def opens(paths, flags):
        said = set()
        for path in paths:
            try:
                said.add((path, os.open(path, os.O_WRONLY | flags)))
            except OSError as e:
                said.add(os.strerror(e.errno))
        return [*said]
"""


def environment_in_which_cuda_works(box, reads=(), **limits):
    """The environment, after checks that a box has what CUDA needs.

    The driver's library is the host's file. CUDA writes thread names to a file in /proc, and fails
    with error 304 if it is read-only. Memory files are allowed; all other calls of the first list
    stay denied, such as performance counters and the CPU affinity of other processes.
    """
    here = [path for path in (*box.gpu.files, *reads) if Path(path).exists()]
    denied = MACHINE.those(seccomp.DENIED)
    calls = [[number, 0, 0, 0, 0, 0] for number in denied.values()]
    seen = dict(zip(denied, answer(box, SYSCALLS, calls, **limits), strict=True))
    assert seen.pop("memfd_create") == errno.EFAULT  # the call has no valid name
    assert {errno.EPERM} == set(seen.values())
    with session(box, AS_CUDA, **limits) as made:
        inodes = [file.stat().st_ino for _, file in box.gpu.libraries]
        assert inodes == ask(made, function="library")
        assert [True] * len(here) == ask(made, here, function="readable")
        assert 0 == ask(made, function="name_a_thread")
        return ask(made, function="environment")


def test_the_box_tells_cuda_what_it_has_to_know(boxed):
    """CUDA sees one device, keeps no cache between tests, and computes sums deterministically."""
    expected = {
        "CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_CACHE_DISABLE": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8", "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "LD_LIBRARY_PATH": "/python/lib:/driver", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    seen = environment_in_which_cuda_works(boxed)
    assert expected == {name: seen.get(name) for name in expected}
    assert {"memfd_create"} == seccomp.NEEDED_BY_CUDA
    told = {"gpu": "Stand-in 8000", "driver": "599.01", "cuda": str(torch.version.cuda)}
    assert told == boxed.facts["environment"]


def test_the_box_has_the_nodes_of_one_gpu_and_no_other(boxed):
    """A student can write to them, although /dev is read-only and the student owns nothing."""
    with session(boxed, AS_CUDA) as made:
        seen, of_sys = ask(made, function="nodes")
        assert (3, [0, 0]) == ask(made, "/dev/nvidiactl", function="writes")
    hosts = {name: os.stat(device).st_rdev for name, device in STAND_INS.items()}
    assert hosts.items() <= seen.items()
    assert set(STAND_INS) == set(seen) - OF_EVERY_BOX
    assert set(of_sys) <= {"devices", "module", "bus", "kernel"}


SWITCHES = ["sys/kernel/core_pattern", "sys/vm/drop_caches", "1/oom_score_adj", "1/comm"]
MADE = ["/dev/x", "/driver/x", "/driver/libcuda.so.1", "/sys/x", "/sys/devices/x"]


def test_a_gpu_gives_nothing_more_to_write_to(boxed):
    """Only the GPU's own nodes are writable in addition, though /proc is not read-only."""
    denied = {"Read-only file system", "Permission denied"}
    switches = [f"/proc/{name}" for name in (*SWITCHES, "sysrq-trigger")]
    with session(boxed, AS_CUDA) as made:
        assert denied >= {*ask(made, MADE, os.O_CREAT, function="opens")}
        assert denied | {"No such file or directory"} >= {*ask(made, switches, 0, function="opens")}


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's own permissions count")
def test_nodes_that_a_student_may_not_open_are_named_with_what_mends_them(tmp_path):
    """Before a sandbox starts in which CUDA would find no GPU. A capability is never written to."""
    closed = stand_in(tmp_path, kind=Gpu)
    node = tmp_path / "nvidia0"
    node.unlink()
    node.touch()
    node.chmod(0o660)
    said = rf"may not open {node}: chmod a\+rw {node}, and load the driver with NVreg_"
    with pytest.raises(SandboxUnavailable, match=said):
        Sandbox(COURSE.tests, isolation="bubblewrap", scratch_bytes=MIB, gpu=closed)
    held = tmp_path / "nvidia-caps" / "nvidia-cap12"
    held.parent.mkdir()
    held.touch(0o444)
    replace(closed, nodes=(held,)).require_open_nodes(to_others=True)


def test_without_isolation_the_gpu_is_named_by_its_uuid(tmp_path):
    given = stand_in(tmp_path)
    options = {"isolation": "none", "scratch_bytes": MIB, "preload": (), "gpu": given}
    bare = Sandbox(PLAIN.tests, **options)
    with bare, session(bare, AS_CUDA, **WITHOUT_TORCH) as made:
        assert given.uuid == ask(made, function="environment")["CUDA_VISIBLE_DEVICES"]


# --- limits ---------------------------------------------------------------------------------------

ADDRESSES = """
from resource import *
def f(): return [getrlimit(w) for w in (RLIMIT_AS, RLIMIT_MEMLOCK, RLIMIT_CPU)]
"""


def test_addresses_are_limited_only_without_a_gpu(boxed):
    """CUDA reserves more address space than any machine has memory."""
    addresses, locked, cpu = answer(boxed, ADDRESSES, cpu_seconds=7)
    assert ((-1, -1), (7, 8)) == (addresses, cpu)
    assert locked != (0, 0)
    with plain_box("bubblewrap") as plain:
        (soft, hard), locked, _ = answer(plain, ADDRESSES)
        assert {} == plain.facts["environment"]
    assert soft == hard > LIMITS.memory_bytes
    assert locked == (0, 0)


def test_memory_of_the_machine_is_still_limited_with_a_gpu(boxed):
    """The limit applies to the memory that all processes together really use."""
    source = "import numpy, time\ndef f():\n    kept = numpy.ones(2**24)\n    time.sleep(100)\n"
    said = fault(boxed, OutOfMemory, source, memory_bytes=64 * MIB)[1]
    assert "its processes together took more than 64 MiB" == said


OF_THE_GPU = "of the memory of the GPU (Stand-in 8000), the limit of a test"


@pytest.mark.parametrize(
    "words",
    [
        "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a",
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate()`",
    ],
)
def test_torchs_own_word_for_too_much_of_the_gpu_is_a_limit(words, boxed):
    """The message has the limit and the device, but not torch's other facts about the machine."""
    source = f"import torch\ndef f():\n    raise torch.OutOfMemoryError({words!r})\n"
    _, said, where = fault(boxed, OutOfMemory, source, device_memory_bytes=3 * GIB)
    assert f"it asked for more than 3 GiB {OF_THE_GPU}" == said
    assert where == "assignment/m.py:3 in f"


def test_other_errors_of_cuda_are_the_students(boxed):
    source = "def f():\n    raise RuntimeError('CUDA error: device-side assert triggered')\n"
    assert fault(boxed, Raised, source)[1] == "CUDA error: device-side assert triggered"


def reading(*values):
    """Return each of these values in turn, and then the last one forever."""
    left = list(values)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_a_test_may_have_its_limit_and_what_cuda_itself_takes(monkeypatch):
    """Memory in use before the test does not count, and one byte beyond is too much."""
    monkeypatch.setattr(gpu_readings, "LOOK_AT_MEMORY_SECONDS", 0.0)
    allowed = 2 * GIB + gpu_readings.CONTEXT_BYTES
    readings = (5 * GIB, 6 * GIB, 4 * GIB, GIB, GIB + allowed, GIB + allowed + 1)
    seen = gpu_readings.Usage(SimpleNamespace(used_bytes=reading(*readings)))
    assert seen.taken_bytes() == 0
    seen.start()
    assert [GIB, 0] == [seen.taken_bytes(), seen.taken_bytes()]
    seen.start()
    assert [False, True] == [seen.exceeds(2 * GIB), seen.exceeds(2 * GIB)]
    monkeypatch.setattr(gpu_readings, "LOOK_AT_MEMORY_SECONDS", 1000.0)
    assert [True, False, False] == [seen.exceeds(GIB) for _ in range(3)]


@pytest.mark.parametrize(
    ("readings", "seconds", "given_back"),
    [
        ((0, 0), 0.0, True),
        ((GIB, GIB + gpu_readings.SLACK_BYTES), 0.0, True),
        ((0, 3 * GIB, 2 * GIB, 0), 1000.0, True),
        ((0, 3 * GIB), 0.0, False),
    ],
)
def test_a_device_has_some_time_to_give_back_what_a_test_took(readings, seconds, given_back):
    """The cases: the memory is freed at once, almost completely, late, or never."""
    seen = gpu_readings.Usage(SimpleNamespace(used_bytes=reading(*readings)))
    seen.start()
    assert given_back is seen.given_back(seconds)


def test_a_test_that_takes_too_much_of_the_gpu_is_ended_from_outside(boxed, monkeypatch):
    """The driver's count decides, whatever the test's own process reports."""
    boxed.wait_until_ready()  # or the end of the test before takes a number
    monkeypatch.setattr(Counted, "used", staticmethod(reading(GIB, GIB, 9 * GIB, GIB)))
    source = "import time\ndef f():\n    time.sleep(1000)\n"
    said = fault(boxed, OutOfMemory, source, device_memory_bytes=4 * GIB)[1]
    assert f"it took more than 4 GiB {OF_THE_GPU}" == said
    assert answer(boxed, "def f(): return 1") == 1


def test_a_gpu_that_holds_memory_after_a_test_gets_a_new_box(light, monkeypatch):
    """If a new sandbox frees the memory, the next test is not affected."""
    monkeypatch.setattr("grader.sandbox.sandbox.GIVE_BACK_SECONDS", 0.0)
    before = light.host_pid
    assert answer(light, "def f(): return 1", **WITHOUT_TORCH) == 1
    monkeypatch.setattr(Counted, "used", staticmethod(lambda: 5 * GIB if alive([before]) else 0))
    assert answer(light, "def f(): return 2", **WITHOUT_TORCH) == 2
    assert light.host_pid != before


def test_a_gpu_that_never_gives_memory_back_is_our_fault(light, monkeypatch):
    """The test that finds the fault is not charged, and the next test tries again."""
    monkeypatch.setattr("grader.sandbox.sandbox.GIVE_BACK_SECONDS", 0.0)
    assert answer(light, "def f(): return 1", **WITHOUT_TORCH) == 1
    monkeypatch.setattr(Counted, "used", staticmethod(lambda: 5 * GIB))
    said = r"^the GPU still holds 5120 MiB after the test's process has ended$"
    with pytest.raises(GraderFault, match=said):
        answer(light, "def f(): return 2", **WITHOUT_TORCH)
    assert answer(light, "def f(): return 3", **WITHOUT_TORCH) == 3


# --- checking the GPU -----------------------------------------------------------------------------


def checked(sandbox):
    """Check the GPU in a session of its own, as a grade does."""
    with closing(Session(sandbox, {}, preflight.limits_to_look(LIMITS))) as session:
        preflight.check_device(session, LIMITS.device_memory_bytes)


def test_a_gpu_that_torch_cannot_use_is_our_fault_in_torchs_words(boxed, monkeypatch):
    """A CPU build of torch runs in a real sandbox. The time of this check is never a student's."""
    cannot = "^the GPU cannot be used in the sandbox: "
    words = f"{cannot}AssertionError: Torch not compiled with CUDA enabled$"
    if torch.version.cuda is None:
        with pytest.raises(GraderFault, match=words):
            checked(boxed)
    monkeypatch.setattr(preflight, "SECONDS", 0)
    with pytest.raises(GraderFault, match=f"{cannot}no answer within 0 s"):
        checked(boxed)


FINE = preflight.GpuFacts(
    name="H100", capability="9.0", cuda="13.0", total_bytes=80 * GIB, free_bytes=70 * GIB,
    computes=True,
)  # fmt: skip


FULL = "the GPU (H100) has 3.0 GiB of 80.0 GiB free, and a test may take 8.0 GiB: stop other "
WRONG = "the GPU (H100) gives a wrong product of two small matrices"


def test_a_gpu_that_is_full_or_computes_wrongly_is_our_fault():
    """Someone else uses the GPU, or the GPU is broken. One that works is described in a report."""
    assert FINE == preflight.judged(FINE, 8 * GIB)
    for found, said in [({"free_bytes": 3 * GIB}, FULL), ({"computes": False}, WRONG)]:
        with pytest.raises(GraderFault, match=f"^{re.escape(said)}"):
            preflight.judged({**FINE, **found}, 8 * GIB)


# --- the worker -----------------------------------------------------------------------------------

TRAPPED = """
import torch
def trap(*args, **kwargs):
    raise SystemExit("an import asks for CUDA")
names = ["is_available", "device_count", "current_device", "_lazy_init"]
for name in [*names, "get_device_properties", "get_device_capability"]:
    setattr(torch.cuda, name, trap)
from grader.worker import zygote
from grader.worker import test_process
zygote.import_slow_packages(["torch.fx.experimental.symbolic_shapes"])
test_process.limit_memory(2**30)
print(len(torch.cuda._queued_calls) > 0, torch.cuda.is_initialized())
"""


def test_nothing_that_the_zygote_imports_asks_for_cuda():
    """A forked child could not use it then, so a memory limit waits until CUDA is first used."""
    done = ran([python(), "-c", TRAPPED], cwd=ROOT)
    assert ("True False\n", 0) == (done.stdout, done.returncode), done.stderr


def distribution(folder, name, files, requires=()):
    """Write a distribution as pip does: its files, metadata and a list of the files."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *requires, ""]
    (info / "METADATA").write_text("\n".join(lines))
    record = "".join(f"{file},,\n" for file in [*files, f"{info.name}/METADATA"])
    (info / "RECORD").write_text(record)
    for file in files:
        if not file.startswith(".."):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).touch()


def test_the_libraries_that_a_torch_for_cuda_brings_are_shown(tmp_path, monkeypatch):
    """Several share the folder nvidia/, which is mounted once; some are extras of another one."""
    wanted = ["Requires-Dist: toolkit-of-cuda[blas]==1.0", "Requires-Dist: nvidia-dnn==1.0"]
    distribution(tmp_path, "torch-for-cuda", ["torch_for_cuda/version.py"], wanted)
    extras = [f'Requires-Dist: nvidia-{name}; extra == "{name}"' for name in ("blas", "fft")]
    distribution(tmp_path, "toolkit-of-cuda", ["toolkit_of_cuda.py"], extras)
    distribution(tmp_path, "nvidia-blas", ["nvidia/blas/lib/libblas.so.1", "../../../bin/tool"])
    distribution(tmp_path, "nvidia-dnn", ["nvidia/dnn/lib/libdnn.so.1"])
    monkeypatch.syspath_prepend(str(tmp_path))
    packages = ["nvidia", "toolkit_of_cuda.py", "torch_for_cuda"]
    names = ("nvidia_blas", "nvidia_dnn", "toolkit_of_cuda", "torch_for_cuda")
    found = [path.name for path in visible_files.package_paths(("torch-for-cuda",))]
    assert sorted([*packages, *(f"{name}-1.0.dist-info" for name in names)]) == sorted(found)


# --- whose fault a failed test on a GPU is --------------------------------------------------------


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course without torch, whose three tests are for a GPU as well."""
    made = with_lists(tmp_path_factory.mktemp("course") / "lists")
    for hidden in made.glob("tests/hidden/*/test_hidden.py"):
        shutil.copy(hidden, hidden.with_name("test_cuda.py"))
    found = courses.load(made)
    limits = msgspec.structs.replace(found.limits, **WITHOUT_TORCH)
    return msgspec.structs.replace(found, limits=limits)


@pytest.fixture
def graded(light, course, tmp_path, monkeypatch):
    """A function that grades a solution, whose `relu` may be wrong, on the GPU.

    Its other arguments are the results of the device checks. It returns the number of these, the
    status and the message of each test, and the state of the GPU afterwards.
    """
    monkeypatch.setenv(gpu_turns.FOLDER_VARIABLE, str(tmp_path / "queues"))

    def grades(relu, *looks, progress=None):
        left, seen = list(looks), []

        def look(session, needed_bytes):
            seen.append(1)
            assert [ticket.process for ticket in gpu_turns.queue()] == [os.getpid()], "its turn"
            if left and (said := left.pop(0)):
                raise GraderFault(said)

        if looks != ("real",):
            monkeypatch.setattr(gpu_health, "check_device", look)
        sources = {"assignment/activations.py": LISTS.replace("max(0.0, n)", relu).encode()}
        result = grade(
            Submission("s", sources, []), course, light,
            problems=course.problems, device="cuda", progress=progress,
        )  # fmt: skip
        of_cuda = [t for p in result.problems for t in p.tests if t.device == "cuda"]
        ends = [(str(test.status), test.what) for test in of_cuda]
        return len(seen), ends, result.grader.readings["afterwards"]

    return grades


SOLVED, MISTAKEN = "max(0.0, n)", "abs(n)"


def test_a_test_that_fails_on_a_gpu_that_works_is_the_students(graded):
    """The device is checked before the tests, after each failure and after the last test."""
    count, ends, afterwards = graded(MISTAKEN)
    assert ["failed", "passed", "passed"] == [status for status, _ in ends]
    assert (3, "it works") == (count, afterwards)


@without_cuda
@pytest.mark.parametrize(
    ("looks", "said"),
    [
        (("", "the GPU fell off the bus"), "the GPU fell off the bus"),
        (("real",), "the GPU cannot be used in the sandbox"),
    ],
    ids=["it breaks during a test", "it does not work at all"],
)
def test_a_gpu_that_breaks_costs_nobody_a_point(graded, looks, said):
    """The test during which it broke is our fault, and so are all later ones, which do not run."""
    count, ends, afterwards = graded(MISTAKEN, *looks)
    assert ["grader_error"] * 3 == [status for status, _ in ends]
    assert all(said in message for _, message in ends)
    assert count == (0 if looks == ("real",) else 2)
    assert said in afterwards


def test_a_gpu_that_breaks_afterwards_costs_nobody_a_point(graded, monkeypatch):
    """The submission keeps its points, the next one is not graded, and the third one is again."""
    held = []  # while it is not empty, something holds memory
    monkeypatch.setattr("grader.sandbox.sandbox.GIVE_BACK_SECONDS", 0.0)
    monkeypatch.setattr(Counted, "used", staticmethod(lambda: 5 * GIB if held else 0))

    def take(problem, done, of):
        held.extend([problem] if done == of else [])

    passed = [("passed", "")] * 3
    more = "the GPU holds 5120 MiB more than before the first submission: end the processes that "
    more += "nvidia-smi lists, or reset the GPU"
    assert (passed, more) == graded(SOLVED, progress=take)[1:]
    assert ([("grader_error", more)] * 3, more) == graded(SOLVED)[1:]
    held.clear()
    assert (passed, "it works") == graded(SOLVED)[1:]
