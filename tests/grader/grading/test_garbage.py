"""A process that grades many submissions keeps nothing of those before."""

import gc
import weakref
from itertools import cycle

import pytest

from grader.course import courses
from grader.grading import garbage, grade, sandboxed_student
from grader.sandbox.box import Sandbox
from grader.sandbox.session import Session
from grader.submission.submissions import Submission
from grader.wire import torch_compiler
from grader.wire.protocol import FrameReader

COURSE = courses.load()
IDS = ("storage_views", "lr_schedule")
# Answers that are wrong in odd ways, so that tests fail in odd ways too.
ODD = ["torch.ones(2000)", "[[(1, {'a': torch.ones(3)})]] * 100", "{}['x']", "object()"]


@pytest.mark.slow
def test_nothing_of_earlier_submissions_is_left_when_a_grade_begins(monkeypatch):
    """Students, sessions and frames of answers are freed, although solutions were loaded."""
    seen = []

    def watched(kind):
        make = kind.__init__

        def __init__(self, *args, **kwargs):
            make(self, *args, **kwargs)
            seen.append(weakref.ref(self))

        monkeypatch.setattr(kind, "__init__", __init__)

    for kind in (sandboxed_student.RemoteStudent, Session, FrameReader, Submission):
        watched(kind)
    problems = [COURSE.problem(name) for name in IDS]
    with Sandbox.of(COURSE, isolation="bubblewrap") as sandbox:
        for answers in (ODD[:2], ODD[2:]):  # the functions of a submission give them in turns
            sources = {
                p.path: "\n".join(
                    ["import torch"]
                    + [
                        f"def {f}(*a, **k): return {a}"
                        for f, a in zip(p.functions, cycle(answers), strict=False)
                    ]
                ).encode()
                for p in problems
            }
            result = grade.grade(Submission("odd", sources, []), COURSE, sandbox, problems=problems)
            assert result.score < result.max_score
            assert len(seen) > 50
            del result, sources
            gc.disable()  # as rarely as in the grader's process
            try:
                garbage.collect()
                left = [type(found).__name__ for one in seen if (found := one()) is not None]
                assert left == []
            finally:
                gc.enable()
            seen.clear()


def test_sources_are_searched_once_but_not_kept(monkeypatch):
    """Sixty-four of them could take 640 MiB."""
    monkeypatch.setattr(torch_compiler, "_searched", {})
    monkeypatch.setattr(torch_compiler, "MOST_SEARCHED", 8)
    for number in range(20):
        assert not torch_compiler.is_needed_by([b"x = %d" % number])
        assert torch_compiler.is_needed_by([b"x = %d\nexport" % number])
    assert len(torch_compiler._searched) <= 8
    assert {int, bool} == {
        type(part) for key in torch_compiler._searched.items() for part in (*key[0], key[1])
    }
