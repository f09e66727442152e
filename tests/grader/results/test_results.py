"""Results: points are exact, the JSON is as documented, and two runs become one result."""

import json
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.base.errors import Status, UsageError
from grader.report import json_report, terminal_report
from grader.report.report_contents import Reported
from grader.results.merge_runs import merged
from grader.results.points import MINOR, problem_result, submission_result, weights_by_harm
from grader.results.result_records import (
    Fact,
    Ignored,
    Outcome,
    SubmissionInfo,
    SubmissionResult,
    worst,
)
from tests.grader.report.sample_results import GRADER

PASSED, FAILED, DEFERRED = Status.PASSED, Status.FAILED, Status.DEFERRED


def outcomes(*statuses, weights=None, on="cpu"):
    ended = zip(statuses, weights or [1] * len(statuses), strict=True)
    return [Outcome(id=f"{on}{i}", device=on, status=s, weight=w) for i, (s, w) in enumerate(ended)]


def submitted(name, ignored):
    files = ["assignment/a.py"]
    return SubmissionInfo(name=name, sha256="ab" * 32, files=files, ignored=ignored)


def result(*problems):
    ignored = [Ignored("README.md", "outside assignment/")]
    submission = submitted("ada", ignored)
    info = msgspec.structs.replace(GRADER, environment={"python": "3.11.7"})
    return submission_result(submission, info, list(problems), seconds=1.25)


TOLD = {"about": "f", "what": "wrong", "facts": [Fact("at", "“é\x1b”")], "hint": "is it?"}
TESTS = [
    Outcome(id="test_a", weight=1, status=PASSED, seconds=0.5),
    Outcome(id="test_b", weight=2, status=FAILED, seconds=0.25, **TOLD),
]
WITH_EVERYTHING = result(problem_result("linear", "layers", 3, TESTS))


TEST = st.tuples(st.integers(1, 9), st.booleans())


@given(st.integers(1, 100), st.lists(TEST, min_size=1, max_size=60))
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
    assert [(1.0, 1.0), (0.0, 1.0)] == [(t.score, t.max_score) for t in got.tests]
    assert (1.0, status) == (got.score, got.status)


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
        # The worst status of those that count: a CUDA problem's points are decided on its device.
        ("cpu", [FAILED], [DEFERRED], [6, 0], (0, 0, FAILED)),
        ("cpu", [PASSED], [FAILED], [3, 3], (3, 0, FAILED)),
        ("cuda", [PASSED], [DEFERRED], [0, 6], (0, 6, DEFERRED)),
        ("cuda", [Status.NOT_ATTEMPTED], [DEFERRED], [0, 6], (0, 6, Status.NOT_ATTEMPTED)),
        ("cuda", [DEFERRED], [PASSED], [0, 6], (6, 0, PASSED)),
        ("cuda", [FAILED], [PASSED], [0, 6], (6, 0, PASSED)),
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


def p(points, device, cpu, cuda):
    """A problem with tests of these statuses, first on a CPU, then on a CUDA device."""
    tests = outcomes(*cpu) + outcomes(*cuda, on="cuda")
    return problem_result("p", "m", points, tests, device)


PROBLEM = st.tuples(st.integers(1, 20), st.integers(1, 30), st.integers(1, 30), st.booleans())


@given(st.lists(PROBLEM, min_size=1, max_size=25))
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
WORST = WORDS.split()


@pytest.mark.parametrize(("one", "other"), [(a, b) for i, a in enumerate(WORST) for b in WORST[i:]])
def test_of_two_statuses_the_worse_has_the_word(one, other):
    """The worse status decides, in either order and also among tests that passed."""
    assert set(WORST) == {status.value for status in Status}
    one, other = Status(one), Status(other)
    assert one is worst([one, other]) is worst([other, PASSED, one])


KEYS = "id device status weight about what facts rule mistake hint seconds score max_score"


def test_the_json_has_exactly_the_promised_keys_and_the_values():
    """The keys also keep their order, because course programs read them."""
    got = json.loads(json_report.render(Reported(WITH_EVERYTHING)))
    (problem,) = got["problems"]
    first, second = problem["tests"]
    for keys, found in (
        ("schema submission grader runs score max_score pending seconds problems", got),
        ("name sha256 files ignored", got["submission"]),
        ("version suite_sha256 device isolation seed environment readings", got["grader"]),
        ("id module device score max_score pending status tests", problem),
        *((KEYS, test) for test in (first, second)),
    ):
        assert keys.split() == list(found)
    expected = {"schema": 2, "score": 1, "max_score": 3, "seconds": 1.25, "runs": [], "pending": 0}
    assert expected.items() <= got.items()
    assert {"python": "3.11.7"} == got["grader"]["environment"]
    assert [{"path": "README.md", "reason": "outside assignment/"}] == got["submission"]["ignored"]
    assert ("passed", None) == (first["status"], first["hint"])
    told = [TOLD["about"], TOLD["what"], [{"label": "at", "text": "“é\x1b”"}], "", "", "is it?"]
    assert ["test_b", "cpu", "failed", 2, *told, 0.25, 0, 2] == list(second.values())


def test_what_is_written_is_read_again():
    text = json_report.render(Reported(WITH_EVERYTHING))
    safe = msgspec.json.decode(text.replace(r"\u001b", r"\\x1b"), type=SubmissionResult)
    assert safe == json_report.parse(text) == json_report.parse(text.encode())
    assert safe != WITH_EVERYTHING
    assert text.endswith("}\n")


# --- merging --------------------------------------------------------------------------------------


ERROR = Status.GRADER_ERROR
ORDER = ["linear", "einops", "gpu_memory"]

# A course: problem to (points, device, tests on a CPU, tests on a CUDA device).
COURSE = {
    "linear": (6, "cpu", ["test_a", "test_b"], ["cuda/test_there"]),
    "einops": (4, "cpu", ["test_c"], []),
    "gpu_memory": (5, "cuda", ["test_logic"], ["cuda/test_peak", "cuda/test_leak"]),
}


def outcome(name, device, ran_on, status, **more):
    if device != ran_on:
        return Outcome(id=name, device=device, weight=1, status=DEFERRED, what="it waits")
    return Outcome(id=name, device=device, weight=1, status=status, seconds=0.5, **more)


def of_course(name, ran_on, ended):
    """One problem of the course in a run; tests pass unless `ended` gives another status."""
    points, device, cpu, cuda = COURSE[name]
    tests = [(test, "cpu") for test in cpu] + [(test, "cuda") for test in cuda]
    said = {"what": f"on {ran_on}"}
    ended = [outcome(test, on, ran_on, ended.get(test, PASSED), **said) for test, on in tests]
    return problem_result(name, "m", points, ended, device)


def run(device, *, names=tuple(COURSE), ended=None, problems=None, **changed):
    environment = {"python": "3.11.7", "torch": f"2.13.0+{device}"}
    info = msgspec.structs.replace(GRADER, device=device, environment=environment)
    ignored = [Ignored("x", device)]
    submission = submitted(f"ada on {device}", ignored)
    of_submission = {key: changed.pop(key) for key in ("name", "sha256") if key in changed}
    return submission_result(
        msgspec.structs.replace(submission, **of_submission),
        msgspec.structs.replace(info, **changed),
        problems or [of_course(name, device, ended or {}) for name in names],
        seconds={"cpu": 3.5, "cuda": 10.25}[device],
    )


def both(cpu, cuda):
    """Merge the two results in both orders, check that they agree, and return one."""
    one, other = merged(cpu, cuda, order=ORDER), merged(cuda, cpu, order=ORDER)
    assert json_report.render(Reported(one)) == json_report.render(Reported(other))
    return one


def statuses(result):
    return ", ".join(f"{p.id} {p.status.value} {p.score:g}" for p in result.problems)


@pytest.mark.parametrize(
    ("cpu", "cuda", "merged_"),
    [
        ({}, {}, "linear passed 6, einops passed 4, gpu_memory passed 5"),
        # A failure on either device fails the problem. But a failed CPU test costs a CUDA problem
        # nothing once its points are decided.
        ({"test_logic": FAILED}, {"cuda/test_there": FAILED}, "linear failed 4, einops passed 4, "
         "gpu_memory passed 5"),
        # What the grader could not judge in one run stays its fault.
        ({"test_a": ERROR}, {}, "linear grader_error 4, einops passed 4, gpu_memory passed 5"),
    ],
)  # fmt: skip
def test_a_problem_is_decided_by_both_runs(cpu, cuda, merged_):
    assert merged_ == statuses(both(run("cpu", ended=cpu), run("cuda", ended=cuda)))


def test_each_test_comes_from_the_run_on_its_device():
    got = both(run("cpu", ended={"test_b": FAILED}), run("cuda", ended={"cuda/test_there": FAILED}))
    assert [
        ("test_a", "passed", 2.0, 2.0, "on cpu", 0.5),
        ("test_b", "failed", 0.0, 2.0, "on cpu", 0.5),
        ("cuda/test_there", "failed", 0.0, 2.0, "on cuda", 0.5),
    ] == [(t.id, t.status, t.score, t.max_score, t.what, t.seconds) for t in got.problems[0].tests]
    assert DEFERRED not in {t.status for p in got.problems for t in p.tests}


def test_it_says_what_it_was_made_of():
    """Both runs with their environments, their total time, and the CPU run's submission.

    Runs of 10 and 7 points give 15: two of linear's points count in both.
    """
    cpu, cuda = run("cpu"), run("cuda")
    assert [(10, 10, 5), (7, 7, 8)] == [(r.score, r.max_score, r.pending) for r in (cpu, cuda)]
    got = both(cpu, cuda)
    assert (15.0, 15.0, 0.0) == (got.score, got.max_score, got.pending)
    info = got.grader
    made = (info.device, info.isolation, info.seed, info.environment)
    assert ("cpu+cuda", "bubblewrap", 7, {}) == made
    assert [cpu.grader, cuda.grader] == got.runs
    assert (13.75, cpu.submission) == (got.seconds, got.submission)


@pytest.mark.parametrize(
    ("cpu", "cuda"), [("none", "bubblewrap"), ("bubblewrap", "none"), ("none", "none")]
)
def test_it_is_as_isolated_as_the_weaker_run(cpu, cuda):
    """If one run had no isolation, the whole result counts as not isolated."""
    assert "none" == both(run("cpu", isolation=cpu), run("cuda", isolation=cuda)).grader.isolation


def test_problems_keep_the_order_of_the_course():
    there = run("cuda", names=["linear", "gpu_memory"])
    got = both(run("cpu", names=["einops", "gpu_memory"]), there)
    assert ORDER == [p.id for p in got.problems]
    got = merged(run("cpu"), run("cuda"), order=["einops"])
    assert ["einops", "linear", "gpu_memory"] == [p.id for p in got.problems]


def test_a_problem_of_one_run_is_taken_as_it_is():
    """Tests that wait in such a problem stay pending."""
    cpu, cuda = run("cpu"), run("cuda", names=["linear"])
    got = both(cpu, cuda)
    assert cpu.problems[2] == got.problems[2]
    assert "linear passed 6, einops passed 4, gpu_memory deferred 0" == statuses(got)
    assert (10.0, 10.0, 5.0) == (got.score, got.max_score, got.pending)
    alone = both(run("cpu", names=["einops"]), cuda)
    assert cuda.problems[0] == alone.problems[0]


def test_a_problem_that_could_not_run_on_one_device_stays_a_fault():
    suite = Outcome(id="suite", weight=1, status=ERROR, what="it ended")
    fault = problem_result("linear", "m", 6, [suite])
    for device, other in (("cpu", "cuda"), ("cuda", "cpu")):
        got = both(run(device, problems=[fault]), run(other))
        assert fault == got.problems[0]
        assert got.has_grader_error
    assert fault == both(run("cpu", problems=[fault]), run("cuda", problems=[fault])).problems[0]


def test_a_fault_of_ours_in_a_test_that_is_worth_nothing_stays_one():
    """The failed test stands in for a CUDA test; the report still shows that something failed."""
    cpu = run("cpu", ended={"test_logic": ERROR})
    got = both(cpu, run("cuda"))
    assert statuses(got).endswith("gpu_memory passed 5")
    assert (True, True) == (cpu.has_grader_error, got.has_grader_error)
    report = terminal_report.render(Reported(got, sections=dict.fromkeys(COURSE, "1.1")))
    assert "The grader failed: this score is not final" in report
    assert "test_logic" in report


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sha256": "ef" * 32}, "submissions: abababababab on the CPU, efefefefefef"),
        ({"suite_sha256": "ef" * 32}, "suites: cdcdcdcdcdcd on the CPU, efefefefefef"),
        ({"version": "1.1"}, "versions of the grader: 1.2.3 on the CPU, 1.1"),
        ({"seed": 8}, "seeds: 7 on the CPU, 8"),
    ],
)
def test_runs_that_did_not_grade_the_same_are_refused(changed, said):
    for pair in ((run("cpu"), run("cuda", **changed)), (run("cuda", **changed), run("cpu"))):
        with pytest.raises(UsageError) as caught:
            merged(*pair, order=ORDER)
        assert f"the two results are of different {said} on the CUDA device" == str(caught.value)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_runs_that_do_not_belong_together_are_refused(device):
    """Of two runs on one device, one would have to be discarded, and it is unclear which.

    Two runs with different tests cannot have the same suite, whatever their hashes claim.
    """
    one, other = run(device), run({"cpu": "cuda", "cuda": "cpu"}[device])
    done, shorter, without_its_own = both(one, other), run(device), [run("cpu"), run("cuda")]
    del shorter.problems[0].tests[0]
    for result in without_its_own:
        del result.problems[2].tests[1:]
    merged_already = "one of the two results is itself merged: expected the results of single runs$"
    for pair, sentence in [
        ((one, one), f"both results are of a run with --device {device}: expected one of each dev"),
        ((done, one), merged_already),
        ((one, done), merged_already),
        ((one, msgspec.structs.replace(done, runs=[])), merged_already),
        ((shorter, other), "linear: test_a is in only one of the two results, so they are of diff"),
        (without_its_own, "gpu_memory has no test for the device that its points come from"),
    ]:
        with pytest.raises(UsageError, match=f"^{sentence}"):
            merged(*pair, order=ORDER)


NO_JSON = "is not JSON: expected what `grader grade --json` wrote"
NO_RESULT = "is not a result of the grader: expected what `grader grade --json` wrote"
SCHEMA = (
    ": expected a result of schema 2, found schema {}: grade the submission again with this grader"
)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: there is no such file"),
        *((text, NO_JSON) for text in (b"", b'{"schema": 1', b'"\xff"', b"[" * 100_000)),
        *((text, NO_RESULT) for text in (b"[1]", b"{}", b'{"schema": {"a": 1}, "problems": []}')),
        (b'{"schema": 1, "problems": []}', SCHEMA.format(1)),
    ],
)
def test_what_is_no_result_is_refused_in_a_sentence(tmp_path, content, sentence):
    file = tmp_path / "r.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        json_report.read(file)
    assert sentence == str(caught.value).removeprefix(str(file)).lstrip(" ")


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        ("schema", 3, SCHEMA.format(3)),
        ("score", "\x1b[2J", "Expected `float`, got `str` - at `$.score`"),
        ("problems 0 status", "fine", "Invalid enum value 'fine' - at `$.problems[0].status`"),
        ("problems 0 device", "tpu", "Expected `str` matching regex '^(cpu|cuda)"),
        ("problems 0 tests 1 weight", 0, "Expected `int` >= 1 - at `$.problems[0].tests[1].weig"),
        ("problems 0 tests 1 hint", 5, "Expected `str | null`, got `int` - at `$.problems[0].tes"),
    ],
)
def test_another_json_is_refused_with_the_place(tmp_path, path, value, sentence):
    """A gradebook must never contain a half-read result."""
    tree = json.loads(json_report.render(Reported(WITH_EVERYTHING)))
    *parents, last = (int(key) if key.isdigit() else key for key in path.split())
    place = tree
    for key in parents:
        place = place[key]
    place[last] = value
    (tmp_path / "r.json").write_text(json.dumps(tree))
    with pytest.raises(UsageError) as caught:
        json_report.read(tmp_path / "r.json")
    assert sentence in str(caught.value)


def test_a_strangers_text_is_safe_once_it_is_read(tmp_path):
    evil = "\x1b]0;owned\x07\u202e\n2"
    tree = json.loads(json_report.render(Reported(run("cpu"))))
    spoil_all = lambda d: {k: spoil(k, v, evil) for k, v in d.items()}  # noqa: E731
    spoiled = json.loads(json.dumps(tree), object_hook=spoil_all)
    spoiled["grader"]["environment"] = {evil: evil}
    (tmp_path / "r.json").write_text(json.dumps(spoiled))
    got = json_report.render(Reported(json_report.read(tmp_path / "r.json")))
    assert r"\\x1b]0;owned\\x07\\u202e\\n2" in got
    assert "\\u001b" not in got
    assert not set(got) & set("\x1b\x07\u202e")
    several_lines = [n for n in got.split("\n") if r"\n2" in n.replace(r"\\n2", "")]
    assert {'"hint"'} == {line.split(":")[0].strip() for line in several_lines}


def spoil(key, value, evil):
    """Replace every text in a result with a harmful one."""
    if isinstance(value, str) and key not in ("status", "device"):
        return evil
    if key == "hint":
        return evil
    return [evil for _ in value] if key == "files" else value


def test_a_text_without_end_has_one(tmp_path):
    result = run("cpu", name="a" * 10**6)
    (tmp_path / "r.json").write_text(json_report.render(Reported(result)))
    assert len(json_report.read(tmp_path / "r.json").submission.name) == json_report.MAX_TEXT + 1
