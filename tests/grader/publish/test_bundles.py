"""Bundles: their contents are complete and reproducible, and contain no secret line."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import kit
from grader.course import courses
from grader.publish import bundles, leaks
from grader.solutions import mistakes
from grader.solutions.regions import lines_of
from kit import handing_in
from kit.handing_in import zipped
from tests.grader.test_layers import imports
from tests.grader.warm_python import python
from tests.handout.building import built_once

pytestmark = pytest.mark.slow

COURSE = courses.load()


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The folder of the built handout, without the PDF, which would take a second to check."""
    without_pdf = shutil.ignore_patterns("*.pdf")
    folder = tmp_path_factory.mktemp("built") / "handout"
    return shutil.copytree(built_once(tmp_path_factory), folder, ignore=without_pdf)


@pytest.fixture(scope="session")
def bundle(built):
    """The files of the student's bundle."""
    return bundles.student(COURSE, built)


@pytest.fixture(scope="module")
def secret():
    """The statements that no bundle may contain."""
    return leaks.secrets(COURSE)


@pytest.fixture
def unpacked(bundle, tmp_path):
    """The student's bundle, unpacked into an empty folder."""
    archive = tmp_path / "bundle.zip"
    archive.write_bytes(zipped(bundle, compression=zipfile.ZIP_STORED))
    folder = tmp_path / "student"
    zipfile.ZipFile(archive).extractall(folder)
    return folder


def run(folder, *arguments):
    """Run a Python command in that folder."""
    command = [python(), "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def test_the_bundle_holds_what_a_student_needs(bundle):
    """The bundle has stubs, public tests, probes, both commands, the handout and project files."""
    ours = ("__init__", "__main__", "assignment")
    modules = {f"assignment/{name}.py" for name in (*ours, *COURSE.modules)}
    public = {f"tests/public/test_{problem.id}.py" for problem in COURSE.problems}
    tools = {
        *(f"kit/{path.relative_to(kit.HERE).as_posix()}" for path in kit.HERE.rglob("*.py")),
    }
    base = {
        ".github/workflows/check.yml",
        "README.md",
        "pyproject.toml",
        "assignment/problems.toml",
        "tests/__init__.py",
        "tests/conftest.py",
    }
    assert modules | public | tools | base <= set(bundle)
    rest = set(bundle) - modules - public - tools - base
    others = r"(tests/probes/\w+\.py|handout/.+|flight/\w+\.py)$"
    assert all(re.match(others, path) for path in rest), rest
    assert "flight/command.py" in rest


def test_nothing_of_the_graders_is_in_the_bundle(bundle):
    """The bundle has no hidden tests, solutions, wrong solutions, grader code or caches."""
    assert [
        path for path in bundle if re.search(r"grader|hidden|reference|\.edits|__pycache__", path)
    ] == []


def test_the_bundle_has_the_built_handout(bundle):
    """The bundle has the start page, one page per chapter, and the files they load.

    It has no Markdown that the pages are made of.
    """
    chapters = [f"{i:02}_{module}" for i, module in enumerate(COURSE.modules, 1)]
    pages = {
        f"handout/site/{name}.html"
        for name in ("index", "grading", "calculators", "search", *chapters)
    }
    assert pages | {"handout/site/_static/calculators.js"} <= set(bundle)
    assert [path for path in bundle if path.endswith(".md")] == ["README.md"]


def test_the_list_of_problems_leaves_without_what_is_for_the_staff(bundle):
    """Its keys for the grader's proofs are gone, with their comments; all others are the same."""
    ours = tomllib.loads(COURSE.list_of_problems.read_text(encoding="utf-8"))
    for problem in ours["problem"]:
        problem.pop("declined", None)
    theirs = tomllib.loads(bundle["assignment/problems.toml"].decode())
    assert theirs == {key: value for key, value in ours.items() if key in theirs}
    assert set(ours) - set(theirs) == {"folders", "preload", "green_may_lose"}
    assert b"mistake" not in bundle["assignment/problems.toml"]


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ('# Ours.\npreload = [\n    "a",\n]\npackages = []\n', "packages = []\n"),
        ('# A\npackages = []\n\n# B\nfolders = ["f"]\n\n# C\n', "# A\npackages = []\n\n# C\n"),
        ('[[problem]]\nid = "a"\ndeclined = {"x" = "y"}\n', '[[problem]]\nid = "a"\n'),
    ],
)
def test_a_key_for_the_staff_is_taken_out_with_its_comment(written, left):
    """Whether its value has one line or several."""
    assert left == bundles.of_students(written)


def test_the_markdown_leaves_without_the_marks_of_its_figures():
    """Without the built handout, students read the Markdown as plain text, without these marks."""
    pages = {
        path: content
        for path, content in bundles.student(COURSE, None).items()
        if path.endswith(".md") and path.startswith("handout/")
    }
    assert b"float32 the state takes 8 of 16 bytes" in pages["handout/08_optimizers.md"]
    assert [path for path, content in pages.items() if b"]{#" in content] == []


def test_a_wheel_carries_all_that_only_the_bundle_has(root, tmp_path):
    """An installed grader makes the same bundle, including the hidden folder with the workflow."""
    build = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        "wheel",
        "--directory",
        str(tmp_path),
    ]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    place = "grader/publish/bundle/student/"
    with zipfile.ZipFile(wheel) as archive:
        carried = {
            name.removeprefix(place): archive.read(name)
            for name in archive.namelist()
            if name.startswith(place)
        }
    of_the_bundle = root / place
    files = {
        path.relative_to(of_the_bundle).as_posix(): path.read_bytes()
        for path in of_the_bundle.rglob("*")
        if path.is_file()
    }
    assert files == carried
    assert ".github/workflows/check.yml" in carried


# What must not be in a bundle, and the complaint about it.
PLANTED = {
    "tests/hidden/linear/right.py": "tests/hidden/linear/right.py is for the staff only",
    "grader/course/courses.py": "grader/course/courses.py is for the staff only",
    "tests/hidden/linear/wrong.edits": "tests/hidden/linear/wrong.edits is for the staff only",
    "examples/linear/wrong.edits": "examples/linear/wrong.edits is for the staff only",
    "solutions/mutants.toml": "solutions/mutants.toml is for the staff only",
    "tests/__pycache__/x.pyc": "tests/__pycache__/x.pyc is for the staff only",
    "examples/linear.pyc": "examples/linear.pyc is for the staff only",
    "data.gz": "data.gz contains the mark of a solution: BEGIN SOLUTION",
    "examples/linear.py": ("examples/linear.py contains the mark of a solution: BEGIN SOLUTION"),
}
MARK = b"# BEGIN SOLUTION(linear)\n"
MARKED = {"data.gz": gzip.compress(MARK), "examples/linear.py": MARK}


def test_files_of_the_staff_are_found(bundle):
    """A path of the staff or the mark of a solution is enough; the bundle has none of them."""
    assert list(leaks.of_the_staff(bundle)) == []
    planted = dict.fromkeys(PLANTED, b"") | MARKED
    assert list(leaks.of_the_staff({**bundle, **planted})) == list(PLANTED.values())


def test_a_bundle_with_files_of_the_staff_is_not_written(
    grader, copy_of_the_course, root, tmp_path, built
):
    """Each file is named; the command exits with 1, and nothing is written."""
    copytree_handout(root, copy_of_the_course)
    given = copy_of_the_course / "grader/publish/bundle/student"
    for path in PLANTED:
        (given / path).parent.mkdir(parents=True, exist_ok=True)
        (given / path).write_bytes(MARKED.get(path, b""))
    done = grader(
        "release", "student", tmp_path / "out.zip", "--handout", built, cwd=copy_of_the_course
    )
    assert done.returncode == 1
    assert done.stderr.startswith("grader: nothing was written: these would be published:\n")
    assert set(PLANTED.values()) == {line.strip() for line in done.stderr.splitlines()[1:]}
    assert not (tmp_path / "out.zip").exists()


def test_without_the_built_handout_nothing_is_written(grader, tmp_path):
    """The message names the command to run first."""
    folder = tmp_path / "build"
    folder.mkdir()
    done = grader("release", "student", tmp_path / "out.zip", "--handout", folder)
    assert done.returncode == 1
    assert done.stderr == (
        f"grader: nothing was written: the handout is not built in {folder}: run `make "
        "handout` first\n"
    )
    assert not (tmp_path / "out.zip").exists()


def test_a_handout_that_was_built_from_another_text_is_not_handed_out(
    grader, copy_of_the_course, root, tmp_path, built
):
    """A site that was built before a chapter changed is refused."""
    copytree_handout(root, copy_of_the_course)
    assert (
        grader(
            "release", "student", tmp_path / "one.zip", "--handout", built, cwd=copy_of_the_course
        ).returncode
        == 0
    )
    chapter = copy_of_the_course / "handout/07_linear.md"
    chapter.write_text(chapter.read_text() + "\nOne more sentence.\n")
    done = grader(
        "release", "student", tmp_path / "two.zip", "--handout", built, cwd=copy_of_the_course
    )
    assert done.returncode == 1
    assert "was built from another version of the handout: run `make handout` again" in done.stderr
    assert not (tmp_path / "two.zip").exists()


@pytest.mark.parametrize(
    "changed",
    ["kit/stand_in.py", "grader/solutions/reference/linear.py", "handout/site/svg.py"],
)
def test_a_handout_whose_pictures_were_drawn_by_other_code_is_not_handed_out(
    changed, copy_of_the_course, root
):
    """A site whose pictures come from older code is refused.

    Chapter 13's timeline depends on the stand-in, and other pictures depend on the reference.
    """
    copytree_handout(root, copy_of_the_course)
    program = "from grader.course import courses; print(courses.load().handout_sha256())"
    before = run_python(copy_of_the_course, program)
    assert before == COURSE.handout_sha256()
    (copy_of_the_course / changed).write_text(
        (copy_of_the_course / changed).read_text() + "# changed\n"
    )
    assert run_python(copy_of_the_course, program) != before


def run_python(folder, program):
    """Return what a program prints in that folder."""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_every_module_that_the_handout_is_built_with_is_in_its_hash(root):
    """The hash covers every module that the handout imports, directly or indirectly.

    Modules that only find and check the course are left out, because they do not affect any page.
    """
    finds_the_course = {
        "grader/course/courses.py",
        "grader/base/errors.py",
        "grader/course/problems.py",
    }
    todo = [*(root / "handout").rglob("*.py")]
    found = set()
    while todo:
        path = todo.pop()
        name = path.relative_to(root).as_posix()
        if name in found | finds_the_course:
            continue
        found.add(name)
        for module in imports(path):
            file = root.joinpath(*module.split("."))
            candidates = [file.with_suffix(".py"), file / "__init__.py"]
            todo += [
                candidate
                for candidate in candidates
                if candidate.is_file() and "build" not in candidate.parts
            ]
    of_packages = {
        "handout/__init__.py",
        "handout/site/__init__.py",
        "grader/__init__.py",
        "grader/solutions/reference/__init__.py",
    }
    hashed = set(COURSE.handout_sources())
    assert {"kit/stand_in.py", "grader/solutions/reference/gpu.py", *of_packages} <= hashed
    assert found - hashed == set()


def copytree_handout(root, target):
    """Copy the handout's sources, and the flight that its pages compute figures with."""
    left_out = shutil.ignore_patterns("build", "__pycache__")
    for name in ("handout", "flight"):
        shutil.copytree(root / name, target / name, ignore=left_out, dirs_exist_ok=True)


def test_a_course_without_the_graders_source_has_the_same_handout(root, tmp_path, monkeypatch):
    """The handout's hash does not depend on the location of the course.

    An installed grader's course has no grader source next to it.
    """
    copytree_handout(root, tmp_path)
    shutil.copytree(root / "assignment", tmp_path / "assignment")
    shutil.copytree(root / "tests/probes", tmp_path / "tests/probes")
    monkeypatch.setattr(courses, "_own_root", lambda: tmp_path)
    assert COURSE.handout_sha256() == courses.load().handout_sha256()


def test_a_secret_line_on_a_page_is_found_between_its_tags(secret):
    """The search ignores tags, because highlighted code on a page has a tag around every word."""
    line = secret_line(COURSE.root, "solution").strip()
    tagged = "".join(
        f"<span>{word}</span>" if word.strip() else word for word in re.split(r"(\s+)", line)
    )
    page = f"<p>text</p>\n<pre>{tagged}\n</pre>".encode()
    found = leaks.leaks({"handout/site/07_linear.html": page}, secret)
    assert [leak.line for leak in found] == [line]


@pytest.mark.parametrize("as_list", [True, False], ids=["lines", "one text"])
def test_a_secret_line_in_a_cell_of_a_notebook_is_found(as_list, secret):
    """The search reads a notebook's texts, not the JSON around them."""
    line = secret_line(COURSE.root, "solution").strip()
    source = ["x = 1\n", f"{line}\n", "x"]
    notebook = {"cells": [{"cell_type": "code", "source": source if as_list else "".join(source)}]}
    found = leaks.leaks({"handout/a.ipynb": json.dumps(notebook, indent=1).encode()}, secret)
    assert [leak.line for leak in found] == [line]


@pytest.mark.parametrize(
    "written",
    [
        "  self.weight=nn.Parameter( nn.init.trunc_normal_(weight, std = std, a=-3*std, b=3*std) )",
        "self.weight = nn.Parameter(\n    nn.init.trunc_normal_(\n        weight,\n"
        "        std=std,\n        a=-3 * std,\n        b=3 * std,\n    )\n)",
        ">>> self.weight = nn.Parameter(\n...     nn.init.trunc_normal_(weight, std=std,\n"
        "...     a=-3 * std, b=3 * std))",
    ],
    ids=["spaced", "wrapped", "at a prompt"],
)
def test_a_secret_statement_is_found_however_it_is_written(written, secret):
    """The search ignores the layout of the code."""
    found = leaks.leaks({"handout/07_linear.md": f"text\n{written}\n".encode()}, secret)
    assert [(leak.number, leak.secret) for leak in found] == [(2, "the solution of linear")]


def test_the_bundle_is_the_same_bytes_each_time(grader, tmp_path, built, bundle):
    """The bundle does not depend on when it is made, or by which process."""
    done = grader("release", "student", tmp_path / "one.zip", "--handout", built)
    assert done.returncode == 0, done.stderr
    in_a_folder = {f"student/{path}": content for path, content in bundle.items()}
    expected = zipped(in_a_folder, compression=zipfile.ZIP_STORED)
    assert (tmp_path / "one.zip").read_bytes() == expected
    assert {info.date_time for info in zipfile.ZipFile(tmp_path / "one.zip").infolist()} == {
        handing_in.TIME
    }


def secret_line(course_root, kind):
    """A line that must not be published, and the file that contains it."""
    if kind == "solution":
        reference = (course_root / "grader/solutions/reference/linear.py").read_text()
        return next(line for line in lines_of(reference).values() if "trunc_normal_" in line)
    if kind == "hidden test":
        source = (course_root / "tests/hidden/linear/test_hidden.py").read_text()
        return next(line for line in source.splitlines() if "expect." in line and len(line) > 60)
    mistake = next(
        m
        for m in mistakes.load(course_root / "tests/hidden", "linear")
        if m.name == "absolute_bounds"
    )
    reference = (course_root / "grader/solutions/reference/linear.py").read_text()
    given = set(reference.splitlines())
    return next(
        line
        for line in mistake.applied_to(reference).splitlines()
        if "trunc_normal_" in line and line not in given
    )


def test_a_bundle_with_secret_lines_is_not_written(
    grader, copy_of_the_course, root, tmp_path, built
):
    """Each planted line is a complaint with both files; it exits with 1 and nothing is written."""
    copytree_handout(root, copy_of_the_course)
    kinds = ("solution", "hidden test", "wrong solution")
    targets = ("tests/probes/linear.py", "tests/public/test_linear.py", "handout/07_linear.md")
    lines = [secret_line(copy_of_the_course, kind).strip() for kind in kinds]
    for target in targets:
        file = copy_of_the_course / target
        file.write_text("\n  ".join([file.read_text(), *lines]) + "\n")
    done = grader(
        "release", "student", tmp_path / "out.zip", "--handout", built, cwd=copy_of_the_course
    )
    assert done.returncode == 1
    assert "nothing was written: 9 secret lines would be published" in done.stderr
    for target in targets:
        for kind in kinds:
            told = [x for x in done.stderr.splitlines() if target in x and f" {kind}" in x]
            assert told, (target, kind, done.stderr)
    assert not (tmp_path / "out.zip").exists()


def test_a_solved_stub_is_not_handed_out(grader, copy_of_the_course, root, tmp_path, built):
    """A reference that was copied over its stub is refused: it differs from the generated stub."""
    copytree_handout(root, copy_of_the_course)
    shutil.copy(
        copy_of_the_course / "grader/solutions/reference/linear.py",
        copy_of_the_course / "assignment/linear.py",
    )
    done = grader(
        "release", "student", tmp_path / "out.zip", "--handout", built, cwd=copy_of_the_course
    )
    assert done.returncode == 1
    assert (
        "assignment/linear.py differs from its reference: run `grader stubs` first" in done.stderr
    )
    assert not (tmp_path / "out.zip").exists()


def test_every_shared_line_is_still_shared(bundle):
    """Each line in the list of coincidences is needed and occurs once."""
    shared = (COURSE.bundle / "shared_lines.txt").read_text().splitlines()
    theirs = {path: text for path, text in bundle.items() if not path.startswith("kit/")}
    shared_by_all = leaks.leaks(theirs, {leaks.squeezed(line): line for line in shared})
    found = {leak.secret for leak in shared_by_all}
    assert sorted(set(shared)) == shared
    assert [line for line in shared if line not in found] == []


@pytest.mark.slow
def test_pytest_in_the_bundle_shows_what_is_not_attempted(unpacked):
    """Every public test of a stub fails with NotImplementedError and for no other reason."""
    done = run(unpacked, "pytest", "-q")
    line = r"^(\d+) tests not attempted yet: (\w+): see handout §[\d.]+$"
    said = re.findall(line, done.stdout, re.MULTILINE)
    ended = re.search(r"^(\d+) not attempted in", done.stdout, re.MULTILINE)
    assert ended is not None, done.stdout + done.stderr
    assert [problem for _, problem in said] == sorted(p.id for p in COURSE.problems)
    assert sum(int(count) for count, _ in said) == int(ended[1]) >= 3 * len(COURSE.problems)


@pytest.mark.slow
def test_pytest_in_the_bundle_is_green_with_the_reference(unpacked, root):
    """With the reference's modules in place of the stubs, every test passes."""
    for path in (root / "grader/solutions/reference").glob("[!_]*.py"):
        shutil.copy(path, unpacked / "assignment")
    done = run(unpacked, "pytest", "-q")
    assert re.search(r"^\d+ passed in", done.stdout, re.MULTILINE), done.stdout
    checked = run(unpacked, "assignment")
    assert checked.returncode == 0
    assert f"{len(COURSE.problems)} of {len(COURSE.problems)} problems done" in checked.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "solved",
    [pytest.param([], id="stubs", marks=pytest.mark.proof), pytest.param(["linear"], id="linear")],
)
def test_the_workflow_of_the_bundle_runs_in_the_bundle(unpacked, root, tmp_path, solved):
    """The workflow's own commands succeed although tests fail, and a summary shows the progress."""
    for module in solved:
        shutil.copy(root / f"grader/solutions/reference/{module}.py", unpacked / "assignment")
    workflow = yaml.safe_load(
        (unpacked / ".github/workflows/check.yml").read_text(encoding="utf-8")
    )
    lines = {
        step["name"]: step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step
    }
    environment = {**os.environ, "PATH": f"{Path(python()).parent}:{os.environ['PATH']}"}
    environment["GITHUB_STEP_SUMMARY"] = str(tmp_path / "summary.md")
    for name in ("Check", "Show"):
        subprocess.run(
            ["bash", "-e", "-c", lines[name]],
            cwd=unpacked,
            env=environment,
            check=True,
            timeout=600,
        )
    headline = (
        f"# Public tests: {len(solved)} of {len(COURSE.problems)} problems done\n\n**Advisory:**"
    )
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith(headline)


def test_a_mistake_that_is_not_python_stops_no_search(copy_of_the_course):
    """`grader validate` names it; two empty lines in a text are no end of a statement."""
    with (copy_of_the_course / "tests/hidden/linear/wrong.edits").open("a") as file:
        file.write("\n[broken] Wrong.\n+ def f(:\n")
    assert leaks.secrets(courses.load(copy_of_the_course)) == leaks.secrets(COURSE)
    source = 'x = """\n\n\n"""\n\n\nvalue = compute_the_answer(x)\n'
    assert (7, "value=compute_the_answer(x)") in list(leaks._numbered(source))
