"""The fields of answers: which ones there are, and that a field that no test looks at is named."""

import numpy as np
import pytest
import torch

from grader.course import courses
from grader.proof import changed_fields
from tests.grader import small_courses
from tests.grader.conftest import changed

PROBES = """
from typing import Any, TypedDict

from torch import Tensor


class Point(TypedDict):
    x: Tensor
    y: float | None


class Named(Point):
    name: str


class Drawn(TypedDict):
    points: list[Point]
    by_name: dict[str, list[Any]]
    pair: tuple[Named, int]


def drawn(student: Any) -> Drawn | None: ...


def point(student: Any) -> Point: ...


def nothing(student: Any) -> None: ...


def number(student: Any) -> Any: ...


def never_used(student: Any) -> Point: ...
"""
HIDDEN = """
from kit.student import call_each
from tests.probes import drawing as probes
from tests.probes import count


def test_it(student):
    student.run(probes.drawn)
    run = probes.number
    student.run(run)
    student.run(probes.nothing)
    student.run(count)
    assert probes.point(None)
"""


def test_every_field_of_the_probes_that_tests_send(tmp_path):
    """Fields are found at any depth; a function that the tests call themselves is not a probe."""
    course = courses.load(small_courses.plain_python(tmp_path / "course"))
    probes = course.tests / "probes"
    (probes / "drawing.py").write_text(PROBES)
    (probes / "__init__.py").write_text("def count(student) -> list[int]: ...\n")
    hidden = tmp_path / "test_drawing.py"
    hidden.write_text(HIDDEN)
    found = [
        changed_fields.ChangedField(p, keys, c[0])
        for p, keys, c in changed_fields.of(course, hidden)
    ]
    names = "count.* drawn.points.*.x drawn.points.*.y drawn.by_name.*.* drawn.pair.0.x"
    names += " drawn.pair.0.y drawn.pair.0.name drawn.pair.1 number"
    assert names.split() == [
        field.name for field in found if field.change not in changed_fields.CUTS
    ]
    lists = ["call_each", "count", "drawn.points", "drawn.by_name", "drawn.by_name.*"]
    cuts = [f"{name} {cut}" for name in lists for cut in ("emptied", "without last")]
    assert cuts == [field.name for field in found if field.change in changed_fields.CUTS]
    assert [field.name for field in found if field.is_whole] == cuts[:4]


VALUES = [
    *(True, 0, -1, 0.0, float("nan"), float("inf"), 2 - 1j, "", b"", None, [], {}, (1,)),
    *(torch.float32, torch.zeros(2, 0), torch.tensor([True]), torch.tensor(-1.0)),
    np.array([1, 2]),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_some_change_gives_another_value(value):

    def described(x):
        return (x.dtype, x.shape, x.tolist()) if isinstance(x, (torch.Tensor, np.ndarray)) else x

    changed = [described(change(value)) for change in changed_fields.CHANGES]
    assert any(repr(described(value)) != repr(other) for other in changed)


@pytest.mark.parametrize(
    ("value", "keys", "expected"),
    [
        ({"a": [1, 2], "b": 3}, ("a", "*"), {"a": [None, None], "b": 3}),
        ((1, {"a": 2}), ("1", "a"), (1, {"a": None})),
        ({"a": 1, "b": 2}, ("*",), {"a": None, "b": None}),
        ([], ("*",), [7]),
        (None, ("a",), None),
        (5, (), None),
    ],
)
def test_only_the_field_is_changed(value, keys, expected):
    """Every element of a list is changed; an empty list gets an element."""
    assert expected == changed_fields.with_another(value, keys, changed_fields.nothing)


@pytest.mark.parametrize(
    ("value", "keys", "emptied", "cut"),
    [
        ([1, 2], (), [], [1]),
        ({"a": [1, 2], "b": 3}, (), {}, {"a": [1, 2]}),
        ({"a": [1, 2], "b": 3}, ("a",), {"a": [], "b": 3}, {"a": [1], "b": 3}),
        ([[], [1]], ("*",), [[], []], [[], []]),
        ([], ("*",), [], []),
        (None, ("a",), None, None),
    ],
)
def test_a_list_is_cut(value, keys, emptied, cut):
    changed = (
        changed_fields.with_another(value, keys, c, grows=False) for c in changed_fields.CUTS
    )
    assert [emptied, cut] == list(changed)


ADDED_PROBE = '''
from typing import Any, TypedDict


class Seen(TypedDict):
    result: Any
    forgotten: int
    bound: int
    compared: list[float]


def rectified(student: Any) -> Seen:
    """A result, and fields of which one is forgotten."""
    result = student.activations.relu([-1.0, 2.0])
    return {"result": result, "forgotten": 3, "bound": 3, "compared": [0.5]}


def each(student: Any, *, xs: list[float]) -> list[Any]:
    """The results for several numbers."""
    return [student.activations.relu([x]) for x in xs]


def only_on_failure(student: Any) -> Seen:
    """Sent by no test that the reference passes."""
    return rectified(student)
'''
ADDED_TEST = '''

@pytest.mark.harm("crash")
def test_fields(student):
    """Looks at all fields of its probe but one."""
    got, again = student.run(probes.rectified), student.run(probes.rectified)
    for answer in (got, again):
        expect.value(answer["result"], [0.0, 2.0], of="relu")
        expect.that(answer["bound"] < 1000, "too large", of="relu")
    if got["compared"] != again["compared"]:
        student.run(probes.only_on_failure)
        expect.that(False, "another answer", of="relu")


@pytest.mark.harm("crash")
def test_counted(student):
    """Judges two answers."""
    for got, x in zip(student.run(probes.each, xs=[1.0, 2.0]), (1.0, 2.0), strict=True):
        expect.value(got, [x], of="relu")


@pytest.mark.harm("crash")
def test_blind(student):
    """Judges as many answers as there are."""
    for got in student.run(probes.each, xs=[3.0, 3.0]):
        expect.value(got, [3.0], of="relu")
'''


@pytest.mark.proof
def test_a_field_that_no_test_looks_at_is_found_and_named(grader, tmp_path):
    """A bound and a comparison of two answers look at a field; the forgotten field is named."""
    course = small_courses.with_lists(tmp_path / "course")
    (course / "tests" / "probes" / "activations.py").write_text(ADDED_PROBE)
    hidden = course / "tests" / "hidden" / "relu" / "test_hidden.py"
    imported = "from tests.probes import activations as probes\n"
    changed(hidden, "from kit import expect\n", f"from kit import expect\n{imported}")
    hidden.write_text(hidden.read_text() + ADDED_TEST)
    command = ("--course", course, "--only", "relu", "--draft", "--jobs", 1)
    done = grader("validate", *command, warm=False)
    assert done.returncode == 1, done.stdout + done.stderr
    complaints = [line for line in done.stderr.splitlines() if "· field" in line]
    blind = "test_blind passes without these answers; zip with strict=True, or count them"
    assert [
        f"relu · field each emptied (seed 0): {blind} (and 1 more trials end so)",
        "relu · field rectified.forgotten (seed 0): no test looks at this field; "
        "let one look at it, or let the probe not return it (and 2 more trials end so)",
    ] == complaints
    assert "15 fields of answers, 10 of 15 trials as required" in done.stdout
