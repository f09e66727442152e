"""Whose fault it is that a hidden test raises an exception of its own, or computes for too long."""

import signal
import textwrap
import threading
from contextlib import closing
from time import process_time

import numpy as np
import pytest
import torch

from grader.base import judging_time
from grader.base.errors import Raised, Status
from grader.base.judging_time import JudgingTime, TookTooLong, stopped
from grader.course import courses
from grader.grading import blame
from grader.grading.blame import difference
from grader.grading.grade import grade
from grader.grading.local_student import LocalBox, LocalSession
from grader.grading.verdict import plain, verdict_on
from grader.submission.submissions import Submission
from kit.safe_text import message_of

RIGHT = b"def relu(x):\n    return x * (x > 0)\n"
NONE = RIGHT.replace(b"x * (x > 0)", b"x.new_zeros(0)")
NEGATIVE = RIGHT.replace(b"x *", b"-x *")


@pytest.fixture
def graded_all(tiny):
    """Grade a solution of relu with other hidden tests in the tiny course."""

    def run(test: str, solution: bytes = RIGHT, reference: bytes = b"", session=LocalSession):
        if reference:
            (courses.load(tiny).reference / "activations.py").write_bytes(reference)
        file = tiny / "tests/hidden/relu/test_hidden.py"
        file.write_text("import torch\nfrom kit import expect\n" + textwrap.dedent(test))
        course = courses.load(tiny)
        submission = Submission("s", {"assignment/activations.py": solution}, [])
        problems = [course.problem("relu")]
        with closing(LocalBox()) as box:
            result = grade(submission, course, box, problems=problems, session=session)
        return result.problems[0].tests

    return run


@pytest.fixture
def graded(graded_all):
    """The same with one test."""
    return lambda *arguments: graded_all(*arguments)[0]


FIRST_ENTRY = '''
    def test_the_first_entry(student, rng):
        """The rule."""
        x = torch.randn(3, 5, generator=rng)
        assert float(student.activations.relu(x)[0, 0]) >= 0
    '''


@pytest.mark.parametrize(
    ("change", "solution", "facts"),
    [
        (("", ""), NONE, ["float32[3, 5]", "float32[0]"]),
        # An assertion of a test may also fail only for a wrong value.
        (("[0, 0]", ".sum()"), NEGATIVE, ["another value", "float32[3, 5]"]),
    ],
)
def test_an_answer_that_breaks_a_test_is_wrong(graded, change, solution, facts):
    """The test fails with what the answer should have been, without its values."""
    got = graded(FIRST_ENTRY.replace(*change), solution)
    assert (Status.FAILED, "an unusable answer") == (got.status, got.what)
    labels = ["expected", "got"]
    assert [*zip(labels, facts, strict=True)] == [(fact.label, fact.text) for fact in got.facts]
    assert ("relu", "The rule.") == (got.about, got.rule)


def test_a_test_that_the_reference_breaks_too_is_our_fault(graded):
    """The student's answer is right, or makes no difference."""
    for solution in (RIGHT, NONE):
        broken = FIRST_ENTRY.replace("(student.", "(1 / 0 + student.")
        got = graded(broken, solution)
        assert (Status.GRADER_ERROR, 0) == (got.status, len(got.facts))
        assert "ZeroDivisionError" in got.what


def test_right_answers_that_break_a_test_are_our_fault(graded):
    """The reference passes, but its answers are the same."""
    test = '''
    calls = []
    def test_once(student, rng):
        """The rule."""
        x = torch.randn(3, 5, generator=rng)
        student.activations.relu(x)
        calls.append(1)
        assert len(calls) > 1
    '''
    got = graded(test)
    assert (Status.GRADER_ERROR, True) == (got.status, "AssertionError" in got.what)


def test_an_answer_that_keeps_a_test_busy_is_wrong(graded, monkeypatch):
    """The test is stopped at the time limit, and the reference passes within it."""
    monkeypatch.setattr(judging_time, "JUDGING_SECONDS", 0.2)
    test = '''
    def test_counts(student, rng):
        """The rule."""
        entries = student.activations.relu(torch.ones(2, 3)).numel()
        while entries != 6:
            pass
    '''
    got = graded(test, NONE)
    assert (Status.FAILED, "an unusable answer") == (got.status, got.what)


LENGTH_OF_A_DICT = '''
    def test_the_answer_has_one_key(student):
        """The rule."""
        assert student.activations.relu(torch.ones(2))["k" * 300 + "a"] == 1
    '''


def test_an_answer_that_breaks_the_comparison_is_wrong(graded):
    """These keys differ only where they are cut, so the comparison meets a KeyError."""
    right = b"def relu(x):\n    return {'k' * 300 + 'a': 1}\n"
    with pytest.raises(KeyError):
        difference({"k" * 300 + "b": 1}, {"k" * 300 + "a": 1})
    got = graded(LENGTH_OF_A_DICT, right.replace(b"'a'", b"'b'"), right)
    assert (Status.FAILED, "an unusable answer") == (got.status, got.what)
    assert [*blame.INCOMPARABLE] == [fact.text for fact in got.facts]
    assert Status.PASSED == graded(LENGTH_OF_A_DICT, right, right).status


CANNOT_BE_JUDGED = '''
    def test_first(student):
        """The rule."""
        student.activations.relu(torch.ones(2))
    def test_without_words(student):
        student.activations.relu(torch.ones(2))
    test_without_words.__doc__ = 7
    def test_last(student):
        """The rule."""
        student.activations.relu(torch.ones(2))
    '''


def test_a_test_that_cannot_be_judged_is_our_fault_alone(graded_all):
    """An exception while pytest reports a test would otherwise end all tests."""
    first, broken, last = graded_all(CANNOT_BE_JUDGED)
    assert (Status.PASSED, Status.PASSED) == (first.status, last.status)
    assert Status.GRADER_ERROR == broken.status
    assert "AttributeError: 'int' object has no attribute 'strip'" in broken.what


class EndsBadlyOnce(LocalSession):
    """A session that cannot be closed the first time."""

    has_ended = False

    def close(self):
        if self._started and not EndsBadlyOnce.has_ended:
            EndsBadlyOnce.has_ended = True
            raise RuntimeError("it does not close")


AFTER_IT = ("def", "import pytest\n    @pytest.mark.own_process\n    def")


@pytest.mark.parametrize(
    "change", [("ones(2))", "ones(2)).shape[9]"), AFTER_IT], ids=["while it is judged", "after it"]
)
def test_a_process_that_cannot_be_ended_is_our_fault_in_one_test(graded_all, change, monkeypatch):
    """pytest still tears that test down; else it could not set up the next one."""
    monkeypatch.setattr(EndsBadlyOnce, "has_ended", False)
    tests = CANNOT_BE_JUDGED.replace("__doc__ = 7", "__doc__ = 'The rule.'").replace(*change, 1)
    first, second, last = graded_all(tests, session=EndsBadlyOnce)
    assert Status.GRADER_ERROR == first.status
    assert (Status.PASSED, Status.PASSED) == (second.status, last.status)


def compute_forever(time):
    with time.limit():
        while True:
            pass


def test_the_judging_time_is_cpu_time_and_is_halved(monkeypatch):
    """Waiting is free; each test that takes too long leaves the next one half of the time."""
    monkeypatch.setattr(judging_time, "LEAST_JUDGING_SECONDS", 0.02)
    time = JudgingTime(0.1)
    with time.limit():
        threading.Event().wait(0.3)
    left = []
    for _ in range(4):
        with pytest.raises(TookTooLong):
            compute_forever(time)
        left.append(time.seconds)
    assert [0.05, 0.025, 0.02, 0.02] == left


def wait_and_compute_forever(time, waited):
    with time.limit():
        with stopped():
            until = process_time() + 0.1
            while process_time() < until:
                pass
            signal.raise_signal(signal.SIGPROF)
            waited.append(True)
        while True:
            pass


def test_a_stopped_clock_counts_nothing_and_goes_on_afterwards():
    """Even a signal that was on its way raises nothing before the clock goes on."""
    waited = []
    with pytest.raises(TookTooLong):
        wait_and_compute_forever(JudgingTime(0.05), waited)
    assert waited


HUGE = 2**8000
FINITE8 = ("float32[2]", "float8_e4m3fn[2]")
NAN8 = ("float32[2]", "float8_e4m3fn[2] with NaN or inf")


@pytest.mark.parametrize(
    ("got", "expected", "said"),
    [
        (1.0, 1.0, None),
        (torch.ones(2), torch.ones(2), None),
        (1, 1.0, ("float", "int")),
        (HUGE, 3, ("int", "int of 8001 bits")),
        (float("nan"), 0.5, ("float", "nan")),
        (None, (1, 2), ("tuple of length 2", "NoneType")),
        ([1], [1, 2], ("list of length 2", "list of length 1")),
        ([1, "a"], [2, 3], ("int at [1]", "str of length 1")),
        ({"a": [1]}, {"a": [None]}, ("NoneType at ['a'][0]", "int")),
        ({1: 2}, {"a": 2}, ("dict with the keys 'a'", "dict with the keys 1")),
        (torch.tensor([240.0, torch.nan]).to(torch.float8_e4m3fn), torch.ones(2), NAN8),
        (torch.tensor([240.0, 1]).to(torch.float8_e4m3fn), torch.ones(2), FINITE8),
        (torch.empty(0, 2**40), torch.ones(2), ("float32[2]", f"float32[0, {2**40}]")),
        (torch.ones(2), torch.ones(3), ("float32[3]", "float32[2]")),
        (torch.tensor([1, torch.nan]), torch.ones(2), ("float32[2]", "float32[2] with NaN or inf")),
        (torch.ones(2, device="meta"), torch.ones(2), ("float32[2]", "float32[2] on meta")),
        (np.ones(2), torch.ones(2), ("float32[2]", "float64[2]")),
        (torch.ones(2), torch.zeros(2), ("another value", "float32[2]")),
    ],
)
def test_the_difference_says_no_value(got, expected, said):
    """A difference in kind comes first, wherever it is; a value is never shown."""
    assert said == difference(got, expected)


def test_what_a_passed_test_records_is_a_fact_of_it(graded):
    """Such as a ratio of times; examples/kernels records one."""
    found = graded("""
        def test_it(student, request):
            student.activations.relu(torch.ones(1))
            request.node.user_properties.append(("measured", 1.5))
    """)
    (fact,) = found.facts
    assert (Status.PASSED, "measured", "1.5") == (found.status, fact.label, fact.text)


# --- what a student reads of an exception ---------------------------------------------------------


EINOPS = (
    ' Error while processing rearrange-reduction pattern "... s (h d) -> ... h s d".\n'
    " Input tensor shape: torch.Size([2, 10]). Additional info: {'h': 3}.\n"
    " Shape mismatch, can't divide axis of length 10 in chunks of 3"
)
LOADING, RAISED = "Error(s) in loading state_dict for Linear", "backend='inductor' raised"
COMPILER = "InvalidCxxCompiler: No working C++ compiler found"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (EINOPS, "".join(EINOPS.split("\n")[::2]).strip()),
        (f"{LOADING}:\n\tMissing key(s): 'w'. \n\tsize …", f"{LOADING}: Missing key(s): 'w'."),
        (f"{RAISED}:\n{COMPILER}\n\nSet TORCHDYNAMO_VERBOSE=1 for", f"{RAISED}: {COMPILER}"),
        ("could not save\n(from TypeError: x)", "could not save (from TypeError: x)"),
        ("AttributeError: x\n\nfrom user code:\n  line 2", "AttributeError: x"),
        ("No pointer (e.g. Fake). If you …\n\nTo fix it", "No pointer (e.g. Fake)."),
        ("One sentence. And another one.", "One sentence. And another one."),
        ("One sentence. " + 400 * "x" + ". Y", "One sentence. " + 400 * "x" + "."),
        ("", ""),
    ],
)
def test_the_cause_in_a_long_exception_survives(text, told):
    """Values and advice between the first sentence and the cause are left out."""
    assert plain(text) == told


def test_a_file_that_is_not_written_is_named_without_its_folder():
    """A probe looks for it in a temporary folder, whose name says nothing."""
    text = message_of("[Errno 2] No such file or directory: '/tmp/tmpab_1xyz9/scores.csv'")
    assert text == "there is no file scores.csv"
    elsewhere = "[Errno 2] No such file or directory: '/home/me/tmp/scores.csv'"
    assert elsewhere == message_of(elsewhere)


@pytest.mark.parametrize(
    ("kind", "text", "labels"),
    [
        ("ModuleNotFoundError", "No module named 'data'", ["at", "may import", "grader has"]),
        ("ImportError", "cannot import name 'override' from 'typing'", ["at", "grader has"]),
        ("AttributeError", "module 'itertools' has no attribute 'batched'", ["at", "grader has"]),
        ("AttributeError", "module 'assignment.linear' has no attribute 'MLP'", ["at"]),
        ("AttributeError", "'list' object has no attribute 'shape'", ["at"]),
    ],
)
def test_what_a_newer_python_has_is_told_with_the_graders_python(kind, text, labels):
    fault = Raised([kind, "Exception"], kind, text, "assignment/linear.py:3")
    verdict = verdict_on(fault, test="test_it", rule="", asked="", packages=["torch>=2.6"])
    assert [fact.label for fact in verdict.facts] == labels
    if "may import" in labels:
        (may,) = (fact.text for fact in verdict.facts if fact.label == "may import")
        assert may.startswith("the standard library, torch; its own modules as in `from assignment")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("BdbQuit", "nobody is at the grader's keyboard"),
        ("a leaf Variable that requires grad is being used in an in-place operation", "no_grad"),
        ("Trying to backward through the graph a second time", "detached"),
        ("argument 'tensor1' (position 1) must be Tensor, not NoneType", "`return`"),
        ("words that say enough", None),
    ],
)
def test_usual_words_of_torch_have_a_hint(text, hint):
    kind, said = (text, "without a message") if text == "BdbQuit" else ("RuntimeError", text)
    fault = Raised([kind], kind, text.removeprefix("BdbQuit"), "assignment/linear.py:3")
    told = verdict_on(fault, test="test_it", rule="", asked="f")
    assert told.what == f"raised {kind}: {said}"
    assert told.hint is None if hint is None else hint in told.hint


def test_a_right_call_that_fails_is_not_told_the_rule_of_a_wrong_one():
    fault = Raised(["ValueError"], "ValueError", "x", "assignment/linear.py:3")
    fault.right_call = "9 tokens"
    verdict = verdict_on(fault, test="test_it", rule="Too few tokens raise.", asked="f")
    assert (verdict.rule, verdict.facts[-1].text) == ("", "a valid one: 9 tokens")
