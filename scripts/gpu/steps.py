"""The steps of `scripts/prove_gpu.py`: what only a GPU can show, the most valuable first."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

PASSED, FAILED, IMPOSSIBLE, NOT_REACHED = "passed", "failed", "not possible here", "not reached"
# Judges the exit code of a step and what it printed: whether it passed, and its figure.
Judge = Callable[[int, str], tuple[bool, str]]
TREE = Path(__file__).resolve().parents[2]
LANE = str(Path(__file__).with_name("lane.py"))
# A step that hangs costs TIMES its usual seconds, and at least LEAST seconds.
TIMES, LEAST = 3, 90
PATIENCE = 4  # in a rehearsal, whose times mean nothing
GPU = ("gpu", "packages", "isolation")
NOBODY = (
    *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"),
    *("--inh-caps=-all", "--ambient-caps=-all"),
)


@dataclass(frozen=True)
class Step:
    """One thing to be shown.

    Attributes:
        name: Its name in the results and on the command line.
        owed: What it shows, in a line.
        commands: Command lines, run in order until one fails.
        judge: Judges their output.
        usual: The seconds that it needs; with fewer left, it is not started.
        limit: The seconds after which the step has failed.
        needs: What it needs of the machine; see `prove_gpu._missing`.
        simulated: The verdict that it must have on the simulated GPU.
    """

    name: str
    owed: str
    commands: tuple[tuple[str, ...], ...]
    judge: Judge
    usual: float
    limit: float = 0.0
    needs: tuple[str, ...] = ()
    simulated: str = PASSED


def steps(folder: Path, *, rehearsal: bool) -> list[Step]:
    """All steps, each with a limit of its own."""
    patience = PATIENCE if rehearsal else 1
    return [
        replace(step, limit=patience * max(LEAST, TIMES * step.usual))
        for step in _steps(folder, rehearsal)
    ]


def _steps(folder: Path, rehearsal: bool) -> list[Step]:
    """The steps.

    Args:
        folder: Where they put what they write.
        rehearsal: Whether they run on the simulated GPU: then with one problem instead of all, with
            one seed, and with the flight's smallest model.
    """
    one, size = (("--only", "gpu_memory"), "egg") if rehearsal else ((), "wren")
    reference, cpu, cuda, both = (
        str(folder / name) for name in ("reference.zip", "cpu.json", "gpu.json", "merged.json")
    )
    pack = _python(TREE / "scripts" / "reference_submission.py", reference)
    grade = _grader("grade", reference, *one)
    return [
        _lane("find", "the GPU, its partition, the first product in the box", "find"),
        Step(
            "reference",
            "the reference has all points of the GPU's problems",
            (pack, (*grade, "--device", "cuda", "--json", cuda)),
            _full_on_the_gpu(folder / "gpu.json"),
            usual=60,
            needs=GPU,
        ),
        _lane("attacks", "hostile code with the device in the box", "attacks", usual=60),
        Step(
            "merged",
            "the reference has all points after a merge with a CPU run",
            (
                (*grade, "--device", "cpu", "--json", cpu),
                _grader("merge", cpu, cuda, "--json", both),
                _python(TREE / "scripts" / "full_marks.py", both),
            ),
            _by_exit_code(r"# .*"),
            usual=40,
            needs=GPU,
            simulated=FAILED,  # one problem has not all points
        ),
        _lane("user", "the attacks as an ordinary user", "attacks", usual=60, nobody=True),
        _benchmark(folder, rehearsal),
        Step(
            "suite",
            "the attack suite with the device in the box",
            (_attack_suite("and endless_loop" if rehearsal else ""),),
            _by_exit_code(r".*\d+ (?:passed|failed).*"),
            usual=90,
            needs=(*GPU, "pytest"),
        ),
        _lane("flight", "the flight of the real Wren", "flight", size, usual=60),
        *_each_problem(rehearsal),
        *(_seed(folder, seed, one) for seed in range(1, 2 if rehearsal else 10)),
    ]


def _benchmark(folder: Path, rehearsal: bool) -> Step:
    """Cold and warm time of the lane, and the MFU."""
    script, out = TREE / "benchmarks" / "gpu.py", str(folder / "benchmark.json")
    only = ("--only", "gpu_memory", "--sizes", "64", "128") if rehearsal else ()
    return Step(
        "benchmark",
        "cold and warm time of the lane, and the MFU",
        (_python(script, "--rounds", "1", "--json", out, *only),),
        _by_exit_code(r"(?:cold, wall s \(median\)|warm, wall|MFU).*"),
        usual=150,
        needs=GPU,
    )


def _validate(name: str) -> Step:
    return Step(
        f"validate-{name}",
        "references and variants pass, wrong solutions fail",
        (_grader("validate", "--device", "cuda", "--quick", "--only", name),),
        _by_exit_code(r"(?:reference|stubs|\d+) .*"),
        usual=60,
        needs=GPU,
    )


def _each_problem(rehearsal: bool) -> list[Step]:
    """Validate each problem that has CUDA tests, first those of the GPU's own chapter.

    Only a sample of the trials: a test takes half a second, because its process starts CUDA.
    """
    names = [path.parent.name for path in (TREE / "tests" / "hidden").glob("*/test_cuda.py")]
    names.sort(key=lambda name: (not name.startswith("gpu_"), name))
    return [_validate(name) for name in (names[:1] if rehearsal else names)]


def _seed(folder: Path, seed: int, only: tuple[str, ...]) -> Step:
    """The reference with other inputs."""
    out = folder / f"seed-{seed}.json"
    options = ("--device", "cuda", "--seed", str(seed), "--json", str(out))
    return Step(
        f"seed-{seed}",
        f"the reference with seed {seed}",
        (_grader("grade", str(folder / "reference.zip"), *only, *options),),
        _full_on_the_gpu(out),
        usual=60,
        needs=GPU,
    )


def _lane(name: str, owed: str, *words: str, usual: int = 15, nobody: bool = False) -> Step:
    """A step that is a command of lane.py."""
    command = _python(LANE, *words)
    return Step(
        name,
        owed,
        ((*NOBODY, *command) if nobody else command,),
        _as_told,
        usual=usual,
        needs=(*GPU, *(["nobody"] if nobody else [])),
    )


def _attack_suite(more: str) -> tuple[str, ...]:
    chosen = f"bubblewrap and test_attack {more}"
    suite = ("tests/grader/test_attacks.py", "-q", "-p", "no:cacheprovider", "-k", chosen)
    return ("env", "ATTACKS_WITH_GPU=1", *_python("-m", "pytest", *suite))


def _python(*words: str | Path) -> tuple[str, ...]:
    return (sys.executable, *map(str, words))


def _grader(*words: str) -> tuple[str, ...]:
    return _python("-m", "grader", *words)


def _as_told(code: int, text: str) -> tuple[bool, str]:
    """The judge of what lane.py prints as its last line."""
    try:
        told = json.loads(text.strip().splitlines()[-1])
        return bool(told["held"]), told["figure"]
    except (ValueError, IndexError, KeyError, TypeError):
        return False, f"exit code {code}: {last(text)}"


def _by_exit_code(shown: str) -> Judge:
    """A judge of the exit code; the figure is the lines that match."""

    def judge(code: int, text: str) -> tuple[bool, str]:
        lines = [" ".join(line.split()) for line in re.findall(rf"(?m)^{shown}$", text)]
        figure = "; ".join(lines[:4])[:400] or last(text)
        return code == 0, figure if code == 0 else f"exit code {code}: {figure}; {last(text)}"

    return judge


def _full_on_the_gpu(path: Path) -> Judge:
    """A judge of a result: each test for the GPU has passed, and its problems have all points."""

    def judge(code: int, text: str) -> tuple[bool, str]:
        if code or not path.is_file():
            return False, f"exit code {code}: {last(text)}"
        problems = json.loads(path.read_text())["problems"]
        own = [p for p in problems if p["device"] == "cuda"]
        tests = [t for p in problems for t in p["tests"] if t["device"] == "cuda"]
        right = sum(t["status"] == "passed" for t in tests)
        score, most = (sum(p[key] for p in own) for key in ("score", "max_score"))
        figure = f"{score:g} of {most:g} points, {right} of {len(tests)} tests"
        return bool(tests) and score == most and right == len(tests), figure

    return judge


def last(text: str) -> str:
    """The last line of an output."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no output")[:300]
