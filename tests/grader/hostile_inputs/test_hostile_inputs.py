"""Everything that is read from strangers has limits, and its death costs one submission."""

import ast
import importlib
import itertools
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from grader.analysis import mistake_drafts, open_task
from grader.base import files, limited_reading
from grader.base.errors import GraderFault, SubmissionRefused
from grader.classroom import canvas_api, classroom50_scores, database
from grader.classroom.intake import folder_items, gradescope_download
from grader.classroom.intake.git_clones import COMMIT_BYTES, MEMORY_BYTES, SECONDS
from grader.course import late_policy
from grader.platforms import gradescope_metadata
from grader.report import json_report
from grader.submission import archives, notebook_modules, reader, submissions
from grader.submission.reader import SubmissionReader
from kit import handing_in
from tests.grader.classroom.a_class import LISTS, hand_in
from tests.grader.hostile_inputs import inputs
from tests.grader.processes import ran, started
from tests.grader.sampling import every
from tests.grader.small_courses import with_lists
from tests.grader.warm_python import python

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def reads(tmp_path_factory):
    """A process that reads one input after the other, and the file with its errors."""
    command = [python(), "-m", "tests.grader.hostile_inputs.inputs"]
    errors = tmp_path_factory.mktemp("reads") / "errors"
    pipes = {"stdin": subprocess.PIPE, "stderr": errors.open("w")}
    with pipes["stderr"], started(command, cwd=ROOT, **pipes) as process:
        yield process, errors


@pytest.mark.parametrize("name", every(2, [*inputs.SUBMISSIONS, *inputs.OTHERS]))
def test_a_hostile_input_is_read_within_limits(reads, name, tmp_path):
    """It is refused in words, or harmless; limits of the kernel bound its processor time."""
    expected = (inputs.SUBMISSIONS | inputs.OTHERS)[name][-2]
    process, errors = reads
    print(name, tmp_path, file=process.stdin, flush=True)
    got = json.loads(process.stdout.readline().strip() or errors.read_text())
    assert str(expected) in got["said"]
    assert "Traceback" not in errors.read_text()
    if name in inputs.SUBMISSIONS:
        assert got["code"] == (0 if isinstance(expected, int) else 2)
        assert got["kib"] * 1024 <= reader.MEMORY_BYTES + 64 * 2**20


@pytest.mark.parametrize("step", every(2, [5, 1]))
def test_hostile_submissions_cost_their_neighbours_nothing(step, tmp_path, grader):
    """A class of every `step`th of them, and two honest students: each of these has all points."""
    hostile = dict([*inputs.SUBMISSIONS.items()][::step])
    course = with_lists(tmp_path / "course")
    listed = course / "assignment" / "problems.toml"
    listed.write_text('files = ["*.json", "*/*.json"]\n' + listed.read_text())
    handed_in = tmp_path / "class"
    handed_in.mkdir()
    for name, (_, write) in hostile.items():
        (tmp_path / name).mkdir()
        path = write(tmp_path / name)
        ends = "".join(path.suffixes) if path.is_file() else "-folder"
        path.rename(handed_in / f"{name}{ends}")
    for name in ("aaron", "zoe"):
        hand_in(handed_in, name, LISTS)
    book = tmp_path / "class.sqlite"
    done = grader("batch", handed_in, "--course", course, "--gradebook", book)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    with closing(sqlite3.connect(book)) as database:
        columns = "SELECT student, COALESCE(grade.score, refused) FROM attempt LEFT JOIN grade"
        found = dict(database.execute(f"{columns} ON grade.sources = attempt.sources"))
    assert (found.pop("aaron"), found.pop("zoe")) == (3.0, 3.0)
    for name, (expected, _) in hostile.items():
        said = found.pop(name if name in found else f"{name}-folder")
        assert said == 0.0 if isinstance(expected, int) else expected in said, name
    assert not found


# --- the reader -----------------------------------------------------------------------------------


def test_a_reader_that_was_killed_reads_the_next_submission(tmp_path):
    """One submission is not read, by nobody's fault; a new server reads the next one."""
    hand_in(tmp_path, "ada", LISTS)
    with SubmissionReader() as one:
        assert one.read(tmp_path / "ada.zip").sources
        one._process.process.kill()
        with pytest.raises(GraderFault, match=r"ended the process that read it \(SIGKILL\)$"):
            one.read(tmp_path / "ada.zip")
        assert one.read(tmp_path / "ada.zip") == submissions.read(tmp_path / "ada.zip")


@pytest.mark.parametrize(
    ("ends", "wait", "error", "said"),
    [
        ("while True: pass", 600, SubmissionRefused, "more than 0.3 seconds of processor time"),
        ("bytes(2**40)", 600, SubmissionRefused, "takes more than 512 MiB of memory"),
        ("import time; time.sleep(99)", 2, GraderFault, "took more than 2 seconds"),
        ("import os; os.kill(os.getpid(), 9)", 600, GraderFault, "process that read it (SIGKILL)"),
        ("1 / 0", 600, GraderFault, "cannot be read: ZeroDivisionError: division by zero"),
    ],
    ids=["time", "memory", "wait", "killed", "raised"],
)
def test_how_a_server_ends_says_whose_fault_it_is(ends, wait, error, said, tmp_path, monkeypatch):
    """A limit is the student's fault, an exception or a long wait is not; the next one is read."""
    changed = (
        "from grader.submission import submissions; was = submissions.read\n"
        "def read(path, accepted, parts, follow):\n"
        f"    if path.name == 'bad.zip':\n        {ends}\n"
        "    return was(path, accepted, parts=parts)\n"
        "submissions.read = read\n"
    )
    start = limited_reading.START.replace("from {", f"exec({changed!r}); from {{", 1)
    monkeypatch.setattr(limited_reading, "START", start)
    monkeypatch.setattr(reader, "CPU_SECONDS", 0.3)
    monkeypatch.setattr(reader, "WAIT_SECONDS", wait)
    hand_in(tmp_path, "ada", LISTS)
    with SubmissionReader() as one:
        with pytest.raises(error, match=re.escape(said)):
            one.read(tmp_path / "bad.zip")
        assert one.read(tmp_path / "ada.zip").sources


def test_a_path_that_is_not_utf_8_is_read(tmp_path):
    """A name of a folder, of a part or in a message need not be text."""
    hand_in(tmp_path, "ada", LISTS)
    odd = Path(os.fsdecode(bytes(tmp_path) + b"/\xff.zip"))
    (tmp_path / "ada.zip").rename(odd)
    with SubmissionReader() as one:
        assert one.read(odd).sources.keys() == {"assignment/activations.py"}
        assert one.read(odd, parts={os.fsdecode(b"activations.py"): odd}, accepted=inputs.ACCEPTED)
        odd.unlink()
        with pytest.raises(SubmissionRefused, match=re.escape(r"\udcff.zip does not exist")):
            one.read(odd)


def test_limits_of_the_reader_are_lowered_only(tmp_path):
    """Where the user's limits are lower than ours, reading works all the same."""
    hand_in(tmp_path, "ada", LISTS)
    script = (
        "import resource; from pathlib import Path\n"
        "from grader.submission.reader import SubmissionReader\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))\n"
        "with SubmissionReader() as one: print(*one.read(Path('ada.zip')).sources)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.check_output([sys.executable, "-c", script], cwd=tmp_path, env=env)
    assert said == b"assignment/activations.py\n"


def test_the_reader_leaves_no_process():
    """Its end ends the server, also after an exception."""
    with suppress(KeyboardInterrupt), SubmissionReader() as one:
        number = one._process.process.pid
        raise KeyboardInterrupt
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_only_the_reader_reads_submissions():
    """No other part of the grader opens an archive or a notebook in its own process."""
    call, folder = re.compile(r"\bsubmissions\.read\(|\bmodules_in\("), ROOT / "grader"
    calls = {path for path in folder.rglob("*.py") if call.search(path.read_text())}
    parts = ("reader", "submissions", "notebook_modules")
    assert calls == {folder / "submission" / f"{name}.py" for name in parts}


# --- the hash -------------------------------------------------------------------------------------


def test_what_is_hashed_tells_the_files_apart():
    """From the hashed bytes, the names and contents can be read again, whatever they contain."""
    names = ["a", "a 1", "a 1 2", "b", "1", " "]
    contents = [b"", b"1", b"a 1\n", b"a 1\nx", b"x\nb 0\n", b"\n"]
    seen = {}
    for count in (1, 2):
        for chosen in itertools.combinations(names, count):
            for given in itertools.product(contents, repeat=count):
                files = dict(zip(chosen, given, strict=True))
                assert seen.setdefault(handing_in.sha256(files), files) == files
                assert not handing_in.unfit(files)
    assert len(seen) == 6 * 6 + 15 * 36


@pytest.mark.usefixtures("grading")
def test_two_submissions_in_one_row_of_a_gradebook_are_not_graded(tmp_path, typed):
    """A gradebook of before may have merged two; neither gets the other's points."""
    course = with_lists(tmp_path / "course")
    (tmp_path / "class").mkdir()
    hand_in(tmp_path / "class", "ada", LISTS)
    hand_in(tmp_path / "class", "bob", LISTS + "\n")
    book = tmp_path / "class.sqlite"
    batch = ("batch", tmp_path / "class", "--course", course, "--gradebook", book, "--jobs", 1)
    assert typed(*batch)[0] == 0
    with closing(sqlite3.connect(book)) as database, database:
        ada = database.execute("SELECT sources FROM attempt WHERE student = 'ada'").fetchone()
        insert = "INSERT INTO source SELECT ?, 'assignment/x.json', content FROM source LIMIT 1"
        database.execute(insert, ada)
        database.executescript("DELETE FROM score; DELETE FROM grade")
    assert typed(*batch)[0] == 3
    with closing(sqlite3.connect(book)) as database:
        found = database.execute("SELECT score, fault FROM grade ORDER BY score").fetchall()
    assert "the stored files of ada.zip are not those of one submission" in found[0][1]
    assert found[1] == (3.0, "")


# --- regular expressions --------------------------------------------------------------------------

READERS = (
    *("grader.submission.archives", "grader.submission.submissions"),
    *("grader.submission.notebook_modules", "grader.classroom.intake.folder_items"),
    "grader.classroom.intake.removable.canvas_download",
    "grader.classroom.intake.removable.moodle_download",
    *("grader.classroom.intake.plain_folders", "grader.classroom.intake.git_clones"),
    "grader.classroom.canvas_api",
    *("grader.classroom.roster", "grader.classroom.classroom50_scores", "kit.handing_in"),
    *("grader.classroom.spreadsheet_csv", "grader.classroom.canvas_csv", "kit.safe_text"),
)
MANY = 2**14
USE = re.compile(r"\b([A-Z_]+)\.(match|fullmatch|search|sub|findall|finditer|split)\b")


def hostile_texts(pattern):
    """Long texts of the characters that a pattern names, alone and in pairs."""
    literals = sorted(set(re.sub(r"\\[dswb]|[\[\]()?*+|^$]", "", pattern)))
    some = [*dict.fromkeys([*"a1 _-/.\n@,(<;%\t", *literals])][:24]
    words = re.findall(r"[A-Za-z%/_ <>.-]{3,}", pattern)
    for one in some:
        yield one * MANY
        yield from (f"{word}{one * MANY}!" for word in words)
    for pair in itertools.permutations(some, 2):
        yield "".join(pair) * 2**12


def main_of_expressions():
    """Use each expression as its module does; the kernel limits the time of each."""
    for module in [*map(importlib.import_module, READERS)]:
        for constant, use in sorted(set(USE.findall(Path(module.__file__).read_text()))):
            expression = getattr(module, constant, None)
            if isinstance(expression, re.Pattern):
                is_bytes = isinstance(expression.pattern, bytes)
                pattern = expression.pattern.decode() if is_bytes else expression.pattern
                print(module.__name__, constant, use, flush=True)
                for text in hostile_texts(pattern):
                    signal.setitimer(signal.ITIMER_PROF, 0.1)  # a linear search takes 3 ms
                    given = text.encode() if is_bytes else text
                    getattr(expression, use)(*([given[:0]] if use == "sub" else []), given)


@pytest.mark.proof
def test_no_regular_expression_takes_quadratic_time():
    """Texts of 8 and 16 KiB are matched within the time that a linear search takes."""
    done = ran([python(), "-c", f"from {__name__} import *; main_of_expressions()"], cwd=ROOT)
    assert done.returncode != -signal.SIGPROF, f"{done.stdout.splitlines()[-1]} hangs"
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", READERS)
def test_every_regular_expression_has_a_name(name):
    """One within a call would escape the test above."""
    tree = ast.parse(Path(importlib.import_module(name).__file__).read_text())
    inner = [
        f"{node.lineno}: {node.args[0].value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and getattr(node.func.value, "id", "") == "re"
        and node.func.attr not in ("compile", "escape")
        and isinstance(node.args[0], ast.Constant)
        and re.search(r"[+*]|,\}", str(node.args[0].value))
    ]
    assert inner == []


# --- the table in SECURITY.md ---------------------------------------------------------------------

MIB = 2**20
# What each row of the table says, with the constants of the program.
LIMITS = {
    "any submission": [f"{reader.CPU_SECONDS} s of", f"{reader.MEMORY_BYTES // MIB} MiB",
        f"{reader.WAIT_SECONDS} s"],
    "an archive": [f"{archives.MAX_ARCHIVE_BYTES // MIB} MiB", f"{archives.MAX_ENTRIES:,} entries",
        f"{archives.MAX_PATH_BYTES:,} bytes", f"{archives.MAX_UNPACKED_BYTES // MIB} MiB unpacked"],
    "a notebook": [f"{notebook_modules.MAX_NOTEBOOK_BYTES // MIB} MiB"],
    "files to grade": [f"{handing_in.MAX_BYTES // MIB} MiB", f"{handing_in.MAX_FILES} files",
        f"{handing_in.MAX_NAME} bytes", f"{handing_in.MAX_FOLDERS} folders"],
    "the last commit of a clone": [f"{COMMIT_BYTES // 1024} KiB", f"{SECONDS} s",
        f"{MEMORY_BYTES // 2**30} GiB"],
    "names in a class's folder": [f"{folder_items.MAX_NAME} characters"],
    "Gradescope's export and folders": [f"{folder_items.MAX_METADATA_BYTES // MIB} MiB",
        f"{gradescope_download.SECONDS:.0f} s of",
        f"{gradescope_download.MEMORY_BYTES // 2**30} GiB",
        f"{gradescope_download.MAX_SUBMITTERS:,} students"],
    "a platform's submission_metadata.json": [f"{gradescope_metadata.MOST_BYTES // MIB} MiB"],
    "a roster, an export of Canvas or of scores, late days": [f"{files.MOST_OF_A_TABLE // MIB} MiB",
        f"{files.MOST_CELLS:,} cells", f"{files.MOST_IN_A_CELL:,} characters"],
    "Canvas' answers": [f"{canvas_api.MOST_BYTES // MIB} MiB", f"{canvas_api.ANSWER_SECONDS:.0f} s",
        f"{canvas_api.MOST_OF_A_LIST // MIB} MiB", f"{canvas_api.MOST_PAGES:,} pages",
        f"{canvas_api.SECONDS:.0f} s of silence"],
    "Classroom 50's scores.json": [f"{classroom50_scores.MOST_BYTES // MIB} MiB"],
    "a result of `grade --json`": [f"{json_report.MOST_BYTES // MIB} MiB"],
    "policy.toml": [f"{late_policy.MOST_BYTES // MIB} MiB"],
    "a gradebook": [f"{database.MOST_BYTES // MIB} MiB"],
    "sources in a gradebook": [f"{handing_in.MAX_BYTES // MIB} MiB"],
    "`grader mistakes --draft`": [f"{mistake_drafts.MAX_SOURCE:,} bytes",
        f"{mistake_drafts.MAX_PROGRAM:,} characters", f"{limited_reading.SECONDS:.0f} s of",
        f"{limited_reading.MEMORY_BYTES // 2**30} GiB"],
    "an entry of the open task, on `grader page`": [f"{open_task.MOST_BYTES:,} bytes",
        f"{open_task.MOST_NUMBERS} numbers", f"{open_task.LONGEST_WORD} characters"],
}  # fmt: skip


def test_security_md_lists_every_reader_with_its_limits():
    """Each row has the numbers of the program, in the order in which they are listed here."""
    text = (ROOT / "SECURITY.md").read_text().partition("## What is read from strangers")[2]
    text = text.partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    found = {name: limits for name, limits in rows if name not in ("reader", "---")}
    assert found.keys() == LIMITS.keys()
    for name, numbers in LIMITS.items():
        in_order = ".*".join(rf"(?<!\d){re.escape(number)}" for number in numbers)
        assert re.search(in_order, found[name]), (name, found[name], numbers)
        told = re.findall(r"\d[\d,.]*", found[name])
        assert len(told) == len(re.findall(r"\d[\d,.]*", " ".join(numbers))), name
