"""The commands for one submission and for the course itself.

Each command parses its options, calls one function, and prints the result.
"""

import hashlib
import re
import sys
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from grader.base import files
from grader.base.errors import GraderFault, UsageError
from grader.base.output_paths import Writes
from grader.commands import report_options
from grader.commands.progress_line import advancing
from grader.commands.shared_options import (
    Annotations,
    DeviceOption,
    Folder,
    LevelOption,
    Only,
    Seed,
    Verbose,
    app,
    argument,
    chosen,
    device_named,
    level_named,
    one_of,
    option,
)
from grader.course import courses, late_policy
from grader.course.courses import Course
from grader.platforms import harness
from grader.proof import matrix_report
from grader.proof.result_matrix import Matrix
from grader.proof.trial_kinds import DECLINABLE, HOW_TO_DECLINE
from grader.publish import gradescope_bundle, new_course, stub_files, student_bundle
from grader.report import json_report
from grader.report.terminal_report import printed
from grader.results.merge_runs import merged
from grader.sandbox import gpu_turns, levels, preflight
from grader.sandbox.gpus import Gpu
from grader.sandbox.levels import Isolation
from grader.sandbox.sandbox import Sandbox
from grader.sandbox.session import Session
from grader.submission.reader import SubmissionReader
from kit import handing_in
from kit.safe_text import counted, one_line

# grader.grading and grader.proof.validate import torch, which takes seconds; html_report imports
# the HTML libraries. So each is imported inside the functions that need it.


@app.command()
@report_options.to_files
def grade(
    submission: Annotated[Path, argument()],
    only: Only = None,
    device: DeviceOption = "cpu",
    seed: Seed = 0,
    *,
    paths: report_options.Paths,
    isolation: LevelOption = "auto",
    seconds: Annotated[float | None, option("--seconds", min=1)] = None,
    memory: Annotated[int | None, option("--memory-mib", min=1)] = None,
    annotations: Annotations = False,
    verbose: Verbose = False,
    folder: Folder = None,
) -> None:
    """Grade one submission and print its report.

    Exits 0 whatever the score is, and 3 if the grader itself failed.

    Args:
        submission: A folder, .zip or .tar.gz that holds assignment/; or one module or notebook.
        seconds: Time limit for all tests together (default: the course's).
        memory: Memory limit of each test (default: the course's).
    """
    with SubmissionReader() as reader:  # starts while the course is loaded
        course = courses.load(folder).limited(seconds=seconds, memory_mib=memory)
        problems = chosen(course, only)
        rules = late_policy.load(course.policy)
        one_of("--device", device, "cpu", "cuda")
        level = level_named(isolation)
        read = reader.read(submission, course.accepted)
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
                waiting=lambda text: progress(text, 0, 0),
            )
    report_options.write(
        report_options.reported(course, rules, result, sources=read.sources, verbose=verbose),
        paths,
        annotate=annotations,
    )


@app.command()
@report_options.to_files
def merge(
    one: Annotated[Path, argument("CPU.json")],
    other: Annotated[Path, argument("GPU.json")],
    paths: report_options.Paths,
    verbose: Verbose = False,
    folder: Folder = None,
) -> None:
    """Combine a CPU run and a CUDA run of one submission into one result, and print its report.

    Exits with the same codes as grade.

    Args:
        one: The result of `grade --device cpu --json`.
        other: The result of `grade --device cuda --json`.
    """
    course = courses.load(folder)
    rules = late_policy.load(course.policy)
    result = merged(
        json_report.read(one), json_report.read(other), order=[p.id for p in course.problems]
    )
    report_options.write(report_options.reported(course, rules, result, verbose=verbose), paths)


@app.command()
def new(
    folder: Annotated[Path, argument(), Writes(suffix="py")],
    plain: Annotated[bool, option("--plain")] = False,
) -> None:
    """Start a course of your own: a small, complete one, to be changed step by step.

    Args:
        folder: The folder to write.
        plain: A course in plain Python, for any subject.
    """
    written = new_course.write(folder, plain=plain)
    files.say(
        f"{folder}: {counted(len(written), 'file')} of a course\n"
        f"next: grader validate --course {folder}\n",
        needed=False,
    )


@app.command()
def stubs(
    check: Annotated[bool, option("--check")] = False,
    folder: Folder = None,
) -> None:
    """Write assignment/ from the reference solutions.

    Args:
        check: Write nothing; exit 1 if a stub differs from its reference.
    """
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
    device: DeviceOption = "cpu",
    seeds: Annotated[int, option("--seeds", min=1)] = 1,
    with_mutants: Annotated[bool, option("--mutants")] = False,
    quick: Annotated[bool, option("--quick")] = False,
    draft: Annotated[bool, option("--draft")] = False,
    prices: Annotated[bool, option("--prices")] = False,
    light: Annotated[bool, option("--light")] = False,
    jobs: Annotated[int | None, option("--jobs", min=1)] = None,
    matrix: Annotated[Path | None, option("--matrix FILE"), Writes()] = None,
    folder: Folder = None,
) -> None:
    """Prove that the hidden tests can be trusted; exit 1 if any requirement is not met.

    The reference and every variant get full marks, stubs get none, every known mistake is caught,
    and every test catches something. Only the tests for one device are run. With --device cuda, the
    tests of CPU problems have to catch only the mistakes that no test on a CPU can detect.

    Args:
        seeds: Number of seeds that the reference and the variants must pass.
        with_mutants: Also try automatic mutants of the reference (takes minutes).
        quick: Try only every twelfth known mistake and every fourth variant, without a matrix.
        draft: Skip the sandbox: twice as fast. Use it to write tests, not to prove them.
        prices: Only show what tests and known mistakes cost, by class of harm.
        light: Only what costs the author nothing: no known mistakes, no reasons.
        jobs: Number of processes (default: one per processor).
        matrix: Write the matrix as Markdown.
    """
    course = courses.load(folder)
    problems = chosen(course, only)
    one_of("--device", device, "cpu", "cuda")
    given = {"--prices": prices, "--light": light, "--quick": quick, "--draft": draft}
    given |= {"--mutants": with_mutants, "--seeds": seeds > 1, "--matrix": matrix is not None}
    given["--device cuda"] = device == "cuda"
    for one, others in NOT_TOGETHER.items():
        if given[one] and (wrong := [other for other in others if given[other]]):
            raise UsageError(f"{one} does not go with {wrong[0]}: remove one of them")
    from grader.proof import validate as proof
    from grader.sandbox.process_pool import usual_jobs

    how = proof.How(device=device, seeds=seeds, mutants=with_mutants, quick=quick, draft=draft)
    how = replace(how, light=light, only_prices=prices)
    jobs = jobs or usual_jobs()
    with device_named(device) as gpu, advancing("validating") as progress:
        found = proof.validate(course, problems, how, gpu=gpu, jobs=jobs, progress=progress)
    if matrix:
        files.write(matrix, matrix_report.as_markdown(found).encode())
    files.say(_proof_in_words(found, in_detail=bool(only), prices=prices), needed=False)
    for complaint in found.complaints():
        print(complaint, file=sys.stderr)
    if any(row.complaint and row.kind in DECLINABLE for row in found.surprising()):
        print(HOW_TO_DECLINE, file=sys.stderr)
    if found.complaints():
        raise typer.Exit(1)


WIDE = 140  # columns of a table whose test names are whole sentences, without a terminal
NOT_TOGETHER = {
    "--prices": ("--mutants", "--quick", "--draft", "--light", "--seeds", "--device cuda"),
    "--mutants": ("--device cuda",),
    "--quick": ("--matrix", "--light"),
}


def _proof_in_words(found: Matrix, *, in_detail: bool, prices: bool) -> str:
    if prices:
        return matrix_report.prices(found)
    table = printed(matrix_report.table(found), wide=WIDE)
    text = f"{table}{matrix_report.summary(found)}\n"
    if found.is_light:
        return f"{text}{matrix_report.survivors(found)}"
    return f"{text}{matrix_report.needless(found)}" if in_detail else text


@app.command()
def release(
    kind: Annotated[str, argument("student|gradescope")],
    out: Annotated[Path, argument("OUT.zip"), Writes()],
    handout: Annotated[Path | None, option("--handout")] = None,
    index_url: Annotated[str, option("--index-url")] = "",
    wheels: Annotated[Path | None, option("--wheels")] = None,
    folder: Folder = None,
) -> None:
    """Write a release bundle; the same input files always give the same bytes.

    Exits 1 and writes nothing if the student bundle would contain a secret line.

    Args:
        kind: student: stubs, public tests, probes, handout. gradescope: the autograder, including
            everything that is secret.
        out: The zip to write.
        handout: The built handout (default: handout/build, from `make handout`).
        index_url: gradescope: an extra package index, such as torch's for CPUs.
        wheels: gradescope: a folder of wheels for an offline install.
    """
    one_of("release", kind, "student", "gradescope")
    if kind == "student" and (wheels or index_url):
        raise UsageError("release student: --wheels and --index-url are for release gradescope")
    if kind == "gradescope" and handout:
        raise UsageError("release gradescope: --handout is for release student")
    if index_url and not re.match(r"https?://\S+$", index_url):
        raise UsageError(
            f"--index-url {one_line(index_url, 100)}: expected an address such as "
            "https://packages.example/simple"
        )
    if handout and not handout.is_dir():
        found = "a file" if handout.exists() else "nothing"
        raise UsageError(
            f"--handout {handout}: expected the folder that `make handout` builds, found {found}"
        )
    course = courses.load(folder)
    if kind == "gradescope":
        bundle = gradescope_bundle.bundle(course, wheels=wheels, index_url=index_url)
    else:
        bundle = student_bundle.student(course, handout or course.handout / "build")
    # An unpacked zip is one folder for a student; a platform wants the files at the top.
    inside = f"{student_bundle.FOLDER}/" if kind == "student" else ""
    content = handing_in.zipped(
        {inside + path: one for path, one in bundle.items()}, compression=zipfile.ZIP_STORED
    )
    files.write(out, content)
    sha256 = hashlib.sha256(content).hexdigest()[:12]
    text = f"{out}: {counted(len(bundle), 'file')}, {len(content):,} bytes, sha256 {sha256}\n"
    if kind == "gradescope":
        text += "it contains the hidden tests and the solutions: never give it to a student\n"
    if "handout/site/index.html" in bundle and "handout/handout.pdf" not in bundle:
        text += "it lacks the handout's PDF: install Chromium and run `make handout`\n"
    files.say(text, needed=False)


@app.command()
def autograde(home: Annotated[Path, argument()] = harness.HOME, folder: Folder = None) -> None:
    """Grade the submission in Gradescope's container.

    Always writes results/results.json; if the grader fails, the result has no points.

    Args:
        home: The folder with the submission.
    """
    course = courses.load(folder)
    harness.run(home, course, late_policy.load(course.policy))


@app.command()
def isolation(
    device: Annotated[str, option("--device")] = "cpu",
    folder: Folder = None,
) -> None:
    """List the isolation levels that work on this machine, and what each was shown to guarantee.

    Exits 3 if no level works.

    Args:
        device: cuda: also with this machine's GPU, which is used once.
    """
    one_of("--device", device, "cpu", "cuda")
    course = courses.load(folder)
    works = 0
    with device_named(device) as gpu:
        for name, level in levels.TRIED.items():
            reason = level.why_not()
            try:
                shown = _shown_to_hold(course, name, gpu)
            except GraderFault as e:
                files.say(f"{name}: unavailable: {reason or e}\n", needed=False)
                continue
            works += 1
            files.say("".join([f"{name}: works\n", *shown]), needed=False)
    if not works:
        raise typer.Exit(3)


@app.command()
def queue() -> None:
    """Show who has each GPU of this machine, and who waits for it."""
    nobody = f"no grader has a GPU of this machine or waits for one, says {gpu_turns.root()}"
    files.say("".join(f"{line}\n" for line in [*gpu_turns.lines()] or [nobody]), needed=False)


def _shown_to_hold(course: Course, name: Isolation, gpu: Gpu | None) -> list[str]:
    """A line for each promise of a level that holds here, and one for the GPU."""
    with Sandbox(course.tests, isolation=name, scratch_bytes=2**20, gpu=gpu) as sandbox:
        sandbox.wait_until_ready()
        lines = [f"  holds: {promise}\n" for promise in sandbox.promises]
        if gpu:
            limits = preflight.limits_to_look(course.limits)
            with closing(Session(sandbox, {}, limits)) as session:
                seen = preflight.check_device(session, course.limits.device_memory_bytes)
            lines.append(f"  computes: {seen['name']}, CUDA {seen['cuda']}\n")
    return lines
