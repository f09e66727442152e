"""What is read of a reply that holds no value."""

import pytest
import torch

from grader.base.errors import Crashed, PolicyBroken, Raised
from grader.course import courses
from grader.sandbox import reply_checks

LIMITS = courses.load().limits
PLACE = ["assignment/linear.py", 12, "forward", "return x"]
RAISED = {
    "type": "ValueError", "kinds": ["ValueError", "Exception"], "text": "no", "errno": None,
    "where": PLACE, "frames": 1,
}  # fmt: skip
TENSORS = [torch.zeros(1).expand([6] * 8)] * 1000  # to print them would take hours


def read(**reply):
    return reply_checks.value_of({"id": 1, **reply}, 1, LIMITS, None)


def test_what_a_child_says_instead_of_a_value_is_read():
    with pytest.raises(Raised, match=r"^no$") as raised:
        read(raised=RAISED)
    assert raised.value.type_name == "ValueError"
    assert raised.value.where == "assignment/linear.py:12 in forward"
    with pytest.raises(PolicyBroken, match=r"^calls torch\.mm$"):
        read(policy={"name": "torch.mm", "where": None})
    with pytest.raises(Crashed, match=r"^what it returned cannot be sent: too large$"):
        read(unsendable="too large")


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"unsendable": TENSORS},
        {"policy": {"name": TENSORS, "where": None}},
        {"policy": {"name": "torch.mm", "where": TENSORS}},
        {"policy": {"name": "torch.mm", "where": [*PLACE, 1]}},
        *({"raised": RAISED | {name: TENSORS}} for name in RAISED),
        {"raised": RAISED | {"where": PLACE[:3]}},
        {"raised": {"text": "no"}},
    ],
    ids=range(13),
)
def test_what_no_child_says_is_a_crash_and_no_text_is_made_of_it(reply):
    """Only student code can have sent it, and it may be anything."""
    with pytest.raises(Crashed, match=rf"^{reply_checks.NO_ANSWER}$"):
        read(**reply)
