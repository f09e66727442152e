"""flop_counter: FLOPs counted while the operators run. Handout §4.2."""

import torch
import torch.nn.functional as F

from tests import expect


def test_counts_the_example(student):
    """A 2×3 times a 3×4 matrix takes 2 · 2 · 3 · 4 = 48 FLOPs.

    The addition, and what runs outside the `with`, count as 0.
    """
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    counter = student.flop_counting.FlopCounter()
    with counter:
        result = a @ b + 1
    torch.mm(a, b)
    expect.tensor(result, a @ b + 1, of="FlopCounter", name="the result under the counter")
    expect.value(counter.total, 48, of="FlopCounter", inputs="a[2, 3] @ b[3, 4]")
    expect.value(dict(counter.by_op), {"mm": 48}, of="FlopCounter", inputs="a[2, 3] @ b[3, 4]")


def test_counts_addmm_and_bmm(student):
    """addmm of 2×3 and 3×4 takes 48 FLOPs, bmm of five such pairs 240."""
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    with student.flop_counting.FlopCounter() as counter:
        torch.addmm(torch.zeros(4), a, b)
        torch.bmm(a.expand(5, 2, 3), b.expand(5, 3, 4))
    expect.value(
        dict(counter.by_op),
        {"addmm": 48, "bmm": 240},
        of="FlopCounter",
        hint="which arguments are multiplied?",
    )
    expect.value(counter.total, 288, of="FlopCounter")


def test_counts_a_training_step(student):
    """10 rows through a 3 → 4 layer take 240 FLOPs forward and 240 for the weight's gradient.

    The data needs no gradient.
    """
    x, weight = torch.ones(10, 3), torch.ones(4, 3, requires_grad=True)
    with student.flop_counting.FlopCounter() as counter:
        F.linear(x, weight).sum().backward()
    expect.value(
        counter.total,
        480,
        of="FlopCounter",
        hint="the operators of the backward pass arrive at __torch_dispatch__ by themselves",
    )
    expect.tensor(
        weight.grad, torch.full((4, 3), 10.0), of="FlopCounter", name="the weight's gradient"
    )


def test_counts_attention(student):
    """With b·h·q·k·d = 2·3·4·5·8 = 960, attention takes 4 · 960 = 3,840 forward, 9,600 backward."""
    q = torch.ones(2, 3, 4, 8, requires_grad=True)
    k, v = (torch.ones(2, 3, 5, 8, requires_grad=True) for _ in range(2))
    with student.flop_counting.FlopCounter() as counter:
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    expected = {"scaled_dot_product_attention": 3840, "scaled_dot_product_attention_backward": 9600}
    expect.value(
        dict(counter.by_op),
        expected,
        of="FlopCounter",
        hint="look at the operators' names with OperatorLog",
    )


def test_counters_nest(student):
    """The outer counter counts what the inner one counts, plus what runs before and after it."""
    a, b = torch.ones(2, 3), torch.ones(3)
    with student.flop_counting.FlopCounter() as outer:
        a @ b
        with student.flop_counting.FlopCounter() as inner:
            a @ b
            b @ b
        a @ b
    expect.value(
        dict(inner.by_op), {"mv": 12, "dot": 6}, of="FlopCounter", inputs="the inner counter"
    )
    expect.value(
        dict(outer.by_op), {"mv": 36, "dot": 6}, of="FlopCounter", inputs="the outer counter"
    )
