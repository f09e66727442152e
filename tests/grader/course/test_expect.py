"""The wording of failures: each message is pinned word for word, and each check can fail."""

import math
import queue
import tracemalloc
import types
from functools import partial, reduce

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from grader.base.errors import Crashed, GraderFault, NotAttempted, PolicyBroken, Raised, TimedOut
from grader.grading.verdict import verdict_on
from grader.wire.protocol import Other
from kit import expect
from kit.expect import Mismatch
from tests.grader.compared_results import told

F16, F32, F64 = torch.float16, torch.float32, torch.float64
NAN, INF = math.nan, math.inf
RETURN = "returned None: is a `return` missing?"
VALUES = "wrong values (shape and dtype are right)"
VALUES_OF_Y = "wrong values of y (shape and dtype are right)"


def mismatch(check, *args, **kwargs):
    with pytest.raises(Mismatch) as caught:
        check(*args, of="f", **kwargs)
    return caught.value


def shown(error, *, private=False):
    """A mismatch as it is shown for problem `p`."""
    if private:
        return told("p", verdict_on(error, test="t", rule="", asked=""))
    return expect.render(error, problem="p", section="2.3")


# --- rendering ------------------------------------------------------------------------------------

FULL = Mismatch(
    "f",
    "wrong values",
    facts=[("differ", "3 of 4 entries")],
    values=[("expected", "1"), ("got", "2"), ("inputs", "x 5")],
    hint="is the sum divided by n?",
)


def test_a_public_report_shows_everything_and_a_private_one_no_value():
    """Values come first, then facts about them, then the hint with the section of the handout.

    A private report also has no hint line: a report has a separate field for the hint.
    """
    expected = """\
p · f: wrong values
  expected  1
  got       2
  inputs    x 5
  differ    3 of 4 entries
  hint      is the sum divided by n?    handout §2.3"""
    assert expected == shown(FULL)
    assert "p · f: wrong values\n  differ    3 of 4 entries" == shown(FULL, private=True)
    assert "p · f: wrong\n  see       handout §2.3" == shown(Mismatch("f", "wrong"))
    assert isinstance(FULL, AssertionError)
    assert "f: wrong values" == str(FULL)


@pytest.mark.parametrize(
    ("check", "args", "kwargs"),
    [
        (expect.value, (41, 42), {}),
        (expect.number, (4.5, 42.0), {"tolerance": 1.0}),
        (expect.tensor, (torch.tensor([41]), torch.tensor([42])), {}),
        (expect.tensor, (torch.tensor([41.5]), torch.tensor([42.5])), {"atol": 0.1}),
    ],
    ids=["value", "number", "exact tensor", "tensor"],
)
def test_a_private_report_gives_no_expected_value_and_no_input_away(check, args, kwargs):
    error = mismatch(check, *args, **kwargs, inputs="x 43", hint="a hint")
    assert all(number in shown(error) for number in ("4", "42", "43"))
    assert not any(number in shown(error, private=True) for number in ("41", "42", "43", "a hint"))


# --- value ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x",
    [
        *(None, True, 0, "a", b"x", torch.float32, (1, (2,)), []),
        *([{"a": (1, "b")}], {1: [2]}, {"a": None}),
    ],
    ids=repr,
)
def test_equal_values_of_equal_types_agree(x):
    expect.value(x, x, of="f")


@pytest.mark.parametrize(
    ("got", "expected", "reason"),
    [
        (None, 5, RETURN),
        (None, False, RETURN),
        (5, None, "wrong type: expected NoneType, got int"),
        (True, 1, "wrong type: expected int, got bool"),
        (1, True, "wrong type: expected bool, got int"),
        (0, False, "wrong type: expected bool, got int"),
        (1.0, 1, "wrong type: expected int, got float"),
        ([1], (1,), "wrong type: expected tuple, got list"),
        (torch.tensor(1), 1, "wrong type: expected int, got Tensor"),
        (np.True_, 1, "wrong type: expected int, got bool"),
        (np.float64(1), 1, "wrong type: expected int, got float64"),
        (Other("fractions.Fraction"), 1, "wrong type: expected int, got fractions.Fraction"),
        ("torch.float32", F32, "wrong type: expected dtype, got str"),
        (F64, F32, "wrong value"),
        (2, 1, "wrong value"),
        ("b", "a", "wrong value"),
        (NAN, NAN, "wrong value"),
        ((1,), (1, 2), "wrong length: expected 2, got 1"),
        ((1, 2, 3), (), "wrong length: expected 0, got 3"),
        ((1, 3), (1, 2), "wrong value at [1]"),
        ([(0,), (0, True)], [(0,), (0, 1)], "wrong type: expected int, got bool at [1][1]"),
        ([(1,)], [(1, 2)], "wrong length: expected 2, got 1 at [0]"),
        ({"a": 1}, {"b": 1, "a": 1}, "wrong keys: 1 missing, 0 too many"),
        ({"a": 1, 2: 1, None: 3}, {"a": 1}, "wrong keys: 0 missing, 2 too many"),
        ({"a": (1, 3)}, {"a": (1, 2)}, "wrong value at ['a'][1]"),
        ((None,), (1,), "wrong type: expected int, got NoneType at [0]"),
    ],
    ids=repr,
)
def test_values_that_differ_are_told_apart(got, expected, reason):
    """The first difference, with its position. A bool is no int; a NaN equals nothing."""
    assert reason == mismatch(expect.value, got, expected).reason


def test_a_wrong_value_word_for_word():
    said = {"inputs": "shape (3, 4)", "hint": "which is the last stride?"}
    error = mismatch(expect.value, (12, 4), (12, 5), **said)
    expected = """\
p · f: wrong value at [1]
  expected  (12, 5)
  got       (12, 4)
  inputs    shape (3, 4)
  hint      which is the last stride?    handout §2.3"""
    assert expected == shown(error)


def test_a_long_value_is_cut():
    error = mismatch(expect.value, [1] * 500, [2] * 500)
    assert [200, 200] == [len(text) for _, text in error.values]
    assert all(text.endswith("…") for _, text in error.values)
    holds_itself = []
    holds_itself.append(holds_itself)
    assert expect.short(holds_itself) == "[" * 199 + "…"


LARGE = {
    "bytes": bytes(2**21),
    "text": "é" * 2**21,
    "list": [b"x"] * 2**17,
    "list of large parts": [(bytes(2**21),)],
    "dict": {"key": bytes(2**21)},
}


@pytest.mark.parametrize("got", LARGE.values(), ids=LARGE)
def test_a_large_value_costs_no_more_than_a_small_one(got):
    """Its whole repr would take several times its memory."""
    tracemalloc.start()
    try:
        error = mismatch(expect.value, got, False)
        assert tracemalloc.get_traced_memory()[1] < 2**18
    finally:
        tracemalloc.stop()
    assert dict(error.values)["got"] == repr(got)[:199] + "…"


SMALL = st.recursive(
    st.none() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda part: st.lists(part) | st.lists(part).map(tuple) | st.dictionaries(st.text(), part),
    max_leaves=30,
)


@given(SMALL)
def test_a_small_value_is_shown_as_python_shows_it(got):
    """What is shown of a larger value begins in the same way, apart from the kind of quotes."""
    text = expect.short(got)
    assert text == repr(got) if len(repr(got)) <= 200 else text.endswith("…")


@pytest.mark.parametrize("got", [torch.zeros(1).expand([6] * 9), np.zeros([6] * 9, np.uint8)])
def test_a_large_tensor_is_shown_by_its_shape(got):
    """Its repr would have ten million entries, because no dimension is large."""
    assert f"[{expect.describe(got)}, 1]" == expect.short([got, 1])


# --- number ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("got", [1.0, 1.25, 0.75, 1, np.float64(1), np.float32(1), np.int64(1)])
def test_numbers_within_the_tolerance_agree(got):
    """A difference of exactly the tolerance is allowed."""
    expect.number(got, 1.0, of="f", tolerance=0.25)
    expect.number(got, 1, of="f", tolerance=0.25)


@pytest.mark.parametrize(
    ("got", "reason"),
    [
        (None, RETURN),
        (True, "wrong type: expected float, got bool"),
        (10**400, "the number is inf, not finite"),
        ("1.0", "wrong type: expected float, got str"),
        (torch.tensor(1.0), "wrong type: expected float, got Tensor"),
        (Other("decimal.Decimal"), "wrong type: expected float, got decimal.Decimal"),
        (NAN, "the number is nan, not finite"),
        (-INF, "the number is -inf, not finite"),
        (1.5, "wrong value"),
        (0.5, "wrong value"),
    ],
    ids=repr,
)
def test_numbers_that_differ_are_told_apart(got, reason):
    assert reason == mismatch(expect.number, got, 1.0, tolerance=0.25, hint="h").reason


def test_a_wrong_number_word_for_word():
    """No answer can match an expected NaN, so a broken oracle cannot go unnoticed."""
    assert "wrong value" == mismatch(expect.number, 1.0, NAN, tolerance=INF).reason
    error = mismatch(expect.number, 8.5, 2.0, tolerance=0.001, inputs="2·3·4 by hand")
    expected = """\
p · f: wrong value
  expected  2
  got       8.5
  inputs    2·3·4 by hand
  off by    6.5, tolerance 0.001
  see       handout §2.3"""
    assert expected == shown(error)


# --- tensor, and array, which judges alike and in the same words ----------------------------------


def in_numpy(*tensors):
    """The same as arrays, once; not at all if one is no plain tensor of NumPy's types."""
    try:
        return [[tensor.numpy() for tensor in tensors]]
    except (AttributeError, RuntimeError, TypeError):
        return []


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0])),
        (torch.tensor(0.0), torch.tensor(-0.0)),
        (torch.tensor([INF, -INF]), torch.tensor([INF, -INF])),
        (torch.empty(0, 3), torch.empty(0, 3)),
        (torch.tensor([True]), torch.tensor([True])),
        (torch.tensor([2**63 - 1]), torch.tensor([2**63 - 1])),
        (torch.tensor([1 + 2j]), torch.tensor([1 + 2j])),
        (torch.empty(2, device="meta"), torch.empty(2, device="meta")),
        (torch.ones(2, requires_grad=True), torch.ones(2)),
        (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
        (torch.ones(2, 3).T, torch.ones(3, 2)),
        (torch.ones(2, dtype=torch.float8_e5m2), torch.ones(2, dtype=torch.float8_e5m2)),
        (torch.ones(2, dtype=torch.uint64), torch.ones(2, dtype=torch.uint64)),
    ],
    ids=repr,
)
def test_equal_tensors_agree(got, expected):
    expect.tensor(got, expected, of="f")
    for arrays in in_numpy(got, expected):
        expect.array(*arrays, of="f", atol=0)


@pytest.mark.parametrize(
    ("got", "expected", "tolerances", "agree"),
    [
        ([3.0, -3.0], [2.0, -2.0], {"atol": 0.5, "rtol": 0.25}, True),
        ([3.0, -3.001], [2.0, -2.0], {"atol": 0.5, "rtol": 0.25}, False),
        ([1.0, 2.01], [1.0, 2.0], {"atol": 0.02}, True),
        ([1.0, 202.0], [1.0, 200.0], {"rtol": 0.02}, True),
        ([1.0, 210.0], [1.0, 200.0], {"rtol": 0.02, "atol": 1.0}, False),
        ([1j, 2.25], [1j, 2.5], {"atol": 0.25}, True),
        ([1j, 2.5], [1j, 2.0], {"atol": 0.1}, False),
        ([1, 2, 3], [1, 2, 4], {"atol": 9.0}, False),
    ],
)
def test_tensors_within_the_tolerance_agree(got, expected, tolerances, agree):
    """The bound is |got - expected| <= atol + rtol·|expected|, inclusive; integers are exact."""
    tensors = torch.tensor(got), torch.tensor(expected)
    for check, pair in [(expect.tensor, tensors), *((expect.array, a) for a in in_numpy(*tensors))]:
        if agree:
            check(*pair, of="f", **tolerances)
        else:
            assert VALUES == mismatch(check, *pair, **tolerances).reason


@pytest.mark.parametrize(
    ("got", "expected", "reason"),
    [
        (1.0, torch.tensor(1.0), "wrong type of y: expected a tensor, got float"),
        (np.ones(2, np.float32), torch.ones(2), "wrong type of y: expected a tensor, got ndarray"),
        (Other("m.Tensor"), torch.ones(2), "wrong type of y: expected a tensor, got m.Tensor"),
        (torch.ones(3), torch.ones(2), "wrong shape of y: expected (2,), got (3,)"),
        (torch.ones(1, 2), torch.ones(2), "wrong shape of y: expected (2,), got (1, 2)"),
        (torch.ones(()), torch.ones(1), "wrong shape of y: expected (1,), got ()"),
        (torch.ones(2).double(), torch.ones(2), "wrong dtype of y: expected float32, got float64"),
        (torch.ones(2).long(), torch.ones(2).bool(), "wrong dtype of y: expected bool, got int64"),
        (torch.ones(2, device="meta"), torch.ones(2), "wrong device of y: expected cpu, got meta"),
        (torch.ones(2), torch.ones(2, device="meta"), "wrong device of y: expected meta, got cpu"),
        (torch.tensor([NAN, 1.0, INF]), torch.ones(3), "2 of 3 entries of y are NaN or infinite"),
        (torch.tensor([1.0, 2.0]), torch.ones(2), VALUES_OF_Y),
        (torch.tensor([NAN]), torch.tensor([NAN]), "1 of 1 entries of y are NaN or infinite"),
        (torch.tensor([1.0]), torch.tensor([NAN]), VALUES_OF_Y),
        (torch.tensor([NAN]), torch.tensor([INF]), "1 of 1 entries of y are NaN or infinite"),
        (torch.tensor([-INF]), torch.tensor([INF]), VALUES_OF_Y),
        (torch.tensor([True]), torch.tensor([False]), VALUES_OF_Y),
        (torch.tensor([2**62 + 1]), torch.tensor([2**62]), VALUES_OF_Y),
        (torch.tensor([1 + 2j]), torch.tensor([1 - 2j]), VALUES_OF_Y),
        (torch.ones(1, dtype=torch.uint64), torch.zeros(1, dtype=torch.uint64), VALUES_OF_Y),
    ],
    ids=repr,
)
def test_tensors_that_differ_are_told_apart(got, expected, reason):
    """A NaN agrees with nothing, not even another NaN, and integers are compared as integers."""
    assert reason == mismatch(expect.tensor, got, expected, name="y").reason
    assert reason.replace(" of y", "") == mismatch(expect.tensor, got, expected).reason
    for arrays in in_numpy(got, expected):
        assert reason == mismatch(expect.array, *arrays, name="y", atol=0).reason


def test_none_is_told_by_what_it_stands_for():
    """A function that may return None lacks no `return`; nor does one whose part is None."""
    for check, expected in ((expect.tensor, torch.ones(2)), (expect.value, 5), (expect.kind, int)):
        assert mismatch(check, None, expected).reason == RETURN
        assert mismatch(check, None, expected, name="y").reason == "None instead of y"
    reason = "returned None where there is a result"
    for check, expected in ((expect.value, 5), (expect.kind, int)):
        assert mismatch(check, None, expected, optional=True).reason == reason
        check(5, expected, of="f", optional=True)


def test_only_a_sandbox_is_said_to_hold_nan(monkeypatch):
    """New memory holds NaN where the grader has filled it, and anything elsewhere."""
    here = mismatch(expect.tensor, torch.tensor([NAN]), torch.ones(1)).facts
    assert [label for label, _ in here] == ["NaN"]
    assert "holds NaN" not in here[0][1]
    told = mismatch(expect.tensor, torch.tensor([NAN]), torch.ones(1), hint="it knows").facts
    assert not told  # the hint knows more than a guess
    array = mismatch(expect.array, np.array([NAN]), np.ones(1), atol=0)
    assert not array.facts  # only torch's memory is filled
    monkeypatch.setattr(expect, "sandboxed", True)
    boxed = mismatch(expect.tensor, torch.tensor([NAN]), torch.ones(1)).facts
    assert "It holds NaN here" in boxed[0][1]


def test_a_hint_belongs_to_a_wrong_value():
    """A number, or a tensor of equal entries, has the hint of the value that it is close to."""
    hints = {0.5: "half", 2.0: "double"}
    assert expect.hint_for(2.000001, hints) == "double"
    assert expect.hint_for(torch.full((3,), 0.5), hints) == "half"
    for other in (1.0, None, "2", torch.tensor([0.5, 2.0]), torch.ones(0), NAN):
        assert expect.hint_for(other, hints) is None


@pytest.mark.parametrize(
    "odd",
    [
        10**400,
        torch.eye(3).to_sparse(),
        torch.zeros(1).expand(10**10),
        np.broadcast_to(np.zeros(1), (10**10,)),
        [np.zeros(2), np.zeros(2)],
        {"a": np.zeros(2)},
        reduce(lambda inner, _: [inner], range(5000), 2.0),
    ],
    ids=["huge", "sparse", "expanded", "wide", "arrays", "in a dict", "deep"],
)
@pytest.mark.parametrize("wrong", [2.0, torch.ones(3, 3), [2.0], {"a": np.ones(2)}], ids=type)
def test_an_odd_answer_has_no_hint(odd, wrong):
    """The answer has not been judged yet, so looking for a hint raises nothing and has an end."""
    assert expect.hint_for(odd, [(wrong, "hint")]) is None


def test_a_call_that_raises_has_the_hint_of_its_test():
    with pytest.raises(IndexError) as raised, expect.suspecting("why"):
        raise IndexError
    assert raised.value.hint == "why"


def test_the_first_hint_that_fits_a_wrong_answer_counts():
    """Answers may be nested; tensors agree with tensors of their shape, bools with bools."""
    pairs = [((1, [2.5, "a"]), "nested"), (torch.tensor([[1, 2]]), "tensor"), (True, "bool")]
    for got, hint in [
        ([1, (2.500001, "a")], "nested"),
        ((1, [2.5, "b"]), None),
        (torch.tensor([[1.0, 2.0]]), "tensor"),
        (torch.tensor([1, 2]), None),
        (True, "bool"),
        (1, None),
    ]:
        assert hint == expect.hint_for(got, [*pairs, ((1, [2.5, "a"]), "later")])
    for check, got, right in [
        (expect.value, (1, 2), (2, 1)),
        (partial(expect.number, tolerance=0.1), 3.0, 2.0),
        (expect.tensor, torch.tensor([1, 2]), torch.tensor([2, 1])),
        (partial(expect.array, atol=0), np.array([1.5, 1.5]), np.array([2.5, 1.5])),
    ]:
        wrong = 1.5 if isinstance(got, np.ndarray) else got
        for hints, hint in [([(wrong, "swapped")], "swapped"), ([("x", "swapped")], "else")]:
            with pytest.raises(Mismatch) as e:
                check(got, right, of="f", hint="else", hints=hints)
            assert hint == e.value.hint


@pytest.mark.parametrize("got", [5.0, -INF, 3.4e38, NAN])
def test_a_share_of_infinity_is_no_tolerance(got):
    """Only infinity of the same sign agrees with infinity, whatever the relative tolerance."""
    infinite, answer = torch.tensor([1.0, INF]), torch.tensor([1.0, got])
    expect.tensor(torch.tensor([1.01, INF]), infinite, of="f", rtol=0.1)
    reason = "1 of 2 entries are NaN or infinite" if math.isnan(got) else VALUES
    assert reason == mismatch(expect.tensor, answer, infinite, atol=1.0, rtol=1.0).reason
    assert reason == mismatch(expect.tensor, answer, infinite, rtol=0.1).reason
    assert reason == mismatch(expect.array, answer.numpy(), infinite.numpy(), rtol=0.1).reason


ORDER = [
    (None, RETURN),
    (Other("set"), "wrong type: expected a tensor, got set"),
    (torch.full((3,), NAN, dtype=F64, device="meta"), "wrong shape: expected (2,), got (3,)"),
    (torch.full((2,), NAN, dtype=F64, device="meta"), "wrong dtype: expected float32, got float64"),
    (torch.full((2,), NAN, device="meta"), "wrong device: expected cpu, got meta"),
    (torch.tensor([5.0, NAN]), "1 of 2 entries are NaN or infinite"),
    (torch.tensor([5.0, 1.0]), VALUES),
]


@pytest.mark.parametrize(("got", "reason"), ORDER, ids=[reason for _, reason in ORDER])
def test_the_first_thing_that_is_wrong_is_reported_alone(got, reason):
    """Each answer is also wrong in every later respect."""
    assert reason == mismatch(expect.tensor, got, torch.ones(2)).reason


def test_wrong_values_word_for_word():
    expected = torch.arange(6.0).reshape(2, 3)
    got = expected.clone()
    got[0, 2], got[1, 1] = 2.5, 0.0
    bounds = {"atol": 1e-5, "rtol": 1e-4}
    said = {"inputs": "x float32[2, 3]", "hint": "which axis?"}
    error = mismatch(expect.tensor, got, expected, **bounds, **said)
    text = """\
p · f: wrong values (shape and dtype are right)
  expected  2 at [0, 2]
  got       2.5
  inputs    x float32[2, 3]
  differ    2 of 6 entries, by up to 4; tolerance 1e-05 + 0.0001·|expected|
  hint      which axis?    handout §2.3"""
    assert text == shown(error)
    assert text == shown(mismatch(expect.array, got.numpy(), expected.numpy(), **bounds, **said))
    lines = text.splitlines()
    assert [lines[0], lines[4]] == shown(error, private=True).splitlines()


TENTH, THIRD = torch.tensor([0.1]), torch.tensor([1 / 3], dtype=F64)


@pytest.mark.parametrize(
    ("got", "expected", "lines"),
    [
        (torch.tensor(3), torch.tensor(4), ["4 at []", "3", "1"]),
        (torch.tensor([1234568]), torch.tensor([1234567]), ["1234567 at [0]", "1234568", "1"]),
        (TENTH + 1e-7, TENTH, ["0.100000001 at [0]", "0.100000098", "9.69e-08"]),
        (THIRD + 1e-12, THIRD, ["0.33333333333333331 at [0]", "0.33333333333433329", "1e-12"]),
        (torch.tensor([False]), torch.tensor([True]), ["True at [0]", "False", "1"]),
        (torch.tensor([1j]), torch.tensor([1 + 1j]), ["1+1j at [0]", "0+1j", "1"]),
    ],
    ids=["scalar", "large integer", "close floats", "closer floats", "bool", "complex"],
)
def test_two_numbers_that_differ_never_look_the_same(got, expected, lines):
    """Numbers are printed with six digits, and with more where six would look equal."""
    error = mismatch(expect.tensor, got, expected)
    *numbers, off = lines
    off = f"1 of 1 entries, by up to {off}; tolerance 0"
    assert [*numbers, off] == [text for _, text in (*error.values, *error.facts)]


# --- that -----------------------------------------------------------------------------------------


def test_a_property_that_holds_says_nothing():
    expect.that(True, "x is not a view", of="f")
    facts, values = [("rule", "r")], [("got", "g")]
    error = mismatch(expect.that, False, "x is not a view", facts=facts, values=values, hint="h")
    said = "p · f: x is not a view\n  got       g\n  rule      r\n  hint      h    handout §2.3"
    assert said == shown(error)


# --- raises ---------------------------------------------------------------------------------------


def within(error, expected=ValueError, **options):
    """Return what `raises(expected)` raises around `raise error`, or None."""
    with expect.raises(expected, of="f", when="size is 0", **options):
        if error is not None:
            raise error


def theirs(kind, name):
    """An exception of the student's own, of another process."""
    return Raised([kind], name, "x", None)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("x"), ValueError),
        (UnicodeError("x"), ValueError),
        (KeyError("x"), (ValueError, KeyError)),
        (Raised(["ValueError", "Exception"], "ValueError", "x", None), ValueError),
        (Raised(["UnicodeError", "ValueError"], "UnicodeError", "x", None), ValueError),
        (Raised(["FileNotFoundError", "OSError"], "F", "x", "a.py:1"), (ValueError, OSError)),
        (Raised(["IndentationError", "SyntaxError"], "IndentationError", "x", None), SyntaxError),
        (Raised(["StopIteration"], "Ended", "x", None), StopIteration),
        (Raised(["EOFError"], "EOFError", "x", None), EOFError),
        (Raised(["Exception"], "Empty", "of a given module", None), queue.Empty),
    ],
    ids=repr,
)
def test_the_error_asked_for_is_right(error, expected):
    """The expected error, or a subclass, is accepted, whether raised here or in the sandbox."""
    within(error, expected)


def test_a_right_call_that_fails_is_told_as_such():
    with expect.right_call("9 tokens"):
        pass
    for error in (Mismatch("f", "wrong value"), Raised(["TypeError"], "TypeError", "x", None)):
        with pytest.raises(type(error)) as caught, expect.right_call("9 tokens"):
            raise error
        assert "9 tokens" == caught.value.right_call


def test_where_students_run_elsewhere_only_their_exceptions_are_theirs(monkeypatch):
    """If students run in another process, an oracle's ValueError does not count as theirs."""
    monkeypatch.setattr(expect, "sandboxed", True)
    within(Raised(["ValueError"], "ValueError", "x", None), ValueError)
    with pytest.raises(ValueError, match=r"^an oracle.s$"):
        within(ValueError("an oracle's"), ValueError)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (True, bool), (3, int), (np.int64(3), int), (3, (float, int)), ([1], list),
        (torch.Size([1]), tuple), ({}, dict), (types.MappingProxyType({}), dict),
        (torch.nn.Parameter(torch.ones(1)), torch.Tensor), (None, type(None)),
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_of_a_kind_is_let_through(value, wanted):
    expect.kind(value, wanted, of="f")


@pytest.mark.parametrize(
    ("value", "wanted", "reason"),
    [
        (None, list, "None instead of the losses"),
        (7, list, "wrong type of the losses: expected list, got int"),
        (True, int, "wrong type of the losses: expected int, got bool"),
        ("7", (int, float), "wrong type of the losses: expected int or float, got str"),
        (Other("set"), torch.Tensor, "wrong type of the losses: expected a tensor, got set"),
    ],
    ids=repr,
)
def test_a_value_of_another_kind_is_a_mismatch(value, wanted, reason):
    """A wrong kind of value stops the test, so the test's own TypeError never blames a student."""
    assert reason == mismatch(expect.kind, value, wanted, name="the losses").reason


@pytest.mark.parametrize(
    ("error", "expected", "names", "got"),
    [
        (None, ValueError, "ValueError", "but nothing was raised"),
        (None, (ValueError, KeyError), "ValueError or KeyError", "but nothing was raised"),
        (KeyError("x"), ValueError, "ValueError", "got KeyError"),
        (AssertionError("x"), ValueError, "ValueError", "got AssertionError"),
        (theirs("KeyError", "MyKeyError"), ValueError, "ValueError", "got MyKeyError"),
        (theirs("Exception", "SyntaxError"), SyntaxError, "SyntaxError", "got SyntaxError"),
        (theirs("SystemExit", "SystemExit"), ValueError, "ValueError", "got SystemExit"),
    ],
    ids=repr,
)
def test_anything_else_of_the_students_is_a_mismatch(error, expected, names, got):
    with pytest.raises(Mismatch) as caught:
        within(error, expected)
    assert f"expected {names} when size is 0, {got}" == caught.value.reason


@pytest.mark.parametrize("expected", [ValueError, RuntimeError, NotImplementedError, Exception])
@pytest.mark.parametrize(
    "error", [NotImplementedError("todo"), NotAttempted("todo", None)], ids=["here", "sandboxed"]
)
def test_a_stub_is_not_attempted_whatever_was_asked_for(error, expected):
    """NotImplementedError is a RuntimeError, but a stub's never counts as the expected error."""
    with pytest.raises(NotImplementedError, match=r"^todo$"):
        within(error, expected)


@pytest.mark.parametrize("expected", [ValueError, Exception])
@pytest.mark.parametrize(
    "error",
    [GraderFault("ours"), Crashed("gone"), TimedOut("late"), PolicyBroken("calls"),
     KeyboardInterrupt()],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
def test_what_the_grader_raises_is_never_an_answer(error, expected):
    """No grader's fault, end of the student's process or interrupt is an expected exception."""
    with pytest.raises(type(error)) as caught:
        within(error, expected)
    assert error is caught.value


@pytest.mark.parametrize("expected", [ValueError, AssertionError, Exception])
def test_a_mismatch_inside_stays_the_mismatch_that_it_is(expected):
    """A Mismatch is an AssertionError, but it comes from the test and not from the student."""
    with pytest.raises(Mismatch, match=r"^g: wrong$"):
        within(Mismatch("g", "wrong"), expected)


def test_whose_an_exception_is():
    """In the student's own process, every exception is the student's unless the grader marks it."""
    assert all(map(expect.is_students, [ValueError(), Raised([], "Strange", "", None)]))
    ours = [GraderFault(), Crashed(""), TimedOut(""), NotAttempted("")]
    assert not any(map(expect.is_students, ours))


# --- short helpers --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (torch.ones(2, 3), "float32[2, 3]"),
        (torch.tensor(True), "bool[]"),
        (np.ones((2, 0), np.uint16), "uint16[2, 0]"),
        (5, "int 5"),
        ("a", "str 'a'"),
        ((1, 2), "tuple (1, 2)"),
        (None, "NoneType None"),
    ],
    ids=repr,
)
def test_an_input_in_a_few_characters(x, text):
    assert text == expect.describe(x)


def test_every_check_can_fail():
    one, zero = torch.ones(1), torch.zeros(1)
    pairs = {  # right and wrong arguments
        "value": ((1, 1), (1, 2), {}),
        "number": ((1.0, 1.0), (1.0, 2.0), {"tolerance": 0}),
        "tensor": ((one, one), (one, zero), {}),
        "array": ((np.ones(1), np.ones(1)), (np.ones(1), np.zeros(1)), {"atol": 0}),
        "lines": (("a \n\n", ["a"]), ("a\nb", ["a"]), {}),
        "parts": (([], 0), ([], 1), {}),
        "kind": ((1, int), (1, str), {}),
        "that": ((True, "r"), (False, "r"), {}),
        "generators_left": (([],), (["torch"],), {}),
    }
    helpers = {"render", "right_call", "is_students", "describe", "dtype_name", "type_name"}
    helpers |= {"hint_for", "short", "suspecting"}
    ours = [f for f in vars(expect).values() if getattr(f, "__module__", "") == "kit.expect"]
    public = {f.__name__ for f in ours if callable(f)}
    assert {*pairs, *helpers, "raises", "Mismatch"} == {n for n in public if not n.startswith("_")}
    for name, (right, wrong, options) in pairs.items():
        getattr(expect, name)(*right, of="f", **options)
        mismatch(getattr(expect, name), *wrong, **options)


# --- array ----------------------------------------------------------------------------------------


def test_only_an_array_is_one():
    for got, said in [(None, "None instead of y"), ([1.0], "expected an array, got list"),
                      (np.float64(1), "expected an array, got float64")]:  # fmt: skip
        reason = mismatch(expect.array, got, np.ones(1), atol=0, name="y").reason
        assert reason.removeprefix("wrong type of y: ") == said


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_a_test_of_floats_states_its_tolerance(dtype):
    """Otherwise the order of a sum would cost a point; the test's author sees it at once."""
    with pytest.raises(TypeError, match="floats need atol= or rtol=; atol=0 asks for equal ones"):
        expect.array(None, np.ones(1, dtype), of="f")
    expect.array(np.ones(1, "int64"), np.ones(1, "int64"), of="f")


def test_overflow_in_a_comparison_is_no_warning():
    error = mismatch(expect.array, np.array([1e308]), np.array([-1e308]), rtol=0.1)
    assert VALUES == error.reason
