"""Show on a machine with a GPU everything that no other machine can show, within nine minutes.

    python scripts/prove_gpu.py [FOLDER]               # on the machine with the GPU
    python scripts/prove_gpu.py [FOLDER] --rehearse    # on any machine, with a simulated GPU
    python scripts/pack_gpu.py gpu --python 3.12       # before: what a bare machine lacks

The machine needs Linux, Python, a CUDA build of torch and a driver; it needs no network. What it
lacks besides comes from the packed folder: bubblewrap, and the packages of the grader.

The results are in FOLDER/results.json (of a rehearsal, in rehearsal.json), one entry per step:
passed, failed, not possible here or not reached, with the command, a figure and the seconds. They
are written as they come. The output of each step is in FOLDER/STEP.log. The same command goes on
with the steps that were not reached. A step that takes longer than its own limit has failed; one
that no longer fits into the time of this call is not reached.

Exit codes: 0 all steps have passed or are not possible here; 1 a step failed or was not reached;
2 a wrong command; 3 there is no GPU that could be used, or no way to simulate one; 130 and 143
interrupted.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

TREE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE / "scripts" / "gpu"))

import simulated  # noqa: E402
import steps as table  # noqa: E402
from steps import FAILED, IMPOSSIBLE, NOT_REACHED, PASSED, Step  # noqa: E402

SECONDS = 540.0
STARTED = time.monotonic()
ENDING_SECONDS = 3.0  # that a step has to clean up, after SIGTERM
# Modules that the grader and the assignment need; without them, nothing runs.
NEEDED = (
    *("torch", "numpy", "einops", "jaxtyping", "pytest", "typer", "rich", "msgspec", "jinja2"),
    *("packaging", "pygments", "yaml", "pynvml"),
)
LEVEL = "from grader.sandbox import levels; print(levels.strongest())"


@dataclass
class Result:
    """How a step ended; the figure is what it measured, or why it has no result."""

    owed: str
    verdict: str = NOT_REACHED
    figure: str = ""
    seconds: float = 0.0
    command: str = ""


def main() -> int:
    """Run the steps; return the exit code."""
    given = _parser().parse_args()
    signal.signal(signal.SIGTERM, _interrupted)
    folder = given.folder.resolve()
    steps = table.steps(folder, rehearsal=given.rehearse)
    names = [step.name for step in steps]
    if wrong := [name for name in given.only if name not in names]:
        return _ended(2, f"there is no step {wrong[0]}: the steps are {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    _equip(given.pack, folder)
    try:
        if given.rehearse and simulated.BY_NOW not in os.environ:
            return _rehearse()
        chosen = [step for step in steps if step.name in given.only or not given.only]
        return _prove(chosen, steps, folder, given)
    except KeyboardInterrupt as e:
        code = 128 + (e.args[0] if e.args else signal.SIGINT)
        return _ended(code, f"interrupted; the same command goes on with {folder}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    usual = TREE / "build" / "gpu"
    parser.add_argument("folder", type=Path, nargs="?", default=usual, help=f"default: {usual}")
    parser.add_argument("--rehearse", action="store_true", help="run on the simulated GPU")
    parser.add_argument(
        "--seconds", type=float, help=f"default: {SECONDS:.0f}; in a rehearsal, what all steps need"
    )
    parser.add_argument("--only", action="append", default=[], metavar="STEP", help="repeatable")
    beside = TREE.parent if (TREE.parent / "wheels").is_dir() else TREE / "build" / "gpu_pack"
    parser.add_argument(
        "--pack", type=Path, default=beside, help=f"what pack_gpu.py wrote (default: {beside})"
    )
    return parser


def _ended(code: int, text: str) -> int:
    print(f"prove_gpu.py: {text}", file=sys.stderr)
    return code


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt(number)


def _rehearse() -> int:
    """Run this command again on the simulated machine."""
    with tempfile.TemporaryDirectory(prefix="simulated-") as made:
        try:
            line = simulated.command([sys.executable, *sys.argv], Path(made))
        except simulated.Impossible as e:
            return _ended(3, f"no rehearsal on this machine: {e}")
        return subprocess.run(line).returncode


# --- what a bare machine lacks


def _equip(pack: Path, folder: Path) -> None:
    """Add what the pack has and this machine lacks to the environment of this process."""
    modules = [str(TREE), os.environ.get("PYTHONPATH", "")]
    if not shutil.which("bwrap") and (pack / "bubblewrap").is_dir():
        place = shutil.copytree(pack / "bubblewrap", folder / "bubblewrap", dirs_exist_ok=True)
        for file in place.iterdir():
            file.chmod(0o755)
        os.environ["PATH"] = os.pathsep.join([str(place), os.environ.get("PATH", os.defpath)])
    if wheels := [w for w in sorted(pack.glob("wheels/*.whl")) if not _is_installed(w)]:
        place = folder / "packages"
        print(f"unpacking {len(wheels)} packages into {place}", flush=True)
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as files:
                files.extractall(place)
        modules.insert(0, str(place))
        sys.path.insert(0, str(place))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, modules))
    os.environ["OMP_NUM_THREADS"] = "1"


def _is_installed(wheel: Path) -> bool:
    """Whether a wheel is not needed here; one for another Python is of no use either."""
    name, _, tag = wheel.name.split("-")[0], *wheel.stem.split("-", 2)[1:]
    ours = f"cp{sys.version_info.major}{sys.version_info.minor}"
    if not re.search(rf"\bpy3|\b{ours}\b|abi3", tag):
        return True
    with suppress(importlib.metadata.PackageNotFoundError):
        return bool(importlib.metadata.version(name))
    return False


# --- what is here


def _facts() -> dict[str, str]:
    """What there is of what the lane needs, in words."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    versions = "import torch; print(torch.__version__, 'CUDA', torch.version.cuda)"
    return {
        "python": f"{sys.version.split()[0]}, {os.cpu_count()} CPUs, user {os.geteuid()}",
        "driver": _said("nvidia-smi", "-L") or _version_of_the_module(),
        "nodes": " ".join(sorted(path.name for path in Path("/dev").glob("nvidia*"))) or "none",
        "torch": _said(sys.executable, "-c", versions) or "none",
        "packages": f"missing: {', '.join(lacking)}" if lacking else "complete",
        "isolation": _said(sys.executable, "-c", LEVEL) or "none",
    }


def _said(*command: str) -> str:
    """What a command prints; empty if it fails."""
    with suppress(OSError):
        done = subprocess.run(command, cwd=TREE, capture_output=True, text=True)
        return " ".join(done.stdout.split()) if done.returncode == 0 else ""
    return ""


def _version_of_the_module() -> str:
    if simulated.BY_NOW in os.environ:
        return "simulated"
    with suppress(OSError):
        return Path("/proc/driver/nvidia/version").read_text().partition("\n")[0]
    return "none"


def _missing(facts: dict[str, str], needs: set[str]) -> dict[str, str]:
    """Why this machine lacks what steps need, by the names in `Step.needs`."""
    reasons = {}
    if "none" in (facts["driver"], facts["nodes"]):
        reasons["gpu"] = "there is no NVIDIA GPU here: no driver, or no nvidia nodes in /dev"
    elif facts["torch"].lower().endswith("none"):
        reasons["gpu"] = f"torch has no CUDA here ({facts['torch']})"
    if facts["packages"] != "complete":
        reasons["packages"] = f"packages are {facts['packages']}: pack them with pack_gpu.py"
    elif facts["isolation"] == "none":
        reasons["isolation"] = "no isolation level works: grader isolation says why"
    elif "nobody" in needs and not _said(*table.NOBODY, sys.executable, "-c", LEVEL):
        needed = "root, setpriv, and a Python that every user may run"
        reasons["nobody"] = f"no ordinary user can run the grader: that needs {needed}"
    lacking = [name for name in ("hypothesis", "xdist") if importlib.util.find_spec(name) is None]
    if "pytest" in needs and lacking:
        reasons["pytest"] = f"the grader's tests need {' and '.join(lacking)}, which is missing"
    return reasons


# --- running


def _prove(chosen: list[Step], steps: list[Step], folder: Path, given: argparse.Namespace) -> int:
    """Look at this machine, run what it can, and return the exit code."""
    facts = _facts()
    for name, value in facts.items():
        print(f"{name:<11} {value}")
    reasons = _missing(facts, {need for step in chosen for need in step.needs})
    if "gpu" in reasons:
        return _ended(3, f"{reasons['gpu']}; try --rehearse")
    path = folder / ("rehearsal.json" if given.rehearse else "results.json")
    known = {}
    if path.exists():
        try:
            known = {
                name: Result(**result) for name, result in json.loads(path.read_text()).items()
            }
        except (ValueError, TypeError, AttributeError):
            return _ended(2, f"{path} is no file of results: name another folder")
    results = {step.name: known.get(step.name, Result(step.owed)) for step in steps}
    ends = STARTED + (given.seconds or (math.inf if given.rehearse else SECONDS))
    for number, step in enumerate(chosen, 1):
        result = results[step.name]
        if result.verdict in (PASSED, FAILED):
            continue
        print(f"[{number}/{len(chosen)}] {step.name}: {step.owed}", flush=True)
        if why := next((reasons[need] for need in step.needs if need in reasons), ""):
            result.verdict, result.figure = IMPOSSIBLE, why
        else:
            _run(step, result, folder / f"{step.name}.log", ends - time.monotonic())
        print(f"  {result.verdict}: {result.figure}", flush=True)
        _write(path, results)
    return _summary(chosen, results, path, rehearsal=given.rehearse)


def _write(path: Path, results: dict[str, Result]) -> None:
    """Replace the file of results."""
    new = path.with_suffix(".new")
    new.write_text(f"{json.dumps({k: asdict(one) for k, one in results.items()}, indent=2)}\n")
    new.replace(path)


def _run(step: Step, result: Result, log: Path, left: float) -> None:
    """Run the commands of a step one after the other until one fails, and judge them."""
    if left < step.usual:
        result.figure = f"{max(left, 0):.0f} s were left, and it needs {step.usual:.0f} s"
        return
    started, code = time.monotonic(), 0
    with log.open("wb") as output:
        for command in step.commands:
            result.command = " ".join(command)
            output.write(f"$ {result.command}\n".encode())
            output.flush()
            ends = started + min(step.limit, left) - ENDING_SECONDS
            if (code := _command(command, output, ends)) != 0:
                break
    result.seconds = round(time.monotonic() - started, 1)
    said = log.read_text(errors="replace")
    if code is not None:
        is_right, result.figure = step.judge(code, said)
        result.verdict = PASSED if is_right else FAILED
    elif left < step.limit:
        result.figure = f"the time of this call was used up after {result.seconds:.0f} s"
    else:
        result.verdict = FAILED
        result.figure = f"not done after {step.limit:.0f} s; its last line: {table.last(said)}"


def _command(command: tuple[str, ...], output: IO[bytes], ends: float) -> int | None:
    """Run one command; return its exit code, or None if it had to be ended."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        cwd=TREE,
        start_new_session=True,
    )
    try:
        return process.wait(max(0.0, ends - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):  # first, a grader ends its boxes
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(ENDING_SECONDS)


def _summary(steps: list[Step], results: dict[str, Result], path: Path, *, rehearsal: bool) -> int:
    """Print a table, and return the exit code."""
    print()
    for step in steps:
        result = results[step.name]
        print(f"{step.name:<34} {result.verdict:<18} {result.seconds:6.0f} s  {result.figure}")
    verdicts = [results[step.name].verdict for step in steps]
    counts = (f"{verdicts.count(v)} {v}" for v in (PASSED, FAILED, IMPOSSIBLE, NOT_REACHED))
    print(f"\n{', '.join(counts)}; {time.monotonic() - STARTED:.0f} s; {path}")
    if NOT_REACHED in verdicts:
        print("the same command runs what was not reached")
    if rehearsal:
        expected = {s.name: (s.simulated, IMPOSSIBLE, NOT_REACHED) for s in steps}
        others = [name for name, right in expected.items() if results[name].verdict not in right]
        print(f"ended otherwise than steps.py says: {', '.join(others) or 'none'}")
        return 1 if others or NOT_REACHED in verdicts else 0
    return 1 if FAILED in verdicts or NOT_REACHED in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
