"""The box as a whole: it is replaced when it dies, closed once, and leaves nothing behind."""

import os
import select
import signal
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from grader.base.errors import Crashed, GraderFault
from grader.sandbox.session import Session
from tests.grader.in_the_sandbox import (
    LEVELS,
    LIMITS,
    answer,
    ask,
    fault,
    plain_box,
    session,
)
from tests.grader.processes import alive, processes, until
from tests.grader.sampling import every

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dies", ["between tests", "during a test"])
def test_a_box_that_ends_while_a_child_lives_is_replaced(dies):
    """The next test has the new box; only a test that was running is a fault of the grader."""
    own = plain_box("bubblewrap")
    with own, session(own, "import time\ndef f(seconds):\n    time.sleep(seconds)") as made:
        ask(made, 0.2)
        if dies == "between tests":
            os.kill(own.host_pid, signal.SIGKILL)
            made.begin_test(0)
            assert not made.is_shared
            ask(made, 0)
        else:
            threading.Timer(0.3, os.kill, [own.host_pid, signal.SIGKILL]).start()
            made.begin_test(0)
            with pytest.raises(GraderFault, match=r"^the sandbox stopped answering: "):
                ask(made, 100)
        made.close()
        for number in range(3):
            assert number == answer(own, "def f(x): return x", number)


def test_a_sandbox_that_cannot_be_waited_for_is_a_fault_of_ours():
    """Any exception becomes a GraderFault: a test that expects an OSError must not accept ours."""
    sandbox = SimpleNamespace(wait_until_ready=lambda: os.close(-1))
    with pytest.raises(GraderFault, match=r"^asking the sandbox failed: OSError: "):
        ask(Session(sandbox, {}, LIMITS))


@pytest.mark.parametrize("when", ["before the next test", "as the next test begins"])
def test_a_zygote_that_dies_is_a_fault_of_ours_and_is_replaced(when):
    """A dead zygote never costs a student anything, and a closed sandbox leaves no process."""
    with plain_box("bubblewrap") as own:
        pidfd = os.pidfd_open(own.host_pid)
        os.kill(own.host_pid, 9)
        if when == "before the next test":
            assert select.select([pidfd], [], [], 60)[0]
        os.close(pidfd)
        with pytest.raises(GraderFault, match=r"^the sandbox "):
            answer(own, "def f(): return 1")
        assert answer(own, "def f(): return 1") == 1
        last = own.host_pid
    assert not Path(f"/proc/{last}").exists()


class Interrupted(BaseException):
    """What a signal raises."""


def test_an_interrupted_question_keeps_its_answer_from_the_next():
    """Each later question of the box would get the answer to the one before it."""

    def interrupt(*_):
        raise Interrupted

    with plain_box("bubblewrap") as own, session(own, "def f(x): return x") as made:
        assert 1 == ask(made, 1)
        zygote, before = own.host_pid, signal.signal(signal.SIGALRM, interrupt)
        os.kill(zygote, signal.SIGSTOP)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(Interrupted):
            own.activity()
        signal.signal(signal.SIGALRM, before)
        os.kill(zygote, signal.SIGCONT)
        assert own.activity().cpu_seconds_of_all >= 0
        made.close()
        assert (2, zygote) == (answer(own, "def f(x): return x", 2), own.host_pid)


@pytest.mark.parametrize("level", every(2, LEVELS))
def test_a_process_that_has_just_ended_prints_no_traceback(level):
    """It may end while its zygote, on a busy machine, has not yet read the request."""
    with plain_box(level) as own, session(own, "def f(x): return x") as made:
        assert 1 == ask(made, 1)
        zygote, child = own.host_pid, made._child
        os.kill(zygote, signal.SIGSTOP)
        until(lambda: zygote in processes("State", "T"))
        child.hang_up()
        (process,) = processes("PPid", zygote)
        until(lambda: not alive([process]))
        own.print_traceback()
        os.kill(zygote, signal.SIGCONT)
        assert (0, zygote) == (child.end().exit, own.host_pid)


def test_a_thread_that_closes_a_sandbox_in_use_ends_it_once(tmp_path, monkeypatch):
    """Both threads notice that the zygote is gone, but only one of them ends the box."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = plain_box("bubblewrap")
    own.wait_until_ready()
    box = own._box
    ends, end = [], box.end
    monkeypatch.setattr(box, "end", lambda: [ends.append(threading.get_ident()), end()][1])
    closing = threading.Thread(target=own.close)
    threading.Timer(0.05, closing.start).start()

    def use():
        while True:
            answer(own, "def f(): return 1")

    with pytest.raises(GraderFault, match=r"^the sandbox has been closed$"):
        use()
    closing.join()
    assert ends == [closing.ident]
    assert list(tmp_path.iterdir()) == []


def test_a_zygote_that_hangs_is_gone_when_its_box_is_closed(monkeypatch):
    """This holds even if the zygote no longer reads its socket and another user started it."""
    monkeypatch.setattr("grader.sandbox.running_box.END_SECONDS", 1.0)
    hanging = plain_box("bubblewrap")
    pid = hanging.host_pid
    os.kill(pid, signal.SIGSTOP)
    hanging.close()
    assert not alive([pid])


def test_without_isolation_answers_are_the_same():
    """A laptop without bubblewrap gives them, too. The stubs next to the tests are not graded."""
    listed = "import os\ndef f(): return os.listdir(os.environ['TMPDIR'])"
    with plain_box("none") as bare:
        assert "torch" not in bare.facts, "the probes are those of the course, not of this folder"
        assert 3.0 == answer(bare, "def f(x): return x + 1", 2.0)
        assert ["submission"] == answer(bare, listed)
        said = fault(bare, Crashed, "import os\ndef f(): os._exit(3)")[1]
        assert said == "its process exited with code 3 before it answered"
        module = b"import assignment\ndef f(): return assignment.x"
        sources = {"assignment/__init__.py": b"x = 7", "assignment/m.py": module}
        with closing(Session(bare, sources, LIMITS)) as made:
            assert 7 == ask(made)
