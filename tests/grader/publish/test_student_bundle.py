"""Bundles: their contents are complete and reproducible, and contain no secret line."""

import gzip
import itertools
import json
import os
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

import kit
from grader.course import courses
from grader.publish import secret_leaks, student_bundle
from grader.solutions import known_mistakes
from grader.solutions.fragments import lines_of
from kit import handing_in
from kit.handing_in import zipped
from tests.grader.conftest import copied_course
from tests.grader.processes import ran
from tests.grader.sampling import every
from tests.grader.test_layers import imports
from tests.grader.warm_python import python
from tests.handout.browsing import built_once

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bundle")]

COURSE = courses.load()


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A folder of the built handout that a test may change."""
    folder = tmp_path_factory.mktemp("built") / "handout"
    return shutil.copytree(built_once(tmp_path_factory), folder)


@pytest.fixture(scope="session")
def bundle(built):
    """The files of the student's bundle."""
    return student_bundle.student(COURSE, built)


@pytest.fixture(scope="module")
def secret():
    """The statements that no bundle may contain."""
    return secret_leaks.secrets(COURSE)


@pytest.fixture
def unpacked(bundle, tmp_path):
    """The student's bundle, unpacked into an empty folder."""
    archive = tmp_path / "bundle.zip"
    archive.write_bytes(zipped(bundle, compression=zipfile.ZIP_STORED))
    folder = tmp_path / "student"
    zipfile.ZipFile(archive).extractall(folder)
    return folder


def test_the_bundle_holds_what_a_student_needs_and_nothing_else(bundle):
    ours = ("__init__", "__main__", "assignment")
    needed = {f"assignment/{name}.py" for name in (*ours, *COURSE.modules)}
    needed |= {f"tests/public/test_{problem.id}.py" for problem in COURSE.problems}
    needed |= {f"kit/{path.relative_to(kit.HERE).as_posix()}" for path in kit.HERE.rglob("*.py")}
    needed |= {".github/workflows/check.yml", "README.md", "pyproject.toml"}
    needed |= {"assignment/problems.toml", "tests/__init__.py", "tests/conftest.py"}
    assert needed <= set(bundle)
    others = r"(tests/probes/\w+\.py|handout/.+|flight/\w+\.py)$"
    assert [path for path in set(bundle) - needed if not re.match(others, path)] == []
    assert "flight/fly_command.py" in bundle


def test_the_bundle_has_the_built_handout(bundle):
    """The start page, a page per chapter and their files, without the Markdown."""
    chapters = [path.stem for path in COURSE.handout.glob("[0-9]*.md")]
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
    assert left == student_bundle.of_students(written)


# What must not be in a bundle, and the complaint about it.
STAFFS = (
    *("tests/hidden/linear/right.py", "grader/course/courses.py", "examples/linear.pyc"),
    *("tests/hidden/linear/wrong.edits", "examples/linear/wrong.edits"),
    *("solutions/mutants.toml", "tests/__pycache__/x.pyc"),
)
MARK = b"# BEGIN SOLUTION(linear)\n"
MARKED = {"data.gz": gzip.compress(MARK), "examples/linear.py": MARK}


COMPLAINTS = [
    *(f"{path} is for the staff only" for path in STAFFS),
    *(f"{path} contains the mark of a solution: BEGIN SOLUTION" for path in MARKED),
]


def test_files_of_the_staff_are_found(bundle):
    assert list(secret_leaks.of_the_staff(bundle)) == []
    planted = dict.fromkeys(STAFFS, b"") | MARKED
    assert list(secret_leaks.of_the_staff({**bundle, **planted})) == COMPLAINTS


@pytest.fixture(scope="module")
def copied(root, tmp_path_factory):
    """A copy of the course, which a test changes until its end."""
    course = copied_course(tmp_path_factory.mktemp("release"))
    copytree_handout(root, course)
    return course


@pytest.fixture
def refused(typed, copied, built):
    """Run `grader release student` for the copy of the course, with some files changed.

    The run returns the command's message. The command must exit with 1 and write nothing.
    """
    out = copied.parent / "out.zip"

    def run(changed, handout=built):
        changed = {copied / path: content for path, content in changed.items()}
        before = {path: path.read_bytes() for path in changed if path.exists()}
        for path, content in changed.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        done = typed("release", "student", out, "--handout", handout, "--course", copied)
        for path in changed:
            path.write_bytes(before[path]) if path in before else path.unlink()
        assert (done[0], out.exists()) == (1, False), done
        return done[2]

    return run


def test_a_bundle_with_files_of_the_staff_is_not_written(refused):
    planted = dict.fromkeys(STAFFS, b"") | MARKED
    said = refused({f"grader/publish/bundle/student/{path}": planted[path] for path in planted})
    assert said.startswith("grader: nothing was written: these would be published:\n")
    assert set(COMPLAINTS) == {line.strip() for line in said.splitlines()[1:]}


def test_without_a_handout_built_from_the_same_text_nothing_is_written(refused, root, tmp_path):
    assert refused({}, handout=tmp_path) == (
        f"grader: nothing was written: the handout is not built in {tmp_path}: run `make "
        "handout` first"
    )
    chapter = "handout/07_linear.md"
    said = refused({chapter: (root / chapter).read_bytes() + b"\nOne more sentence.\n"})
    assert "was built from another version of the handout: run `make handout` again" in said


def test_every_module_that_the_handout_is_built_with_is_in_its_hash(root):
    """Modules that only find and check the course affect no page."""
    finds_the_course = {"course/courses.py", "base/errors.py", "course/problems_toml.py"}
    left_out = {f"grader/{name}" for name in finds_the_course}
    todo = [*(root / "handout").rglob("*.py")]
    found = set()
    while todo:
        path = todo.pop()
        name = path.relative_to(root).as_posix()
        if name in found | left_out or "build" in path.parts or not path.is_file():
            continue
        found.add(name)
        for module in imports(path):
            file = root.joinpath(*module.split("."))
            todo += [file.with_suffix(".py"), file / "__init__.py"]
    hashed = set(COURSE.handout_sources())
    packages = {"handout", "handout/site", "grader", "grader/solutions/reference"}
    assert {f"{name}/__init__.py" for name in packages} <= hashed
    assert {
        "kit/gpu_stand_in.py",
        "grader/solutions/reference/gpu.py",
        "handout/site/svg.py",
    } <= hashed
    assert found - hashed == set()


def copytree_handout(root, target):
    """Copy the handout's sources, and the flight that its pages compute figures with."""
    left_out = shutil.ignore_patterns("build", "__pycache__")
    for name in ("handout", "flight"):
        shutil.copytree(root / name, target / name, ignore=left_out, dirs_exist_ok=True)


def test_a_course_without_the_graders_source_has_the_same_handout(root, tmp_path, monkeypatch):
    """An installed grader's course has no grader source next to it."""
    copytree_handout(root, tmp_path)
    shutil.copytree(root / "assignment", tmp_path / "assignment")
    shutil.copytree(root / "tests/probes", tmp_path / "tests/probes")
    monkeypatch.setattr(courses, "_own_root", lambda: tmp_path)
    assert COURSE.handout_sha256() == courses.load().handout_sha256()


LINE = "self.weight = nn.Parameter(nn.init.trunc_normal_(weight, std=std, a=-3 * std, b=3 * std))"
TAGGED = re.sub(r"(\S+)", r"<span>\1</span>", LINE)
PAGE = "07_linear.md"
CELL = ["x = 1\n", f"{LINE}\n", "x"]


def notebook(source):
    cells = [{"cell_type": "code", "source": source}]
    return json.dumps({"cells": cells}, indent=1)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        (PAGE, f"\n{LINE.replace(' = ', '=').replace('(weight', '( weight')}"),
        (PAGE, "\nself.weight = nn.Parameter(\n    nn.init.trunc_normal_(\n        weight,\n"
         "        std=std,\n        a=-3 * std,\n        b=3 * std,\n    )\n)"),
        (PAGE, "\n>>> self.weight = nn.Parameter(\n...     nn.init.trunc_normal_(weight,\n"
         "...     std=std, a=-3 * std, b=3 * std))"),
        # Highlighted code on a page has a tag around every word.
        ("site/07_linear.html", f"<p>text</p>\n<pre>{TAGGED}\n</pre>"),
        # Of a notebook, the texts are searched, not the JSON around them.
        ("a.ipynb", notebook(CELL)),
        ("a.ipynb", notebook("".join(CELL))),
    ],
    ids=["spaced", "wrapped", "at a prompt", "tagged", "lines of a cell", "text of a cell"],
)  # fmt: skip
def test_a_secret_statement_is_found_however_it_is_written(name, written, secret):
    found = secret_leaks.leaks({f"handout/{name}": written.encode()}, secret)
    assert ["the solution of linear"] == [leak.secret for leak in found]
    assert name.endswith(".ipynb") or found[0].number == 2


def test_the_bundle_is_the_same_bytes_each_time(grader, tmp_path, built, bundle):
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
    named = known_mistakes.load(course_root / "tests/hidden", "linear")
    (mistake,) = [one for one in named if one.name == "absolute_bounds"]
    reference = (course_root / "grader/solutions/reference/linear.py").read_text()
    lines = mistake.applied_to(reference).splitlines()
    return next(x for x in lines if "trunc_normal_" in x and x not in reference.splitlines())


def test_a_bundle_with_secret_lines_is_not_written(refused, root):
    kinds = ("solution", "hidden test", "wrong solution")
    targets = ("tests/probes/linear.py", "tests/public/test_linear.py", "handout/07_linear.md")
    lines = [secret_line(root, kind).strip() for kind in kinds]
    added = "".join(f"  {line}\n" for line in lines).encode()
    said = refused({target: (root / target).read_bytes() + added for target in targets})
    assert "nothing was written: 9 secret lines would be published" in said
    for target, kind in itertools.product(targets, kinds):
        assert [x for x in said.splitlines() if target in x and f" {kind}" in x], (target, kind)


def test_a_solved_stub_is_not_handed_out(refused, root):
    """A reference that was copied over its stub is refused: it differs from the generated stub."""
    said = refused(
        {"assignment/linear.py": (root / "grader/solutions/reference/linear.py").read_bytes()}
    )
    assert "assignment/linear.py differs from its reference: run `grader stubs` first" in said


def test_every_shared_line_is_still_shared(bundle):
    shared = (COURSE.bundle / "shared_lines.txt").read_text().splitlines()
    theirs = {path: text for path, text in bundle.items() if not path.startswith("kit/")}
    shared_by_all = secret_leaks.leaks(
        theirs, {secret_leaks.squeezed(line): line for line in shared}
    )
    found = {leak.secret for leak in shared_by_all}
    assert sorted(set(shared)) == shared
    assert [line for line in shared if line not in found] == []


@pytest.mark.proof
def test_pytest_in_the_bundle_is_green_with_the_reference(unpacked, root):
    for path in (root / "grader/solutions/reference").glob("[!_]*.py"):
        shutil.copy(path, unpacked / "assignment")
    done = ran([python(), "-m", "pytest", "--strict-markers"], cwd=unpacked)
    assert re.search(r"= \d+ passed in", done.stdout), done.stdout


@pytest.mark.parametrize("gone", every(2, ["[!l]*", ""]))
def test_the_workflow_of_the_bundle_runs_in_the_bundle(unpacked, root, tmp_path, gone):
    """The workflow's own commands succeed although tests fail, and a summary shows the progress."""
    for path in unpacked.glob(f"tests/public/test_{gone}.py"):
        path.unlink()
    shutil.copy(root / "grader/solutions/reference/linear.py", unpacked / "assignment")
    workflow = yaml.safe_load((unpacked / ".github/workflows/check.yml").read_text())
    lines = {step.get("name"): step.get("run") for step in workflow["jobs"]["check"]["steps"]}
    environment = {**os.environ, "PATH": f"{Path(python()).parent}:{os.environ['PATH']}"}
    environment["GITHUB_STEP_SUMMARY"] = str(tmp_path / "summary.md")
    for name in ("Check", "Show"):
        command = ["bash", "-e", "-c", lines[name]]
        subprocess.run(command, cwd=unpacked, env=environment, check=True, timeout=600)
    done = f"1 of {len([*unpacked.glob('tests/public/test_*.py')])} problems done"
    headline = f"# Public tests: {done}\n\n**Advisory:**"
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith(headline)


def test_a_mistake_that_is_not_python_stops_no_search(copied, secret):
    """`grader validate` names it; two empty lines in a text are no end of a statement."""
    listed = copied / "tests/hidden/linear/wrong.edits"
    before = listed.read_text()
    listed.write_text(f"{before}\n[broken] Wrong.\n+ def f(:\n")
    found = secret_leaks.secrets(courses.load(copied))
    listed.write_text(before)
    assert found == secret
    source = 'x = """\n\n\n"""\n\n\nvalue = compute_the_answer(x)\n'
    assert (7, "value=compute_the_answer(x)") in list(secret_leaks._numbered(source))
