"""The commands: parse, and call one function. How a command ends is cli.py's business."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from grader import __version__, files, interrupts
from grader.errors import UsageError

app = typer.Typer(
    name="grader",
    help="Grade submissions in a sandbox, and prove that the tests which judge them can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PROBLEM", help="Only this problem; may be repeated."),
]
Seed = Annotated[int, typer.Option("--seed", help="The tests' inputs follow from it.")]
Device = Annotated[
    str,
    typer.Option(
        "--device", help="cpu or cuda: the tests that need the other one wait for a run there."
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", help="Every reason and every rule, not only what costs most.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--course",
        metavar="FOLDER",
        help="Another course; by default the one that comes with the grader.",
    ),
]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON.")
]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        files.say(f"{__version__}\n")
        raise typer.Exit


@app.command()
def grade(
    submission: Annotated[
        Path, typer.Argument(help="A folder, .zip or .tar.gz that holds assignment/.")
    ],
    only: Only = None,
    device: Device = "cpu",
    seed: Seed = 0,
    json: Json = None,
    isolation: Annotated[
        str,
        typer.Option(
            "--isolation",
            help="bubblewrap, or none: to debug on a machine without it, never to grade.",
        ),
    ] = "bubblewrap",
    verbose: Verbose = False,
    folder: Folder = None,
) -> None:
    """Grade one submission and print its report. Exits 0 whatever the score, 3 where the grader itself failed."""
    from grader import course as courses
    from grader import submission as submissions
    from grader.sandbox.box import Sandbox

    course = courses.load(folder)
    problems = _chosen(course, only)
    if json:
        files.check_writable(json)
    _one_of("--device", device, "cpu", "cuda")
    level = _isolation(isolation)
    read = submissions.read(submission)
    scratch_bytes = course.limits.file_bytes
    with (
        _device(device) as gpu,
        Sandbox(course.tests, isolation=level, scratch_bytes=scratch_bytes, gpu=gpu) as sandbox,
    ):
        from grader.grading.grade import (
            grade as run,
        )  # imports torch and pytest, while the sandbox does the same

        sandbox.wait_until_ready()
        with _progress("grading") as progress:
            result = run(
                read,
                course,
                sandbox,
                problems=problems,
                device=device,
                seed=seed,
                progress=progress,
            )
    _report(result, course, json, verbose)


@app.command()
def merge(
    one: Annotated[
        Path, typer.Argument(metavar="CPU.json", help="The result of `grade --device cpu --json`.")
    ],
    other: Annotated[
        Path, typer.Argument(metavar="GPU.json", help="The result of `grade --device cuda --json`.")
    ],
    json: Json = None,
    verbose: Verbose = False,
    folder: Folder = None,
) -> None:
    """Make one result of a CPU run's and a CUDA run's of one submission, and print its report. Exits as grade does."""
    from grader import course as courses
    from grader.report import json as json_report
    from grader.results.merge import merged

    course = courses.load(folder)
    if json:
        files.check_writable(json)
    result = merged(
        json_report.read(one), json_report.read(other), order=[p.id for p in course.problems]
    )
    _report(result, course, json, verbose)


@app.command()
def stubs(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 where assignment/ has drifted.")
    ] = False,
    folder: Folder = None,
) -> None:
    """Write assignment/ from the reference solutions."""
    from grader import course as courses
    from grader.publish import stubs as maker

    course = courses.load(folder)
    if not check:
        for path in maker.write(course):
            files.say(f"wrote {path.relative_to(course.root)}\n")
        return
    drifted = maker.drifted(course)
    for path in drifted:
        print(
            f"{path.relative_to(course.root)} differs from its reference: run `grader stubs`",
            file=sys.stderr,
        )
    if drifted:
        raise typer.Exit(1)


@app.command()
def validate(
    only: Only = None,
    device: Device = "cpu",
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", min=1, help="How many seeds the reference and the variants must pass."
        ),
    ] = 1,
    with_mutants: Annotated[
        bool,
        typer.Option("--mutants", help="Try automatic mutants of the reference as well (minutes)."),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="A sample, without a matrix: every twelfth wrong solution, every fourth variant.",
        ),
    ] = False,
    draft: Annotated[
        bool,
        typer.Option(
            "--draft",
            help="Without the sandbox, in a tenth of the time: to write tests with, not to prove them.",
        ),
    ] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="Processes; by default one a processor.")
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option("--matrix", metavar="FILE", help="Write the matrix: .json or .md."),
    ] = None,
    folder: Folder = None,
) -> None:
    """Prove the suite: reference full, stubs 0, wrong solutions caught, variants full, no idle test; else exit 1.

    All of it by the tests for one device. With --device cuda the tests of CPU problems have to catch only the wrong solutions
    that a CPU cannot show.
    """
    from grader import course as courses
    from grader.proof import matrix as matrices
    from grader.proof import validate as validation

    course = courses.load(folder)
    problems = _chosen(course, only)
    _one_of("--device", device, "cpu", "cuda")
    if with_mutants and device == "cuda":
        raise UsageError("mutants are tried on a CPU: leave one of --mutants and --device cuda out")
    if matrix and quick:
        raise UsageError("--quick has no matrix: leave one of --quick and --matrix out")
    if matrix:
        _one_of("--matrix", matrix.suffix, *matrices.FORMATS)
        files.check_writable(matrix)
    with _device(device) as gpu, _progress("validating") as progress:
        found = validation.validate(
            course,
            problems,
            device=device,
            gpu=gpu,
            seeds=seeds,
            with_mutants=with_mutants,
            quick=quick,
            draft=draft,
            jobs=jobs or validation.usual_jobs(),
            progress=progress,
        )
    if matrix:
        files.write(matrix, matrices.FORMATS[matrix.suffix](found).encode())
    console = Console(highlight=False)
    console.width = max(console.width, 140)  # names of tests are sentences
    with console.capture() as table:
        console.print(matrices.table(found))
    files.say(f"{table.get()}{matrices.summary(found)}\n", needed=False)
    for complaint in found.complaints():
        print(complaint, file=sys.stderr)
    if found.complaints():
        raise typer.Exit(1)


@app.command()
def release(
    kind: Annotated[str, typer.Argument(help="student: stubs, public tests, probes, handout.")],
    out: Annotated[Path, typer.Argument(help="The zip to write.")],
    handout: Annotated[
        Path | None,
        typer.Option(help="The built handout; by default handout/build, by `make handout`."),
    ] = None,
    folder: Folder = None,
) -> None:
    """Write a bundle to hand out, the same bytes whenever it is made. Exits 1, writing nothing, where a secret would leave."""
    from grader import course as courses
    from grader.publish import bundles

    _one_of("release", kind, "student")
    files.check_writable(out)
    course = courses.load(folder)
    bundle = bundles.student(course, handout or course.handout / "build")
    content = bundles.zipped(bundle)
    files.write(out, content)
    text = f"{out}: {len(bundle)} files, {len(content):,} bytes, sha256 {hashlib.sha256(content).hexdigest()[:12]}\n"
    if "handout/site/index.html" in bundle and "handout/handout.pdf" not in bundle:
        text += "the handout's PDF is not in it: `make handout` makes it where a Chromium is installed\n"
    files.say(text, needed=False)


def _chosen(course: Any, only: list[str] | None) -> list[Any]:
    """The problems asked for.

    Raises:
        UsageError: One of them does not exist.
    """
    known = {p.id: p for p in course.problems}
    for problem_id in only or []:
        if problem_id not in known:
            raise UsageError(f"--only {problem_id}: no such problem; there are {', '.join(known)}")
    return [known[p] for p in known if not only or p in only]


def _report(result: Any, course: Any, json: Path | None, verbose: bool) -> None:
    """Write a result's JSON where that was asked for, and then print its report; exit 3 where the grader itself failed."""
    from grader.report import json as json_report
    from grader.report import terminal

    if json:
        files.write(json, json_report.render(result).encode())
    sections = {p.id: p.section for p in course.problems}
    text = terminal.render(
        result, sections=sections, verbose=verbose, console=Console(highlight=False)
    )
    files.say(text, needed=json is None)
    if result.has_grader_error:
        raise typer.Exit(3)


def _one_of(option: str, value: str, *allowed: str) -> str:
    if value not in allowed:
        raise UsageError(f"{option} {value}: expected {' or '.join(allowed)}")
    return value


def _isolation(value: str) -> Any:
    return _one_of("--isolation", value, "bubblewrap", "none")


@contextmanager
def _device(name: str) -> Iterator[Any]:
    """The CUDA device that submissions are given, this command's alone for as long as it runs; None for a CPU.

    Raises:
        UsageError: This machine has none.
        GraderFault: It has one that does not work.
    """
    if name == "cpu":
        yield None
        return
    from grader.sandbox import gpu as gpus

    found = gpus.find()
    os.environ["CUDA_VISIBLE_DEVICES"] = (
        ""  # for this process, which holds the expected values: none ever gets onto the device
    )
    with found.lock(say=lambda text: print(text, file=sys.stderr)):
        yield found


@contextmanager
def _progress(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr while it is a terminal. Each step is also where an interrupt that was swallowed takes effect."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda name, done, total: interrupts.stop_if_seen()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)

        def advance(name: str, done: int, total: int) -> None:
            interrupts.stop_if_seen()
            bar.update(task, description=f"{what} {name}", completed=done, total=total)

        yield advance
