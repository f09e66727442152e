"""`python -m assignment`: progress that tells what to do next, and a zip that the grader takes."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import pytest

from grader import course as courses
from grader import submission
from tests.student_side import submit

COURSE = courses.load()


@pytest.fixture
def work(tmp_path, root):
    """A student's folder, with the stubs."""
    folder = tmp_path / "work"
    skipped = shutil.ignore_patterns("hidden", "grader", "__pycache__")
    for name in ("assignment", "tests"):
        shutil.copytree(root / name, folder / name, ignore=skipped)
    shutil.copy(root / "grader/bundle/student/pyproject.toml", folder)
    return folder


def assignment(folder, *arguments):
    """What `python -m assignment` prints there."""
    command = [sys.executable, "-m", "assignment", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)


def solve(folder, root, *modules):
    """Put the reference of some modules in, and give back their paths."""
    for module in modules:
        shutil.copy(root / f"grader/reference/{module}.py", folder / "assignment")
    return [folder / f"assignment/{module}.py" for module in modules]


# --- check


def test_progress_has_a_row_a_problem_and_says_what_is_next(work, root):
    """Done, to be finished, not attempted; then the first thing to do, with file, line, section and command."""
    (module,) = solve(work, root, "tensor_memory")
    source = module.read_text()
    start = source.index("def contiguous_strides")
    body = source.index("# BEGIN SOLUTION", start)
    module.write_text(f'{source[:body]}raise NotImplementedError("storage_views: see handout §1.2")\n    {source[body:]}')
    done = assignment(work, "check", "tensor_memory", "storage_views", "linear")
    assert done.returncode == 1
    rows = dict(re.findall(r"^(\w+) +\d+ points  \S+ +\d+/\d+ +(\w[\w ]*)$", done.stdout, re.MULTILINE))
    assert rows == {"tensor_memory": "done", "storage_views": "to be finished", "linear": "not attempted"}
    assert re.search(r"next\n  write assignment/tensor_memory\.py:\d+ in contiguous_strides\n", done.stdout)
    assert "read handout §1.2, then run `pytest -k storage_views`" in done.stdout
    assert "first failure" not in done.stdout


def test_a_wrong_answer_is_shown_in_full(work, root):
    """Expected, got, inputs, the test, and the definition to mend; a problem not attempted does not hide it."""
    (module,) = solve(work, root, "linear")
    module.write_text(module.read_text().replace("return x @ self.weight.T", "return 2 * x @ self.weight.T"))
    done = assignment(work, "check", "storage_views", "linear")
    assert re.search(r"^linear +5 points .* failing$", done.stdout, re.MULTILINE)
    assert re.search(r"^first failure\nlinear · Linear\S*: wrong values", done.stdout, re.MULTILINE)
    assert re.search(r"^  expected  .*\n  got       ", done.stdout, re.MULTILINE)
    assert re.search(r"^  test      tests/public/test_linear\.py:\d+ test_\w+", done.stdout, re.MULTILINE)
    assert re.search(r"next\n  mend assignment/linear\.py:\d+ in Linear\S*\n", done.stdout)


def test_an_exception_is_told_with_its_place(work, root):
    """In one line and the student's own line, not as a traceback."""
    (module,) = solve(work, root, "linear")
    module.write_text(module.read_text().replace("return x @ self.weight.T", 'return x @ self["weight"].T'))
    done = assignment(work, "check", "linear")
    where = r"  at        assignment/linear\.py:\d+ in Linear\.forward"
    assert re.search(rf"first failure\nlinear: raised TypeError: .*\n{where}", done.stdout)
    assert "Traceback" not in done.stdout + done.stderr


def test_a_syntax_error_is_told_with_its_line(work):
    """In the module that has it; the other problems run."""
    (work / "assignment/linear.py").write_text("def broken(:\n")
    done = assignment(work, "check", "tensor_memory", "linear")
    assert "linear: raised SyntaxError: " in done.stdout
    assert "  at        assignment/linear.py:1\n" in done.stdout
    assert re.search(r"^tensor_memory .* not attempted$", done.stdout, re.MULTILINE)


def test_what_the_code_prints_stays_out_of_the_table(work, root):
    """Nor can it end the run with an exit code of its own."""
    (module,) = solve(work, root, "linear")
    line = "return x @ self.weight.T"
    module.write_text(module.read_text().replace(line, f'print("NOISE")\n        {line}'))
    done = assignment(work, "check", "linear")
    assert done.returncode == 0
    assert "NOISE" not in done.stdout + done.stderr
    assert "1 of 1 problems done" in done.stdout
    assert "`python -m assignment submit` makes the zip" in done.stdout


def test_an_endless_loop_is_stopped_by_hand_and_located(work, root):
    """Ctrl-C shows where it was, and no traceback."""
    (module,) = solve(work, root, "linear")
    loop = 'open("started", "w").close()\n        while True:\n            pass'
    module.write_text(module.read_text().replace("return x @ self.weight.T", loop))
    command = [sys.executable, "-m", "assignment", "check", "linear"]
    process = subprocess.Popen(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60
    while not (work / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert re.search(r"^stopped at assignment/linear\.py:\d+ in Linear\.forward$", output, re.MULTILINE), output
    assert "Traceback" not in output


def test_an_unknown_problem_is_a_usage_error(work):
    """With the one that was meant."""
    done = assignment(work, "check", "adamv")
    assert done.returncode == 2
    assert "there is no problem adamv; did you mean adamw?" in done.stderr


def test_k_with_a_problem_id_means_that_problem(work):
    """Also where the id is part of another one's, or of a test's name."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-k", "checkpoint", "-p", "no:cacheprovider"]
    output = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=300).stdout
    files = {line.split("::")[0] for line in output.splitlines() if line.startswith("FAILED")}
    assert files == {"FAILED tests/public/test_checkpoint.py"}


# --- submit


def test_what_is_submitted_is_what_the_grader_takes(work):
    """The same files, the same hash, nothing ignored."""
    (work / "assignment/my_helpers.py").write_text("HALF = 0.5\n")
    (work / "assignment/notes.txt").write_text("mine\n")
    done = assignment(work, "submit")
    assert done.returncode == 0, done.stderr
    read = submission.read(work / "submission.zip")
    assert read.ignored == []
    assert set(read.sources) == {*(f"assignment/{module}.py" for module in COURSE.modules), "assignment/my_helpers.py"}
    assert f"sources {read.sha256[:12]}" in done.stdout
    assert "left out: assignment/notes.txt (not a Python module)" in done.stdout
    for path, content in read.sources.items():
        assert re.search(rf"^  {path} +{len(content):,} bytes", done.stdout, re.MULTILINE)
        assert content == (work / path).read_bytes()


def test_submit_says_what_is_not_done(work, root):
    """A stub is accepted, with a count of what is still to do."""
    solve(work, root, "linear")
    lines = assignment(work, "submit").stdout.splitlines()
    assert any(re.search(r"linear\.py +[\d,]+ bytes$", line) for line in lines)
    assert any(re.search(r"tensor_memory\.py .* still to do in 8 places$", line) for line in lines)


def test_the_same_modules_give_the_same_zip(work):
    """Whenever it is made."""
    assignment(work, "submit", "one.zip")
    for path in (work / "assignment").glob("*.py"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    assignment(work, "submit", "two.zip")
    assert (work / "one.zip").read_bytes() == (work / "two.zip").read_bytes()


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda a: (a / "data.py").unlink(), "assignment/data.py is missing"),
        (lambda a: (a / "data.py").write_text("x = (\n"), r"assignment/data.py:1 is not Python: '\(' was never closed"),
        (lambda a: (a / "data.py").write_bytes(b"x = '\xff'\n"), "assignment/data.py.* is not Python"),
        (lambda a: (a / "data.py").write_bytes(b"x = 1\0\n"), "assignment/data.py.* is not Python"),
        (
            lambda a: (a / "big.py").write_text("#" * 3_000_000),
            ".*3,.* more than 2,000,000; the largest is assignment/big.py",
        ),
        (
            lambda a: [(a / f"m{i}.py").touch() for i in range(120)],
            r"there are \d+ Python files .*, more than 100",
        ),
    ],
    ids=["missing", "syntax", "not utf-8", "nul", "large", "many"],
)
def test_what_the_grader_could_not_run_is_not_submitted(work, break_it, message):
    """Exit 2, one sentence, no zip."""
    break_it(work / "assignment")
    done = assignment(work, "submit")
    assert done.returncode == 2
    assert re.search(f"^nothing was written: {message}", done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert list(work.glob("*.zip*")) == []


def test_a_zip_that_cannot_be_written_is_told(work):
    """A folder of that name, or none to write it in."""
    (work / "taken").mkdir()
    for out, message in [("taken", "taken is a folder"), ("none/here.zip", "none/here.zip cannot be written")]:
        done = assignment(work, "submit", out)
        assert done.returncode == 2
        assert message in done.stderr


@pytest.mark.parametrize("fail_at", ["fsync", "replace"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")], ids=["interrupted", "full"])
def test_an_interrupted_submit_leaves_the_old_zip_and_nothing_else(tmp_path, monkeypatch, fail_at, error):
    """Wherever it is interrupted."""
    out = tmp_path / "submission.zip"
    out.write_bytes(b"old")

    def fail(*arguments):
        raise error

    monkeypatch.setattr(submit.Path if fail_at == "replace" else submit.os, fail_at, fail)
    with pytest.raises((KeyboardInterrupt, submit.Refused)):
        submit.write(out, b"new" * 1000)
    assert out.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["submission.zip"]


def test_a_disk_that_is_full_half_way_leaves_the_old_zip(tmp_path):
    """A real limit of the kernel's, met after 4096 bytes: one sentence, the old zip, no litter."""
    program = (
        "import resource, signal, sys; from pathlib import Path; from tests.student_side import submit\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "submit.write(Path(sys.argv[1]), b'new' * 100000)"
    )
    out = tmp_path / "submission.zip"
    out.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", program, str(out)], capture_output=True, text=True, timeout=60)
    assert "submission.zip cannot be written: File too large" in done.stderr
    assert out.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["submission.zip"]


def test_submit_killed_from_outside_leaves_no_half_written_zip(tmp_path):
    """SIGTERM while the file is being written: the old zip stays, the temporary file goes."""
    program = (
        "import os, sys, time; from pathlib import Path; from tests.student_side import submit\n"
        "def wait(fd): print('writing', flush=True); time.sleep(60)\n"
        "submit.os.fsync = wait; submit.write(Path(sys.argv[1]), b'new' * 100000)"
    )
    out = tmp_path / "submission.zip"
    out.write_bytes(b"old")
    process = subprocess.Popen([sys.executable, "-c", program, str(out)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"writing\n"
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert out.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["submission.zip"]


def test_the_students_limits_are_within_the_graders():
    """So that whatever `submit` writes is accepted."""
    assert submit.MAX_BYTES < submission.MAX_SOURCE_BYTES
    assert submit.MAX_FILES < submission.MAX_SOURCES


def test_a_zip_is_readable_by_every_zip_program(work):
    """Deflated, plain files, no folder above assignment/."""
    assignment(work, "submit")
    with zipfile.ZipFile(work / "submission.zip") as archive:
        assert archive.testzip() is None
        assert all(name.startswith("assignment/") for name in archive.namelist())
