"""Results: points are exact, one status summarizes several, and the JSON is as documented."""

import json
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.base.errors import Status
from grader.report import json_report
from grader.report.reported import Reported
from grader.results.points import MINOR, problem_result, submission_result, weights_by_harm
from grader.results.records import Fact, Ignored, Outcome, SubmissionInfo, SubmissionResult, worst
from tests.grader.report.samples import GRADER

PASSED, FAILED, DEFERRED = Status.PASSED, Status.FAILED, Status.DEFERRED


def outcomes(*statuses, weights=None):
    weights = weights or [1] * len(statuses)
    return [
        Outcome(id=f"t{i}", weight=w, status=s)
        for i, (s, w) in enumerate(zip(statuses, weights, strict=True))
    ]


def on_both(cpu, cuda):
    """Tests of equal weight with these statuses, first on a CPU, then on a CUDA device."""
    ended = [("cpu", status) for status in cpu] + [("cuda", status) for status in cuda]
    return [
        Outcome(id=f"t{i}", device=device, weight=1, status=status)
        for i, (device, status) in enumerate(ended)
    ]


def result(*problems):
    ignored = [Ignored("README.md", "outside assignment/")]
    submission = SubmissionInfo(
        name="ada", sha256="ab" * 32, files=["assignment/a.py"], ignored=ignored
    )
    info = msgspec.structs.replace(GRADER, environment={"python": "3.11.7"})
    return submission_result(submission, info, list(problems), seconds=1.25)


TOLD = {"about": "f", "what": "wrong", "facts": [Fact("at", "“é\x1b”")], "hint": "is it?"}
WITH_EVERYTHING = result(
    problem_result(
        "linear",
        "layers",
        3,
        [
            Outcome(id="test_a", weight=1, status=PASSED, seconds=0.5),
            Outcome(id="test_b", weight=2, status=FAILED, seconds=0.25, **TOLD),
        ],
    )
)


def test_points_are_split_by_weight():
    """A test of weight 3 next to one of weight 1 is worth three quarters."""
    got = problem_result("p", "m", 6, outcomes(PASSED, FAILED, weights=[3, 1]))
    assert [(4.5, 4.5), (1.5, 0.0)] == [(t.max_score, t.score) for t in got.tests]


@given(
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=60),
)
def test_a_score_is_the_exact_share_of_what_passed(points, tests):
    """The score is rounded once, at the end: 7 times 1/7 is 1, not 0.9999999999999998."""
    weights = [weight for weight, _ in tests]
    statuses = [PASSED if passed else FAILED for _, passed in tests]
    got = problem_result("p", "m", points, outcomes(*statuses, weights=weights))
    share = Fraction(sum(w for w, passed in tests if passed), sum(weights))
    assert (float(points * share), float(points)) == (got.score, got.max_score)
    full = problem_result("p", "m", points, outcomes(*[PASSED] * len(tests), weights=weights))
    assert (float(points), PASSED) == (full.score, full.status)


@pytest.mark.parametrize("status", [s for s in Status if s is not PASSED])
def test_only_a_pass_earns_points(status):
    got = problem_result("p", "m", 2, outcomes(PASSED, status))
    assert ([1.0, 0.0], [1.0, 1.0], 1.0, status) == (
        [t.score for t in got.tests],
        [t.max_score for t in got.tests],
        got.score,
        got.status,
    )


@pytest.mark.parametrize(
    ("device", "cpu", "cuda", "shares", "total"),
    [
        # What a CUDA problem's CPU tests find is worth nothing; the points wait for a device.
        ("cuda", [PASSED, FAILED], [DEFERRED] * 2, [0, 0, 3, 3], (0, 6, FAILED)),
        ("cuda", [DEFERRED], [PASSED, FAILED], [0, 3, 3], (3, 0, FAILED)),
        # A CPU problem's CUDA test has no share until it has run.
        ("cpu", [PASSED] * 2, [DEFERRED], [3, 3, 0], (6, 0, PASSED)),
        ("cpu", [DEFERRED] * 2, [PASSED], [2, 2, 2], (2, 4, DEFERRED)),
        ("cpu", [DEFERRED] * 2, [FAILED], [2, 2, 2], (0, 4, FAILED)),
        ("cpu", [DEFERRED] * 2, [], [3, 3], (0, 6, DEFERRED)),
    ],
)
def test_points_wait_for_the_device_that_they_come_from(device, cpu, cuda, shares, total):
    """The total is what is earned, what is pending, and the status."""
    got = p(6, device, cpu, cuda)
    assert shares == [t.max_score for t in got.tests]
    assert (*total, 6) == (got.score, got.pending, got.status, got.max_score)
    assert result(got).max_score == 6 - got.pending
    assert not result(got).has_grader_error


@pytest.mark.parametrize(
    ("classes", "parts"),
    [
        (["trains worse", "wrong number", "crash"], [4, 2, 1]),
        (["rare", "not refused", "rare"], [1, 1, 1]),
        (["trains worse", "rare", "not refused"], [96, 2, 2]),
        (["wrong number", "crash", *["rare"] * 5], [60, 30, *[2] * 5]),
        (["wrong number", "crash", *["rare"] * 3, *["not refused"] * 3], [360, 180, *[10] * 6]),
    ],
)
def test_weights_follow_from_harm(classes, parts):
    """A minor test is worth 2 % of its problem, and all of them together at most 10 %."""
    weights = weights_by_harm(classes)
    shares = [Fraction(weight, sum(weights)) for weight in weights]
    assert [Fraction(part, sum(parts)) for part in parts] == shares
    minor = [share for share, harm in zip(shares, classes, strict=True) if harm in MINOR]
    assert len(minor) == len(classes) or max([0, *minor]) <= Fraction(1, 50)
    assert len(minor) == len(classes) or sum(minor) <= Fraction(1, 10)


def test_tests_that_share_no_points_are_weighed_as_those_that_do():
    """CUDA tests of a CPU problem have the weights of its CPU tests."""
    among = ["crash", "rare"]
    assert weights_by_harm(among) == [49, 1]
    assert weights_by_harm(["wrong number", "rare", "rare"], among) == [98, 1, 1]


@pytest.mark.parametrize(
    ("device", "cpu", "cuda", "status"),
    [
        ("cpu", PASSED, DEFERRED, PASSED),
        ("cpu", FAILED, DEFERRED, FAILED),
        ("cpu", DEFERRED, PASSED, DEFERRED),
        ("cpu", DEFERRED, DEFERRED, DEFERRED),
        ("cpu", PASSED, FAILED, FAILED),
        ("cuda", PASSED, DEFERRED, DEFERRED),
        ("cuda", FAILED, DEFERRED, FAILED),
        ("cuda", Status.NOT_ATTEMPTED, DEFERRED, Status.NOT_ATTEMPTED),
        ("cuda", DEFERRED, PASSED, PASSED),
        ("cuda", FAILED, PASSED, PASSED),  # the points were decided on the problem's own device
    ],
)
def test_a_problem_has_the_worst_status_of_the_tests_that_count(device, cpu, cuda, status):
    assert status is problem_result("p", "m", 5, on_both([cpu], [cuda]), device).status


def p(points, device, cpu, cuda):
    return problem_result("p", "m", points, on_both(cpu, cuda), device)


@given(
    st.lists(
        st.tuples(st.integers(1, 20), st.integers(1, 30), st.integers(1, 30), st.booleans()),
        min_size=1,
        max_size=25,
    )
)
def test_full_marks_are_the_maximum_on_each_device(problems):
    """Full marks are exact, because shares are added before they are rounded."""
    found = [(points, "cuda" if on_cuda else "cpu", a, b) for points, a, b, on_cuda in problems]
    there, here = (
        result(*(p(n, device, [cpu] * a, [cuda] * b) for n, device, a, b in found))
        for cpu, cuda in ((DEFERRED, PASSED), (PASSED, DEFERRED))
    )
    assert there.score == there.max_score
    of_cpu = sum(points for points, device, *_ in found if device == "cpu")
    assert here.score == here.max_score == float(of_cpu)


WORDS = "grader_error policy crashed timeout memory failed not_attempted deferred passed"
ORDER = WORDS.split()


def test_the_vocabulary_is_the_one_that_is_promised():
    assert set(ORDER) == {s.value for s in Status}


@pytest.mark.parametrize(("one", "other"), [(a, b) for i, a in enumerate(ORDER) for b in ORDER[i:]])
def test_of_two_statuses_the_worse_has_the_word(one, other):
    """The worse status decides, in either order and also among tests that passed."""
    one, other = Status(one), Status(other)
    assert one is worst([one, other]) is worst([other, PASSED, one])


def test_one_fault_of_ours_marks_the_whole_result():
    good = problem_result("p", "m", 5, outcomes(PASSED))
    bad = problem_result("q", "m", 5, outcomes(PASSED, Status.GRADER_ERROR))
    assert not result(good).has_grader_error
    assert result(good, bad).has_grader_error
    assert 7.5 == result(good, bad).score


TEST = "id device status weight about what facts rule mistake hint seconds score max_score"


def test_the_json_has_exactly_the_promised_keys():
    """The keys also keep their order, because course programs read them."""
    got = json.loads(json_report.render(Reported(WITH_EVERYTHING)))
    (problem,) = got["problems"]
    for keys, found in (
        ("schema submission grader runs score max_score pending seconds problems", got),
        ("name sha256 files ignored", got["submission"]),
        ("path reason", got["submission"]["ignored"][0]),
        ("version suite_sha256 device isolation seed environment readings", got["grader"]),
        ("id module device score max_score pending status tests", problem),
        *((TEST, test) for test in problem["tests"]),
    ):
        assert keys.split() == list(found)


def test_the_json_has_the_values():
    got = json.loads(json_report.render(Reported(WITH_EVERYTHING)))
    expected = {"schema": 2, "score": 1, "max_score": 3, "seconds": 1.25, "runs": [], "pending": 0}
    assert expected.items() <= got.items()
    assert {"python": "3.11.7"} == got["grader"]["environment"]
    assert {"path": "README.md", "reason": "outside assignment/"} == got["submission"]["ignored"][0]
    first, second = got["problems"][0]["tests"]
    assert ("passed", None) == (first["status"], first["hint"])
    told = [TOLD["about"], TOLD["what"], [{"label": "at", "text": "“é\x1b”"}], "", "", "is it?"]
    assert ["test_b", "cpu", "failed", 2, *told, 0.25, 0, 2] == list(second.values())


def test_what_is_written_is_read_again():
    text = json_report.render(Reported(WITH_EVERYTHING))
    safe = msgspec.json.decode(text.replace(r"\u001b", r"\\x1b"), type=SubmissionResult)
    assert safe == json_report.parse(text) == json_report.parse(text.encode())
    assert safe != WITH_EVERYTHING
    assert text.endswith("}\n")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("score", "1", "Expected `float`, got `str` - at `$.score`"),
        ("problems 0 status", "fine", "Invalid enum value 'fine' - at `$.problems[0].status`"),
        ("problems 0 device", "tpu", "Expected `str` matching regex '^(cpu|cuda)\\\\Z' - at `$.pr"),
        ("problems 0 tests 1 weight", 0, "Expected `int` >= 1 - at `$.problems[0].tests[1].weig"),
        ("problems 0 tests 1 hint", 5, "Expected `str | null`, got `int` - at `$.problems[0].tes"),
    ],
)
def test_another_json_is_refused_with_the_place(path, value, message):
    """A gradebook must never contain a half-read result."""
    tree = json.loads(json_report.render(Reported(WITH_EVERYTHING)))
    *parents, last = (int(key) if key.isdigit() else key for key in path.split())
    place = tree
    for key in parents:
        place = place[key]
    place[last] = value
    with pytest.raises(msgspec.ValidationError) as caught:
        json_report.parse(json.dumps(tree))
    assert str(caught.value).startswith(message)
