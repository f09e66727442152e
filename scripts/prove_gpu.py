"""Show on a machine with a GPU what no other machine can show, the most valuable first.

    timeout -s INT 9m python -m pytest scripts/prove_gpu.py -sv       # on the machine with the GPU
    python scripts/gpu/simulated.py python -m pytest scripts/prove_gpu.py -sv     # on any machine

The machine needs Linux, Python, a CUDA build of torch and a driver; `scripts/pack_gpu.py` packs
what else a bare machine lacks. The second command rehearses on a simulated GPU, with one problem
and small sizes. With -s, each test says its figure as soon as it has one, so a run that is cut off
loses nothing; `-k` runs what it did not reach. Without a GPU, the exit code is 3.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from unittest import mock

import msgspec
import pytest

from grader.base.errors import GraderFault, StudentFault, UsageError
from grader.course import courses
from grader.course.courses import Limits
from grader.publish import student_bundle
from grader.report import json_report
from grader.results.result_records import SubmissionResult
from grader.sandbox import gpu_turns, gpus, levels, preflight
from grader.sandbox.gpu_readings import GIVE_BACK_SECONDS, SLACK_BYTES
from grader.sandbox.gpus import Gpu
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.session import Session
from kit.student import call
from kit.student_command import previous_check, read_course
from tests.grader.ordinary_user import NEEDS_ROOT, as_an_ordinary_user
from tests.grader.processes import started, until

TREE = Path(__file__).resolve().parents[1]
GIB, MIB = 2**30, 2**20
COURSE = courses.load()
WALL_SECONDS = 15.0
LIMITS = msgspec.structs.replace(
    COURSE.limits, wall_seconds=WALL_SECONDS, cpu_seconds=60, device_memory_bytes=4 * GIB
)
# An attack that must end otherwise than by its time has more of it, also on a busy machine.
PATIENT = msgspec.structs.replace(LIMITS, wall_seconds=6 * WALL_SECONDS)
REHEARSAL = "SIMULATED_MACHINE" in os.environ
# The simulated GPU computes with the CPU, in the memory of the process.
LEFT_MIB = 16 if REHEARSAL else 1024
ONE = ("--only", "gpu_memory") if REHEARSAL else ()
COMMAND_SECONDS = 1800 if REHEARSAL else 180  # after which a command hangs
# Problems with tests for a GPU, first those of its own chapter.
PROBLEMS = sorted(
    (p.id for p in COURSE.problems if "cuda" in COURSE.hidden_tests(p)),
    key=lambda name: (not name.startswith("gpu_"), name),
)[: 1 if REHEARSAL else None]

# A warning of torch about this machine is no failure.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture(scope="module", autouse=True)
def needs_a_gpu() -> None:
    """End the run at once where there is none."""
    try:
        gpus.find()
    except (GraderFault, UsageError) as e:
        pytest.exit(f"{e}; rehearse with scripts/gpu/simulated.py", 3)


def ran(*words: object, **options: Any) -> str:
    """Run a command that succeeds; return what it printed."""
    done = subprocess.run(
        [*map(str, words)],
        **{"cwd": TREE, **options},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def python(*words: object, **options: Any) -> str:
    """The same for a command of Python."""
    return ran(sys.executable, *words, **options)


@contextmanager
def alone() -> Iterator[Sandbox]:
    """The strongest sandbox that works here, with the GPU, during the GPU's turn."""
    # It hides the GPU from this process, which later tests still have to find.
    with mock.patch.dict(os.environ), gpus.opened() as gpu:
        level = levels.strongest()
        with Sandbox.of(COURSE, isolation=level, gpu=gpu) as box, box.turn(print):
            yield box


def ask(sandbox: Sandbox, source: str, limits: Limits) -> Any:
    """What the function `f` of a module returns, in a process of its own."""
    with closing(Session(sandbox, {"assignment/m.py": source.encode()}, limits)) as made:
        return made.run(call, {"module": "m", "function": "f", "args": (), "kwargs": {}})


def works(sandbox: Sandbox) -> preflight.GpuFacts:
    """Check the GPU in the box, as a grade does.

    Raises:
        GraderFault: It does not work.
    """
    with closing(Session(sandbox, {}, preflight.limits_to_look(LIMITS))) as session:
        return preflight.check_device(session, LIMITS.device_memory_bytes)


def test_the_gpu_and_its_first_product_in_the_box() -> None:
    started = monotonic()
    with alone() as sandbox:
        gpu = sandbox.gpu
        assert gpu
        print(f"{gpu}\nlevel {sandbox.isolation}; found after {monotonic() - started:.1f} s")
        for which in ("first", "next"):  # the driver is cold at first
            began = monotonic()
            facts = works(sandbox)
            print(f"the {which} product after {monotonic() - began:.1f} s: {facts}")
        print(f"{gpu.used_bytes() / GIB:.1f} GiB in use")
        print("promises:", *sandbox.promises, sep="\n  ")


# --- the reference


def graded(out: Path, *options: object) -> SubmissionResult:
    """Grade the reference; return what was written to `out`."""
    python("-m", "grader", "grade", COURSE.reference, *ONE, "--json", out, *options)
    return json_report.parse(out.read_text())


def check_all_of_the_gpu(result: SubmissionResult) -> None:
    """Check that each test for the GPU has passed, and that its problems have all points."""
    own = [p for p in result.problems if p.device == "cuda"]
    tests = [t for p in result.problems for t in p.tests if t.device == "cuda"]
    score, most = sum(p.score for p in own), sum(p.max_score for p in own)
    print(f"{score:g} of {most:g} points of the GPU's problems, {len(tests)} tests")
    assert [t.id for t in tests if t.status != "passed"] == []
    assert tests
    assert score == most


@pytest.fixture(scope="module")
def on_the_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of the reference on the GPU."""
    out = tmp_path_factory.mktemp("graded") / "cuda.json"
    graded(out, "--device", "cuda")
    return out


def test_the_reference_has_all_points_of_the_gpus_problems(on_the_gpu: Path) -> None:
    check_all_of_the_gpu(json_report.parse(on_the_gpu.read_text()))


# --- hostile code


@dataclass(frozen=True)
class Attack:
    """Hostile code."""

    name: str  # what it tries
    source: str  # the module; the attack is its function `f`
    ends: str = ""  # the name of the fault that must end it; empty if it must return a value
    # What is wrong with that value, as text; empty if nothing.
    judged: Callable[[Any, Gpu], str] = lambda value, gpu: ""


def _nodes(value: Any, gpu: Gpu) -> str:
    seen, opened, made = value
    own = {node.name for node in gpu.nodes}
    strangers = sorted({*seen, *opened} - own - {"nvidia-caps"})
    return f"it reached {strangers}" if strangers or made else ""


# The attacks whose value is left from an earlier test come after the test that leaves it.
ATTACKS = [
    Attack(
        "the nodes of other GPUs",
        """
import os, stat
def f():
    opened = []
    for name in ["nvidia-modeset", *(f"nvidia{n}" for n in range(16))]:
        try:
            os.close(os.open(f"/dev/{name}", os.O_RDWR))
            opened.append(name)
        except OSError:
            pass
    try:
        os.mknod("/tmp/nvidia", 0o600 | stat.S_IFCHR, os.makedev(195, 1))
        made = True
    except OSError:
        made = False
    return [n for n in os.listdir("/dev") if n.startswith("nvidia")], opened, made
""",
        judged=_nodes,
    ),
    Attack(
        "NVML from inside: count the GPUs, change a setting",
        """
import ctypes
def f():
    nvml, device, count = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.c_uint()
    if nvml.nvmlInit_v2():
        return 0, 1
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))
    return count.value, nvml.nvmlDeviceSetPersistenceMode(device, 1)
""",
        judged=lambda value, gpu: "" if value[0] <= 1 and value[1] else f"it could: {value}",
    ),
    Attack(
        "memory left behind by a process that exits",
        """
import os, torch
def f():
    x = torch.full((LEFT * 2**20,), 0x5A, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    os._exit(0)
""",
        ends="Crashed",
    ),
    Attack(
        "memory of an earlier test, read",
        """
import torch
def f():
    x = torch.empty(LEFT * 2**20, dtype=torch.uint8, device="cuda")
    # In parts: the sum of a mask takes eight times its memory.
    return sum(int((part == 0x5A).sum()) for part in x.split(2**24)) / x.numel()
""",
        judged=lambda value, gpu: (
            "" if value < 0.05 else f"{value:.0%} of it is the earlier test's"
        ),
    ),
    Attack(
        "a kernel that never ends",
        """
import torch
def f():
    torch.cuda._sleep(10**15)
    torch.cuda.synchronize()
""",
        ends="TimedOut",
    ),
    Attack(
        "an endless loop of launches",
        """
import torch
def f():
    x = torch.ones(1000, device="cuda")
    while True:
        x.add_(1)
""",
        ends="TimedOut",
    ),
    Attack(
        "more memory than a test may have, by torch",
        """
import torch
def f():
    return torch.empty(6 * 2**30, dtype=torch.uint8, device="cuda").numel()
""",
        ends="OutOfMemory",
    ),
    Attack(
        "more memory than a test may have, past torch",
        """
import ctypes, time, torch
def f():
    x = torch.ones(1, device="cuda")
    pointer = ctypes.c_uint64()
    cuda = ctypes.CDLL("libcuda.so.1")
    code = cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(8 * 2**30))
    ctypes.CDLL(None).sleep(5)
    return code
""",
        ends="OutOfMemory",
    ),
    Attack(
        "an assertion on the device",
        """
import torch
def f():
    x = torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")]
    torch.cuda.synchronize()
    return x.tolist()
""",
        ends="Raised",
    ),
    Attack(
        "an illegal address, which the driver reports as an Xid",
        """
import torch
def f():
    code = "template <typename T> T wild(T x) { return *(volatile T*)0x10; }"
    y = torch.cuda.jiterator._create_jit_fn(code)(torch.zeros(4, device="cuda"))
    torch.cuda.synchronize()
    return y.tolist()
""",
        ends="Raised",
    ),
]


def _attacked(sandbox: Sandbox, attack: Attack) -> str:
    """How the outcome of an attack differs from what must hold; empty if it does not."""
    try:
        limits = LIMITS if attack.ends == "TimedOut" else PATIENT
        value = ask(sandbox, attack.source.replace("LEFT", str(LEFT_MIB)), limits)
    except StudentFault as e:
        kind = "Raised" if type(e).__name__.startswith("Raised") else type(e).__name__
        print(f"  {kind}: {str(e)[:300]}")
        expected = attack.ends or "a value"
        return "" if kind == attack.ends else f"ended by {kind}, expected {expected}"
    except GraderFault as e:
        return f"a fault of the grader: {e}"
    print(f"  {str(value)[:300]}")
    assert sandbox.gpu
    return attack.judged(value, sandbox.gpu) if not attack.ends else f"it returned {value!r:.200}"


def _recovered(sandbox: Sandbox) -> str:
    try:
        works(sandbox)
        sandbox.require_free_gpu()
    except GraderFault as e:
        return f"afterwards: {e} (it has {GIVE_BACK_SECONDS:.0f} s, {SLACK_BYTES // MIB} MiB)"
    return ""


def test_hostile_code_with_the_device_in_the_box() -> None:
    """After each attack, memory is back in time, and the GPU works."""
    broken = {}
    with alone() as sandbox:
        works(sandbox)
        for attack in ATTACKS:
            began = monotonic()
            why = _attacked(sandbox, attack) or _recovered(sandbox)
            print(f"{attack.name}: {why or 'held'}, after {monotonic() - began:.1f} s")
            broken |= {attack.name: why} if why else {}
    assert broken == {}


# --- what else only a GPU can show


@pytest.mark.skipif(REHEARSAL, reason="one problem has not all points")
def test_the_reference_has_all_points_after_a_merge(on_the_gpu: Path, tmp_path: Path) -> None:
    cpu, both = tmp_path / "cpu.json", tmp_path / "merged.json"
    graded(cpu, "--device", "cpu")
    print(python("-m", "grader", "merge", cpu, on_the_gpu, "--json", both))
    points = {problem.id: problem.score for problem in json_report.parse(both.read_text()).problems}
    assert points == {problem.id: problem.points for problem in COURSE.problems}


@NEEDS_ROOT
def test_the_hostile_code_as_an_ordinary_user() -> None:
    chosen = ("-m", "pytest", "-s", "-p", "no:cacheprovider", __file__, "-k", "code_with")
    with as_an_ordinary_user() as words:
        print(ran(*words, sys.executable, *chosen))


HOLDS = """
from grader.sandbox import gpu_turns, gpus
with gpus.opened() as gpu, gpu_turns.turn(gpu, print):
    print("turn", flush=True)
    input()
"""


def test_graders_share_the_gpu_and_a_kill_gives_it_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch is one grader of the queue, however many processes it has."""
    monkeypatch.setenv(gpu_turns.FOLDER_VARIABLE, str(tmp_path / "queues"))
    for name in ("ada", "bob"):
        shutil.copytree(COURSE.reference, tmp_path / "in" / name / "assignment")
    batch = ("batch", tmp_path / "in", "--gradebook", tmp_path / "class.sqlite", "--jobs", 2)

    def start(*words: object) -> "subprocess.Popen[str]":
        line = [sys.executable, "-m", "grader", *words, *ONE, "--device", "cuda"]
        return started(line, cwd=TREE, start_new_session=True)

    def has_or_wants() -> list[int]:
        return [ticket.process for ticket in gpu_turns.queue()]

    holder = started([sys.executable, "-c", HOLDS], cwd=TREE, stdin=subprocess.PIPE)
    assert holder.stdout
    assert holder.stdout.readline() == "turn\n"
    first = start(*batch)
    until(lambda: has_or_wants() == [holder.pid, first.pid])
    one = start("grade", COURSE.reference)
    until(lambda: has_or_wants() == [holder.pid, first.pid, one.pid])
    shown = python("-m", "grader", "queue")
    print(shown)
    assert shown.splitlines()[0].endswith(f"(process {holder.pid}) has it")
    holder.kill()
    holder.communicate()
    until(lambda: has_or_wants() == [first.pid, one.pid])
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    _, said = one.communicate(timeout=COMMAND_SECONDS)
    assert one.returncode == 0, said
    assert ": 2 turns ahead; " in said
    again = start(*batch)
    _, said = again.communicate(timeout=COMMAND_SECONDS)
    assert again.returncode == 0, said
    assert has_or_wants() == []


def test_the_time_of_the_lane_and_the_mfu() -> None:
    small = (*ONE, "--sizes", "64", "128") if REHEARSAL else ()
    print(python("benchmarks/gpu.py", "--rounds", "1", *small))


def test_the_attack_suite_with_the_device_in_the_box() -> None:
    pytest.importorskip("hypothesis")
    chosen = "bubblewrap and test_attack" + " and endless_loop" * REHEARSAL
    suite = ("tests/grader/test_attacks.py", "-q", "-p", "no:cacheprovider", "-k", chosen)
    plugins = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": ""}  # which a grade in here has set
    print(python("-m", "pytest", *suite, env={**plugins, "ATTACKS_WITH_GPU": "1"}))


def test_the_flight_of_the_reference(tmp_path: Path) -> None:
    """With all its parts, whose public tests are known to pass."""
    files = {**student_bundle.student(COURSE, None), **courses.sources_in(COURSE.reference)}
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    problems = read_course(tmp_path)["problem"]
    now = previous_check.Files.now(tmp_path, {p["module"] for p in problems})
    previous_check.read(tmp_path).write(tmp_path, now, problems, {p["id"] for p in problems})
    size = ("--size", "egg" if REHEARSAL else "wren", "--steps", "12", "--autocast")
    shown = python("-m", "assignment", "fly", *size, cwd=tmp_path)
    print(shown)
    assert "\nseconds" in shown


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_problem_is_proved(problem: str) -> None:
    """By a sample of the trials: a test takes half a second, because its process starts CUDA."""
    command = ("validate", "--device", "cuda", "--quick", "--only", problem)
    print(python("-m", "grader", *command))


@pytest.mark.parametrize("seed", range(1, 2 if REHEARSAL else 10))
def test_the_reference_with_another_seed(tmp_path: Path, seed: int) -> None:
    check_all_of_the_gpu(graded(tmp_path / "result.json", "--device", "cuda", "--seed", seed))
