"""The commands: each parses its options, calls one function, and prints the result.

cli.py decides how a command exits: the exit codes, and the single line for a user's mistake.
"""

import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, TypeVar, get_args

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from grader import __version__, files, interrupts
from grader import course as courses
from grader import submission as submissions
from grader.classroom import policy as policies
from grader.course import Course, Problem
from grader.errors import SandboxUnavailable, UsageError
from grader.gradescope import harness
from grader.outputs import App, Writes
from grader.proof import matrix as matrices
from grader.publish import bundles, gradescope_bundle
from grader.publish import stubs as stub_files
from grader.report import gradescope as gradescope_report
from grader.report import json as json_report
from grader.report import junit as junit_report
from grader.report import markdown as markdown_report
from grader.report import terminal
from grader.report.remarks import Standing
from grader.results.merge import merged
from grader.results.records import SubmissionResult
from grader.sandbox import gpu as gpus
from grader.sandbox import levels
from grader.sandbox.box import Sandbox
from grader.sandbox.gpu import Gpu
from grader.sandbox.levels import Isolation

# grader.grading and grader.proof.validate import torch, which takes seconds; grader.report.html
# imports the HTML libraries. So each is imported inside the functions that need it.

Choice = TypeVar("Choice", bound=str)
# Seconds between two lines of progress when stderr is not a terminal.
SECONDS_BETWEEN_LINES = 60.0

app = App(
    name="grader",
    help="Grade submissions in a sandbox, and prove that the hidden tests can be trusted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="PROBLEM", help="Only this problem; may be repeated."),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the tests' random inputs.")]
Level = Annotated[
    str,
    typer.Option(
        "--isolation",
        help="auto (the strongest level that works on this machine), bubblewrap, landlock (weaker, "
        "for root in a container) or none (for debugging, never for grades).",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device", help="cpu or cuda. Tests for the other device wait for a run on that device."
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", help="Show every failure and rule, not only the most expensive."),
]


def _course_of_all(context: typer.Context, folder: Path | None) -> Path | None:
    """The --course of a command, or else the one given before the command's name."""
    return folder or context.find_root().obj


Folder = Annotated[
    Path | None,
    typer.Option(
        "--course",
        metavar="FOLDER",
        help="The folder of another course (default: the course that comes with the grader).",
        callback=_course_of_all,
    ),
]
Json = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON."), Writes()
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write the report as a web page."),
    Writes(),
]
Markdown = Annotated[
    Path | None,
    typer.Option(
        "--markdown",
        metavar="FILE",
        help='Write the report as Markdown. In a GitHub workflow, use "$GITHUB_STEP_SUMMARY".',
    ),
    Writes(),
]
Junit = Annotated[
    Path | None,
    typer.Option("--junit", metavar="FILE", help="Write the report as JUnit XML."),
    Writes(),
]
Gradescope = Annotated[
    Path | None,
    typer.Option("--gradescope", metavar="FILE", help="Write the report as a results.json."),
    Writes(),
]


@app.callback(invoke_without_command=True)
def _options_of_all_commands(
    context: typer.Context,
    course_folder: Annotated[
        Path | None,
        typer.Option("--course", metavar="FOLDER", help="The course, for any command."),
    ] = None,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    context.obj = course_folder
    if version:
        files.say(f"{__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise UsageError("expected a command, got none; `grader --help` lists them")


@app.command()
def grade(
    submission: Annotated[
        Path, typer.Argument(help="A folder, .zip or .tar.gz that holds assignment/.")
    ],
    only: Only = None,
    device: Device = "cpu",
    seed: Seed = 0,
    json: Json = None,
    html: Html = None,
    markdown: Markdown = None,
    junit: Junit = None,
    gradescope: Gradescope = None,
    isolation: Level = "auto",
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Run each test in a new process: slower, with equal scores."),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", min=1, help="Time limit for all tests together (default: the course's)."
        ),
    ] = None,
    memory: Annotated[
        int | None,
        typer.Option(
            "--memory-mib", min=1, help="Memory limit of each test (default: the course's)."
        ),
    ] = None,
    verbose: Verbose = False,
    folder: Folder = None,
) -> None:
    """Grade one submission and print its report.

    Exits 0 whatever the score is, and 3 if the grader itself failed.
    """
    course = courses.load(folder).limited(seconds=seconds, memory_mib=memory)
    problems = chosen(course, only)
    reports = Reports(
        course, json=json, html=html, markdown=markdown, junit=junit, gradescope=gradescope
    )
    one_of("--device", device, "cpu", "cuda")
    level = level_named(isolation)
    read = submissions.read(submission)
    with device_named(device) as gpu, Sandbox.of(course, isolation=level, gpu=gpu) as sandbox:
        # This imports torch and pytest while the sandbox does the same.
        from grader.grading.grade import grade as run

        with advancing("grading") as progress:
            result = run(
                read,
                course,
                sandbox,
                problems=problems,
                device=device,
                seed=seed,
                progress=progress,
                fresh=fresh,
            )
    reports.write(result, read.sources, verbose=verbose)


@app.command()
def merge(
    one: Annotated[
        Path, typer.Argument(metavar="CPU.json", help="The result of `grade --device cpu --json`.")
    ],
    other: Annotated[
        Path, typer.Argument(metavar="GPU.json", help="The result of `grade --device cuda --json`.")
    ],
    json: Json = None,
    html: Html = None,
    markdown: Markdown = None,
    junit: Junit = None,
    gradescope: Gradescope = None,
    verbose: Verbose = False,
    folder: Folder = None,
) -> None:
    """Combine a CPU run and a CUDA run of one submission into one result, and print its report.

    Exits with the same codes as grade.
    """
    course = courses.load(folder)
    reports = Reports(
        course, json=json, html=html, markdown=markdown, junit=junit, gradescope=gradescope
    )
    result = merged(
        json_report.read(one), json_report.read(other), order=[p.id for p in course.problems]
    )
    reports.write(result, {}, verbose=verbose)


@app.command()
def stubs(
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; exit 1 if a stub differs from its reference."),
    ] = False,
    folder: Folder = None,
) -> None:
    """Write assignment/ from the reference solutions."""
    course = courses.load(folder)
    if not check:
        for path in stub_files.write(course):
            files.say(f"wrote {path.relative_to(course.root)}\n")
        return
    drifted = stub_files.drifted(course)
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
            "--seeds", min=1, help="Number of seeds that the reference and the variants must pass."
        ),
    ] = 1,
    with_mutants: Annotated[
        bool,
        typer.Option(
            "--mutants", help="Also try automatic mutants of the reference (takes minutes)."
        ),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Try only every twelfth known mistake and every fourth variant, without a matrix.",
        ),
    ] = False,
    draft: Annotated[
        bool,
        typer.Option(
            "--draft",
            help="Skip the sandbox: twice as fast. Use it to write tests, not to prove them.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", min=1, help="Number of processes (default: one per processor)."),
    ] = None,
    matrix: Annotated[
        Path | None,
        typer.Option("--matrix", metavar="FILE", help="Write the matrix: .json or .md."),
        Writes(),
    ] = None,
    folder: Folder = None,
) -> None:
    """Prove that the hidden tests can be trusted; exit 1 if any requirement is not met.

    The reference and every variant get full marks, stubs get none, every known mistake is caught,
    and every test catches something. Only the tests for one device are run. With --device cuda, the
    tests of CPU problems have to catch only the mistakes that no test on a CPU can detect.
    """
    course = courses.load(folder)
    problems = chosen(course, only)
    one_of("--device", device, "cpu", "cuda")
    if with_mutants and device == "cuda":
        raise UsageError("--mutants runs on a CPU only: remove --mutants or --device cuda")
    if matrix and quick:
        raise UsageError("--quick produces no matrix: remove --quick or --matrix")
    if matrix:
        one_of("--matrix", matrix.suffix, *matrices.FORMATS)
    from grader.grading.pool import usual_jobs
    from grader.proof.validate import validate as run

    with device_named(device) as gpu, advancing("validating") as progress:
        found = run(
            course,
            problems,
            device=device,
            gpu=gpu,
            seeds=seeds,
            with_mutants=with_mutants,
            quick=quick,
            draft=draft,
            jobs=jobs or usual_jobs(),
            progress=progress,
        )
    if matrix:
        files.write(matrix, matrices.FORMATS[matrix.suffix](found).encode())
    console = Console(highlight=False)
    console.width = max(console.width, 140)  # test names are whole sentences
    with console.capture() as table:
        console.print(matrices.table(found))
    files.say(f"{table.get()}{matrices.summary(found)}\n", needed=False)
    for complaint in found.complaints():
        print(complaint, file=sys.stderr)
    if found.complaints():
        raise typer.Exit(1)


@app.command()
def release(
    kind: Annotated[
        str,
        typer.Argument(
            help="student: stubs, public tests, probes, handout. gradescope: the autograder, "
            "including everything that is secret."
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The zip to write."), Writes()],
    handout: Annotated[
        Path | None,
        typer.Option(help="The built handout (default: handout/build, from `make handout`)."),
    ] = None,
    index_url: Annotated[
        str,
        typer.Option(
            "--index-url", help="gradescope: an extra package index, such as torch's for CPUs."
        ),
    ] = "",
    wheels: Annotated[
        Path | None,
        typer.Option("--wheels", help="gradescope: a folder of wheels for an offline install."),
    ] = None,
    folder: Folder = None,
) -> None:
    """Write a release bundle; the same input files always give the same bytes.

    Exits 1 and writes nothing if the student bundle would contain a secret line.
    """
    one_of("release", kind, "student", "gradescope")
    if kind == "student" and (wheels or index_url):
        raise UsageError("release student: --wheels and --index-url are for release gradescope")
    if kind == "gradescope" and handout:
        raise UsageError("release gradescope: --handout is for release student")
    if handout and not handout.is_dir():
        raise UsageError(f"--handout {handout}: expected the folder of the built handout")
    course = courses.load(folder)
    if kind == "gradescope":
        bundle = gradescope_bundle.bundle(course, wheels=wheels, index_url=index_url)
    else:
        bundle = bundles.student(course, handout or course.handout / "build")
    content = bundles.zipped(bundle)
    files.write(out, content)
    sha256 = hashlib.sha256(content).hexdigest()[:12]
    text = f"{out}: {len(bundle)} files, {len(content):,} bytes, sha256 {sha256}\n"
    if kind == "gradescope":
        text += "it contains the hidden tests and the solutions: never give it to a student\n"
    if "handout/site/index.html" in bundle and "handout/handout.pdf" not in bundle:
        text += "it lacks the handout's PDF: install Chromium and run `make handout`\n"
    files.say(text, needed=False)


@app.command()
def autograde(
    home: Annotated[
        Path, typer.Argument(help="The folder that holds submission/ and results/.")
    ] = Path("/autograder"),
    folder: Folder = None,
) -> None:
    """Grade the submission in a container, as Gradescope's run_autograder does.

    Always writes results/results.json; if the grader fails, the result has no points.
    """
    course = courses.load(folder)
    harness.run(home, course, policies.load(course.policy))


@app.command()
def isolation(folder: Folder = None) -> None:
    """List the isolation levels that work on this machine, and what each was shown to guarantee.

    Exits 3 if no level works.
    """
    course = courses.load(folder)
    works = 0
    for level, why_not in levels.TRIED.items():
        reason = why_not()
        try:
            with Sandbox(course.tests, isolation=level, scratch_bytes=2**20) as sandbox:
                sandbox.wait_until_ready()
                shown = [f"  holds: {promise}\n" for promise in sandbox.promises]
        except SandboxUnavailable as e:
            files.say(f"{level}: unavailable: {reason or e}\n", needed=False)
            continue
        works += 1
        files.say("".join([f"{level}: works\n", *shown]), needed=False)
    if not works:
        raise typer.Exit(3)


def chosen(course: Course, only: list[str] | None, option: str = "--only") -> list[Problem]:
    """The problems that an option names; all problems by default.

    Raises:
        UsageError: A name is not the id of a problem.
    """
    known = {p.id: p for p in course.problems}
    for problem_id in only or []:
        if problem_id not in known:
            raise UsageError(
                f"{option} {problem_id}: no such problem; there are {', '.join(known)}"
            )
    return [known[p] for p in known if not only or p in only]


class Reports:
    """The reports of one result: the printed one, and the files named by options.

    Args:
        course: The course that was graded.
        paths: A file for each kind of report: json, html, markdown, junit or gradescope.
    """

    def __init__(self, course: Course, **paths: Path | None) -> None:
        self._course = course
        policy = policies.load(course.policy)
        self._links, self._shows = course.handout_links(policy.handout_url), policy.gradescope
        self._paths = {kind: path for kind, path in paths.items() if path}

    def write(
        self, result: SubmissionResult, sources: Mapping[str, bytes], *, verbose: bool
    ) -> None:
        """Write the files, print the report, and exit 3 if the grader failed.

        Args:
            result: What to report.
            sources: The graded sources, which the page quotes; empty if they are unavailable.
            verbose: Print every reason with all details.
        """
        sections, links = self._course.sections, self._links
        for kind, path in self._paths.items():
            text = rendered(
                kind, result, None, sources, sections=sections, links=links, shows=self._shows
            )
            files.write(path, text.encode("utf-8", "replace"))
        console = Console(highlight=False)
        text = terminal.render(
            result, sections=sections, links=links, verbose=verbose, console=console
        )
        files.say(text, needed=not self._paths)
        if result.has_grader_error:
            raise typer.Exit(3)


def rendered(
    kind: str,
    result: SubmissionResult,
    standing: Standing | None,
    sources: Mapping[str, bytes],
    *,
    sections: Mapping[str, str],
    links: Mapping[str, str],
    shows: gradescope_report.Shows,
) -> str:
    """The text of the report that the option `--kind` names.

    Args:
        kind: json, html, markdown, junit or gradescope.
        result: What to report.
        standing: The student's grade in a class, if there is one.
        sources: The graded sources, which the page quotes.
        sections: The handout's section of each problem.
        links: The handout's address of each problem.
        shows: What Gradescope shows to students.
    """
    if kind == "html":
        from grader.report import html

        return html.render(result, standing, sources=sources, sections=sections, links=links)
    if kind == "markdown":
        return markdown_report.render(result, standing, sections=sections, links=links)
    if kind == "gradescope":
        return gradescope_report.render(result, standing, shows)
    return junit_report.render(result) if kind == "junit" else json_report.render(result)


def one_of(option: str, value: str, *allowed: Choice) -> Choice:
    for choice in allowed:
        if choice == value:
            return choice
    raise UsageError(f"{option} {value}: expected {' or '.join(allowed)}")


def level_named(name: str) -> Isolation:
    """The requested isolation level; for `auto`, the strongest that works on this machine."""
    level: Isolation | Literal["auto"] = one_of("--isolation", name, "auto", *get_args(Isolation))
    return levels.strongest() if level == "auto" else level


@contextmanager
def device_named(name: str) -> Iterator[Gpu | None]:
    """The CUDA device for the submissions, locked while this command runs; None for a CPU.

    Raises:
        UsageError: This machine has no CUDA device.
        GraderFault: Its CUDA device does not work.
    """
    if name == "cpu":
        yield None
        return
    with gpus.taken(say=lambda text: print(text, file=sys.stderr)) as found:
        yield found


@contextmanager
def advancing(what: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show progress on stderr: a bar on a terminal, otherwise at most one line per minute.

    Each step also re-raises an interrupt that other code has swallowed.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what)
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


def _lines(what: str) -> Callable[[str, int, int], None]:
    last = time.monotonic()

    def advance(name: str, done: int, total: int) -> None:
        nonlocal last
        interrupts.stop_if_seen()
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            print(f"{what}: {done} of {total} done, now {name}", file=sys.stderr, flush=True)

    return advance
