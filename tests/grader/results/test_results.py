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
from grader.results.records import (
    Fact,
    GraderInfo,
    Ignored,
    Outcome,
    SubmissionInfo,
    SubmissionResult,
    TestResult,
    worst,
)

PASSED, FAILED, DEFERRED = Status.PASSED, Status.FAILED, Status.DEFERRED


def outcomes(*statuses, weights=None):
    """Tests t0, t1, … that ended with these statuses."""
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
    """A result of these problems."""
    submission = SubmissionInfo(
        name="ada",
        sha256="ab" * 32,
        files=["assignment/a.py"],
        ignored=[Ignored("README.md", "outside assignment/")],
    )
    info = GraderInfo(
        version="1.0",
        suite_sha256="cd" * 32,
        device="cpu",
        isolation="bubblewrap",
        seed=7,
        environment={"python": "3.11.7"},
    )
    return submission_result(submission, info, list(problems), seconds=1.25)


WITH_EVERYTHING = result(
    problem_result(
        "linear",
        "layers",
        3,
        [
            Outcome(id="test_a", weight=1, status=PASSED, seconds=0.5),
            Outcome(
                id="test_b",
                weight=2,
                status=FAILED,
                about="f",
                what="wrong",
                facts=[Fact("at", "“é\x1b”")],
                hint="is it?",
                seconds=0.25,
            ),
        ],
    )
)


# --- points ---------------------------------------------------------------------------------------


def test_points_are_split_equally():
    """Three tests of a problem of 4 points are worth 4/3 each."""
    got = problem_result("p", "m", 4, outcomes(PASSED, FAILED, PASSED))
    assert [4 / 3, 0.0, 4 / 3] == [t.score for t in got.tests]
    assert [4 / 3] * 3 == [t.max_score for t in got.tests]
    assert (8 / 3, 4.0, FAILED) == (got.score, got.max_score, got.status)


def test_points_are_split_by_weight():
    """A test of weight 3 next to one of weight 1 is worth three quarters."""
    got = problem_result("p", "m", 6, outcomes(PASSED, FAILED, weights=[3, 1]))
    assert ([4.5, 1.5], 4.5) == ([t.max_score for t in got.tests], got.score)


@given(st.integers(1, 100), st.lists(st.integers(1, 9), min_size=1, max_size=60))
def test_full_marks_are_exactly_the_points(points, weights):
    """Any number of tests and any weights add up: 7 times 1/7 is 1, not 0.9999999999999998."""
    full = problem_result("p", "m", points, outcomes(*[PASSED] * len(weights), weights=weights))
    assert (float(points), float(points), PASSED) == (full.score, full.max_score, full.status)


@given(
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=60),
)
def test_a_score_is_the_exact_share_of_what_passed(points, tests):
    """The score is rounded once, at the end."""
    statuses = [PASSED if passed else FAILED for _, passed in tests]
    got = problem_result("p", "m", points, outcomes(*statuses, weights=[w for w, _ in tests]))
    share = Fraction(sum(w for w, passed in tests if passed), sum(w for w, _ in tests))
    assert float(points * share) == got.score


@pytest.mark.parametrize("status", [s for s in Status if s is not PASSED])
def test_only_a_pass_earns_points(status):
    """Every other status earns nothing and does not affect other tests."""
    got = problem_result("p", "m", 2, outcomes(PASSED, status))
    assert ([1.0, 0.0], [1.0, 1.0], 1.0, status) == (
        [t.score for t in got.tests],
        [t.max_score for t in got.tests],
        got.score,
        got.status,
    )


# --- points by device -----------------------------------------------------------------------------


def test_the_tests_that_a_cuda_problem_has_for_a_cpu_are_worth_nothing():
    """Passed or failed, these tests earn nothing; the points wait for the tests on a device."""
    got = problem_result("p", "m", 6, on_both([PASSED, FAILED], [DEFERRED, DEFERRED]), "cuda")
    assert [0.0, 0.0, 3.0, 3.0] == [t.max_score for t in got.tests]
    assert (0.0, 6.0, 6.0, FAILED) == (got.score, got.max_score, got.pending, got.status)


def test_a_cuda_problem_earns_its_points_on_a_cuda_device():
    """The problem earns all its points there, while its CPU tests are deferred."""
    got = problem_result("p", "m", 6, on_both([DEFERRED], [PASSED, FAILED]), "cuda")
    assert [0.0, 3.0, 3.0] == [t.max_score for t in got.tests]
    assert (3.0, 6.0, 0.0, FAILED) == (got.score, got.max_score, got.pending, got.status)


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


def test_a_cpu_run_gives_all_points_of_a_cpu_problem():
    """A test that waits for a CUDA device has no share for now."""
    got = problem_result("p", "m", 6, on_both([PASSED, PASSED], [DEFERRED]), "cpu")
    assert [3.0, 3.0, 0.0] == [t.max_score for t in got.tests]
    assert (6.0, 6.0, 0.0, PASSED) == (got.score, got.max_score, got.pending, got.status)


def test_a_cuda_test_of_a_cpu_problem_has_its_share_once_it_ran():
    """One of three equal tests is worth a third; the two that wait for a CPU keep their shares."""
    got = problem_result("p", "m", 6, on_both([DEFERRED, DEFERRED], [PASSED]), "cpu")
    assert [2.0, 2.0, 2.0] == [t.max_score for t in got.tests]
    assert (2.0, 6.0, 4.0, DEFERRED) == (got.score, got.max_score, got.pending, got.status)
    lost = problem_result("p", "m", 6, on_both([DEFERRED, DEFERRED], [FAILED]), "cpu")
    assert (0.0, 6.0, 4.0, FAILED) == (lost.score, lost.max_score, lost.pending, lost.status)


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
    """A deferred test counts where points wait for it."""
    assert status is problem_result("p", "m", 5, on_both([cpu], [cuda]), device).status


def test_what_is_pending_is_not_earned_and_not_lost():
    """A CPU run gives 100 of 100, with 20 pending, out of 120.

    A CUDA run gives those 20 and the shares of some tests of CPU problems.
    """
    ours, theirs = {"points": 100, "device": "cpu"}, {"points": 20, "device": "cuda"}
    cpu_only = [
        p(**ours, cpu=[PASSED] * 3, cuda=[DEFERRED]),
        p(**theirs, cpu=[PASSED], cuda=[DEFERRED] * 7),
    ]
    cuda_only = [
        p(**ours, cpu=[DEFERRED] * 3, cuda=[PASSED]),
        p(**theirs, cpu=[DEFERRED], cuda=[PASSED] * 7),
    ]
    both = [
        p(**ours, cpu=[PASSED] * 3, cuda=[PASSED]),
        p(**theirs, cpu=[PASSED], cuda=[PASSED] * 7),
    ]
    totals = [
        (r.score, r.max_score, r.pending)
        for r in (result(*cpu_only), result(*cuda_only), result(*both))
    ]
    assert [(100.0, 100.0, 20.0), (45.0, 45.0, 75.0), (120.0, 120.0, 0.0)] == totals


def p(points, device, cpu, cuda):
    """A problem whose tests ended with these statuses."""
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
    there = result(
        *(p(points, device, [DEFERRED] * a, [PASSED] * b) for points, device, a, b in found)
    )
    here = result(
        *(p(points, device, [PASSED] * a, [DEFERRED] * b) for points, device, a, b in found)
    )
    assert there.score == there.max_score
    assert (
        here.score
        == here.max_score
        == float(sum(points for points, device, *_ in found if device == "cpu"))
    )


# --- statuses -------------------------------------------------------------------------------------

ORDER = [
    "grader_error",
    "policy",
    "crashed",
    "timeout",
    "memory",
    "failed",
    "not_attempted",
    "deferred",
    "passed",
]


def test_the_vocabulary_is_the_one_that_is_promised():
    """There are nine statuses in a fixed order."""
    words = {
        "passed",
        "failed",
        "not_attempted",
        "crashed",
        "timeout",
        "memory",
        "policy",
        "deferred",
        "grader_error",
    }
    assert words == {s.value for s in Status} == set(ORDER)


@pytest.mark.parametrize(("one", "other"), [(a, b) for i, a in enumerate(ORDER) for b in ORDER[i:]])
def test_of_two_statuses_the_worse_has_the_word(one, other):
    """The worse status decides, in either order and also among tests that passed."""
    one, other = Status(one), Status(other)
    assert one is worst([one, other]) is worst([other, PASSED, one])


def test_a_deferred_problem_is_neither_earned_nor_failed():
    """Its points are pending, and the result's maximum leaves them out."""
    got = problem_result("p", "m", 5, outcomes(DEFERRED, DEFERRED))
    assert (0.0, 5.0, 5.0, DEFERRED) == (got.score, got.max_score, got.pending, got.status)
    assert (0.0, 0.0, 5.0) == (result(got).score, result(got).max_score, result(got).pending)
    assert not result(got).has_grader_error


def test_one_fault_of_ours_marks_the_whole_result():
    """The mark keeps anyone from recording the score; all other points are unchanged."""
    good = problem_result("p", "m", 5, outcomes(PASSED))
    bad = problem_result("q", "m", 5, outcomes(PASSED, Status.GRADER_ERROR))
    assert not result(good).has_grader_error
    assert result(good, bad).has_grader_error
    assert 7.5 == result(good, bad).score


# --- JSON -----------------------------------------------------------------------------------------


def test_the_json_has_exactly_the_promised_keys():
    """The keys also keep their order, because course programs read them."""
    got = json.loads(json_report.render(Reported(WITH_EVERYTHING)))
    assert [
        "schema",
        "submission",
        "grader",
        "runs",
        "score",
        "max_score",
        "pending",
        "seconds",
        "problems",
    ] == list(got)
    assert ["name", "sha256", "files", "ignored"] == list(got["submission"])
    assert ["path", "reason"] == list(got["submission"]["ignored"][0])
    assert [
        "version",
        "suite_sha256",
        "device",
        "isolation",
        "seed",
        "environment",
        "readings",
    ] == list(got["grader"])
    (problem,) = got["problems"]
    assert ["id", "module", "device", "score", "max_score", "pending", "status", "tests"] == list(
        problem
    )
    said = ["about", "what", "facts", "rule", "mistake", "hint"]
    for test in problem["tests"]:
        assert ["id", "device", "status", "weight", *said, "seconds", "score", "max_score"] == list(
            test
        )


def test_the_json_has_the_values():
    """Statuses are words, a missing hint is null, and the schema number comes first."""
    got = json.loads(json_report.render(Reported(WITH_EVERYTHING)))
    assert (2, 1.0, 3.0, 1.25) == (got["schema"], got["score"], got["max_score"], got["seconds"])
    assert ([], 0.0, {"python": "3.11.7"}) == (
        got["runs"],
        got["pending"],
        got["grader"]["environment"],
    )
    assert {"path": "README.md", "reason": "outside assignment/"} == got["submission"]["ignored"][0]
    expected = {
        "id": "test_b",
        "device": "cpu",
        "status": "failed",
        "weight": 2,
        "score": 0.0,
        "max_score": 2.0,
        "about": "f",
        "what": "wrong",
        "facts": [{"label": "at", "text": "“é\x1b”"}],
        "rule": "",
        "mistake": "",
        "hint": "is it?",
        "seconds": 0.25,
    }
    assert expected == got["problems"][0]["tests"][1]
    assert ("passed", None) == (
        got["problems"][0]["tests"][0]["status"],
        got["problems"][0]["tests"][0]["hint"],
    )


def test_what_is_written_is_read_again():
    """parse(render(x)) is x with texts that are safe to print; the text ends with a line end."""
    text = json_report.render(Reported(WITH_EVERYTHING))
    safe = msgspec.json.decode(text.replace(r"\u001b", r"\\x1b"), type=SubmissionResult)
    assert safe == json_report.parse(text) == json_report.parse(text.encode())
    assert safe != WITH_EVERYTHING
    assert text.endswith("}\n")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["score"], "1", "Expected `float`, got `str` - at `$.score`"),
        (
            ["problems", 0, "status"],
            "fine",
            "Invalid enum value 'fine' - at `$.problems[0].status`",
        ),
        (
            ["problems", 0, "device"],
            "tpu",
            "Expected `str` matching regex '^(cpu|cuda)\\\\Z' - at `$.problems[0].device`",
        ),
        (
            ["problems", 0, "tests", 1, "weight"],
            0,
            "Expected `int` >= 1 - at `$.problems[0].tests[1].weight`",
        ),
        (
            ["problems", 0, "tests", 1, "hint"],
            5,
            "Expected `str | null`, got `int` - at `$.problems[0].tests[1].hint`",
        ),
    ],
)
def test_another_json_is_refused_with_the_place(path, value, message):
    """A gradebook must never contain a half-read result."""
    tree = json.loads(json_report.render(Reported(WITH_EVERYTHING)))
    *parents, last = path
    place = tree
    for key in parents:
        place = place[key]
    place[last] = value
    with pytest.raises(msgspec.ValidationError) as caught:
        json_report.parse(json.dumps(tree))
    assert message == str(caught.value)


def test_a_result_cannot_be_changed():
    """Results are immutable."""
    with pytest.raises(AttributeError, match="immutable"):
        WITH_EVERYTHING.score = 99.0
    assert isinstance(WITH_EVERYTHING.problems[0].tests[0], TestResult)
