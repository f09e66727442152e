"""Limits of the caller's environment that no test could work with."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from grader.base.errors import GraderFault
from grader.course import courses
from grader.grading.grade import grade
from grader.report import json_report
from grader.sandbox import visible_files
from grader.sandbox.preflight import check_cpu
from grader.sandbox.session import Session
from grader.submission.submissions import Submission
from tests.grader.conftest import changed
from tests.grader.in_the_sandbox import COURSE, LIMITS, PLAIN, answer, plain_box
from tests.grader.ordinary_user import as_an_ordinary_user
from tests.grader.processes import ran
from tests.grader.sampling import every

pytestmark = pytest.mark.slow
# Under a limit of processes, another user than root starts none at all where as many run already.
SOFT, HARD = ("", "") if os.geteuid() else ("-Su 20 ", " -u 64")
# By what a shell does first: what it limits, what the limit is, and what grading needs.
LOW = {
    "-n 100": ("open files", "100", "256"),
    "-t 9": ("processor time", "9 s", "120 s"),
    "-u 20": ("processes", "20", "64"),
    "-f 1000": ("the size of files", "1000 KiB", "65536 KiB"),
    "-v 1000000": ("address space", "1000000 KiB", "4194304 KiB"),
    "-d 100000": ("data in memory", "100000 KiB", "4194304 KiB"),
    "-s 1000": ("stacks", "1000 KiB", "8192 KiB"),
}


def graded_under(limits, out, **environment):
    """Grade the solutions of the plain course in a shell with these limits."""
    line = ["bash", "-c", f'ulimit {limits} && exec "$@"', "bash", sys.executable, "-m", "grader"]
    line += ["grade", PLAIN.reference, "--course", PLAIN.root, "--json", out]
    return ran(line, cwd=COURSE.root, env={**os.environ, **environment})


@pytest.mark.parametrize("limit", every(7, LOW))
def test_a_limit_that_is_too_low_is_named_before_anything_is_graded(limit, tmp_path):
    """One sentence, and no result: nobody loses a point because of a scheduler's settings."""
    done = graded_under(limit, tmp_path / "result.json")
    of, got, needed = LOW[limit]
    told = (
        f"grader: this machine cannot isolate submissions: the limit on {of} (ulimit {limit[:2]}) "
        f"is {got} here, and grading needs {needed}: start the grader from a shell or job whose "
        "hard limit is at least that high\n"
    )
    assert (3, "", told) == (done.returncode, done.stdout, done.stderr)
    assert not (tmp_path / "result.json").exists()


def test_a_processor_that_computes_wrongly_grades_nobody():
    class Wrong:
        def look_at_device(self, name):
            return {"computes": False}

    with pytest.raises(GraderFault, match="no test can run in the sandbox"):
        check_cpu(Wrong())


@pytest.mark.parametrize(
    "limits",
    every(2, [f"{SOFT}-Sn 20 -Sf 1000 -St 60 -Sv 4000000 -Sd 4000000", f"-n 512{HARD}"]),
)
def test_a_limit_that_is_enough_or_can_be_raised_costs_nothing(limits, tmp_path):
    """A test needs few descriptors, and a soft limit is raised. No folder remains."""
    out, folder = tmp_path / "result.json", tmp_path / "temporary"
    folder.mkdir()
    done = graded_under(limits, out, TMPDIR=str(folder))
    assert (0, "", []) == (done.returncode, done.stderr, os.listdir(folder))
    result = json_report.parse(out.read_text())
    assert result.score == result.max_score > 0


BESIDE_OTHERS = """
import threading, time
from tests.grader.in_the_sandbox import answer, plain_box
for _ in range(200):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
with plain_box("none") as box:
    print(answer(box, "import os\\ndef f(): return os.fork() and 1 or os._exit(0)"))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_without_isolation_what_else_the_user_runs_does_not_count():
    with as_an_ordinary_user() as words:
        done = ran([*words, sys.executable, "-c", BESIDE_OTHERS], cwd=COURSE.root)
    assert ("1\n", "") == (done.stdout, done.stderr)


def test_a_limit_that_only_a_test_meets_is_ours(bare_with):
    """The check before the first test reports it: every submission would meet it."""
    source = "def f():\n    return 1\n"
    with bare_with("import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (2**25, 2**25))") as limited:
        said = "before it ran any student code: the grader was started with `ulimit -f` too low: "
        said += rf"{2**25}, and a test needs {2**40}$"
        with pytest.raises(GraderFault, match=said):
            check_cpu(Session(limited, {}, msgspec.structs.replace(LIMITS, file_bytes=2**40)))
        with pytest.raises(GraderFault, match=said):
            answer(limited, source, file_bytes=2**40)
        assert answer(limited, source, file_bytes=2**20) == 1
        right = Submission("right", courses.sources_in(PLAIN.reference), [])
        with pytest.raises(GraderFault, match=rf"too low: {2**25}, and a test needs {2**26}"):
            grade(right, PLAIN, limited, problems=PLAIN.problems)


BROKEN = [
    "_limit = lambda limits: 1 / 0",
    "_redirect = lambda *descriptors: 1 / 0",
    "_UnpackedSubmission.__init__ = lambda *_: 1 / 0",
    "_limit = lambda limits: os.kill(os.getpid(), 9)",
    "_limit = lambda limits: os.write(3, b'x' * 100)",
]


@pytest.mark.parametrize("broken", every(5, BROKEN))
def test_an_end_before_the_students_code_is_ours(broken, bare_with):
    """The process may end by an exception, an exit, a signal or an invalid answer."""
    ended = r"^a test's process (ended \(.*\) before it ran any student code: |answered)"
    with bare_with(f"test_process.{broken}") as box, pytest.raises(GraderFault, match=ended):
        answer(box, "def f(): return 1")


@pytest.fixture
def bare_with(monkeypatch, tmp_path):
    """Start a worker without isolation after one line of Python has changed something in it."""

    @contextmanager
    def start(line):
        boot, last = visible_files.GRADER / "worker" / "boot.py", "    forget_runtime(runtime)"
        copy = Path(shutil.copy(boot, tmp_path))
        changed(copy, last, f"    from grader.worker import test_process\n    {line}\n{last}")
        real = subprocess.Popen

        def popen(command, **options):
            words = [str(copy) if word == str(boot) else word for word in command]
            return real(words, **options)

        monkeypatch.setattr(subprocess, "Popen", popen)
        with plain_box("none") as running:
            yield running

    return start
