"""Our own solutions run in the grader's process as a submission runs in a sandbox."""

import pytest

from grader.errors import NotAttempted, StudentFault
from grader.grading.local_student import LocalBox, LocalSession


def calls(student):
    """A probe that calls the solution's function."""
    return student.m.f()


def test_a_stub_is_one_also_after_another_solution():
    """The line that raised is read from the present solution, not from the one before it."""
    box = LocalBox()
    wrong = {"assignment/m.py": b"def f():\n    return 1 // 0"}
    stub = {"assignment/m.py": b"def f():\n    raise NotImplementedError"}
    with pytest.raises(StudentFault, match="division"):
        LocalSession(box, wrong).run(calls, {})
    with pytest.raises(NotAttempted):
        LocalSession(box, stub).run(calls, {})
    box.close()
