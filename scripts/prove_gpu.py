"""Show on a machine with a GPU everything that no other machine can show, within nine minutes.

    python scripts/prove_gpu.py [FOLDER]               # on the machine with the GPU
    python scripts/prove_gpu.py [FOLDER] --rehearse    # on any machine, with a simulated GPU
    python scripts/pack_gpu.py gpu --python 3.12       # before: what a bare machine lacks

The machine needs Linux, Python, a CUDA build of torch and a driver; it needs no network. What it
lacks besides comes from the packed folder: bubblewrap, and the packages of the grader.

The results are in FOLDER/results.json, one entry per step: passed, failed, not possible here or not
reached, with the command, a figure and the seconds. They are written as they come. The output of
each step is in FOLDER/STEP.log. The same command goes on with the steps that were not reached.

Exit codes: 0 all steps have passed or are not possible here; 1 a step failed or was not reached;
2 a wrong command; 3 there is no GPU that could be used, or no way to simulate one; 130 and 143
interrupted.
"""

import argparse
import compileall
import fcntl
import importlib.metadata
import importlib.util
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
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE / "scripts" / "gpu"))

import running  # noqa: E402
import simulated  # noqa: E402
import steps as table  # noqa: E402
from running import FAILED, IMPOSSIBLE, NOT_REACHED, PASSED  # noqa: E402

SECONDS = 540.0
STARTED = time.monotonic()
# Modules that the grader and the assignment need; without them, nothing runs.
NEEDED = (
    *("torch", "numpy", "einops", "jaxtyping", "pytest", "typer", "rich", "msgspec", "jinja2"),
    *("packaging", "pygments", "yaml", "pynvml"),
)
# The system call's number, on x86-64 and arm64 alike, and its flag.
LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION = 444, 1


def main() -> int:
    """Run the steps; return the exit code."""
    given = _parser().parse_args()
    signal.signal(signal.SIGTERM, _interrupted)
    folder = given.folder.resolve()
    names = [step.name for step in table.steps(folder, rehearsal=given.rehearse)]
    if wrong := [name for name in (*given.again, *given.only) if name not in names]:
        return _misused(f"there is no step {wrong[0]}: the steps are {', '.join(names)}")
    folder.mkdir(parents=True, exist_ok=True)
    is_outside = given.rehearse and simulated.BY_NOW not in os.environ
    with (folder / "lock").open("w") as lock:  # held until this process ends
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if is_outside else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return _misused(f"another call is using {folder}")
        environment = _equipped(given.pack, folder)
        if not is_outside:
            return _prove(given, folder, environment)
    return _rehearse(folder, given.pack, environment)


def _prove(given: argparse.Namespace, folder: Path, environment: dict[str, str]) -> int:
    """Look at this machine, run what it can, and return the exit code."""
    facts = _facts(environment)
    for name, value in facts.items():
        print(f"{name:<11} {value}")
    all_steps = table.steps(folder, rehearsal=given.rehearse)
    chosen = [step for step in all_steps if step.name in given.only or not given.only]
    reasons = _missing(facts, {need for step in chosen for need in step.needs})
    if "gpu" in reasons:
        print(f"prove_gpu.py: {reasons['gpu']}; try --rehearse", file=sys.stderr)
        return 3
    for need, why in reasons.items():
        skipped = [step.name for step in chosen if need in step.needs]
        print(f"{why}: not possible here: {', '.join(skipped)}")
    machine = {"gpu": facts["driver"], "rehearsal": "yes" if given.rehearse else "no"}
    try:
        results = running.Results(folder / "results.json", machine, all_steps)
    except ValueError as e:
        return _misused(str(e))
    for name in given.again:
        results.of[name] = running.Result(results.of[name].owed)
    budget = math.inf if given.rehearse else SECONDS
    seconds = (given.seconds or budget) - (time.monotonic() - STARTED)
    try:
        running.run_all(
            chosen,
            results,
            folder,
            seconds=seconds,
            reasons=reasons,
            environment=environment,
            cwd=TREE,
        )
    except KeyboardInterrupt as e:
        print(f"prove_gpu.py: interrupted; the same command goes on with {folder}", file=sys.stderr)
        return 128 + (e.args[0] if e.args else signal.SIGINT)
    return _summary(chosen, results, folder, rehearsal=given.rehearse)


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
    parser.add_argument(
        "--again", action="append", default=[], metavar="STEP", help="forget its result; repeatable"
    )
    beside = TREE.parent if (TREE.parent / "wheels").is_dir() else TREE / "build" / "gpu_pack"
    parser.add_argument(
        "--pack", type=Path, default=beside, help=f"what pack_gpu.py wrote (default: {beside})"
    )
    return parser


def _misused(text: str) -> int:
    print(f"prove_gpu.py: {text}", file=sys.stderr)
    return 2


def _interrupted(number: int, frame: object) -> None:
    raise KeyboardInterrupt(number)


# --- what a bare machine lacks


def _equipped(pack: Path, folder: Path) -> dict[str, str]:
    """The environment of the steps, with what the pack has and this machine lacks."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    path, modules = (
        [environment.get("PATH", os.defpath)],
        [str(TREE), environment.get("PYTHONPATH", "")],
    )
    if not shutil.which("bwrap") and (pack / "bubblewrap").is_dir():
        place = folder / "bubblewrap"
        shutil.copytree(pack / "bubblewrap", place, dirs_exist_ok=True)
        for file in place.iterdir():
            file.chmod(0o755)
        path.insert(0, str(place))
    if wheels := [w for w in sorted(pack.glob("wheels/*.whl")) if not _is_installed(w)]:
        place = folder / "packages"
        _unpack(wheels, place)
        modules.insert(0, str(place))
        sys.path.insert(0, str(place))
    environment["PATH"] = os.pathsep.join(path)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, modules))
    os.environ.update(environment)  # also for what this process starts to look at the machine
    return environment


def _unpack(wheels: list[Path], place: Path) -> None:
    """Unpack wheels into a folder, and compile them, unless an earlier call has done so."""
    done, names = place / "unpacked", "\n".join(wheel.name for wheel in wheels)
    if done.exists() and done.read_text() == names:
        return
    print(f"unpacking {len(wheels)} packages into {place}", flush=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as files:
            files.extractall(place)
    compileall.compile_dir(place, quiet=2)
    done.write_text(names)


def _is_installed(wheel: Path) -> bool:
    """Whether a wheel is not needed here; one for another Python is of no use either."""
    name, _, tag = wheel.name.split("-")[0], *wheel.stem.split("-", 2)[1:]
    ours = f"cp{sys.version_info.major}{sys.version_info.minor}"
    if not re.search(rf"\bpy3|\b{ours}\b|abi3", tag):
        return True
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


# --- what is here


def _facts(environment: dict[str, str]) -> dict[str, str]:
    """What there is of what the lane needs, in words."""
    lacking = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    return {
        "python": f"{sys.version.split()[0]}, {os.cpu_count()} CPUs, user {os.geteuid()}",
        "driver": _said(["nvidia-smi", "-L"]) or _version_of_the_module(),
        "nodes": " ".join(sorted(path.name for path in Path("/dev").glob("nvidia*"))) or "none",
        "torch": _torch(),
        "packages": f"missing: {', '.join(lacking)}" if lacking else "complete",
        "bubblewrap": _bubblewrap(environment),
        "landlock": _landlock(),
        "compiler": shutil.which("cc") or "none",
    }


def _said(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return " ".join(done.stdout.split()) if done.returncode == 0 else ""


def _version_of_the_module() -> str:
    if simulated.BY_NOW in os.environ:
        return "simulated"
    try:
        return Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
    except (OSError, IndexError):
        return "none"


def _torch() -> str:
    """The versions of torch and CUDA, without an import."""
    found = importlib.util.find_spec("torch")
    if found is None or not found.origin:
        return "none"
    text = Path(found.origin).with_name("version.py").read_text()
    version, cuda = (
        re.search(rf"(?m)^{name}(?:: .*?)? = '(.+)'", text) for name in ("__version__", "cuda")
    )
    return f"{version[1] if version else '?'}, CUDA {cuda[1] if cuda else 'none'}"


def _bubblewrap(environment: dict[str, str]) -> str:
    path = shutil.which("bwrap", path=environment["PATH"])
    if path is None:
        return "none"
    done = subprocess.run(
        [path, "--ro-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "true"],
        capture_output=True,
        text=True,
    )
    works = "works" if done.returncode == 0 else f"does not work: {done.stderr.strip()[:200]}"
    return f"{_said([path, '--version'])} ({path}) {works}"


def _landlock() -> str:
    version = running.LIBC.syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION)
    return f"version {version}" if version > 0 else "none"


def _missing(facts: dict[str, str], needs: set[str]) -> dict[str, str]:
    """Why this machine lacks what steps need, by the names in `Step.needs`."""
    reasons = {}
    if facts["driver"] == "none" or facts["nodes"] == "none":
        reasons["gpu"] = "there is no NVIDIA GPU here: no driver, or no nvidia nodes in /dev"
    elif facts["torch"] == "none" or facts["torch"].endswith("none"):
        reasons["gpu"] = f"torch has no CUDA here ({facts['torch']})"
    if facts["packages"] != "complete":
        reasons["packages"] = f"packages are {facts['packages']}: pack them with pack_gpu.py"
    if not facts["bubblewrap"].endswith("works") and (why := _why_not_landlock()):
        reasons["isolation"] = f"bubblewrap: {facts['bubblewrap']}; landlock: {why}"
    if "nobody" in needs and not reasons and (why := _why_nobody()):
        reasons["nobody"] = f"no ordinary user can run the grader: {why}"
    lacking = [name for name in ("hypothesis", "xdist") if importlib.util.find_spec(name) is None]
    if "pytest" in needs and lacking:
        reasons["pytest"] = f"the grader's tests need {' and '.join(lacking)}, which is missing"
    return reasons


def _why_not_landlock() -> str:
    """Why the second isolation level does not work here; empty if it may."""
    try:
        from grader.sandbox import levels
    except ImportError as e:
        return str(e)
    return levels.why_not("landlock") or ""


def _why_nobody() -> str:
    """Why an ordinary user cannot run the grader here; empty if one can."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return "only root, with setpriv, can become another user"
    box = [
        "bwrap",
        "--unshare-user",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "true",
    ]
    # The interpreter may lie where that user can run it only as root's child.
    again = "import sys, subprocess, torch, grader; subprocess.run([sys.executable, '-c', ''])"
    for test in ([sys.executable, "-c", again], box):
        done = subprocess.run([*table.NOBODY, *test], cwd=TREE, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["it fails"])[-1][-200:]
    return ""


# --- the rehearsal, and the end


def _rehearse(folder: Path, pack: Path, environment: dict[str, str]) -> int:
    """Run this command again on the simulated machine."""
    with tempfile.TemporaryDirectory(prefix="simulated-") as made:
        try:
            again = [sys.executable, *sys.argv]
            line = simulated.command(again, Path(made), pack / "driver")
        except simulated.Impossible as e:
            print(f"prove_gpu.py: no rehearsal on this machine: {e}", file=sys.stderr)
            return 3
        try:
            return subprocess.run(line, env=environment).returncode
        except KeyboardInterrupt as e:
            return 128 + (e.args[0] if e.args else signal.SIGINT)


def _summary(
    steps: list[running.Step],
    results: running.Results,
    folder: Path,
    *,
    rehearsal: bool,
) -> int:
    """Print a table, and return the exit code."""
    print()
    for step in steps:
        result = results.of[step.name]
        print(f"{step.name:<34} {result.verdict:<18} {result.seconds:6.0f} s  {result.figure}")
    verdicts = [results.of[step.name].verdict for step in steps]
    counts = (f"{verdicts.count(v)} {v}" for v in (PASSED, FAILED, IMPOSSIBLE, NOT_REACHED))
    print(f"\n{', '.join(counts)}; {time.monotonic() - STARTED:.0f} s; {folder / 'results.json'}")
    if NOT_REACHED in verdicts:
        print("the same command runs what was not reached")
    if rehearsal:
        expected = {s.name: (s.simulated, IMPOSSIBLE, NOT_REACHED) for s in steps}
        others = [name for name, right in expected.items() if results.of[name].verdict not in right]
        print(f"ended otherwise than steps.py says: {', '.join(others) or 'none'}")
        return 1 if others or NOT_REACHED in verdicts else 0
    return 1 if FAILED in verdicts or NOT_REACHED in verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
