"""What `scripts/prove_gpu.py` shows about the GPU lane, one command each: lane.py COMMAND

find        the GPU, its driver, its partition, and a first product in the box
attacks     hostile code with the device in the box; afterwards the GPU must work
flight SIZE the flight of the reference, with all its parts

The last line is JSON: whether it held, and a figure.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic  # before a simulated device replaces them
from typing import Any

TREE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TREE))

import msgspec  # noqa: E402

from grader.base.errors import GraderFault, StudentFault  # noqa: E402
from grader.course import courses  # noqa: E402
from grader.course.courses import Limits  # noqa: E402
from grader.sandbox import gpus, levels, preflight  # noqa: E402
from grader.sandbox.box import Sandbox  # noqa: E402
from grader.sandbox.gpu_readings import GIVE_BACK_SECONDS, SLACK_BYTES  # noqa: E402
from grader.sandbox.gpus import Gpu  # noqa: E402
from grader.sandbox.session import Session  # noqa: E402
from kit.student import call  # noqa: E402

GIB, MIB = 2**30, 2**20
COURSE = courses.load()
WALL_SECONDS = 15.0
LIMITS = msgspec.structs.replace(
    COURSE.limits, wall_seconds=WALL_SECONDS, cpu_seconds=60, device_memory_bytes=4 * GIB
)
# An attack that must end otherwise than by its time has more of it, also on a busy machine.
PATIENT = msgspec.structs.replace(LIMITS, wall_seconds=6 * WALL_SECONDS)
# The simulated GPU computes with the CPU, in the memory of the process.
LEFT_MIB = 16 if "SIMULATED_MACHINE" in os.environ else 1024
Told = tuple[bool, str]


@dataclass(frozen=True)
class Attack:
    """Hostile code.

    Attributes:
        name: What it tries.
        source: The module; the attack is its function `f`.
        ends: The name of the fault that must end it; empty if it must return a value.
        judged: What is wrong with that value, as text; empty if nothing.
    """

    name: str
    source: str
    ends: str = ""
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


@contextmanager
def boxed() -> Iterator[Sandbox]:
    """The strongest sandbox that works here, with the GPU; `grade` takes the GPU's turn itself."""
    with gpus.opened() as gpu, Sandbox.of(COURSE, isolation=levels.strongest(), gpu=gpu) as sandbox:
        yield sandbox


@contextmanager
def alone() -> Iterator[Sandbox]:
    """The same during the GPU's turn."""
    with boxed() as sandbox, sandbox.turn(print):
        yield sandbox


def ask(sandbox: Sandbox, source: str, limits: Limits) -> Any:
    """What the function `f` of a module returns, in a process of its own."""
    with closing(Session(sandbox, {"assignment/m.py": source.encode()}, limits)) as made:
        return made.run(call, {"module": "m", "function": "f", "args": (), "kwargs": {}})


def works(sandbox: Sandbox) -> preflight.GpuFacts:
    """Check the GPU in the box, as a grade does.

    Raises:
        GraderFault: It does not work.
    """
    roomy = preflight.limits_to_look(LIMITS)
    with closing(Session(sandbox, {}, roomy)) as session:
        return preflight.check_device(session, LIMITS.device_memory_bytes)


def find() -> Told:
    """Describe the GPU; compute a product in the box, first with a cold driver."""
    started = monotonic()
    with alone() as sandbox:
        gpu = sandbox.gpu
        assert gpu
        found = monotonic() - started
        times = []
        for _ in range(2):
            began = monotonic()
            facts = works(sandbox)
            times.append(monotonic() - began)
        print(gpu, facts, gpu.readings(), sep="\n")
        print(f"{gpu.used_bytes() / GIB:.1f} GiB in use")
        print("promises:", *sandbox.promises, sep="\n  ")
    return True, (
        f"{gpu.name}, driver {gpu.driver}, level {sandbox.isolation}; found in {found:.1f} s, "
        f"first product after {times[0]:.1f} s, the next after {times[1]:.1f} s"
    )


def attacks() -> Told:
    """Run every attack; after each, memory must be back in time, and the GPU must work."""
    broken = []
    with alone() as sandbox:
        works(sandbox)
        assert sandbox.gpu
        for attack in ATTACKS:
            began = monotonic()
            why = _attacked(sandbox, attack)
            seconds = monotonic() - began
            began = monotonic()
            why = why or _recovered(sandbox)
            print(
                f"{attack.name}: {why or 'held'}; it took {seconds:.1f} s, "
                f"and the GPU worked again after {monotonic() - began:.1f} s",
                flush=True,
            )
            broken += [attack.name] if why else []
    held = f"{len(ATTACKS) - len(broken)} of {len(ATTACKS)} held"
    return not broken, f"{held}{'; not: ' if broken else ''}{', '.join(broken)}"


def _attacked(sandbox: Sandbox, attack: Attack) -> str:
    """How the outcome of an attack differs from what must hold; empty if it does not."""
    try:
        limits = LIMITS if attack.ends == "TimedOut" else PATIENT
        value = ask(sandbox, attack.source.replace("LEFT", str(LEFT_MIB)), limits)
    except StudentFault as e:
        kind = "Raised" if type(e).__name__.startswith("Raised") else type(e).__name__
        print(f"  {kind}: {str(e)[:300]}")
        return (
            "" if kind == attack.ends else f"ended by {kind}, expected {attack.ends or 'a value'}"
        )
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


def flight(size: str) -> Told:
    """Fly with the reference's parts, whose public tests are known to pass."""
    from grader.publish import bundles
    from kit.progress import last_time, read_course

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files = {**bundles.student(COURSE, None), **courses.sources_in(COURSE.reference)}
        for path, content in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(content)
        problems = read_course(root)["problem"]
        now = last_time.Files.now(root, {p["module"] for p in problems})
        last_time.read(root).write(root, now, problems, {p["id"] for p in problems})
        line = [sys.executable, "-m", "assignment", "fly", "--size", size, "--steps", "12"]
        done = subprocess.run([*line, "--autocast"], cwd=root, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    rows = [" ".join(row.split()) for row in done.stdout.splitlines() if row.startswith("seconds")]
    return done.returncode == 0 and bool(rows), f"predicted and measured: {'; '.join(rows)}"


COMMANDS: dict[str, Callable[..., Told]] = {
    "find": find,
    "attacks": attacks,
    "flight": flight,
}


def main() -> int:
    """Run the command; print whether it held, and its figure."""
    held, figure = COMMANDS[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({"held": held, "figure": figure}), flush=True)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
